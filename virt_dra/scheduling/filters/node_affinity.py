"""NodeAffinity: refuses nodes that nodeSelector or required terms exclude, and prefers those of preferred terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from virt_dra.api.core_v1 import Node, NodeSelector, Pod
from virt_dra.api.policies.node_selection import NodeMatcher
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin, normalized
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason

AFFINITY: Final = "NodeAffinityMismatch"
"""`spec.nodeSelector` or the required node affinity excludes the node."""

_EVENTS: Final = frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABELS})
_REFUSAL: Final = FilterRefusal("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), code=AFFINITY)


CONFLICT: Final = "pod affinity terms conflict"
"""No node has all the names that a required term asks for."""


class NodeSelection:
    """The nodes that a pod selects, its affinity read once. Faulty terms select nothing, as in kube-scheduler."""

    def __init__(self, pod: Pod) -> None:
        self._selector = pod.spec.node_selector
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity.required if affinity else None
        self._required = None if required is None else NodeMatcher(required, lenient=True)
        self.names = None if required is None else _names_of(required)
        """The nodes that the required terms name, one of which it must be; None unless every term names some."""
        self._preferred = tuple(
            (term.weight, NodeMatcher(NodeSelector(node_selector_terms=(term.preference,)), lenient=True))
            for term in (affinity.preferred if affinity else ())
        )

    def selects(self, node: Node) -> bool:
        """Whether the pod may run on the node, as far as its nodeSelector and required terms say."""
        return not self.missing_labels(node) and (self._required is None or self._required.matches(node))

    def missing_labels(self, node: Node) -> Mapping[str, str]:
        """The labels of the pod's nodeSelector that the node doesn't have."""
        labels = node.metadata.labels
        return {key: value for key, value in self._selector.items() if labels.get(key) != value}

    @property
    def prefers_nodes(self) -> bool:
        return bool(self._preferred)

    def preference(self, node: Node) -> int:
        """The sum of the weights of the preferred terms that select the node."""
        return sum(weight for weight, term in self._preferred if term.matches(node))


def _names_of(required: NodeSelector) -> frozenset[str] | None:
    names = frozenset[str]()
    for term in required.node_selector_terms:
        asked = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not asked:
            return None
        names |= frozenset.intersection(*asked)
    return names if required.node_selector_terms else None


class NodeAffinityFilter(SchedulingPlugin):
    """Refuses nodes that the pod doesn't select."""

    name = "NodeAffinity"
    scope = FilterScope.NODE
    weight = 2

    hints = (Hint(_EVENTS, lambda pod, old, new: not isinstance(new, Node) or NodeSelection(pod).selects(new)),)

    def attempt(self, pod: Pod) -> PluginAttempt | FilterRefusal | None:
        selection = NodeSelection(pod)
        wants_nothing = not pod.spec.node_selector and (
            pod.spec.affinity is None or pod.spec.affinity.node_affinity is None
        )
        if selection.names is not None and not selection.names:
            return FilterRefusal(self.name, (CONFLICT,), code=AFFINITY)
        return None if wants_nothing else _Attempt(selection)


class _Attempt(PluginAttempt):
    def __init__(self, selection: NodeSelection) -> None:
        self._selection = selection
        self.only_nodes = selection.names
        self.scores_nodes = selection.prefers_nodes

    def filter(self, state: NodeState) -> FilterRefusal | None:
        return None if self._selection.selects(state.node) else _REFUSAL

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        if self._selection.selects(state.node):
            return
        missing = sorted(self._selection.missing_labels(state.node).items())
        labels = ", ".join(f"{key}={value}" for key, value in missing)
        yield Reason(
            AFFINITY,
            f"without the {'label' if len(missing) == 1 else 'labels'} {labels} of the nodeSelector"
            if missing
            else "excluded by the node affinity",
        )

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        return normalized([self._selection.preference(state.node) for state in states])
