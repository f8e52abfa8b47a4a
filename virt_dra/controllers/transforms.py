"""Informer transforms: they drop the fields that no controller reads, so that the stores take less memory.

A trimmed object may be patched, but never written whole, as that would remove the dropped fields from the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.integration.known_drivers import WRITER_ANNOTATIONS
from virt_dra.api.integration.paths import (
    DEVICE_CLAIMS_ANNOTATION,
    DEVICE_STATUS_ANNOTATION,
    PATH_ANNOTATION,
    RETRY_ANNOTATION,
    own_pod_annotations,
)
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.cluster.watching.transforms import leaving_out
from virt_dra.controllers.pods.current_pod import EPHEMERAL_ANNOTATION

REST: Final = "(others)"
"""The key that replaces dropped annotations; its value is their size in bytes. It is no valid annotation key, so no
object has it."""

_LONGEST: Final = 16 * 1024
"""Characters that are kept of the device claims annotation; a longer one is cut and then no valid JSON. 128 devices
take half of it."""
_COMMON: Final = ("metadata.managed_fields",)
_UNREAD: Final = (*_COMMON, "metadata.annotations", "metadata.labels", "metadata.finalizers")
_TRIMS: Mapping[type[TypedObject], Callable[[Any], Any]] = {
    VirtualMachine: leaving_out(*_UNREAD, "spec.template", "status"),
    VirtualMachineInstance: leaving_out(
        *_COMMON,
        *(f"spec.{field}" for field in ("volumes", "affinity")),
        *(f"spec.domain.{field}" for field in ("cpu", "memory", "machine", "resources", "devices.disks")),
        *(f"spec.domain.devices.interfaces.{field}" for field in ("mac_address", "pci_address", "boot_order", "tag")),
    ),
    Pod: leaving_out(
        *_COMMON,
        *(f"spec.{field}" for field in ("volumes", "init_containers", "security_context")),
        *(
            f"spec.containers.{field}"
            for field in ("command", "args", "env", "volume_mounts", "readiness_probe", "security_context")
        ),
    ),
    Node: leaving_out(*_COMMON, "metadata.annotations", "metadata.finalizers"),
    ResourceClaim: leaving_out(*_UNREAD),
    ResourceSlice: leaving_out(*_UNREAD),
    DeviceClass: leaving_out(*_COMMON, "metadata.labels", "metadata.finalizers"),
    DeviceTaintRule: leaving_out(*_UNREAD),
}
_NEVER_WRITTEN: Final = (Node, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
"""Kinds that no mode writes, so that they may always be trimmed."""


def trimmed(obj: ObjectT) -> ObjectT:
    """The object without the fields that no controller reads."""
    trim = _TRIMS.get(type(obj))
    if trim is None:
        return obj
    kept: ObjectT = trim(obj)
    if isinstance(obj, DeviceClass):
        settings = {key: value for key, value in kept.metadata.annotations.items() if key in WRITER_ANNOTATIONS}
        return kept.with_(metadata=kept.metadata.with_(annotations=settings))
    if isinstance(obj, _NEVER_WRITTEN):
        return kept
    return (
        kept.with_(metadata=_with_ours(kept.metadata, pod=isinstance(obj, Pod))) if kept.metadata.annotations else kept
    )


def trimmed_where_read_only(obj: ObjectT) -> ObjectT:
    """As :func:`trimmed`, but only for kinds that no mode writes: standalone mode renders pods from whole VMIs."""
    return trimmed(obj) if isinstance(obj, _NEVER_WRITTEN) else obj


def rest_of(annotations: Mapping[str, str]) -> int:
    """The size in bytes of the annotations that were dropped from a trimmed object."""
    return int(annotations.get(REST, "0"))


def _with_ours(meta: ObjectMeta, *, pod: bool) -> ObjectMeta:
    """Keep our annotations, and the size of the others, as the API limits their sum (K-12.2)."""
    ours = (
        {PATH_ANNOTATION, DEVICE_STATUS_ANNOTATION, RETRY_ANNOTATION}
        if not pod
        else set(own_pod_annotations(meta.annotations))
    )
    kept: dict[str, str] = {}
    rest = 0
    for key, value in meta.annotations.items():
        if key == EPHEMERAL_ANNOTATION:
            kept[key] = ""
        elif key == DEVICE_CLAIMS_ANNOTATION:
            kept[key] = value if len(value) <= _LONGEST else value[:_LONGEST]
        elif key in ours:
            kept[key] = value
        else:
            rest += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
    if rest:
        kept[REST] = str(rest)
    return meta.with_(annotations=kept)
