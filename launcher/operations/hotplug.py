"""Attaches host devices to a running domain, and detaches them; after a failure the domain is as it was before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Final, Protocol

from lxml import etree

from launcher.elements.hostdev import LIBVIRT, Hostdev
from launcher.elements.page import compact, root
from launcher.errors import LauncherError
from launcher.operations.obstacles import obstacles

NOT_ATTACHED: Final = "NotAttached"
"""The domain has no device of this alias."""
NOT_RELEASED: Final = "NotReleased"
"""The guest didn't release a device in time."""
NOT_ROLLED_BACK: Final = "NotRolledBack"
"""An operation failed, and so did its undoing."""

_PAUSE: Final = 0.1
"""Seconds between looks at the live XML."""


@dataclass(frozen=True)
class Patience:
    """How long a guest may take to release a device. The clock is a port."""

    seconds: float = 30.0
    now: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep


USUAL_PATIENCE: Final = Patience()


class PluggableDomain(Protocol):
    """A running domain. Every method raises :class:`LauncherError`."""

    def xml(self) -> str:
        """The domain as it runs."""

    def attach(self, xml: str) -> None:
        """Attach a device, now and in the stored definition."""

    def request_detach(self, alias: str) -> None:
        """Ask the guest to release a device, which takes its time."""

    def forget(self, alias: str) -> None:
        """Remove a device from the stored definition."""


def attach(domain: PluggableDomain, devices: Sequence[Hostdev], patience: Patience = USUAL_PATIENCE) -> None:
    """Attach all devices in this order. Raises :class:`LauncherError` with every obstacle before anything is done, or
    with libvirt's refusal after what was attached is detached again."""
    before = root(domain.xml())
    written = [LIBVIRT.converted(device)[0] for device in devices]
    if in_the_way := list(obstacles(before, written)):
        message = "; ".join(obstacle.message for obstacle in in_the_way)
        raise LauncherError(in_the_way[0].reason, in_the_way[0].subject, message)
    attach_all(domain, {device.alias or "": compact(device) for device in written}, patience)


def attach_all(domain: PluggableDomain, xml_by_alias: dict[str, str], patience: Patience) -> None:
    """Attach devices in order, or none of them. Raises :class:`LauncherError`."""
    before = _placed_devices(domain)
    try:
        for xml in xml_by_alias.values():
            domain.attach(xml)
    except LauncherError as error:
        # What the domain has now counts, not what was answered: the answer of an attachment can be lost.
        added = [alias for alias in xml_by_alias if alias in _placed_devices(domain)]
        for alias in reversed(added):
            _undo(error, partial(_release, domain, alias, patience))
        _check_undone(domain, before, error)
        raise


def detach(domain: PluggableDomain, aliases: Sequence[str], patience: Patience = USUAL_PATIENCE) -> None:
    """Detach devices in this order, each once the guest has released the one before. Raises :class:`LauncherError`;
    those that were detached then are attached again where they were.

    A guest that didn't release a device in time may still do so later: a request can't be taken back.
    """
    before = _placed_devices(domain)
    for alias in aliases:
        if alias not in before:
            raise LauncherError(NOT_ATTACHED, alias, f"{alias}: the domain has no such device")
    detached: list[str] = []
    try:
        for alias in aliases:
            _release(domain, alias, patience)
            detached.append(alias)
    except LauncherError as error:
        for alias in reversed(detached):
            _undo(error, partial(domain.attach, before[alias]))
        _check_undone(domain, before, error)
        raise


def _release(domain: PluggableDomain, alias: str, patience: Patience) -> None:
    """Detach a device and wait until it is gone. Raises :class:`LauncherError`."""
    domain.request_detach(alias)
    end = patience.now() + patience.seconds
    while alias in _placed_devices(domain):
        if patience.now() >= end:
            message = f"{alias}: the guest didn't release the device within {patience.seconds:g} s"
            raise LauncherError(NOT_RELEASED, alias, message)
        patience.pause(_PAUSE)
    domain.forget(alias)


def _undo(error: LauncherError, step: Callable[[], None]) -> None:
    try:
        step()
    except LauncherError as second:
        message = f"{error}; undoing it failed: {second}"
        raise LauncherError(NOT_ROLLED_BACK, second.subject, message) from error


def _check_undone(domain: PluggableDomain, before: dict[str, str], error: LauncherError) -> None:
    after = _placed_devices(domain)
    changed = sorted(alias for alias in before.keys() | after.keys() if _place(before, alias) != _place(after, alias))
    if changed:
        message = f"{error}; undoing it left a difference: {', '.join(changed)}"
        raise LauncherError(NOT_ROLLED_BACK, changed[0], message) from error


def _place(devices: dict[str, str], alias: str) -> tuple[str, bytes] | None:
    """The kind of a device and its address in the guest; what a guest changes itself, such as a channel's state, is
    left out."""
    if alias not in devices:
        return None
    device = root(devices[alias])
    address = device.find("address")
    return device.tag, b"" if address is None else etree.tostring(address, with_tail=False)


def _placed_devices(domain: PluggableDomain) -> dict[str, str]:
    """The devices of the live domain with an alias: alias -> element, with its address in the guest."""
    return {
        alias.get("name", ""): etree.tostring(device, encoding="unicode", with_tail=False)
        for device in root(domain.xml()).iterfind("devices/*")
        if (alias := device.find("alias")) is not None
    }
