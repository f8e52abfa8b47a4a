"""Optional libraries, which the extras of the package install."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

import click

from virt_dra.cli.shared.output import BAD_INPUT

IMAGE_PREFIX: Final = "/opt/virt-dra"
"""Where the images have the program; nothing can be installed there."""


class MissingExtra(click.ClickException):
    """A library is missing; the text says what to do. Exits as bad usage does."""

    exit_code = BAD_INPUT


@contextmanager
def required(
    needs: str, extra: str, *libraries: str, error: type[click.ClickException] = MissingExtra
) -> Iterator[None]:
    """A context for imports: if one of these libraries is missing, the command ends with what it ``needs`` and how the
    extra is installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in libraries:
            raise
        raise error(missing_extra(needs, extra)) from None


def missing_extra(needs: str, extra: str) -> str:
    """The sentence about an extra that isn't there, for how virt-dra was installed."""
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms, for an error alone

    try:
        origin = distribution("virt-dra").read_text("direct_url.json")
    except PackageNotFoundError:  # imported from a folder
        origin = None
    return f"{needs}; {advice(extra, origin, sys.prefix)}"


def advice(extra: str, origin: str | None, prefix: str) -> str:
    """How to get an extra. ``origin``: direct_url.json of the installation (PEP 610), None if it is from an index."""
    from_index = f"pip install {shlex.quote(f'virt-dra[{extra}]')}"
    if prefix == IMAGE_PREFIX:
        return f"this image doesn't have it; elsewhere it is installed with: {from_index}"
    if origin is None:
        return f"install it with: {from_index}"
    source = json.loads(origin)
    url: str = source["url"]
    if source.get("dir_info", {}).get("editable"):
        clone = unquote(urlsplit(url).path)
        return f"install it with: pip install -e {shlex.quote(f'{clone}[{extra}]')}"
    if vcs := source.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs.get('requested_revision') or vcs['commit_id']}"
    return f"install it with: pip install {shlex.quote(f'virt-dra[{extra}] @ {url}')}"
