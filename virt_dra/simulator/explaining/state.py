"""The cluster as an explanation sees it, with everything that is in use; a copy without some of that costs next to
nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from virt_dra.allocator import DEFAULT, FatalError, Features, Interrupt, Snapshot
from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, of_kind
from virt_dra.api.resource_v1 import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from virt_dra.model.feeds.stand_ins import labelled, stand_ins
from virt_dra.scheduling.dynamic_resources.pod_devices import DeviceLimits, PodDevices
from virt_dra.scheduling.node_fit import PodFit
from virt_dra.scheduling.pod_requests import PODS, amount, pod_requests
from virt_dra.simulator.explaining.holders import Holder, Holders, holders_by_device

READ: Final[tuple[type[TypedObject], ...]] = (
    Node, Pod, ResourceSlice, ResourceClaim, ResourceClaimTemplate, DeviceClass, DeviceTaintRule, KubeVirt,
    VirtualMachine, VirtualMachineInstance,
)  # fmt: skip
"""What an explanation reads of a cluster."""


@dataclass(frozen=True)
class Wish:
    """A pod that wants a node, and its claims, each once and defaulted."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]

    @cached_property
    def asked(self) -> Mapping[str, int]:
        """What the pod asks of its node, by resource."""
        return {**pod_requests(self.pod), PODS: 1}

    def with_claim(self, claim: ResourceClaim) -> Wish:
        """With the claim in place of the one of its name."""
        return replace(self, claims=tuple(claim if each.key == claim.key else each for each in self.claims))


@dataclass(frozen=True)
class ClusterState:
    """``claims``: the allocated ones. ``used``: what pods ask of each node. ``resources``: those that some node offers;
    of others it isn't known who has them. ``interrupt``: polled by searches; True ends them with DeadlineExceeded."""

    nodes: Mapping[str, Node]
    snapshot: Snapshot
    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    used: Mapping[str, Mapping[str, int]]
    resources: frozenset[str]
    features: Features = DEFAULT
    interrupt: Interrupt | None = None

    @classmethod
    def of(
        cls, objects: Sequence[TypedObject], features: Features = DEFAULT, interrupt: Interrupt | None = None
    ) -> ClusterState:
        """Raises FatalError for slices that can't be read."""
        claims = tuple(each for each in of_kind(objects, ResourceClaim) if each.status.allocation is not None)
        rules = of_kind(objects, DeviceTaintRule) if features.device_taints else ()
        classes = [defaulted(device_class) for device_class in of_kind(objects, DeviceClass)]
        snapshot = Snapshot.build(of_kind(objects, ResourceSlice), classes, claims, rules)
        there = [*of_kind(objects, Node), *of_kind(stand_ins(objects, None), Node)]
        nodes = {each.name: each for each in map(labelled, there)}
        pods = tuple(each for each in of_kind(objects, Pod) if not each.finished)
        resources = frozenset(name for node in nodes.values() for name in node.status.allocatable)
        return cls(nodes, snapshot, pods, claims, _used(pods) if resources else {}, resources, features, interrupt)

    # --- what is there ----------------------------------------------------------------------------------------------

    @cached_property
    def holders(self) -> Holders:
        return holders_by_device(self.claims, {each.metadata.uid: each for each in self.pods})

    @cached_property
    def devices(self) -> Mapping[DeviceId, Device]:
        """As published, with the taints of rules; of a device that is published twice the first."""
        found: dict[DeviceId, Device] = {}
        for each in self.snapshot.slices:
            driver, pool = each.spec.driver, each.spec.pool.name
            for device in each.spec.devices:
                found.setdefault(DeviceId(driver, pool, device.name), device)
        return found

    # --- changes ----------------------------------------------------------------------------------------------------

    def without(self, holders: Iterable[Holder]) -> ClusterState:
        """The cluster once the claims of these holders are released and their pods have ended."""
        gone = {holder.claim.key: holder for holder in holders}
        released = [each.claim.status.allocation for each in gone.values() if each.claim.status.allocation is not None]
        pods = {each.pod.metadata.uid: each.pod for each in gone.values() if each.pod is not None}
        left = {name: _less(self.used.get(name, {}), of) for name, of in _used(pods.values()).items()}
        return replace(self, snapshot=self.snapshot.without_allocation(*released), used={**self.used, **left})

    def with_node(self, node: Node) -> ClusterState:
        """With the node in place of the one of its name."""
        return replace(self, nodes={**self.nodes, node.name: node})

    # --- questions --------------------------------------------------------------------------------------------------

    def devices_for(self, wish: Wish) -> PodDevices:
        """The wish's claims, to be tried on nodes. Raises FatalError."""
        return PodDevices(wish.claims, self.snapshot, DeviceLimits(self.features, interrupt=self.interrupt))

    def shortage(self, wish: Wish, node: Node) -> dict[str, int]:
        """By resource, how much too little the node has left for the pod. Resources that no node lists aren't
        checked."""
        if not self.resources:
            return {}
        offered, used = node.status.allocatable, self.used.get(node.name, {})
        missing: dict[str, int] = {}
        for resource, number in wish.asked.items():
            if resource in self.resources:
                there = amount(resource, offered[resource]) if resource in offered else 0
                if number > there - used.get(resource, 0):
                    missing[resource] = number - there + used.get(resource, 0)
        return missing

    def fits(self, wish: Wish, node: str) -> bool:
        """Whether the pod can go to the node and gets its devices there. A broken claim doesn't fit."""
        there = self.nodes[node]
        if PodFit(wish.pod).refuse(there) is not None or self.shortage(wish, there):
            return False
        try:
            return not wish.claims or self.devices_for(wish).refuse(there) is None
        except FatalError:
            return False


def _used(pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """What pods ask of their nodes, by node and resource."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        if pod.spec.node_name:
            on_node = found.setdefault(pod.spec.node_name, {})
            for resource, number in {**pod_requests(pod), PODS: 1}.items():
                on_node[resource] = on_node.get(resource, 0) + number
    return found


def _less(used: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    return {resource: number - by.get(resource, 0) for resource, number in used.items()}
