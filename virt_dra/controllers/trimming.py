"""What the operator keeps of what it follows: only what it reads. (Equal parts of objects are one since they were read, see
``virt_dra.cluster.sharing``.)

Trimmed objects are for reading. Nothing may be written from one as a whole, only patched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.slimming import leaving_out

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type, as in port

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object."""

_COMMON: Final = ("metadata.managed_fields",)
_TRIMS: Mapping[type[TypedObject], Callable[[Any], Any]] = {
    VirtualMachineInstance: leaving_out(
        *_COMMON,
        *(f"spec.{field}" for field in ("volumes", "affinity")),
        *(f"spec.domain.{field}" for field in ("cpu", "memory", "machine", "resources", "devices.disks")),
        *(f"spec.domain.devices.interfaces.{field}" for field in ("mac_address", "pci_address", "boot_order", "tag")),
    ),
    Pod: leaving_out(
        *_COMMON,
        *(f"spec.{field}" for field in ("volumes", "init_containers", "security_context")),
        *(f"spec.containers.{field}" for field in ("command", "args", "env", "volume_mounts", "readiness_probe", "security_context")),
    ),
    Node: leaving_out(*_COMMON),
}


def trimmed(obj: O) -> O:
    """Without what no controller reads. Kinds that aren't trimmed come back as they are."""
    trim = _TRIMS.get(type(obj))
    if trim is None:
        return obj
    kept: O = trim(obj)
    meta = kept.metadata
    if LAST_APPLIED not in meta.annotations:
        return kept
    annotations = {key: value for key, value in meta.annotations.items() if key != LAST_APPLIED}
    return kept.with_(metadata=meta.with_(annotations=annotations))
