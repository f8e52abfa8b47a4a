"""What keeps a pod off one node: of the node itself, and of the devices that it reaches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from virt_dra.allocator import DeadlineExceeded, Explanation, FatalError, Interrupt, NodeError
from virt_dra.allocator.explain import ELSEWHERE, NO_DEVICES, TOO_FEW, TOO_MANY
from virt_dra.allocator.features import REASONS, SELECTION_REASONS
from virt_dra.allocator.features.compatibility_groups import INCOMPATIBLE
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.selectors import MISMATCH
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.model import DeviceId, PoolDevice, Rejection
from virt_dra.allocator.pools import INCOMPLETE, INVALID
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import Device
from virt_dra.matching.facts import MismatchReader
from virt_dra.scheduling.dynamic_resources.plugin import CLAIM_NOT_SHAREABLE, DeviceAttempt
from virt_dra.scheduling.dynamic_resources.pod_devices import CLAIM_ELSEWHERE, DEVICES, NODE_ERROR, PodDevices
from virt_dra.scheduling.filters.host_ports import PORT_TAKEN
from virt_dra.scheduling.filters.node_affinity import AFFINITY
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT
from virt_dra.scheduling.filters.pod_affinity import POD_AFFINITY
from virt_dra.scheduling.filters.taints import TAINTED as NODE_TAINTED
from virt_dra.scheduling.filters.topology_spread import SPREAD
from virt_dra.scheduling.filters.unschedulable import UNSCHEDULABLE
from virt_dra.scheduling.fit import Fit
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.refusals import AttemptError, Reason

_DISTANCE: Final[Mapping[str, int]] = {
    **dict.fromkeys(REASONS, 8),
    IN_USE: 1, TAKEN: 2, TOO_FEW: 2, TAINTED: 3, UNSCHEDULABLE: 3, INSUFFICIENT: 3, PORT_TAKEN: 3,
    CLAIM_NOT_SHAREABLE: 3, NODE_TAINTED: 4, SPREAD: 4, POD_AFFINITY: 4, INCOMPATIBLE: 6,
    INCOMPLETE: 9, INVALID: 9, TOO_MANY: 10, NODE_ERROR: 10, ELSEWHERE: 12, CLAIM_ELSEWHERE: 12, AFFINITY: 15,
    **dict.fromkeys(SELECTION_REASONS, 30), NO_DEVICES: 40,
}  # fmt: skip
"""How far a reason is from a place: what a user can free or tolerate is near, what isn't there at all is far."""
KNOWN_REASONS: Final = frozenset(_DISTANCE)
"""Every reason of a node; each has a page in docs/reasons, as has :data:`CLAIMS_NOT_READY`."""

DevicesById = Mapping[DeviceId, Device]
"""Devices as published, with the taints of rules."""


def distance_of(reason: Reason) -> int:
    """How far a reason is from a place (:data:`_DISTANCE`)."""
    return _DISTANCE.get(reason.code, 8)


@dataclass(frozen=True)
class NodeMisses:
    """Why the pod can't go to a node; both parts are empty where it can.

    ``host``: of the node itself. ``devices``: for the request that can't be served, the nearest miss of each device
    that could matter; ``lacking``: a reason that is none of a single device. ``wanted`` devices, at best ``placed`` at
    the same time. ``others``: how many of the node's devices miss it by more.
    """

    node: str
    host: tuple[Reason, ...] = ()
    claim: str = ""
    request: str = ""
    devices: tuple[tuple[DeviceId, Reason], ...] = ()
    lacking: Reason | None = None
    wanted: int = 0
    placed: int = 0
    others: int = 0

    @property
    def fits(self) -> bool:
        return not self.host and not self.devices and self.lacking is None

    @property
    def of_devices(self) -> tuple[Reason, ...]:
        """The different ones, sorted, without details."""
        misses = {Reason(miss.code, miss.text) for _, miss in self.devices}
        return tuple(sorted(misses)) if misses or self.lacking is None else (self.lacking,)

    @property
    def distance(self) -> int:
        return sum(distance_of(miss) for miss in self.host) + min(
            (distance_of(miss) for miss in self.of_devices), default=0
        )


def judged(
    asked: Fit, nodes: Iterable[str], published: DevicesById, interrupt: Interrupt | None = None
) -> Iterator[NodeMisses]:
    """Why the pod can't go to each of the nodes. Raises FatalError for claims that no node can serve, and
    DeadlineExceeded."""
    if asked.everywhere is not None:
        raise FatalError(f"{asked.everywhere.subject}: {asked.everywhere.message}")
    devices, reader, alike = asked.devices, MismatchReader(interrupt), _AlikeNodes()
    others = [part.attempt for part in asked.parts if part.attempt is not devices]
    for name in nodes:
        if interrupt is not None and interrupt():
            raise DeadlineExceeded(subject=f"node {name}")
        state = asked.state(name)
        host: tuple[Reason, ...] = ()
        try:
            host = tuple(reason for attempt in others for reason in attempt.reasons(state))
            if devices is None:
                yield NodeMisses(name, host)
            else:
                yield _of_devices(published, devices, state, host, reader, alike)
        except AttemptError as error:
            if not host:
                raise FatalError(str(error)) from error
            yield NodeMisses(name, host)  # refused before: the filter that fails isn't asked


class _AlikeNodes:
    """What was found on nodes, for others whose devices are refused alike: most of a cluster's nodes, which needn't be
    searched."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[NodeMisses, tuple[tuple[int, Reason], ...]]] = {}

    def of(
        self, key: Hashable | None, node: str, host: tuple[Reason, ...], devices: Sequence[PoolDevice]
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
        decided = found.lacking is None or found.lacking.code == TOO_FEW
        if key is None or not decided or not all(miss.code in _DECIDED for _, miss in found.devices):
            return
        positions = {device.id: place for place, device in enumerate(devices)}
        self._known[key] = found, tuple([(positions[device], miss) for device, miss in found.devices])


_DECIDED: Final = frozenset((MISMATCH, IN_USE, TAKEN))


def _of_devices(
    published: DevicesById,
    attempt: DeviceAttempt,
    state: NodeState,
    host: tuple[Reason, ...],
    reader: MismatchReader,
    alike: _AlikeNodes,
) -> NodeMisses:
    node = state.node
    refusal = attempt.filter(state)
    if refusal is None:
        return NodeMisses(node.name, host)
    devices = attempt.nodes.needed_on(node) if refusal.code in (DEVICES, NODE_ERROR) else None
    if devices is None:
        return NodeMisses(node.name, host, lacking=Reason(refusal.code, refusal.message))
    try:
        if refusal.code == NODE_ERROR:
            broken = devices.explain(node).pools
            lacking = (
                Reason(broken[0].reason, "pool invalid", broken[0].detail)
                if broken
                else Reason(NODE_ERROR, refusal.message)
            )
            return NodeMisses(node.name, host, lacking=lacking)
        return _searched(published, devices, node, host, reader, alike)
    except NodeError as error:
        return NodeMisses(node.name, host, lacking=Reason(NODE_ERROR, str(error)))


def _searched(
    published: DevicesById,
    devices: PodDevices,
    node: Node,
    host: tuple[Reason, ...],
    reader: MismatchReader,
    alike: _AlikeNodes,
) -> NodeMisses:
    key, there = devices.refusal_key(node), devices.reachable(node)
    misses = alike.of(key, node.name, host, there)
    if misses is None:
        misses = _explained(published, devices.explain(node), host, reader)
        alike.remember(key, misses, there)
    return misses


def _explained(
    published: DevicesById, why: Explanation, host: tuple[Reason, ...], reader: MismatchReader
) -> NodeMisses:
    blocking = why.blocking
    if blocking is None:
        return NodeMisses(
            why.node, host, lacking=Reason(why.reason, why.summary, why.pools[0].detail if why.pools else "")
        )
    # Of a device, the first refusal counts; another may have come later, when others were chosen.
    by_device: dict[DeviceId, Reason] = {}
    for rejection in blocking.rejections:
        by_device.setdefault(rejection.device, _miss(published, rejection, reader))
    lacking = None
    if blocking.over_limit:
        lacking, by_device = Reason(TOO_MANY, why.summary), {}
    elif why.pools and not any(miss.code not in SELECTION_REASONS for miss in by_device.values()):
        lacking, by_device = Reason(why.reason, why.summary, why.pools[0].detail), {}
    elif not by_device:
        lacking = Reason(TOO_FEW if blocking.placed else why.reason, why.summary)
    nearest = min((distance_of(miss) for miss in by_device.values()), default=0)
    if blocking.placed and nearest >= _DISTANCE[MISMATCH]:
        lacking, by_device = Reason(TOO_FEW, "too few devices"), {}
    matter = tuple((device, miss) for device, miss in by_device.items() if distance_of(miss) == nearest)
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


def _miss(published: DevicesById, rejection: Rejection, reader: MismatchReader) -> Reason:
    if rejection.reason == MISMATCH:
        device = published.get(rejection.device)
        if device is None:
            return Reason(MISMATCH, rejection.summary, rejection.expression)
        facts = reader.facts(rejection.expression, rejection.device.driver, device)
        return Reason(MISMATCH, facts.text or rejection.summary, facts.expression)
    if rejection.reason == TAINTED:
        return Reason(TAINTED, f"{rejection.detail.replace('=:', ':')} isn't tolerated")
    words = _WORDS.get(rejection.reason)
    return (
        Reason(rejection.reason, rejection.summary, rejection.detail)
        if words is None
        else Reason(rejection.reason, words)
    )


_WORDS: Final[Mapping[str, str]] = {IN_USE: "in use", TAKEN: "taken by another request of the same pod"}
