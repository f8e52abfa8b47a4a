"""Names of placement policies, as users give them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from virt_dra.api.nearest import nearest
from virt_dra.scheduling.policies.catalog import POLICIES


def known_policies(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once. Raises click.BadParameter for an unknown one."""
    for name in names:
        if name not in POLICIES:
            meant = nearest(name, POLICIES)
            hint = f"did you mean {meant}?" if meant is not None else f"the policies are {', '.join(POLICIES)}"
            raise click.BadParameter(f"there is no policy {name!r}; {hint}", param_hint="'--policy'")
    return tuple(dict.fromkeys(names))
