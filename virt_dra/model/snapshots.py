"""What the allocator may know of a model: slices, classes and the devices in use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from virt_dra.allocator import DEFAULT, Features, Snapshot
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.model.cluster import ClusterModel, ModelChange, derived


def snapshot_of(model: ClusterModel, features: Features = DEFAULT) -> Snapshot:
    """Slices, with the taints of rules if the features have taints, classes, and allocations. Raises FatalError."""
    return _tainted(model) if features.device_taints and model.of(DeviceTaintRule) else _plain(model)


def _followed(snapshot: Snapshot, changes: Iterable[ModelChange]) -> Snapshot | None:
    """The snapshot after changes of claims alone."""
    allocated = snapshot.allocated
    for change in changes:
        for claim, is_added in ((change.before, False), (change.after, True)):
            if claim is None:
                continue
            if not isinstance(claim, ResourceClaim):
                return None
            allocation = claim.status.allocation
            if allocation is None:
                continue
            if is_added:
                allocated = allocated.set(claim.key, claim)
                snapshot = snapshot.with_allocation(allocation)
            else:
                allocated = allocated.without(claim.key)
                snapshot = snapshot.without_allocation(allocation)
    return replace(snapshot, allocated=allocated)


@derived(ResourceSlice, DeviceClass, ResourceClaim, follow=_followed)
def _plain(model: ClusterModel) -> Snapshot:
    return _unused_plain(model).with_claims(model.of(ResourceClaim))


@derived(ResourceSlice, DeviceClass, ResourceClaim, DeviceTaintRule, follow=_followed)
def _tainted(model: ClusterModel) -> Snapshot:
    return unused_snapshot(model).with_claims(model.of(ResourceClaim))


@derived(ResourceSlice, DeviceClass)
def _unused_plain(model: ClusterModel) -> Snapshot:
    return Snapshot.build(model.of(ResourceSlice), model.of(DeviceClass))


@derived(ResourceSlice, DeviceClass, DeviceTaintRule)
def unused_snapshot(model: ClusterModel) -> Snapshot:
    """The slices, with the taints of rules, and the classes, as if no claim had a device."""
    return Snapshot.build(model.of(ResourceSlice), model.of(DeviceClass), (), model.of(DeviceTaintRule))
