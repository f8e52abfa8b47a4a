"""PodTopologySpread: pods that a selector selects are spread over the domains of a node label, with a limited skew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log
from typing import Final

from virt_dra.api.core_v1 import LabelSelector, Node, NodeSelectorRequirement, Pod, TopologySpreadConstraint
from virt_dra.scheduling.filters.node_affinity import NodeSelection
from virt_dra.scheduling.filters.taints import untolerated
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal

SPREAD: Final = "TopologySpreadMismatch"
"""A topology spread constraint with `DoNotSchedule` excludes the node."""
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"
_OF_ONE_NODE: Final = {
    NO_LABEL: "it lacks a label of the topology spread constraints",
    SKEWED: "one more pod in the node's domain would exceed maxSkew of a topology spread constraint",
}
_HARD = "DoNotSchedule"
_SOFT = "ScheduleAnyway"
_HOSTNAME = "kubernetes.io/hostname"
_HONOR = "Honor"


@dataclass(frozen=True)
class SpreadConstraint:
    """A constraint as the plugin counts: ``selector`` with the pod's own values of ``matchLabelKeys``."""

    key: str
    max_skew: int
    min_domains: int
    selector: LabelSelector
    honors_affinity: bool
    honors_taints: bool

    def counts(self, pod: Pod, namespace: str) -> bool:
        """Whether a pod on a node counts. Pods that are being deleted don't; an empty selector matches no pod here."""
        return (
            pod.namespace == namespace
            and pod.metadata.deletion_timestamp is None
            and not self.selector.selects_everything
            and self.selector.matches(pod.metadata.labels)
        )


def hard_constraints(pod: Pod) -> tuple[SpreadConstraint, ...]:
    """The constraints that must hold."""
    return _constraints(pod, _HARD)


def _constraints(pod: Pod, action: str) -> tuple[SpreadConstraint, ...]:
    return tuple(
        [
            _constraint(constraint, pod)
            for constraint in pod.spec.topology_spread_constraints
            if constraint.when_unsatisfiable == action
        ]
    )


def _constraint(given: TopologySpreadConstraint, pod: Pod) -> SpreadConstraint:
    selector = given.label_selector
    if selector is None:
        selector = LabelSelector(match_expressions=(NodeSelectorRequirement(operator="Nothing"),))
    else:
        own = {key: pod.metadata.labels[key] for key in given.match_label_keys if key in pod.metadata.labels}
        if own:
            selector = selector.with_(match_labels={**selector.match_labels, **own})
    min_domains = 1 if given.min_domains is None else given.min_domains
    honors = (given.node_affinity_policy or _HONOR) == _HONOR, given.node_taints_policy == _HONOR
    return SpreadConstraint(given.topology_key, given.max_skew, min_domains, selector, *honors)


class PodTopologySpread(SchedulingPlugin):
    """The constraints that must hold, and those that are preferences. Services, ReplicaSets and StatefulSets aren't
    spread."""

    name = "PodTopologySpread"
    scope = FilterScope.RELATIONS
    weight = 2

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    @property
    def hints(self) -> tuple[Hint, ...]:
        pods = {ClusterEvent.ASSIGNED_POD_ADD, ClusterEvent.ASSIGNED_POD_LABELS, ClusterEvent.ASSIGNED_POD_DELETE}
        nodes = {ClusterEvent.NODE_ADD, ClusterEvent.NODE_DELETE, ClusterEvent.NODE_LABELS, ClusterEvent.NODE_TAINTS}
        return (
            Hint(frozenset(pods), _pod_helps),
            Hint(frozenset({ClusterEvent.TARGET_POD_TOLERATIONS, ClusterEvent.TARGET_POD_LABELS}), _change_helps),
            Hint(frozenset(nodes), _node_helps),
        )

    def attempt(self, pod: Pod) -> PluginAttempt | None:
        hard, soft = hard_constraints(pod), _constraints(pod, _SOFT)
        return _SpreadAttempt(pod, hard, soft, self._table) if hard or soft else None


class _SpreadAttempt(PluginAttempt):
    of_one_node = _OF_ONE_NODE

    def __init__(
        self, pod: Pod, constraints: Sequence[SpreadConstraint], preferred: Sequence[SpreadConstraint], table: NodeTable
    ) -> None:
        self._pod = pod
        self._constraints = constraints
        self._preferred = preferred
        self._table = table
        self.scores_nodes = bool(preferred)
        self._selection = NodeSelection(pod)
        self._domains: list[dict[str, int]] = [{} for _ in constraints]
        """By constraint: domain -> pods that count."""
        self._own: list[dict[str, int]] = [{} for _ in constraints]
        """By constraint: node -> its part."""
        for state in table.states if constraints else ():
            labels = state.node.metadata.labels
            if not _has_all(constraints, labels):
                continue
            for number, constraint in enumerate(constraints):
                if self._eligible(constraint, state.node):
                    count = self._count(constraint, state)
                    domains = self._domains[number]
                    domains[labels[constraint.key]] = domains.get(labels[constraint.key], 0) + count
                    self._own[number][state.name] = count

    def filter(self, state: NodeState) -> FilterRefusal | None:
        labels = state.node.metadata.labels
        for number, constraint in enumerate(self._constraints):
            domain = labels.get(constraint.key)
            if domain is None:
                return FilterRefusal(PodTopologySpread.name, (NO_LABEL,), code=SPREAD)
            domains = self._domains[number]
            before = self._own[number].get(state.name)
            if before is not None and (now := self._count(constraint, state)) != before:
                domains = {**domains, domain: domains[domain] + now - before}  # a state that is only supposed
            least = min(domains.values(), default=2**31 - 1) if len(domains) >= constraint.min_domains else 0
            itself = int(constraint.selector.matches(self._pod.metadata.labels))
            if domains.get(domain, 0) + itself - least > constraint.max_skew:
                return FilterRefusal(PodTopologySpread.name, (SKEWED,), resolvable=True, code=SPREAD)
        return None

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """The fewer pods count in a node's domains, the more; nodes without one of the labels get nothing."""
        scored = [_has_all(self._preferred, state.node.metadata.labels) for state in states]
        weighted = [
            self._weighted(constraint, [state for state, is_scored in zip(states, scored, strict=True) if is_scored])
            for constraint in self._preferred
        ]
        raw = [
            floor(sum([values(state) for values in weighted]) + 0.5) if is_scored else None
            for state, is_scored in zip(states, scored, strict=True)
        ]
        numbers = [number for number in raw if number is not None]
        least, most = min(numbers, default=0), max(numbers, default=0)
        return [0 if number is None else 100 * (most + least - number) // most if most else 100 for number in raw]

    def _weighted(self, constraint: SpreadConstraint, candidates: Sequence[NodeState]) -> Callable[[NodeState], float]:
        """What the constraint adds to a candidate's count. A label with many values weighs more."""
        key = constraint.key
        if key == _HOSTNAME:
            weight = log(len(candidates) + 2)
            return lambda state: self._count(constraint, state) * weight + constraint.max_skew - 1
        counts = {state.node.metadata.labels[key]: 0 for state in candidates}
        for state in self._table.states:
            labels = state.node.metadata.labels
            if (
                labels.get(key) in counts
                and _has_all(self._preferred, labels)
                and self._eligible(constraint, state.node)
            ):
                counts[labels[key]] += self._count(constraint, state)
        weight = log(len(counts) + 2)
        return lambda state: counts[state.node.metadata.labels[key]] * weight + constraint.max_skew - 1

    def _count(self, constraint: SpreadConstraint, state: NodeState) -> int:
        return sum(constraint.counts(pod, self._pod.namespace) for pod in state.pods.values())

    def _eligible(self, constraint: SpreadConstraint, node: Node) -> bool:
        if constraint.honors_affinity and not self._selection.selects(node):
            return False
        return not (constraint.honors_taints and any(untolerated(self._pod, node)))


def _has_all(constraints: Sequence[SpreadConstraint], labels: Mapping[str, str]) -> bool:
    """Whether a node has the label of every constraint."""
    return all(constraint.key in labels for constraint in constraints)


def _pod_helps(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    states = [state for state in (old, new) if state is not None]
    if any(state.namespace != pod.namespace for state in states):
        return False
    constraints = hard_constraints(pod)
    if old is not None and new is not None:
        return _labels_help(constraints, old, new)
    return any(constraint.selector.matches(state.metadata.labels) for constraint in constraints for state in states)


def _labels_help(constraints: Sequence[SpreadConstraint], old: Pod, new: Pod) -> bool:
    before, after = old.metadata.labels, new.metadata.labels
    return before != after and any(
        constraint.selector.matches(before) != constraint.selector.matches(after) for constraint in constraints
    )


def _change_helps(pod: Pod, old: Pod, new: Pod) -> bool:
    constraints = hard_constraints(pod)
    if old.spec.tolerations != new.spec.tolerations and any(constraint.honors_taints for constraint in constraints):
        return True
    return _labels_help(constraints, old, new)


def _node_helps(pod: Pod, old: Node | None, new: Node | None) -> bool:
    constraints = hard_constraints(pod)

    def known(node: Node | None) -> bool:
        return node is not None and _has_all(constraints, node.metadata.labels)

    if old is None or new is None:
        return known(old) or known(new)
    if known(old) != known(new):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    changed = (
        any(before.get(constraint.key) != after.get(constraint.key) for constraint in constraints)
        or old.spec.taints != new.spec.taints
    )
    return known(new) and changed
