"""CDI files: how a container runtime learns which device nodes and mounts a claim brings (D-27 to D-32). Pure.

Their names hold the claim's UID, so that one is never used again for something else: runtimes cache them (D-31).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

CDI_VERSION: Final = "0.5.0"
"""The lowest for device names that begin with a digit (D-28)."""
DEVICE_CLASS: Final = "device"
METADATA_CLASS: Final = "metadata"


@dataclass(frozen=True, slots=True)
class CdiMount:
    """A file of the host that a container sees, read-only."""

    host_path: str
    container_path: str


@dataclass(frozen=True, slots=True)
class CdiDevice:
    name: str
    nodes: tuple[str, ...] = ()
    """Device nodes, the same on the host and in the container. Type, numbers and mode are the host's (D-29)."""
    mounts: tuple[CdiMount, ...] = ()


def cdi_document(driver: str, device_class: str, devices: Sequence[CdiDevice]) -> str:
    """The text of one CDI file. Raises :class:`ValueError` for a device without edits, which makes a whole file invalid
    (D-31)."""
    if bare := [device.name for device in devices if not device.nodes and not device.mounts]:
        raise ValueError(f"CDI devices without edits: {', '.join(bare)}")
    document = {
        "cdiVersion": CDI_VERSION,
        "kind": f"{driver}/{device_class}",
        "devices": [{"name": device.name, "containerEdits": _edits(device)} for device in devices],
    }
    return json.dumps(document) + "\n"


def _edits(device: CdiDevice) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    if device.nodes:
        # No uid and gid: virt-handler gives the nodes below /dev/vfio to launchers that aren't root (D-55).
        edits["deviceNodes"] = [{"path": path, "permissions": "rw"} for path in device.nodes]
    if device.mounts:
        edits["mounts"] = [
            {"hostPath": mount.host_path, "containerPath": mount.container_path, "options": ["ro", "bind"]}
            for mount in device.mounts
        ]
    return edits


def cdi_id(driver: str, device_class: str, name: str) -> str:
    return f"{driver}/{device_class}={name}"


def device_name(claim_uid: str, device: str) -> str:
    return f"{claim_uid}-{device}"


def metadata_device_name(claim_uid: str, base_request: str) -> str:
    return f"{claim_uid}_{base_request}"


def device_file(folder: str, driver: str, claim_uid: str) -> str:
    return f"{folder}/{driver}_{claim_uid}.json"


def metadata_file(folder: str, driver: str, claim_uid: str, base_request: str) -> str:
    return f"{folder}/{driver}_metadata_{claim_uid}_{base_request}.json"
