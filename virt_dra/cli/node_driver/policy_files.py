"""Policies of a file, and the labels that they may ask for: what commands on a node without its cluster take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from virt_dra.cli.shared.output import refuse

if TYPE_CHECKING:
    from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy

POLICY_MAX: Final = 3 * 1024 * 1024
"""Bytes of a file with policies; an API server's limit for one."""
policy_file = click.Path(dir_okay=False, exists=True, allow_dash=True, path_type=Path)


def labels_of(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """``KEY=VALUE``, by key."""
    labels = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{value!r} isn't KEY=VALUE", ctx, param)
        labels[key] = text
    return labels


def policies_from(path: Path, output: str) -> tuple[VirtDraNodePolicy, ...]:
    """Ends the process with 2 for a file that can't be used."""
    from node_driver.policy.documents import InvalidPolicies, read_policies

    try:
        return read_policies(bounded_text(path, output), str(path))
    except InvalidPolicies as error:
        refuse(error.problems, output)


def bounded_text(path: Path, output: str) -> bytes:
    """The file's text, or that of standard input for ``-``. Ends the process with 2 for a file that can't be read."""
    if str(path) == "-":
        return sys.stdin.buffer.read(POLICY_MAX + 1)
    try:
        with path.open("rb") as file:
            text = file.read(POLICY_MAX + 1)
    except OSError as error:
        refuse([f"{path}: it can't be read: {error.strerror or error}"], output)
    if len(text) > POLICY_MAX:
        refuse([f"{path}: it can't be read: it has more than {POLICY_MAX} bytes"], output)
    return text
