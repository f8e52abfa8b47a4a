"""What keeps a pod off one node: of the node itself, and of the devices that it reaches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from virt_dra.allocator import DeadlineExceeded, Explanation, NodeError
from virt_dra.allocator.explain import ELSEWHERE, NO_DEVICES, TOO_FEW, TOO_MANY
from virt_dra.allocator.features import REASONS, SELECTION_REASONS
from virt_dra.allocator.features.compatibility_groups import INCOMPATIBLE
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.selectors import MISMATCH
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.model import DeviceId, PoolDevice, Rejection
from virt_dra.allocator.pools import INCOMPLETE, INVALID
from virt_dra.api.core_v1 import Node, Taint
from virt_dra.api.quantity import Quantity
from virt_dra.api.tolerations import tolerates
from virt_dra.scheduling.dynamic_resources.pod_devices import CLAIM_ELSEWHERE, DEVICES, NODE_ERROR, PodDevices
from virt_dra.scheduling.node_fit import AFFINITY, UNSCHEDULABLE, PodFit
from virt_dra.scheduling.node_fit import TAINTED as NODE_TAINTED
from virt_dra.scheduling.pod_requests import CPU, PODS
from virt_dra.simulator.explaining.facts import MismatchReader
from virt_dra.simulator.explaining.state import ClusterState, Wish

INSUFFICIENT: Final = "InsufficientResources"
"""The node has too little left of a resource (processors, memory) that the pod asks for."""

_DISTANCE: Final[Mapping[str, int]] = {
    **dict.fromkeys(REASONS, 8),
    IN_USE: 1, TAKEN: 2, TOO_FEW: 2, TAINTED: 3, UNSCHEDULABLE: 3, INSUFFICIENT: 3, NODE_TAINTED: 4, INCOMPATIBLE: 6,
    INCOMPLETE: 9, INVALID: 9, TOO_MANY: 10, NODE_ERROR: 10, ELSEWHERE: 12, CLAIM_ELSEWHERE: 12, AFFINITY: 15,
    **dict.fromkeys(SELECTION_REASONS, 30), NO_DEVICES: 40,
}  # fmt: skip
"""How far a reason is from a place: what a user can free or tolerate is near, what isn't there at all is far."""
KNOWN_REASONS: Final = frozenset(_DISTANCE)
"""Every reason; each has a page in docs/reasons."""


@dataclass(frozen=True, order=True)
class Miss:
    """One reason. ``text``: the same for everything that misses in the same way; ``detail``: of one example, such as a
    selector."""

    reason: str
    text: str
    detail: str = ""

    @property
    def distance(self) -> int:
        return _DISTANCE.get(self.reason, 8)


@dataclass(frozen=True)
class NodeMisses:
    """Why the pod can't go to a node; both parts are empty where it can.

    ``host``: of the node itself. ``devices``: for the request that can't be served, the nearest miss of each device
    that could matter; ``lacking``: a reason that is none of a single device. ``wanted`` devices, at best ``placed`` at
    the same time. ``others``: how many of the node's devices miss it by more.
    """

    node: str
    host: tuple[Miss, ...] = ()
    claim: str = ""
    request: str = ""
    devices: tuple[tuple[DeviceId, Miss], ...] = ()
    lacking: Miss | None = None
    wanted: int = 0
    placed: int = 0
    others: int = 0

    @property
    def fits(self) -> bool:
        return not self.host and not self.devices and self.lacking is None

    @property
    def of_devices(self) -> tuple[Miss, ...]:
        """The different ones, sorted, without details."""
        misses = {Miss(miss.reason, miss.text) for _, miss in self.devices}
        return tuple(sorted(misses)) if misses or self.lacking is None else (self.lacking,)

    @property
    def distance(self) -> int:
        return sum(miss.distance for miss in self.host) + min((miss.distance for miss in self.of_devices), default=0)


def judged(state: ClusterState, wish: Wish, names: Iterable[str]) -> Iterator[NodeMisses]:
    """Per node of the names. Raises FatalError for claims that no node can serve, and DeadlineExceeded."""
    fit, reader, alike = PodFit(wish.pod), MismatchReader(state.interrupt), _AlikeNodes()
    devices = state.devices_for(wish) if wish.claims else None
    for name in names:
        if state.interrupt is not None and state.interrupt():
            raise DeadlineExceeded(subject=f"node {name}")
        node = state.nodes[name]
        host = tuple(_host_misses(state, wish, fit, node))
        found = NodeMisses(name, host) if devices is None else _of_devices(state, devices, node, host, reader, alike)
        yield found


def _host_misses(state: ClusterState, wish: Wish, fit: PodFit, node: Node) -> Iterator[Miss]:
    reasons = fit.reasons(node)
    if UNSCHEDULABLE in reasons:
        yield Miss(UNSCHEDULABLE, "cordoned (unschedulable)")
    if NODE_TAINTED in reasons:
        for taint in untolerated_taints(wish, node):
            yield Miss(NODE_TAINTED, f"taint {taint_text(taint)} isn't tolerated")
    if AFFINITY in reasons:
        missing = sorted(missing_labels(wish, node).items())
        wanted = ", ".join(f"{key}={value}" for key, value in missing)
        text = (
            f"without the label{'s' * (len(missing) > 1)} {wanted} of the nodeSelector"
            if missing
            else "excluded by the node affinity"
        )
        yield Miss(AFFINITY, text)
    for resource, number in sorted(state.shortage(wish, node).items()):
        yield Miss(INSUFFICIENT, f"too little {resource}", f"{amount_text(resource, number)} short")


def untolerated_taints(wish: Wish, node: Node) -> Iterator[Taint]:
    """The node's taints that keep the pod off."""
    for taint in node.spec.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            tolerates(each, taint) for each in wish.pod.spec.tolerations
        ):
            yield taint


def missing_labels(wish: Wish, node: Node) -> dict[str, str]:
    """What of the pod's nodeSelector the node doesn't have."""
    return {key: value for key, value in wish.pod.spec.node_selector.items() if node.metadata.labels.get(key) != value}


def taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def amount_text(resource: str, number: int) -> str:
    """``2Gi``, ``1500m``: the number of a resource as manifests write it."""
    if resource == CPU:
        return f"{number}m" if number % 1000 else str(number // 1000)
    if resource == PODS or number < 1024:
        return str(number)
    for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if number % size == 0:
            return f"{number // size}{suffix}"
    return str(Quantity(str(number)))


class _AlikeNodes:
    """What was found on nodes, for others whose devices are refused alike: most of a cluster's nodes, which needn't be
    searched."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[NodeMisses, tuple[tuple[int, Miss], ...]]] = {}

    def of(
        self, key: Hashable | None, node: str, host: tuple[Miss, ...], devices: Sequence[PoolDevice]
    ) -> NodeMisses | None:
        """None if no such node was met. ``devices``: the node's, in the order of the search."""
        known = self._known.get(key) if key is not None else None
        if known is None:
            return None
        found, places = known
        return replace(
            found, node=node, host=host, devices=tuple([(devices[place].id, miss) for place, miss in places])
        )

    def remember(self, key: Hashable | None, found: NodeMisses, devices: Sequence[PoolDevice]) -> None:
        """Keeps what the key decides: whether devices are in use or mismatch, and why, and how many there are."""
        decided = found.lacking is None or found.lacking.reason == TOO_FEW
        if key is None or not decided or not all(miss.reason in _DECIDED for _, miss in found.devices):
            return
        positions = {device.id: place for place, device in enumerate(devices)}
        self._known[key] = found, tuple([(positions[device], miss) for device, miss in found.devices])


_DECIDED: Final = frozenset((MISMATCH, IN_USE, TAKEN))


def _of_devices(
    state: ClusterState, devices: PodDevices, node: Node, host: tuple[Miss, ...], reader: MismatchReader,
    alike: _AlikeNodes
) -> NodeMisses:  # fmt: skip
    try:
        refusal = devices.refuse(node)
        if refusal is None:
            return NodeMisses(node.name, host)
        if refusal.reason not in (DEVICES, NODE_ERROR):
            return NodeMisses(node.name, host, lacking=Miss(refusal.reason, refusal.message))
        if refusal.reason == NODE_ERROR:
            broken = devices.explain(node).pools
            lacking = (
                Miss(broken[0].reason, "pool invalid", broken[0].detail)
                if broken
                else Miss(NODE_ERROR, refusal.message)
            )
            return NodeMisses(node.name, host, lacking=lacking)
        key, there = devices.refusal_key(node), devices.reachable(node)
        found = alike.of(key, node.name, host, there)
        if found is None:
            found = _explained(state, devices.explain(node), host, reader)
            alike.remember(key, found, there)
        return found
    except NodeError as error:
        return NodeMisses(node.name, host, lacking=Miss(NODE_ERROR, str(error)))


def _explained(state: ClusterState, why: Explanation, host: tuple[Miss, ...], reader: MismatchReader) -> NodeMisses:
    blocking = why.blocking
    if blocking is None:
        return NodeMisses(
            why.node, host, lacking=Miss(why.reason, why.summary, why.pools[0].detail if why.pools else "")
        )
    # Of a device, the first refusal counts; another may have come later, when others were chosen.
    by_device: dict[DeviceId, Miss] = {}
    for rejection in blocking.rejections:
        by_device.setdefault(rejection.device, _miss(state, rejection, reader))
    lacking = None
    if blocking.over_limit:
        lacking, by_device = Miss(TOO_MANY, why.summary), {}
    elif why.pools and not any(miss.reason not in SELECTION_REASONS for miss in by_device.values()):
        lacking, by_device = Miss(why.reason, why.summary, why.pools[0].detail), {}
    elif not by_device:
        lacking = Miss(TOO_FEW if blocking.placed else why.reason, why.summary)
    nearest = min((miss.distance for miss in by_device.values()), default=0)
    if blocking.placed and nearest >= _DISTANCE[MISMATCH]:
        lacking, by_device = Miss(TOO_FEW, "too few devices"), {}
    matter = tuple((device, miss) for device, miss in by_device.items() if miss.distance == nearest)
    return NodeMisses(
        why.node,
        host,
        blocking.claim,
        blocking.request,
        matter,
        lacking,
        blocking.wanted,
        blocking.placed,
        len(by_device) - len(matter),
    )


def _miss(state: ClusterState, rejection: Rejection, reader: MismatchReader) -> Miss:
    if rejection.reason == MISMATCH:
        device = state.devices.get(rejection.device)
        if device is None:
            return Miss(MISMATCH, rejection.summary, rejection.expression)
        facts = reader.facts(rejection.expression, rejection.device.driver, device)
        return Miss(MISMATCH, facts.text or rejection.summary, facts.expression)
    if rejection.reason == TAINTED:
        return Miss(TAINTED, f"{rejection.detail.replace('=:', ':')} isn't tolerated")
    words = _WORDS.get(rejection.reason)
    return (
        Miss(rejection.reason, rejection.summary, rejection.detail) if words is None else Miss(rejection.reason, words)
    )


_WORDS: Final[Mapping[str, str]] = {IN_USE: "in use", TAKEN: "taken by another request of the same pod"}
