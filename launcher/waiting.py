"""Whether a launcher has all it needs to make its domain: what is in its files, decided without looking at a clock or a disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from launcher import Conversion, convert
from launcher.errors import NO_ADDRESS, LauncherError
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.wire import WireError


@dataclass(frozen=True)
class Waiting:
    """Nothing is wrong, something is still to come."""

    message: str


class BadFile(Exception):
    """A file that doesn't hold what it should: waiting doesn't make that better."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")


def read_vmi(text: str, path: str) -> VirtualMachineInstance | Waiting:
    """The VMI of an annotation's file. Raises :class:`BadFile`."""
    if not text.strip():
        return Waiting(f"{path} is empty: the pod has no VMI in its annotation yet")
    try:
        return VirtualMachineInstance.from_wire(json.loads(text))
    except (WireError, ValueError, RecursionError) as error:
        raise BadFile(path, f"is no VirtualMachineInstance: {_told(error)}") from None


def read_device_status(text: str, path: str) -> DeviceStatus | None:
    """The deviceStatus of an annotation's file; None while it is empty. Raises :class:`BadFile`."""
    if not text.strip():
        return None
    try:
        return DeviceStatus.from_wire(json.loads(text))
    except (WireError, ValueError, RecursionError) as error:
        raise BadFile(path, f"is no deviceStatus: {_told(error)}") from None


def decide(
    vmi: VirtualMachineInstance, status: DeviceStatus | None, files: Mapping[str, str], env: Mapping[str, str]
) -> Conversion | Waiting:
    """The domain, or what is missing for it (K-7.6). Raises :class:`LauncherError` for what waiting does not mend.

    A device without any address is waited for: its claim is not allocated yet, or its driver has not published it.
    """
    complete = vmi.with_(status=vmi.status.with_(device_status=status)) if status is not None else vmi
    try:
        return convert(complete, env, files=files)
    except LauncherError as error:
        if error.reason == NO_ADDRESS:
            return Waiting(f"{error.subject} has no address yet")
        raise


def _told(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
