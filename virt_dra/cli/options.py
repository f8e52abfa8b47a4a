"""What several subcommands take on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import click

from virt_dra.api import names


def parse_node(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and (wrong := names.dns1123_subdomain(value)):
        raise click.BadParameter(f"{value!r} can't be the name of a node: {'; '.join(wrong)}")
    return value


def parse_namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if wrong := names.dns1123_label(value):
        raise click.BadParameter(f"{value!r} can't be the name of a namespace: {'; '.join(wrong)}")
    return value


def switches(values: Iterable[str], known: Collection[str], *, what: str) -> dict[str, bool]:
    """``A=true,B=false`` or ``A``, which is on. Raises BadParameter for what isn't ``known``; ``what``: a word for one of them."""
    chosen: dict[str, bool] = {}
    for item in (part.strip() for value in values for part in value.split(",")):
        if not item:
            continue
        name, equals, word = item.partition("=")
        enabled = {"true": True, "false": False}.get(word.lower()) if equals else True
        if name not in known or enabled is None:
            shout = what.upper()
            raise click.BadParameter(f"{item!r}: write {shout}=true or {shout}=false with a {what} of {', '.join(known)}")
        chosen[name] = enabled
    return chosen
