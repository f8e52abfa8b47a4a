"""NodeResourcesFit refuses nodes that have too little left of what a pod asks (C-7.9), and prefers those with more
left; BalancedAllocation prefers nodes whose cpu and memory become more evenly used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.counting import counted
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.model.extended_resources import IMPLICIT_PREFIX
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason
from virt_dra.scheduling.pod_requests import CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, PODS, amounts, pod_requests

INSUFFICIENT: Final = "InsufficientResources"
"""The node has too little left of a resource (processors, memory, pods) that the pod asks for."""
_SCORED = (CPU, MEMORY)
UNREQUESTED: Final[Mapping[str, Quantity]] = {CPU: Quantity("100m"), MEMORY: Quantity("200Mi")}
"""The amounts that a container without a request counts as in scores, so that such pods spread, too."""
_REMEMBERED: Final = 20_000
"""Pods whose requests are remembered."""
_MOST = 100
_UNITS: Final = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""The resources whose texts come first."""
_NODE_EVENTS = frozenset({ClusterEvent.NODE_ADD, ClusterEvent.NODE_ALLOCATABLE, ClusterEvent.NODE_TAINTS})
_POD_EVENTS = frozenset({ClusterEvent.ASSIGNED_POD_UPDATE, ClusterEvent.TARGET_POD_UPDATE})


@dataclass(frozen=True)
class NodeUsage:
    """What a node offers, what its pods ask of it, and what they count as in scores."""

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    scored: Mapping[str, int]
    pods: int


class _SummedNode(NamedTuple):
    """The usage of a node, and the state with its revision that it was summed from."""

    state: NodeState
    revision: int
    usage: NodeUsage


class _SummedPod(NamedTuple):
    """What a pod requests, and what it counts as in scores."""

    pod: Pod
    requested: Mapping[str, int]
    scored: Mapping[str, int]


class NodeUsages:
    """The usage of each node, summed again only when the node or its pods changed; what a pod asks for is summed once.
    Preemption asks for a node as it would be without this pod or that, once for each of its pods."""

    def __init__(self) -> None:
        self._nodes: dict[str, _SummedNode] = {}
        self._pods: dict[str, _SummedPod] = {}
        """By UID."""

    def of(self, state: NodeState) -> NodeUsage:
        node = self._nodes.get(state.name)
        if node is None or node.state is not state or node.revision != state.revision:
            node = self._nodes[state.name] = _SummedNode(state, state.revision, self._summed(state))
        return node.usage

    def _summed(self, state: NodeState) -> NodeUsage:
        requested: dict[str, int] = {}
        scored: dict[str, int] = {}
        for pod in state.pods.values():
            summed = self._pods.get(pod.metadata.uid)
            if summed is None or summed.pod is not pod:
                if len(self._pods) >= _REMEMBERED:
                    self._pods.clear()
                summed = _SummedPod(pod, pod_requests(pod), pod_requests(pod, UNREQUESTED))
                self._pods[pod.metadata.uid] = summed
            for total, more in ((requested, summed.requested), (scored, summed.scored)):
                for name, number in more.items():
                    total[name] = total.get(name, 0) + number
        return NodeUsage(amounts(state.node.status.allocatable), requested, scored, len(state.pods))


def insufficient(resources: Iterable[str], *, resolvable: bool = False) -> FilterRefusal:
    """The refusal of a node that has too little left of these resources."""
    reasons = tuple("Too many pods" if name == PODS else f"Insufficient {name}" for name in resources)
    return FilterRefusal(NodeResourcesFit.name, reasons, resolvable=resolvable, code=INSUFFICIENT)


class NodeResourcesFit(SchedulingPlugin):
    """``served_by_dra(name)``: whether a device class serves it, so that on nodes without it DynamicResources decides.
    ``listed``: as in :class:`~virt_dra.scheduling.filter_table.FilterSources`."""

    name = "NodeResourcesFit"
    scope = FilterScope.ROOM

    def __init__(
        self, usages: NodeUsages, served_by_dra: Callable[[str], bool], listed: frozenset[str] | None = None
    ) -> None:
        self.usages = usages
        self.listed = listed
        self._served_by_dra = served_by_dra

    @property
    def hints(self) -> tuple[Hint, ...]:
        return (
            Hint(frozenset({ClusterEvent.ASSIGNED_POD_DELETE})),
            Hint(_POD_EVENTS, _asks_for_less),
            Hint(_NODE_EVENTS, self._node_helps),
            Hint(frozenset({ClusterEvent.DEVICE_CLASS}), _class_helps),
        )

    def attempt(self, pod: Pod) -> PluginAttempt:
        return ResourcesAttempt(self, pod)

    def _node_helps(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Whether the pod would fit on the empty node, which offers more than before of what the pod asks for."""
        usage = NodeUsages().of(NodeState(new))
        requests = {resource: number for resource, number in pod_requests(pod).items() if number}
        delegated = {resource for resource in requests if resource not in _FIRST and self.left_to_dra(resource, usage)}
        offered = usage.allocatable
        if not offered.get(PODS) or any(
            number > offered.get(resource, 0) for resource, number in requests.items() if resource not in delegated
        ):
            return False
        before = {} if old is None else amounts(old.status.allocatable)
        return (
            old is None
            or bool(delegated)
            or any(offered.get(resource, 0) > before.get(resource, 0) for resource in (PODS, *requests))
        )

    def left_to_dra(self, resource: str, usage: NodeUsage) -> bool:
        """Whether devices serve the resource there: a device plugin with something to offer comes first."""
        return not usage.allocatable.get(resource) and self._served_by_dra(resource)


def _asks_for_less(pod: Pod, old: Pod, new: Pod) -> bool:
    """Whether a changed pod, the waiting one or one with a node, asks for less of what the waiting one wants."""
    wanted, before, after = pod_requests(pod), pod_requests(old), pod_requests(new)
    own = pod.metadata.uid == new.metadata.uid
    return any(after.get(resource, 0) < number for resource, number in before.items() if own or wanted.get(resource))


def _class_helps(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> bool:
    """Whether a class got a resource name that the pod asks for; the implicit one it has from the beginning (C-7.9)."""
    names = {new.spec.extended_resource_name} if new.spec.extended_resource_name else set()
    if old is None:
        names.add(IMPLICIT_PREFIX + new.name)
    elif old.spec.extended_resource_name == new.spec.extended_resource_name:
        return False
    return not names.isdisjoint(pod_requests(pod))


class ResourcesAttempt(PluginAttempt):
    """What one pod asks of nodes."""

    scores_nodes = True

    def __init__(self, plugin: NodeResourcesFit, pod: Pod) -> None:
        self._plugin = plugin
        requests, self._scored = pod_requests(pod), pod_requests(pod, UNREQUESTED)
        others = sorted(resource for resource in requests if resource not in _FIRST)
        self._requests = {PODS: 1} | {name: requests[name] for name in (*_FIRST, *others) if requests.get(name)}

    def filter(self, state: NodeState) -> FilterRefusal | None:
        """Every missing resource has its text. Evicting helps unless the node could never have served the pod."""
        shortage = self.shortage(state)
        if not shortage:
            return None
        offered = self._plugin.usages.of(state).allocatable
        resolvable = all(name == PODS or self._requests[name] <= offered.get(name, 0) for name in shortage)
        return insufficient(shortage, resolvable=resolvable)

    def reasons(self, state: NodeState) -> Iterator[Reason]:
        for resource, number in sorted(self.shortage(state).items()):
            little = "too many pods" if resource == PODS else f"too little {resource}"
            yield Reason(INSUFFICIENT, little, f"{amount_in_words(resource, number)} short")

    def shortage(self, state: NodeState) -> Mapping[str, int]:
        """How much too little the node has left for the pod, by resource; pods first."""
        usage, listed = self._plugin.usages.of(state), self._plugin.listed
        if listed is not None and not usage.allocatable:
            return {}
        missing: dict[str, int] = {}
        for resource, number in self._requests.items():
            used = usage.pods if resource == PODS else usage.requested.get(resource, 0)
            left = usage.allocatable.get(resource, 0) - used
            if number <= left or (listed is not None and resource not in listed):
                continue
            if not self._plugin.left_to_dra(resource, usage):
                missing[resource] = number - left
        return missing

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """LeastAllocated: the mean of what is left of cpu and memory, in hundredths."""
        return [self._left(self._plugin.usages.of(state)) for state in states]

    def _left(self, usage: NodeUsage) -> int:
        shares = []
        for resource in _SCORED:
            offered = usage.allocatable.get(resource, 0)
            if offered:
                used = usage.scored.get(resource, 0) + self._scored.get(resource, 0)
                shares.append(max(offered - used, 0) * _MOST // offered)
        return sum(shares) // len(shares) if shares else 0


def amount_text(resource: str, number: int) -> str:
    """``2Gi``, ``1500m``: the number of a resource as in manifests, bytes rounded up to three digits: ``1012Gi``."""
    if resource == CPU:
        return f"{number}m" if number % 1000 else str(number // 1000)
    if not _is_in_bytes(resource) or number < 1024:
        return str(number)
    for suffix, size in _UNITS:
        if number % size == 0 and number < 10_000 * size:
            return f"{number // size}{suffix}"
    suffix, size = next(unit for unit in _UNITS if unit[1] <= number)
    places = 2 if number < 10 * size else 1 if number < 100 * size else 0
    whole, part = divmod(-(-number * 10**places // size), 10**places)
    return f"{whole}.{part:0{places}}".rstrip("0").rstrip(".") + suffix


def amount_in_words(resource: str, number: int) -> str:
    """``62 CPUs``, ``500m of a CPU``, ``2Gi of memory``, ``1 pod``, ``2 of example.com/gpu``."""
    if resource == PODS:
        return counted(number, "pod")
    if resource == CPU:
        return f"{number}m of a CPU" if number % 1000 else counted(number // 1000, "CPU")
    small = _is_in_bytes(resource) and number < 1024
    return f"{counted(number, 'byte') if small else amount_text(resource, number)} of {resource}"


def _is_in_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES)


class BalancedAllocation(SchedulingPlugin):
    """Takes no part for pods that request neither cpu nor memory."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, usages: NodeUsages) -> None:
        self._usages = usages

    def attempt(self, pod: Pod) -> PluginAttempt | None:
        requests = pod_requests(pod)
        return _BalanceAttempt(self._usages, requests) if any(requests.get(resource) for resource in _SCORED) else None


class _BalanceAttempt(PluginAttempt):
    scores_nodes = True

    def __init__(self, usages: NodeUsages, requests: Mapping[str, int]) -> None:
        self._usages, self._requests = usages, requests

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """50 for a node that becomes less balanced, 75 without a difference, 100 for one that becomes more balanced."""
        return [self._improvement(self._usages.of(state)) for state in states]

    def _improvement(self, usage: NodeUsage) -> int:
        before = _balance(usage.requested, usage.allocatable)
        after = _balance(
            {resource: usage.requested.get(resource, 0) + self._requests.get(resource, 0) for resource in _SCORED},
            usage.allocatable,
        )
        return _MOST // 2 + int((_MOST // 2 + after - before) / 2)


def _balance(used: Mapping[str, int], offered: Mapping[str, int]) -> int:
    """100 less the standard deviation of the used fractions of cpu and memory, in hundredths."""
    fractions = [min(used.get(resource, 0) / offered[resource], 1.0) for resource in _SCORED if offered.get(resource)]
    return int((1 - abs(fractions[0] - fractions[1]) / 2) * _MOST) if len(fractions) == len(_SCORED) else _MOST
