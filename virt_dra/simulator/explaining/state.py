"""A cluster as explanations and ways out see it: the model, with what bounds the search for devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from virt_dra.allocator import DEFAULT, DeadlineExceeded, FatalError, Features, Interrupt, Snapshot
from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import AllocationResult, Device, ResourceClaim, ResourceClaimStatus
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.devices import devices_by_id
from virt_dra.model.feeds.files import model_of_files, placeable
from virt_dra.model.snapshots import snapshot_of
from virt_dra.model.usage import DeviceHolder, holders_in_use
from virt_dra.scheduling.filters.node_resources import ResourcesAttempt
from virt_dra.scheduling.fit import FilterError, Fit, FitOptions, Fits, fit, fits, read_beforehand
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.why.judging import judged
from virt_dra.scheduling.why.tree import NodeRefusal

_FEASIBLE: Final = 100
"""Nodes on which a pod fits, of which kube-scheduler looks for so many at least (minFeasibleNodesToFind)."""


@dataclass(frozen=True)
class Wish:
    """A pod that wants a node, and its claims, each once and defaulted."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]

    def with_claim(self, claim: ResourceClaim) -> Wish:
        """A copy with the claim in place of the one of its name."""
        return replace(self, claims=tuple(claim if own.key == claim.key else own for own in self.claims))


@dataclass(frozen=True)
class ClusterState:
    """A cluster, and the bounds of searches on it. ``interrupt``: True ends them with DeadlineExceeded."""

    model: ClusterModel
    features: Features = DEFAULT
    interrupt: Interrupt | None = None

    @classmethod
    def from_objects(
        cls, objects: Iterable[TypedObject], namespace: str = "default", interrupt: Interrupt | None = None
    ) -> ClusterState:
        """The cluster of the objects of files. ``namespace``: of those that name none. Raises FatalError."""
        return cls.from_model(model_of_files(objects, namespace), interrupt)

    @classmethod
    def from_model(cls, model: ClusterModel, interrupt: Interrupt | None = None) -> ClusterState:
        """The cluster of a model. Raises FatalError for slices that can't be read."""
        completed = placeable(model)
        read_beforehand(completed, DEFAULT)
        return cls(completed, interrupt=interrupt)

    # --- what is there ----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.model.nodes

    @property
    def snapshot(self) -> Snapshot:
        return snapshot_of(self.model, self.features)

    @property
    def running_pods(self) -> Iterable[Pod]:
        """The pods that are bound to a node and haven't finished."""
        return (pod for pod in self.model.of(Pod) if pod.takes_room)

    @property
    def holders(self) -> Mapping[DeviceId, tuple[DeviceHolder, ...]]:
        """The holders of every device in use."""
        return holders_in_use(self.model)

    @property
    def devices(self) -> Mapping[DeviceId, Device]:
        return devices_by_id(self.model)

    # --- changes ----------------------------------------------------------------------------------------------------

    def without(self, holders: Collection[DeviceHolder]) -> ClusterState:
        """The cluster once the claims of these holders are released and their pods have ended."""
        released = {holder.claim.key: holder.claim.with_(status=ResourceClaimStatus()) for holder in holders}
        pods = [pod for holder in holders for pod in holder.pods]
        return replace(self, model=self.model.changed(released.values(), pods))

    def without_pod(self, pod: Pod) -> ClusterState:
        """The cluster once the pod has ended; its claims keep their devices."""
        return replace(self, model=self.model.changed((), [pod]))

    def with_node(self, node: Node) -> ClusterState:
        """A copy with the node in place of the one of its name."""
        return replace(self, model=self.model.changed([node]))

    # --- questions --------------------------------------------------------------------------------------------------

    def fit(self, wish: Wish) -> Fit:
        """The wish, to be tried on nodes. Raises FatalError, DeadlineExceeded."""
        try:
            return fit(wish.pod, self.model.changed(wish.claims), FitOptions(self.features, interrupt=self.interrupt))
        except FilterError as error:
            raise FatalError(str(error), error.code) from error

    def judged(self, asked: Fit) -> Iterator[NodeRefusal]:
        """The refusals of each node, for a wish that isn't refused everywhere. Raises FatalError, DeadlineExceeded."""
        try:
            yield from judged(asked, sorted(self.nodes), self.interrupt)
        except FilterError as error:
            raise FatalError(str(error), error.code) from error

    def fits(self, wish: Wish, node: str) -> bool:
        """Whether the pod fits on the node; one with a broken claim doesn't. Raises DeadlineExceeded."""
        return self._takes(wish, lambda asked: [asked.state(node)]) > 0

    def fits_somewhere(self, wish: Wish) -> bool:
        """Whether some node can take the pod. Raises DeadlineExceeded."""
        return self._takes(wish, lambda asked: asked.table.states) > 0

    def _takes(self, wish: Wish, states: Callable[[Fit], Iterable[NodeState]]) -> int:
        """How many of the nodes can take the pod, of those that kube-scheduler tries: 0 if one ends the attempt."""
        try:
            asked = self.fit(wish)
            takers = (state for state in states(asked) if asked.refusal(state) is None)
            return sum(1 for _ in islice(takers, _FEASIBLE if wish.claims else 1))
        except DeadlineExceeded:
            raise
        except (FilterError, FatalError):
            return 0

    def codes(self, wish: Wish, node: str) -> frozenset[str]:
        """The reasons of the filters that refuse the node, or fail. Raises FatalError, DeadlineExceeded."""
        asked, codes = self.fit(wish), set[str]()
        try:
            codes.update(refusal.code for refusal in asked.refusals(asked.state(node)))
        except FilterError as error:
            codes.add(error.code)
        return frozenset(codes)

    def shortage(self, wish: Wish, node: str) -> Mapping[str, int]:
        """How much too little the node has left for the pod, by resource. Raises FatalError."""
        asked = self.fit(wish)
        room = next(part.attempt for part in asked.parts if isinstance(part.attempt, ResourcesAttempt))
        return room.shortage(asked.state(node))

    def allocations(self, wish: Wish, node: str) -> Iterable[AllocationResult]:
        """What the wish's unallocated claims would get on a node that fits. Raises FatalError, FilterError."""
        options = FitOptions(self.features, interrupt=self.interrupt)
        answer = fits(wish.pod, node, self.model.changed(wish.claims), options)
        return answer.allocations.values() if isinstance(answer, Fits) else ()
