"""InterPodAffinity: pods that must, must not, or would rather share a topology domain with other pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import LabelSelector, Node, Pod, PodAffinity, PodAffinityTerm
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal

POD_AFFINITY: Final = "PodAffinityMismatch"
"""A required pod affinity or anti-affinity excludes the node: the pod's own, or that of a pod that runs there."""
NO_AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_OF_ONE_NODE: Final = {
    NO_AFFINITY: "no pod that its affinity requires runs in the node's domain",
    ANTI_AFFINITY: "a pod that its anti-affinity excludes runs in the node's domain",
    EXISTING: "a pod in the node's domain excludes it by anti-affinity",
}

NamespaceLabels = Callable[[str], Mapping[str, str]]
"""Namespace -> its labels; none for one that isn't there."""

_REMEMBERED: Final = 20_000
"""Pods whose terms are remembered."""
_REQUIRED_BY_OTHERS: Final = 1
"""The weight of others' required terms that match the waiting pod (hardPodAffinityWeight)."""

DomainValue = tuple[str, str]
"""A node label and its value."""


@dataclass(frozen=True)
class AffinityTerm:
    """A term of one pod. ``namespaces``: those it names, or the pod's own."""

    key: str
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None

    @classmethod
    def from_term(cls, term: PodAffinityTerm, owner: Pod) -> AffinityTerm:
        named = frozenset(term.namespaces)
        own = frozenset({owner.namespace}) if not named and term.namespace_selector is None else named
        return cls(term.topology_key, term.label_selector, own, term.namespace_selector)

    def matches(self, pod: Pod, labels_of: NamespaceLabels) -> bool:
        if self.selector is None or not self.selector.matches(pod.metadata.labels):
            return False
        if pod.namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(labels_of(pod.namespace))


@dataclass(frozen=True)
class PodTerms:
    """The terms of one pod. ``preferred``: with its weight, below zero for a domain that the pod would rather avoid."""

    wanted: tuple[AffinityTerm, ...] = ()
    unwanted: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[AffinityTerm, int], ...] = ()

    @classmethod
    def from_pod(cls, pod: Pod) -> PodTerms:
        given = pod.spec.affinity
        if given is None or (given.pod_affinity is None and given.pod_anti_affinity is None):
            return NO_TERMS
        to, against = given.pod_affinity or PodAffinity(), given.pod_anti_affinity or PodAffinity()
        return cls(
            tuple([AffinityTerm.from_term(term, pod) for term in to.required]),
            tuple([AffinityTerm.from_term(term, pod) for term in against.required]),
            (
                *[
                    (AffinityTerm.from_term(weighted.pod_affinity_term, pod), weighted.weight)
                    for weighted in to.preferred
                ],
                *[
                    (AffinityTerm.from_term(weighted.pod_affinity_term, pod), -weighted.weight)
                    for weighted in against.preferred
                ],
            ),
        )


NO_TERMS = PodTerms()


class TermsOfPods:
    """The terms of the pods that are there, read once for each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Pod, PodTerms]] = {}
        """By UID."""

    def of(self, pod: Pod) -> PodTerms:
        if pod.spec.affinity is None:
            return NO_TERMS
        read_of, terms = self._known.get(pod.metadata.uid, (None, NO_TERMS))
        if read_of is not pod:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            terms = PodTerms.from_pod(pod)
            self._known[pod.metadata.uid] = pod, terms
        return terms


def _all(terms: Sequence[AffinityTerm], pod: Pod, labels_of: NamespaceLabels) -> bool:
    """Whether one pod matches every term; no pod matches no terms."""
    return bool(terms) and all(term.matches(pod, labels_of) for term in terms)


class InterPodAffinity(SchedulingPlugin):
    """The plugin for affinity and anti-affinity between pods: ``knows_all_pods``: False where others than the table's
    may run."""

    name = "InterPodAffinity"
    scope = FilterScope.RELATIONS
    weight = 2

    def __init__(self, table: NodeTable, labels_of: NamespaceLabels, *, knows_all_pods: bool = True) -> None:
        self.table = table
        self.labels_of = labels_of
        self.knows_all_pods = knows_all_pods
        self.terms = TermsOfPods()

    @property
    def hints(self) -> tuple[Hint, ...]:
        pods = {ClusterEvent.ASSIGNED_POD_ADD, ClusterEvent.ASSIGNED_POD_LABELS, ClusterEvent.ASSIGNED_POD_DELETE}
        return (
            Hint(frozenset(pods), self._pod_helps),
            Hint(frozenset({ClusterEvent.TARGET_POD_LABELS})),
            Hint(frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABELS}), _node_helps),
        )

    def attempt(self, pod: Pod) -> PluginAttempt | None:
        own = PodTerms.from_pod(pod)
        return _AffinityAttempt(self, pod, own) if own is not NO_TERMS or self.table.relating else None

    def _pod_helps(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        own = PodTerms.from_pod(pod)

        def hated(other: Pod) -> bool:
            return any(term.matches(other, self.labels_of) for term in own.unwanted)

        if old is not None and new is not None:
            comes = not _all(own.wanted, old, self.labels_of) and _all(own.wanted, new, self.labels_of)
            return comes or (hated(old) and not hated(new))
        if new is not None:
            return _all(own.wanted, new, self.labels_of)
        return old is not None and (
            hated(old) or any(term.matches(pod, self.labels_of) for term in PodTerms.from_pod(old).unwanted)
        )


class _NodePart:
    """What the pods of one node contribute: by domain label, how many match."""

    __slots__ = ("existing", "hated", "liked")

    def __init__(self, plugin: InterPodAffinity, pod: Pod, own: PodTerms, present: Iterable[Pod]) -> None:
        self.liked = 0
        self.hated: dict[str, int] = {}
        self.existing: dict[str, int] = {}
        for other in present:
            self.liked += _all(own.wanted, other, plugin.labels_of)
            for term in own.unwanted:
                if term.matches(other, plugin.labels_of):
                    self.hated[term.key] = self.hated.get(term.key, 0) + 1
            for term in plugin.terms.of(other).unwanted:
                if term.matches(pod, plugin.labels_of):
                    self.existing[term.key] = self.existing.get(term.key, 0) + 1


class _AffinityAttempt(PluginAttempt):
    of_one_node = _OF_ONE_NODE

    def __init__(self, plugin: InterPodAffinity, pod: Pod, own: PodTerms) -> None:
        self._plugin, self._pod, self._own = plugin, pod, own
        self.scores_nodes = bool(own.preferred or plugin.table.relating)
        self._keys = tuple(dict.fromkeys(term.key for term in own.wanted))
        self._liked: dict[DomainValue, int] = {}
        self._hated: dict[DomainValue, int] = {}
        self._existing: dict[DomainValue, int] = {}
        self._parts: dict[str, tuple[int, _NodePart]] = {}
        """By node, with the revision of its state."""
        for state in plugin.table.states if own.wanted or own.unwanted else plugin.table.relating:
            part = _NodePart(plugin, pod, own, state.pods.values())
            self._parts[state.name] = state.revision, part
            self._add(state.node, part, 1)

    def _add(self, node: Node, part: _NodePart, by: int) -> None:
        labels = node.metadata.labels
        if part.liked:
            for key in self._keys:
                if key in labels:
                    self._liked[key, labels[key]] = self._liked.get((key, labels[key]), 0) + by * part.liked
        for counts, of_node in ((self._hated, part.hated), (self._existing, part.existing)):
            for key, number in of_node.items():
                if key in labels:
                    counts[key, labels[key]] = counts.get((key, labels[key]), 0) + by * number

    def filter(self, state: NodeState) -> FilterRefusal | None:
        revision, part = self._parts.get(state.name, (state.revision, None))
        if part is None or revision == state.revision:
            return self._judged(state.node)
        supposed = _NodePart(self._plugin, self._pod, self._own, state.pods.values())
        self._add(state.node, part, -1)
        self._add(state.node, supposed, 1)
        try:
            return self._judged(state.node)
        finally:
            self._add(state.node, supposed, -1)
            self._add(state.node, part, 1)

    def _judged(self, node: Node) -> FilterRefusal | None:
        labels = node.metadata.labels
        if self._own.wanted and not self._likes(labels):
            return FilterRefusal(InterPodAffinity.name, (NO_AFFINITY,), code=POD_AFFINITY)
        if any(
            self._hated.get((term.key, labels.get(term.key, "")), 0) > 0
            for term in self._own.unwanted
            if term.key in labels
        ):
            return FilterRefusal(InterPodAffinity.name, (ANTI_AFFINITY,), resolvable=True, code=POD_AFFINITY)
        if any(number > 0 and labels.get(key) == value for (key, value), number in self._existing.items()):
            return FilterRefusal(InterPodAffinity.name, (EXISTING,), resolvable=True, code=POD_AFFINITY)
        return None

    def _likes(self, labels: Mapping[str, str]) -> bool:
        """All terms hold in the node's domains; the first pod of a series that wants itself may begin anywhere."""
        if any(key not in labels for key in self._keys):
            return False
        if not self._plugin.knows_all_pods or all(self._liked.get((key, labels[key]), 0) > 0 for key in self._keys):
            return True
        return not any(number > 0 for number in self._liked.values()) and _all(
            self._own.wanted, self._pod, self._plugin.labels_of
        )

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """The weights of the terms that a pod in the node's domains matches, scaled from 0 to 100."""
        pulls = self._pulls()
        raw = [
            sum([values.get(labels[key], 0) for key, values in pulls.items() if key in labels])
            for labels in (state.node.metadata.labels for state in states)
        ]
        least, most = min(raw), max(raw)
        return [int(100 * ((number - least) / (most - least))) for number in raw] if most > least else [0] * len(raw)

    def _pulls(self) -> Mapping[str, Mapping[str, int]]:
        """The weights of the pod's preferences, and of what others want or prefer of it, by node label and value."""
        plugin, pulls = self._plugin, dict[str, dict[str, int]]()

        def pull(term: AffinityTerm, weight: int, other: Pod) -> None:
            if term.key in labels and term.matches(other, plugin.labels_of):
                values = pulls.setdefault(term.key, {})
                values[labels[term.key]] = values.get(labels[term.key], 0) + weight

        for state in plugin.table.states if self._own.preferred else plugin.table.relating:
            labels = state.node.metadata.labels
            for other in state.pods.values():
                for term, weight in self._own.preferred:
                    pull(term, weight, other)
                theirs = plugin.terms.of(other)
                for term in theirs.wanted:
                    pull(term, _REQUIRED_BY_OTHERS, self._pod)
                for term, weight in theirs.preferred:
                    pull(term, weight, self._pod)
        return pulls


def _node_helps(pod: Pod, old: Node | None, new: Node) -> bool:
    own = PodTerms.from_pod(pod)
    after = new.metadata.labels
    before = None if old is None else old.metadata.labels
    for term in own.wanted:
        if term.key in after and (before is None or before.get(term.key) != after[term.key]):
            return True
    return any(
        before is None or (term.key in before and before[term.key] != after.get(term.key)) for term in own.unwanted
    )
