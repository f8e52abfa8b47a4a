"""Parsers of the options of ``install`` and ``uninstall``. They raise BadParameter."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from virt_dra.api import names
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.options import parse_namespace
from virt_dra.installation.callers import read_networks, reads_as_certificates
from virt_dra.installation.kustomize import split_image
from virt_dra.installation.plan import PARTS, SYSTEM_NAMESPACES

R = TypeVar("R")


def emitter(output: str) -> Callable[[str], None]:
    """Prints progress: on standard output, or on standard error if that is for a document."""
    return partial(say, err=output != "text")


def part_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds a flag for each of :data:`PARTS`; the command gets the chosen names, as ``parts``."""

    @wraps(command)
    def with_parts(*args: Any, **kwargs: Any) -> R:
        chosen = frozenset(name for name in PARTS if kwargs.pop(name))
        return command(*args, parts=chosen, **kwargs)

    for part in reversed(tuple(PARTS.values())):
        with_parts = click.option(f"--{part.name}", is_flag=True, help=f"Also {part.purpose}.")(with_parts)
    return with_parts


def parse_image(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    name, tag = split_image(value)
    if not name or value != value.strip() or any(character.isspace() for character in value) or tag in (":", "@"):
        raise click.BadParameter(f"{value!r}: write an image as in registry.example.com/virt-dra:0.1.0")
    return value


def parse_arguments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments that the operator or the webhook knows: of others its pods would end at once. Raises BadParameter."""
    for value in values:
        if not value.startswith("--") or value == "--":
            raise click.BadParameter(
                f"{value!r}: write an option with its value in one, as in {param.opts[0]}=--log-level=debug"
            )
    if values:
        from virt_dra.cli.operator import command as operator  # not needed for other options
        from virt_dra.cli.webhook.command import command as webhook

        command = operator if param.name == "operator_arguments" else webhook
        try:
            command.make_parser(click.Context(command)).parse_args(list(values))
        except click.UsageError as error:
            raise click.BadParameter(f"virt-dra {command.name}: {error.format_message()}") from None
    return values


def parse_label(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and (wrong := names.label_key(value)):
        raise click.BadParameter(f"{value!r} can't be the key of a label: {'; '.join(wrong)}")
    return value


def parse_secrets(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of Secrets. Raises BadParameter."""
    for name in value:
        if wrong := names.dns1123_subdomain(name):
            raise click.BadParameter(f"{name!r} can't be the name of a Secret: {'; '.join(wrong)}")
    return value


def parse_our_namespace(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A namespace that can be virt-dra's. Raises BadParameter."""
    if value is None:
        return None
    if value in SYSTEM_NAMESPACES:
        raise click.BadParameter(f"{value!r} belongs to the cluster; give virt-dra a namespace of its own")
    return parse_namespace(ctx, param, value)


def parse_client_ca(ctx: click.Context, param: click.Parameter, value: Path | None) -> bytes:
    try:
        content = value.read_bytes() if value is not None else b""
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}") from None
    if value is not None and not reads_as_certificates(content):
        raise click.BadParameter("it must hold certificates in PEM, and no private key")
    return content


def parse_runbooks_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """An address without a slash at its end. Raises BadParameter."""
    if value is not None and not re.fullmatch(r"https?://[^\s\"'\\]+", value):
        raise click.BadParameter(f"{value!r}: write it as https://docs.example.com/runbooks")
    return value.rstrip("/") if value is not None else None


def parse_networks(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return read_networks(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
