"""The arguments of ``virt-dra get`` and ``describe``: kinds and names, as kubectl takes them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from virt_dra.inventory.kinds import RowKind, row_kind

KIND_METAVAR = "KIND[,KIND...]|KIND/NAME"


def asked_kinds(kind: str, names: Sequence[str]) -> dict[RowKind, tuple[str, ...]]:
    """Each kind with the names of it that are asked for: ``vm a b``, ``vms,devices`` or ``vm/a device/b``.

    Raises BadFilter for a kind that doesn't exist, and UsageError where both forms are mixed.
    """
    if "/" not in kind:
        return {row_kind(part): tuple(names) for part in kind.split(",") if part}
    asked: dict[RowKind, tuple[str, ...]] = {}
    for argument in (kind, *names):
        prefix, slash, name = argument.partition("/")
        if not (slash and prefix and name):
            raise click.UsageError(f"{argument!r}: after KIND/NAME every argument is KIND/NAME")
        chosen = row_kind(prefix)
        asked[chosen] = (*asked.get(chosen, ()), name)
    return asked
