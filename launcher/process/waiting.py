"""Decides whether a launcher's files are complete enough to make its domain. Pure: no clock, no disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from launcher import AddressSources, Conversion, HostTopology, convert
from launcher.errors import NO_ADDRESS, LauncherError
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.wire import Wire, WireError

W = TypeVar("W", bound=Wire)


@dataclass(frozen=True)
class Waiting:
    """An input isn't available yet; ``message`` says which."""

    message: str


@dataclass(frozen=True)
class OwnHost:
    """The host that the launcher runs on. ``cpus``: those that its container may use."""

    topology: HostTopology
    cpus: frozenset[int]


class BadFile(Exception):
    """A file with invalid content, for which waiting is no remedy."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")


def read_vmi(text: str, path: str) -> VirtualMachineInstance | Waiting:
    """The VMI in the file of the pod's annotation. Raises :class:`BadFile`."""
    waiting = Waiting(f"{path} is empty: the pod has no VMI in its annotation yet")
    return _read(VirtualMachineInstance, text, path, "VirtualMachineInstance") or waiting


def read_device_status(text: str, path: str) -> DeviceStatus | None:
    """The deviceStatus in the file of the pod's annotation; None while it is empty. Raises :class:`BadFile`."""
    return _read(DeviceStatus, text, path, "deviceStatus")


def _read(kind: type[W], text: str, path: str, name: str) -> W | None:
    if not text.strip():
        return None
    try:
        return kind.from_wire(json.loads(text))
    except (WireError, ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadFile(path, f"is not a {name}: {reason}") from None


def decide(
    vmi: VirtualMachineInstance,
    status: DeviceStatus | None,
    files: Mapping[str, str],
    env: Mapping[str, str],
    host: OwnHost | None = None,
) -> Conversion | Waiting:
    """The conversion, or what it waits for (K-7.6). Raises :class:`LauncherError` for errors that waiting doesn't
    remedy.

    ``host``: None if it doesn't matter or isn't known. A device without an address is waited for: its claim isn't
    allocated yet, or its driver hasn't published the address.
    """
    complete = vmi.with_(status=vmi.status.with_(device_status=status)) if status is not None else vmi
    try:
        topology, cpus = (host.topology, host.cpus) if host is not None else (None, None)
        return convert(complete, AddressSources(env, files), topology=topology, cpus=cpus)
    except LauncherError as error:
        if error.reason == NO_ADDRESS:
            return Waiting(f"{error.subject} has no address yet")
        raise
