"""What the API server does to an object between the request and the store: status kept apart, generation counted,
leftovers removed. Pure functions of the submitted and the stored object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from virt_dra.api.core_v1 import Namespace, Pod, PodCondition, PodStatus
from virt_dra.api.defaults import retimed_taint
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.policies.pod_defaults import with_label_keys
from virt_dra.api.resource_v1 import (
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from virt_dra.api.schemas.applying import as_in
from virt_dra.api.wire import Json, Wire
from virt_dra.cluster.kinds import ApiResource

W = TypeVar("W", bound=Wire)


_GATED = (
    PodCondition(
        type="PodScheduled", status="False", reason="SchedulingGated",
        message="Scheduling is blocked due to non-empty scheduling gates",
    ),
)  # fmt: skip
"""The condition with which a pod begins that has scheduling gates."""


def for_create(resource: ApiResource, obj: ObjectT) -> ObjectT:
    """The object to store, without status where that is a subresource; pods are Pending, namespaces Active (C-13.1)."""
    obj = obj.with_(metadata=_each_owner_once(obj.metadata))
    if resource.keeps_status_on_create:
        return obj
    bare = obj.without("status")
    if isinstance(bare, Pod):
        status = (
            PodStatus(phase="Pending", conditions=_GATED) if bare.spec.scheduling_gates else PodStatus(phase="Pending")
        )
        return bare.with_(spec=with_label_keys(bare).spec, status=status)
    return bare.with_(status={"phase": "Active"}) if isinstance(bare, Namespace) else bare


def for_update(
    resource: ApiResource,
    submitted: ObjectT,
    stored: ObjectT,
    now: str,
    permitted: Callable[[ObjectT, ObjectT], ObjectT],
) -> ObjectT:
    """All but status from the request; the server's own metadata from the store (C-13.1, C-13.3). ``permitted`` takes
    away the fields of disabled gates (C-13.4); a slice's generation counts a change of these, too."""
    kept = as_in(submitted, stored, "status") if resource.has_status else submitted
    meta = _each_owner_once(submitted.metadata.without("self_link"))
    owned_fields = ["generation", "creation_timestamp"]
    if meta.deletion_grace_period_seconds is None:
        owned_fields.append("deletion_grace_period_seconds")
    owned = as_in(meta, stored.metadata, *owned_fields).with_(
        uid=stored.metadata.uid,
        namespace=stored.metadata.namespace,
        resource_version=stored.metadata.resource_version,
        deletion_timestamp=stored.metadata.deletion_timestamp or meta.deletion_timestamp,
    )
    if owned.deletion_timestamp is None:
        owned = owned.without("deletion_timestamp")
    updated = kept.with_(metadata=owned)
    if isinstance(updated, DeviceTaintRule) and isinstance(stored, DeviceTaintRule):
        updated = updated.with_(spec=retimed_taint(updated, stored, now).spec)
    asked, updated = updated, permitted(updated, stored)
    counted = asked if isinstance(asked, ResourceSlice) else updated
    if resource.counts_generation and content(resource, counted) != content(resource, stored):
        updated = updated.with_(metadata=next_generation(updated.metadata))
    return updated


def for_status_update(submitted: ObjectT, stored: ObjectT, permitted: Callable[[ObjectT, ObjectT], ObjectT]) -> ObjectT:
    """The stored object with the request's status (C-13.1, C-13.5); ``permitted`` as in :func:`for_update`."""
    updated = permitted(as_in(stored, submitted, "status"), stored)
    if isinstance(updated, ResourceClaim) and isinstance(stored, ResourceClaim) and updated.status.devices:
        return updated.with_(status=_without_stale_devices(updated, stored).status)
    return updated


def as_served(resource: ApiResource, obj: TypedObject) -> Json:
    """The document a patch applies to. Kubernetes' own kinds have a spec and a status, even empty, no empty
    metadata."""
    document = obj.to_wire()
    if resource.native:
        document["metadata"] = {
            field: value for field, value in document.get("metadata", {}).items() if value not in ({}, [], "", None)
        }
        for field in ("spec", "status"):
            if isinstance(type(obj).model_fields[field].default if field in type(obj).model_fields else None, Wire):
                document.setdefault(field, {})
    return document


def marked_for_deletion(obj: TypedObject, now: str) -> TypedObject:
    """What remains of a deleted object until its finalizers (of a namespace: its content) are gone."""
    meta = obj.metadata.with_(deletion_timestamp=now, deletion_grace_period_seconds=0)
    marked = obj.with_(metadata=next_generation(meta) if meta.generation else meta)
    return marked.with_(status={"phase": "Terminating"}) if isinstance(marked, Namespace) else marked


def finalized(new: ObjectMeta, old: ObjectMeta) -> bool:
    """Whether an update takes the last finalizer of an object marked for deletion. Not during a grace period."""
    return old.deletion_timestamp is not None and not new.finalizers and not old.deletion_grace_period_seconds


def next_generation(meta: ObjectMeta) -> ObjectMeta:
    return meta.with_(generation=(meta.generation or 0) + 1)


def unchanged(resource: ApiResource, new: TypedObject, old: TypedObject) -> bool:
    """Whether writing ``new`` would store what is stored already; then the resourceVersion stays. Kubernetes' own kinds
    are stored without empty fields; custom resources as given."""
    return new == old and (resource.native or new.to_wire() == old.to_wire())


def content(resource: ApiResource, obj: TypedObject) -> Mapping[str, object]:
    """What ``metadata.generation`` counts the changes of."""
    outside = {"metadata", "api_version", "kind", *(("status",) if resource.has_status else ())}
    fields = {name: getattr(obj, name) for name in type(obj).model_fields if name not in outside}
    extra = {name: value for name, value in (obj.model_extra or {}).items() if name not in outside}
    return {**fields, **extra}


def _each_owner_once(meta: ObjectMeta) -> ObjectMeta:
    owners = meta.owner_references
    once = tuple(owner for index, owner in enumerate(owners) if owner not in owners[:index])
    return meta if len(once) == len(owners) else meta.with_(owner_references=once)


def _without_stale_devices(new: ResourceClaim, old: ResourceClaim) -> ResourceClaim:
    """Device data goes with the allocation of its device; that of devices never allocated is for validation
    (C-13.5)."""
    allocated, before = _allocated(new), _allocated(old)
    kept = tuple(
        device for device in new.status.devices if _identity(device) in allocated or _identity(device) not in before
    )
    return new if len(kept) == len(new.status.devices) else new.with_(status=new.status.with_(devices=kept))


def _allocated(claim: ResourceClaim) -> set[tuple[str, ...]]:
    return {_identity(result) for result in claim.results}


def _identity(device: AllocatedDeviceStatus | DeviceRequestAllocationResult) -> tuple[str, ...]:
    return device.driver, device.pool, device.device, device.share_id or ""
