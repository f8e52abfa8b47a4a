"""NodeResourcesFit: refuses nodes that have too little left of what a pod asks (C-7.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import PluginRefusal
from virt_dra.scheduling.pod_requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amounts, pod_requests

_STATED = (CPU, MEMORY, PODS)
_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""The resources whose texts come first."""
_EVENTS = frozenset(
    {
        ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.ASSIGNED_POD_UPDATE,
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_ALLOCATABLE,
        ClusterEvent.NODE_TAINTS,
        ClusterEvent.DEVICE_CLASS,
        ClusterEvent.TARGET_POD_UPDATE,
    }
)


@dataclass(frozen=True)
class NodeUsage:
    """What a node offers and what its pods ask of it."""

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    pods: int

    @classmethod
    def of(cls, state: NodeState) -> NodeUsage:
        requested: dict[str, int] = {}
        for pod in state.pods.values():
            for resource, number in pod_requests(pod).items():
                requested[resource] = requested.get(resource, 0) + number
        return cls(amounts(state.node.status.allocatable), requested, len(state.pods))


class NodeResourcesFit(SchedulingPlugin):
    """``served_by_dra(name)``: whether a device class serves the extended resource; on nodes without it DynamicResources decides.

    A node that states neither cpu, memory nor pods is one of a simulation that leaves its capacity out: nothing of it is counted.
    """

    name = "NodeResourcesFit"

    def __init__(self, served_by_dra: Callable[[str], bool]) -> None:
        self._served_by_dra = served_by_dra
        self._usages: dict[str, tuple[NodeState, int, NodeUsage]] = {}
        """By node, with the revision of the state that it was summed from."""

    @property
    def hints(self) -> tuple[Hint, ...]:
        return (Hint(_EVENTS),)

    def attempt(self, pod: Pod) -> PluginAttempt:
        return _ResourcesAttempt(self, pod_requests(pod))

    def usage(self, state: NodeState) -> NodeUsage:
        """Summed again only when the node or its pods changed."""
        found = self._usages.get(state.name)
        if found is None or found[0] is not state or found[1] != state.revision:
            found = self._usages[state.name] = (state, state.revision, NodeUsage.of(state))
        return found[2]

    def left_to_dra(self, resource: str, usage: NodeUsage) -> bool:
        """Whether devices serve the resource there: a device plugin with something to offer comes first."""
        return not usage.allocatable.get(resource) and self._served_by_dra(resource)


class _ResourcesAttempt(PluginAttempt):
    def __init__(self, plugin: NodeResourcesFit, requests: Mapping[str, int]) -> None:
        self._plugin = plugin
        others = sorted(resource for resource in requests if resource not in _FIRST)
        self._requests = {resource: requests[resource] for resource in (*_FIRST, *others) if requests.get(resource)}

    def filter(self, state: NodeState) -> PluginRefusal | None:
        """Every resource that is missing has its text. Evicting pods helps unless the node could never have served the pod."""
        usage = self._plugin.usage(state)
        if not any(resource in usage.allocatable for resource in _STATED):
            return None
        reasons: list[str] = []
        resolvable = True
        if usage.pods + 1 > usage.allocatable.get(PODS, 0):
            reasons.append("Too many pods")
        for resource, number in self._requests.items():
            offered = usage.allocatable.get(resource, 0)
            if number <= offered - usage.requested.get(resource, 0) or self._plugin.left_to_dra(resource, usage):
                continue
            reasons.append(f"Insufficient {resource}")
            resolvable = resolvable and number <= offered
        return PluginRefusal(NodeResourcesFit.name, tuple(reasons), resolvable=resolvable) if reasons else None
