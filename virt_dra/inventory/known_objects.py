"""The objects that rows are made of, each found by what refers to it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, TypeVar, cast

from virt_dra.allocator.features.taints import with_rules
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.pools import NewestSlices, newest_slices
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import Device, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.devices.published import PublishedDevices
from virt_dra.controllers.pods.launcher_pods import LAUNCHER, LAUNCHER_LABEL
from virt_dra.inventory.health import unhealthy_devices

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type, as in the port

ObjectName = tuple[str, str]
"""Namespace and name."""
FEATURES: Final = Features()
VM_NAME_LABEL: Final = "vm.kubevirt.io/name"
_LAUNCHER_POD: Final = re.compile(rf"{LAUNCHER}-(?P<vm>.+)-[a-z0-9]{{5}}")
"""How KubeVirt names launcher pods."""


class KnownObjects:
    """Objects of a cluster, each once; namespaced ones that name no namespace are in ``namespace``.

    ``unread``: kinds that couldn't be read, so that a missing object says nothing; ``partial``: kinds of which one
    namespace was read. Nothing is required to be there.
    """

    def __init__(
        self,
        objects: Iterable[TypedObject],
        namespace: str = "default",
        unread: Collection[type[TypedObject]] = (),
        partial: Collection[type[TypedObject]] = (),
    ) -> None:
        self._unread, self._partial = frozenset(unread), frozenset(partial)
        self._of_kind: dict[type[TypedObject], list[TypedObject]] = defaultdict(list)
        for obj in objects:
            if obj.NAMESPACED and not obj.namespace:
                obj = obj.with_(metadata=obj.metadata.with_(namespace=namespace))
            self._of_kind[type(obj)].append(obj)

    def of(self, kind: type[O]) -> list[O]:
        """All objects of a kind, as they were given."""
        return cast("list[O]", self._of_kind.get(kind, []))

    @property
    def objects(self) -> list[TypedObject]:
        """All of them."""
        return [obj for of_kind in self._of_kind.values() for obj in of_kind]

    def knows(self, kind: type[TypedObject]) -> bool:
        """Whether an object of the kind that isn't here doesn't exist."""
        return kind not in self._unread

    def knows_all(self, kind: type[TypedObject]) -> bool:
        """The same for objects of any namespace."""
        return kind not in self._unread and kind not in self._partial

    def by_name(self, kind: type[O]) -> Mapping[ObjectName, O]:
        """All objects of a kind by namespace and name."""
        return {(each.namespace, each.name): each for each in self.of(kind)}

    @cached_property
    def vms(self) -> Mapping[ObjectName, VirtualMachine]:
        return self.by_name(VirtualMachine)

    @cached_property
    def vmis(self) -> Mapping[ObjectName, VirtualMachineInstance]:
        return self.by_name(VirtualMachineInstance)

    @cached_property
    def pods(self) -> Mapping[ObjectName, Pod]:
        return self.by_name(Pod)

    @cached_property
    def claims(self) -> Mapping[ObjectName, ResourceClaim]:
        return self.by_name(ResourceClaim)

    @cached_property
    def device_objects(self) -> Mapping[ObjectName, VirtualMachineInstanceDevices]:
        return self.by_name(VirtualMachineInstanceDevices)

    @cached_property
    def classes(self) -> list[DeviceClass]:
        return sorted(self.of(DeviceClass), key=lambda each: each.name)

    @cached_property
    def pods_of_vm(self) -> Mapping[ObjectName, list[Pod]]:
        """The launcher pods of each VM, by the VM's name."""
        found: dict[ObjectName, list[Pod]] = defaultdict(list)
        for pod in self.of(Pod):
            name = vm_of_pod(pod)
            if name:
                found[pod.namespace, name].append(pod)
        return found

    @cached_property
    def slices(self) -> list[ResourceSlice]:
        """All slices with the taints of rules, in order of their names."""
        return sorted(with_rules(self.of(ResourceSlice), self.of(DeviceTaintRule)), key=lambda each: each.name)

    @cached_property
    def pools(self) -> Mapping[PoolId, NewestSlices]:
        """The newest generation of each pool, in order of driver and pool."""
        return {pool: newest_slices(pool, slices, FEATURES) for pool, slices in sorted(self.slices_of_pool.items())}

    @cached_property
    def slices_of_pool(self) -> Mapping[PoolId, list[ResourceSlice]]:
        """Of all generations."""
        by_pool: dict[PoolId, list[ResourceSlice]] = defaultdict(list)
        for slice_ in self.slices:
            by_pool[PoolId(slice_.spec.driver, slice_.spec.pool.name)].append(slice_)
        return by_pool

    @cached_property
    def published(self) -> PublishedDevices:
        """For the resolution of VMs' devices."""
        return PublishedDevices.of(self.slices)

    @cached_property
    def unhealthy(self) -> Mapping[DeviceId, str]:
        """Devices that their drivers reported as unhealthy, with their words."""
        return unhealthy_devices(self.of(Pod), self.claims, self.of(VirtualMachineInstanceDevices))

    def find(self, id: DeviceId) -> tuple[Device, ResourceSlice] | None:
        """A device of its pool's newest generation, and its slice."""
        for found in (
            self.published.pools[id.driver, id.pool].devices(id.device)
            if (id.driver, id.pool) in self.published.pools
            else ()
        ):
            return found.device, found.slice
        return None


def vm_of_pod(pod: Pod) -> str:
    """The name of the VM whose launcher this pod is, "" for other pods."""
    for owner in pod.metadata.owner_references:
        if owner.kind == VirtualMachineInstance.KIND:
            return owner.name
    if pod.metadata.labels.get(LAUNCHER_LABEL) == LAUNCHER:
        return pod.metadata.labels.get(VM_NAME_LABEL) or vm_of_pod_name(pod.name)
    return ""


def vm_of_pod_name(name: str) -> str:
    """The VM that a pod of this name is most likely the launcher of, "" if it isn't named like a launcher."""
    found = _LAUNCHER_POD.fullmatch(name)
    return found["vm"] if found is not None else ""
