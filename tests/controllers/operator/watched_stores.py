"""Informers' stores that are filled by hand, with the sources of a reconcile over them and over lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.controllers.listed_sources import ListedSources
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.cluster.watching.informer import InformerStore
from virt_dra.controllers.operator.affected_vmis import INDEXES, WatchedSources


@dataclass
class Stores:
    """One store a kind, as the wiring makes them; ``change`` tells what an informer would."""

    by_kind: dict[type[TypedObject], InformerStore[Any]] = field(
        default_factory=lambda: {kind: InformerStore(indexes) for kind, indexes in INDEXES.items()}
    )

    def __post_init__(self) -> None:
        self.sources = WatchedSources(
            *(self.by_kind[kind] for kind in (
                VirtualMachine, VirtualMachineInstance, Pod, ResourceClaim, ResourceSlice, DeviceTaintRule, DeviceClass,
                VirtualMachineInstanceDevices, DeviceProfile, Namespace, ResourceClaimTemplate,
            ))
        )  # fmt: skip

    def change(self, kind: type[ObjectT], name: str, namespace: str, new: ObjectT | None) -> frozenset[str]:
        store = self.by_kind[kind]
        old = store.get(name, namespace)
        if new is None:
            store.remove((namespace, name))
        else:
            store.put(new)
        return self.sources.affected(old, new)

    def put(self, *objects: TypedObject) -> None:
        for obj in objects:
            self.change(type(obj), obj.name, obj.namespace, obj)

    def listed(self) -> ListedSources:
        return ListedSources(*(self.by_kind[kind].values() for kind in (
            VirtualMachineInstance, Pod, ResourceClaim, ResourceSlice, DeviceTaintRule, VirtualMachineInstanceDevices,
            DeviceClass, VirtualMachine, DeviceProfile, Namespace, ResourceClaimTemplate,
        )))  # fmt: skip
