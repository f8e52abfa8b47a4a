"""The keeper's stores, filled from lists of objects as its informers fill them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from virt_dra.api.core_v1 import Node
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.watching.informer import InformerStore
from virt_dra.controllers.keeping.gathering import INDEXES, TRANSFORMS, KeeperStores
from virt_dra.controllers.loops.taint_eviction.taints import AllocatedTaints

STORED: tuple[type[Any], ...] = (
    VirtualMachine, VirtualMachineInstance, ResourceClaim, ResourceClaimTemplate, Node, KeepPolicy,
)  # fmt: skip


def filled_stores(objects: Iterable[TypedObject]) -> KeeperStores:
    stores: dict[type[Any], InformerStore[Any]] = {kind: InformerStore(INDEXES.get(kind)) for kind in STORED}
    vms, vmis, claims, templates, nodes, policies = stores.values()
    keeper = KeeperStores(vms, vmis, claims, templates, nodes, policies, AllocatedTaints())
    for obj in objects:
        transform = TRANSFORMS.get(type(obj))
        seen = transform(obj) if transform is not None else obj
        assert isinstance(obj, (*STORED, ResourceSlice, DeviceTaintRule))
        if isinstance(obj, STORED):
            stores[type(obj)].put(seen)
        keeper.affected(None, seen)
    return keeper
