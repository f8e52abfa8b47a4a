"""Options that several commands have, one definition each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

import click

from virt_dra.api import names
from virt_dra.api.integration.attribute_keys import DriverKeys, InvalidKeys, read_keys
from virt_dra.api.kubevirt_versions import KNOWN_GATES, NEWEST, KubeVirtVersion
from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.suggestions import suggesting_switches

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

DEFAULT_NAMESPACE: Final = "default"
_KEYS_MAX: Final = 2**20
"""Bytes of a file of address keys."""


def parse_node(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and (wrong := names.dns1123_subdomain(value)):
        raise click.BadParameter(f"{value!r} can't be the name of a node: {'; '.join(wrong)}")
    return value


def parse_namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if wrong := names.dns1123_label(value):
        raise click.BadParameter(f"{value!r} can't be the name of a namespace: {'; '.join(wrong)}")
    return value


def parse_any_namespace(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """A namespace, or "" for all."""
    return parse_namespace(ctx, param, value) if value else ""


def parse_service(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, str] | None:
    """Name and namespace of a Service."""
    if value is None:
        return None
    service, dot, namespace = value.partition(".")
    if not (service and dot and namespace) or "." in namespace:
        raise click.BadParameter(f"{value!r}: write SERVICE.NAMESPACE, e.g. virt-dra-webhook.virt-dra")
    return service, namespace


def switches(values: Iterable[str], names: Collection[str], *, noun: str) -> dict[str, bool]:
    """``A=true,B=false``; ``A`` alone means true. Raises BadParameter for other names than ``names``. ``noun``: says
    what is named."""
    chosen: dict[str, bool] = {}
    for item in (part.strip() for value in values for part in value.split(",")):
        if not item:
            continue
        name, equals, word = item.partition("=")
        enabled = {"true": True, "false": False}.get(word.lower()) if equals else True
        if name not in names or enabled is None:
            shout = noun.upper()
            raise click.BadParameter(
                f"{item!r}: write {shout}=true or {shout}=false with a {noun} of {', '.join(names)}"
            )
        chosen[name] = enabled
    return chosen


def parsed_by(parse: Callable[[str], R]) -> Callable[[click.Context, click.Parameter, str | None], R | None]:
    """A callback for an option: None without the option. A ValueError of ``parse`` is bad usage."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> R | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _parse_gates(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, bool]:
    return switches(values, KNOWN_GATES, noun="gate")


def _parse_keys(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[DriverKeys, ...]:
    if value is None:
        return ()
    # Only here: YAML takes 5 MiB, which commands that run for long do without.
    from virt_dra.api.reading.documents import DocumentError, read_documents
    from virt_dra.cluster.manifest_file import ManifestFile

    try:
        text = ManifestFile(value).read(_KEYS_MAX + 1)
        if len(text) > _KEYS_MAX:
            raise click.BadParameter(f"{value}: has more than {_KEYS_MAX} bytes")
        documents = read_documents(text, value)
        if len(documents) != 1:
            raise click.BadParameter(f"{value}: must hold one list of objects {{driver, pci: [keys], mdev: [keys]}}")
        return read_keys(documents[0].raw, value)
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror or error}") from None
    except (DocumentError, InvalidKeys) as error:
        raise click.BadParameter(str(error)) from None


def _parse_level(ctx: click.Context, param: click.Parameter, value: str) -> int:
    return logging.getLevelNamesMapping()[value.upper()]


def output_option(*formats: str) -> Callable[[F], F]:
    """``--output``; the first format is the default."""
    return shared("--output", type=click.Choice(formats), default=formats[0])


def file_inputs(detail: str, metavar: str = "FILE|DIR|URL") -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Files as arguments and by ``-f``; the command gets all as ``paths``."""
    arguments = click.argument("more", metavar=f"[{metavar}]...", nargs=-1)
    options = shared("--filename", "paths", detail, metavar=metavar)
    return gathered("paths", lambda paths, more: (*paths, *more), arguments, options)


def seconds_option(name: str, default: float, least: float, most: float | None, help_text: str) -> Callable[[F], F]:
    """A time of ``least`` to ``most`` seconds."""
    seconds = click.FloatRange(least, most)
    return click.option(name, metavar="SECONDS", type=seconds, default=default, show_default=True, help=help_text)


namespace_option = shared(
    "--namespace", detail="That of objects which name none.", default=DEFAULT_NAMESPACE, callback=parse_namespace
)
every_namespace_option = shared("--all-namespaces", detail="The default.", expose_value=False)
"""Of commands that always take all: what is typed out of habit is right."""
kubevirt_option = shared(
    "--kubevirt-version",
    "kubevirt",
    f"[default: the KubeVirt object's, else {NEWEST}]",
    callback=parsed_by(KubeVirtVersion.parse_known),
)
"""The KubeVirt version whose rules apply: a KubeVirtVersion, or None."""
kubevirt_gates_option = shared(
    "--kubevirt-gates", "gates", callback=_parse_gates, shell_complete=suggesting_switches(KNOWN_GATES)
)
address_keys_option = shared("--address-keys", callback=_parse_keys)
log_level_option = shared(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", callback=_parse_level
)
"""The level as a number of ``logging``."""
wait_timeout_option = shared(
    "--timeout", detail="For all waiting together.", default=300.0, type=click.FloatRange(0, 3600)
)
