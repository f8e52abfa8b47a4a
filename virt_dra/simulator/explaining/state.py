"""A cluster as explanations and ways out see it: the model, with what bounds the search for devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from virt_dra.allocator import DEFAULT, DeadlineExceeded, FatalError, Features, Interrupt, Snapshot
from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import (
    AllocationResult,
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.files import placeable_model
from virt_dra.model.snapshots import snapshot_of
from virt_dra.scheduling.filters.node_resources import ResourcesAttempt
from virt_dra.scheduling.fit import FilterError, Fit, FitOptions, fit
from virt_dra.scheduling.framework.node_table import pod_id
from virt_dra.scheduling.why import NodeMisses, judged
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

    def with_claim(self, claim: ResourceClaim) -> Wish:
        """With the claim in place of the one of its name."""
        return replace(self, claims=tuple(claim if own.key == claim.key else own for own in self.claims))


@dataclass(frozen=True)
class ClusterState:
    """``interrupt``: polled by searches; True ends them with DeadlineExceeded."""

    model: ClusterModel
    features: Features = DEFAULT
    interrupt: Interrupt | None = None

    @classmethod
    def of(
        cls, objects: Sequence[TypedObject], features: Features = DEFAULT, interrupt: Interrupt | None = None
    ) -> ClusterState:
        """Raises FatalError for slices that can't be read."""
        return cls(placeable_model(objects), features, interrupt)

    # --- what is there ----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.model.nodes

    @property
    def snapshot(self) -> Snapshot:
        return snapshot_of(self.model, self.features)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """Those that haven't finished."""
        return tuple(pod for pod in self.model.of(Pod) if not pod.finished)

    @cached_property
    def holders(self) -> Holders:
        return holders_by_device(self.model.of(ResourceClaim), {pod.metadata.uid: pod for pod in self.pods})

    @cached_property
    def devices(self) -> Mapping[DeviceId, Device]:
        """As published, with the taints of rules; of a device that is published twice the first."""
        published: dict[DeviceId, Device] = {}
        for slice_ in self.snapshot.slices:
            driver, pool = slice_.spec.driver, slice_.spec.pool.name
            for device in slice_.spec.devices:
                published.setdefault(DeviceId(driver, pool, device.name), device)
        return published

    # --- changes ----------------------------------------------------------------------------------------------------

    def without(self, holders: Iterable[Holder]) -> ClusterState:
        """The cluster once the claims of these holders are released and their pods have ended."""
        gone = {holder.claim.key: holder for holder in holders}
        released = [holder.claim.with_(status=ResourceClaimStatus()) for holder in gone.values()]
        pods = {pod_id(holder.pod): holder.pod for holder in gone.values() if holder.pod is not None}
        return replace(self, model=self.model.changed(released, pods.values()))

    def with_node(self, node: Node) -> ClusterState:
        """With the node in place of the one of its name."""
        return replace(self, model=self.model.changed([node]))

    # --- questions --------------------------------------------------------------------------------------------------

    def fit(self, wish: Wish) -> Fit:
        """The wish, to be tried on nodes. Raises FilterError, FatalError."""
        return fit(wish.pod, self.model.changed(wish.claims), FitOptions(self.features, interrupt=self.interrupt))

    def judged(self, wish: Wish) -> Iterator[NodeMisses]:
        """Why the wish can't be placed, node by node. Raises FatalError, DeadlineExceeded."""
        try:
            asked = self.fit(wish)
        except FilterError as error:
            raise FatalError(str(error)) from error
        return judged(asked, sorted(self.nodes), self.devices, self.interrupt)

    def fits(self, wish: Wish, node: str) -> bool:
        """Whether the pod can go to the node and gets its devices there. A broken claim doesn't fit.

        Raises DeadlineExceeded."""
        try:
            asked = self.fit(wish)
            return asked.refusal(asked.state(node)) is None
        except DeadlineExceeded:
            raise
        except (FilterError, FatalError):
            return False

    def shortage(self, wish: Wish, node: str) -> Mapping[str, int]:
        """By resource, how much too little the node has left for the pod. Raises FilterError, FatalError."""
        asked = self.fit(wish)
        room = next(part.attempt for part in asked.parts if isinstance(part.attempt, ResourcesAttempt))
        return room.shortage(asked.state(node))

    def allocations(self, wish: Wish, node: str) -> Iterable[AllocationResult]:
        """What the wish's unallocated claims would get on a node that fits. Raises FatalError, FilterError."""
        asked = self.fit(wish)
        if asked.refusal(asked.state(node)) is not None or asked.devices is None:
            return ()
        devices = asked.devices.nodes.found(node)
        return () if devices is None else devices.allocations(node).values()
