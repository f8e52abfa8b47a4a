"""The devices that drivers publish: pools with their newest generation, and the device that an identity names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from virt_dra.allocator import DEFAULT
from virt_dra.allocator.features.taints import with_rules
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.pools import NewestSlices, newest_slices
from virt_dra.api.resource_v1 import Device, DeviceTaintRule, ResourceSlice
from virt_dra.model.cluster import ClusterModel, derived
from virt_dra.model.published import PublishedDevice, PublishedDevices


@derived(ResourceSlice, DeviceTaintRule)
def slices(model: ClusterModel) -> tuple[ResourceSlice, ...]:
    """All slices with the taints of rules, in order of their names."""
    return tuple(with_rules(model.of(ResourceSlice), model.of(DeviceTaintRule)))


@derived(ResourceSlice, DeviceTaintRule)
def slices_of_pools(model: ClusterModel) -> Mapping[PoolId, list[ResourceSlice]]:
    """The slices of each pool, of all generations."""
    by_pool: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
    for slice_ in slices(model):
        by_pool[PoolId(slice_.spec.driver, slice_.spec.pool.name)].append(slice_)
    return by_pool


@derived(ResourceSlice, DeviceTaintRule)
def pools(model: ClusterModel) -> Mapping[PoolId, NewestSlices]:
    """The newest generation of each pool, in order of driver and pool."""
    return {pool: newest_slices(pool, members, DEFAULT) for pool, members in sorted(slices_of_pools(model).items())}


@derived(ResourceSlice, DeviceTaintRule)
def publications(model: ClusterModel) -> PublishedDevices:
    """The pools for lookups of allocated devices."""
    return PublishedDevices.from_slices(slices(model))


@derived(ResourceSlice, DeviceTaintRule)
def devices_by_id(model: ClusterModel) -> Mapping[DeviceId, Device]:
    """The devices of the newest generation of every pool; of one that is published twice the first."""
    return {
        DeviceId(pool.driver, pool.pool, device.name): device
        for pool, newest in pools(model).items()
        for slice_ in reversed(newest.slices)
        for device in reversed(slice_.spec.devices)
    }


def published_device(model: ClusterModel, id: DeviceId) -> PublishedDevice | None:
    """A device of its pool's newest generation; of one that is published twice the first."""
    pool = publications(model).pool(id.driver, id.pool)
    return next(iter(pool.devices(id.device)), None) if pool is not None else None
