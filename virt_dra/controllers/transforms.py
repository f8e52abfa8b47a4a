"""Informer transforms: they drop the fields that no controller reads, so that the stores take less memory. A trimmed
object may be patched, but never written whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.integration.known_drivers import WRITER_ANNOTATIONS
from virt_dra.api.integration.paths import (
    DEVICE_CLAIMS_ANNOTATION,
    DEVICE_STATUS_ANNOTATION,
    PATH_ANNOTATION,
    RETRY_ANNOTATION,
    own_pod_annotations,
)
from virt_dra.api.keeping.claims import KEPT_CLAIMS_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.instances import RECORD_ANNOTATION
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.cluster.watching.transforms import leaving_out
from virt_dra.controllers.pods.current_pod import EPHEMERAL_ANNOTATION

REST: Final = "(others)"
"""The key (no valid annotation's) that stands for dropped annotations; its value is their size in bytes."""

_LONGEST: Final = 16 * 1024
"""Characters that are kept of an annotation that users write; a longer one is refused later. 128 devices take half."""
_CUT: Final = frozenset({
    DEVICE_CLAIMS_ANNOTATION, DEVICES_ANNOTATION, RECORD_ANNOTATION, KEPT_CLAIMS_ANNOTATION,
})  # fmt: skip
_COMMON: Final = ("metadata.managed_fields",)
_UNREAD: Final = (*_COMMON, "metadata.annotations", "metadata.labels", "metadata.finalizers")
_TRIMS: Mapping[type[TypedObject], Callable[[Any], Any]] = {
    VirtualMachine: leaving_out(*_UNREAD, "spec.template.spec", "spec.template.metadata.labels", "status"),
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
    Namespace: leaving_out(*_COMMON, "metadata.annotations", "metadata.finalizers"),
    ResourceClaim: leaving_out(*_UNREAD),
    ResourceSlice: leaving_out(*_UNREAD),
    DeviceClass: leaving_out(*_COMMON, "metadata.labels", "metadata.finalizers"),
    DeviceTaintRule: leaving_out(*_UNREAD),
}
_NEVER_WRITTEN: Final = (Node, Namespace, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
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
    if isinstance(kept, VirtualMachine):
        return _with_line(kept)
    return (
        kept.with_(metadata=_with_ours(kept.metadata, pod=isinstance(obj, Pod))) if kept.metadata.annotations else kept
    )


def _with_line(vm: ObjectT) -> ObjectT:
    """The VM with no other annotation of its template than the line of device profiles."""
    assert isinstance(vm, VirtualMachine)
    template = vm.spec.template
    line = template.metadata.annotations.get(DEVICES_ANNOTATION)
    kept = {} if line is None else {DEVICES_ANNOTATION: line[:_LONGEST]}
    metadata = template.metadata.with_(annotations=kept)
    trimmed_vm: ObjectT = vm.with_(spec=vm.spec.with_(template=template.with_(metadata=metadata)))
    return trimmed_vm


def trimmed_where_read_only(obj: ObjectT) -> ObjectT:
    """As :func:`trimmed`, of kinds that no mode writes: standalone mode renders pods from whole VMIs."""
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
        elif key in _CUT:
            kept[key] = value if len(value) <= _LONGEST else value[:_LONGEST]
        elif key in ours:
            kept[key] = value
        else:
            rest += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
    if rest:
        kept[REST] = str(rest)
    return meta.with_(annotations=kept)
