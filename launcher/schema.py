"""libvirt's own schema of domains, in RELAX NG: what ``virt-xml-validate`` asks, without a process for each domain."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from lxml import etree

from launcher.elements.page import root
from launcher.errors import LIBVIRT_UNAVAILABLE, LauncherError

PLACES: Final = (
    Path("/usr/share/libvirt/schemas/domain.rng"),
    Path("/usr/local/share/libvirt/schemas/domain.rng"),
    Path("/opt/homebrew/share/libvirt/schemas/domain.rng"),
)
"""Where libvirt's packages and builds put it."""
_SHOWN: Final = 5
"""Faults of one domain that are reported; what follows the first ones follows from them."""


def schema_faults(xml: str) -> tuple[str, ...]:
    """What the schema doesn't allow of a ``<domain>``, each fault with its line; () for a valid one.

    Raises :class:`LauncherError` where libvirt's schema isn't installed.
    """
    place = next((path for path in PLACES if path.exists()), None)
    if place is None:
        cure = "get it with: apt-get install libvirt0 (Fedora: dnf install libvirt-libs)"
        fault = f"{PLACES[0]}: libvirt's schema isn't installed; {cure}"
        raise LauncherError(LIBVIRT_UNAVAILABLE, "domain.rng", fault)
    schema = _read(place)
    if schema.validate(root(xml)):
        return ()
    return tuple(dict.fromkeys(f"line {fault.line}: {fault.message}" for fault in schema.error_log))[:_SHOWN]


@cache
def _read(path: Path) -> etree.RelaxNG:
    return etree.RelaxNG(file=str(path))
