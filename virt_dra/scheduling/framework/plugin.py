"""The shape of a plugin. Both classes agree to everything: a plugin overrides what it has an opinion on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.scheduling.framework.events import Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason


class FilterScope(Enum):
    """What a filter's answer about a node depends on, besides the pod: whoever asks often keeps answers accordingly."""

    NODE = auto()
    """The node object alone."""
    ROOM = auto()
    """What the pods of the node ask for."""
    DEVICES = auto()
    """The devices that the node reaches, and who uses them."""
    RELATIONS = auto()
    """The pods of all nodes, as far as one of them has host ports, affinity to pods or topology spread."""
    CLUSTER = auto()
    """Anything."""


@dataclass(frozen=True)
class Remedy:
    """A write after which the pod may become schedulable (PostFilter, C-5.6). ``text``: for the condition."""

    text: str
    deallocate: ResourceClaim | None = None
    delete: ResourceClaim | None = None


class PluginAttempt:
    """A plugin's part in one attempt for one pod: what it prepared in PreFilter. Methods may raise AttemptError."""

    only_nodes: frozenset[str] | None = None
    """The only nodes on which the pod can fit; None: unrestricted."""
    scores_nodes = False
    """Whether :meth:`scores` distinguishes nodes for this pod."""
    of_one_node: ClassVar[Mapping[str, str]] = {}
    """The reasons of refusals in words for one node, where these differ."""

    def filter(self, state: NodeState) -> FilterRefusal | None:
        """Why the pod doesn't fit on the node."""
        return None

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        """All reasons why the pod doesn't fit on the node; empty if it fits."""
        refusal = self.filter(state)
        if refusal is not None:
            yield from (Reason(refusal.code, self.of_one_node.get(text, text)) for text in refusal.reasons)

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """0 (worst) to 100 (best) for each of the nodes, which all fit."""
        return [0] * len(states)

    def remedy(self) -> Remedy | None:
        """What may help a pod that fits nowhere; after all nodes were filtered."""
        return None

    def reserve(self, node: str) -> None:
        """Reserves what the pod gets on the node, for later attempts to see; if it raises, nothing is reserved."""

    def unreserve(self) -> None:
        """The reverse of :meth:`reserve`."""


class SchedulingPlugin:
    """A plugin of the scheduler. ``weight`` of its scores. ``hints``: what wakes pods that it refused."""

    name = ""
    weight = 1
    scope = FilterScope.CLUSTER

    @property
    def hints(self) -> tuple[Hint, ...]:
        return ()

    def pre_enqueue(self, pod: Pod) -> FilterRefusal | None:
        """Why the pod shouldn't even be tried now: no condition, no event, until a hint wakes it."""
        return None

    def attempt(self, pod: Pod) -> PluginAttempt | FilterRefusal | None:
        """PreFilter: its part in an attempt, a refusal for all nodes, or None. May raise AttemptError."""
        return None


def normalized(raw: Sequence[int]) -> Sequence[int]:
    """Scores from 0 to 100, the highest of them 100."""
    highest = max(raw, default=0)
    return [score * 100 // highest for score in raw] if highest else list(raw)
