"""Placing a pod on the cluster as it would be without some other pods: the proof of a preemption. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.allocator import DEFAULT, FatalError, Features, Snapshot
from virt_dra.api.core_v1 import Node, NodeSelector, Pod
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimStatus
from virt_dra.scheduling.claim_references import PODS
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger
from virt_dra.scheduling.dynamic_resources.plugin import DeviceOptions, DynamicResources
from virt_dra.scheduling.dynamic_resources.pod_devices import DeviceLimits
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt
from virt_dra.scheduling.framework.refusals import AttemptError

OtherFilters = Callable[[Pod, Node, Sequence[Pod]], bool]
"""Whether a pod fits on a node with these pods, for all filters but that for devices."""


def no_other_filters(pod: Pod, node: Node, beside: Sequence[Pod]) -> bool:
    return True


@dataclass(frozen=True)
class TrialCluster:
    """The cluster as it is: ``pods`` are all that there are, ``claims`` by ``namespace/name``."""

    nodes: tuple[Node, ...]
    claims: Mapping[str, ResourceClaim]
    snapshot: Snapshot
    pods: tuple[Pod, ...]
    features: Features = DEFAULT
    other_filters: OtherFilters = no_other_filters
    workload_claims: bool = False


class PreemptionTrial:
    """The trials for one pod. ``may_go``: whether another pod may be evicted for it. ``budget``: placements."""

    def __init__(self, pod: Pod, cluster: TrialCluster, may_go: Callable[[Pod], bool], budget: int) -> None:
        self._pod, self._cluster, self._budget = pod, cluster, budget
        self.tried = 0
        """Trials so far."""
        self._nodes = {node.name: node for node in cluster.nodes}
        others = [other for other in cluster.pods if other.metadata.uid != pod.metadata.uid]
        existing = {present.metadata.uid for present in (pod, *cluster.pods)}
        self._going = frozenset(
            {other.metadata.uid for other in others if other.metadata.deletion_timestamp is not None or other.finished}
            | {
                consumer.uid
                for claim in cluster.claims.values()
                for consumer in claim.status.reserved_for
                if consumer.uid not in existing
            }
        )
        """Pods that release their devices without eviction: those that end, and those deleted already (C-10.9)."""
        self._on_node: dict[str, list[Pod]] = {}
        for other in others:
            if other.spec.node_name:
                self._on_node.setdefault(other.spec.node_name, []).append(other)
        self._evictable = {
            other.metadata.uid: other
            for other in others
            if other.spec.node_name and other.metadata.uid not in self._going and may_go(other)
        }
        self._own = frozenset(pod.claim_keys)
        self._claims_of: dict[str, list[ResourceClaim]] = {}
        self._remote: list[tuple[NodeMatcher | None, tuple[Pod, ...]]] = []
        for claim in cluster.claims.values():
            self._learn(claim)

    def _learn(self, claim: ResourceClaim) -> None:
        """Records which evictions would release the claim: those of all its consumers, if all are pods."""
        allocation = claim.status.allocation
        consumers = claim.status.reserved_for
        if (
            allocation is None
            or not consumers
            or any((consumer.api_group, consumer.resource) != ("", PODS) for consumer in consumers)
        ):
            return
        for consumer in consumers:
            self._claims_of.setdefault(consumer.uid, []).append(claim)
        users = [self._evictable.get(consumer.uid) for consumer in consumers if consumer.uid not in self._going]
        selector = allocation.node_selector
        if users and all(user is not None for user in users) and not _names_a_node(selector):
            try:
                matcher = None if selector is None else NodeMatcher(selector)
            except NodeSelectorError:
                return
            self._remote.append((matcher, tuple(user for user in users if user is not None)))

    @property
    def nodes(self) -> Iterable[str]:
        return self._nodes

    @property
    def is_waiting(self) -> bool:
        """Whether pods are going anyway."""
        return bool(self._going)

    @property
    def is_spent(self) -> bool:
        return self.tried >= self._budget

    def candidates(self, node: str) -> tuple[Pod, ...]:
        """The pods whose eviction may help on a node: those on it, and all consumers of a claim that it can use."""
        candidates = {
            candidate.metadata.uid: candidate
            for candidate in self._on_node.get(node, ())
            if candidate.metadata.uid in self._evictable
        }
        for matcher, users in self._remote:
            if matcher is None or matcher.matches(self._nodes[node]):
                candidates.update({user.metadata.uid: user for user in users})
        return tuple(candidates.values())

    def fits(self, node: str, victims: frozenset[str]) -> bool:
        """Whether the pod can be placed on a node when these pods, and those that are going, are gone."""
        gone = victims | self._going
        machine = self._nodes[node]
        beside = [other for other in self._on_node.get(node, ()) if other.metadata.uid not in gone]
        self.tried += 1
        if not self._cluster.other_filters(self._pod, machine, beside):
            return False
        try:
            attempt = self._without(gone).attempt(self._pod)
            if attempt is None:
                return True
            return isinstance(attempt, PluginAttempt) and attempt.filter(NodeState(machine)) is None
        except (AttemptError, FatalError):
            return False

    def _without(self, gone: frozenset[str]) -> DynamicResources:
        """The filter for devices once these pods are gone."""
        cluster = self._cluster
        released = {claim.key: claim for claim in self._released(gone)}
        allocations = [claim.status.allocation for claim in released.values() if claim.status.allocation is not None]
        shared = {key: claim.with_(status=ResourceClaimStatus()) for key, claim in released.items() if key in self._own}
        claims = {**cluster.claims, **shared} if shared else cluster.claims
        snapshot = cluster.snapshot.without_allocation(*allocations) if allocations else cluster.snapshot
        limits = DeviceLimits(cluster.features)
        options = DeviceOptions(limits=lambda: limits, workload_claims=cluster.workload_claims)
        return DynamicResources(claims, DeviceLedger.holding(snapshot), lambda claim: (), options)

    def _released(self, gone: frozenset[str]) -> Iterator[ResourceClaim]:
        for uid in sorted(gone):
            for claim in self._claims_of.get(uid, ()):
                if all(consumer.uid in gone for consumer in claim.status.reserved_for):
                    yield claim


def _names_a_node(selector: NodeSelector | None) -> bool:
    """Whether a selector selects one node by its name: consumers of such a claim are on that node."""
    terms = selector.node_selector_terms if selector is not None else ()
    return len(terms) == 1 and any(
        field.key == "metadata.name" and field.operator == "In" for field in terms[0].match_fields
    )
