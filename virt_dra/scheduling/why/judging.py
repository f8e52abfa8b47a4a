"""Asking a fit about nodes: why the pod can't go to each of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from virt_dra.allocator import DeadlineExceeded, Explanation, Interrupt, NodeError
from virt_dra.allocator.explain import TOO_FEW, TOO_MANY, RequestExplanation
from virt_dra.allocator.features import SELECTION_REASONS
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.selectors import MISMATCH
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.model import DeviceId, PoolDevice, Rejection
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import Device
from virt_dra.matching.facts import MismatchReader
from virt_dra.scheduling.dynamic_resources.extended_claim import IN_MEMORY
from virt_dra.scheduling.dynamic_resources.plugin import DeviceAttempt
from virt_dra.scheduling.dynamic_resources.pod_devices import DEVICES, NODE_ERROR, PodDevices
from virt_dra.scheduling.fit import FilterError, Fit
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason
from virt_dra.scheduling.why.distance import distance_of
from virt_dra.scheduling.why.tree import ExplainedRefusal, NodeRefusal, RefusedDevice, RequestRefusal


def judged(asked: Fit, nodes: Iterable[str], interrupt: Interrupt | None = None) -> Iterator[NodeRefusal]:
    """The refusals of each of the nodes, by every filter. Not for a fit refused everywhere. Raises FilterError,
    DeadlineExceeded, FatalError."""
    judge = _Judge(asked, interrupt)
    for name in nodes:
        if interrupt is not None and interrupt():
            raise DeadlineExceeded(subject=f"node {name}")
        state = asked.state(name)
        yield judge.node(state, asked.refusals(state))


def first_refusals(
    asked: Fit, refused: Mapping[str, FilterRefusal], interrupt: Interrupt | None = None
) -> Iterator[NodeRefusal]:
    """The refusals of nodes, each by the filter that refused it first. Raises FatalError, DeadlineExceeded."""
    judge = _Judge(asked, interrupt)
    for name, refusal in refused.items():
        yield judge.node(asked.state(name), (refusal,))


@dataclass(frozen=True)
class _Alike:
    """What was found on one node, for others refused alike: ``places`` of the devices of each request."""

    refusal: ExplainedRefusal
    places: tuple[tuple[int, ...], ...]

    def on(self, devices: Sequence[PoolDevice]) -> ExplainedRefusal:
        """The same refusal, of the devices at these places of another node."""
        requests = tuple(
            replace(
                request,
                devices=tuple(
                    [
                        RefusedDevice(devices[place].id, refused.reason)
                        for place, refused in zip(places, request.devices, strict=True)
                    ]
                ),
            )
            for request, places in zip(self.refusal.requests, self.places, strict=True)
        )
        return replace(self.refusal, requests=requests)


class _Judge:
    """Explains the refusals of one fit. Nodes whose devices are refused alike are searched once."""

    def __init__(self, asked: Fit, interrupt: Interrupt | None) -> None:
        self._attempts = {part.plugin.name: part.attempt for part in asked.parts}
        self._reader = MismatchReader(interrupt)
        self._alike: dict[Hashable, _Alike] = {}

    def node(self, state: NodeState, refusals: Iterable[FilterRefusal]) -> NodeRefusal:
        """The refusal of one node. Raises FatalError, DeadlineExceeded, and what the refusals raise."""
        of_node, of_devices = list[ExplainedRefusal](), None
        try:
            for refusal in refusals:
                attempt = self._attempts[refusal.plugin]
                if isinstance(attempt, DeviceAttempt):
                    of_devices = self._devices(refusal, attempt, state.node)
                else:
                    of_node.append(ExplainedRefusal(refusal, tuple(attempt.reasons(state))))
        except FilterError:
            if not of_node:
                raise  # after a refusal the filter that fails isn't asked to place a pod
        return NodeRefusal(state.name, tuple(of_node), of_devices)

    def _devices(self, refusal: FilterRefusal, attempt: DeviceAttempt, node: Node) -> ExplainedRefusal:
        searched = refusal.code in (DEVICES, NODE_ERROR)
        devices = attempt.nodes.needed_on(node) if searched else None
        if devices is None:
            return ExplainedRefusal(refusal, (Reason(refusal.code, refusal.message),))
        try:
            return _of_containers(self._searched(refusal, devices, node), attempt, node)
        except NodeError as error:  # of the request itself: the text says all there is
            return ExplainedRefusal(refusal, (Reason(NODE_ERROR, str(error)),))

    def _searched(self, refusal: FilterRefusal, devices: PodDevices, node: Node) -> ExplainedRefusal:
        if refusal.code == NODE_ERROR:
            return _undecided(refusal, devices.explain(node))
        key, reachable = devices.refusal_key(node), devices.reachable(node)
        alike = self._alike.get(key) if key is not None else None
        if alike is not None:
            return alike.on(reachable)
        explained = self._explained(refusal, devices.explain(node), reachable)
        if key is not None and _decided_by_key(explained):
            positions = {device.id: place for place, device in enumerate(reachable)}
            places = tuple(
                tuple([positions[refused.device] for refused in request.devices]) for request in explained.requests
            )
            self._alike[key] = _Alike(explained, places)
        return explained

    def _explained(self, refusal: FilterRefusal, why: Explanation, devices: Sequence[PoolDevice]) -> ExplainedRefusal:
        published = {device.id: device.published for device in devices}
        requests = tuple(self._request(why, request, published) for request in why.requests)
        reasons = () if requests else (Reason(why.reason, why.summary, why.pools[0].detail if why.pools else ""),)
        return ExplainedRefusal(refusal, reasons, requests, why.pools, why.devices)

    def _request(
        self, why: Explanation, request: RequestExplanation, published: Mapping[DeviceId, Device]
    ) -> RequestRefusal:
        # Of a device, the first refusal counts; another may have come later, when others were chosen.
        first = {rejection.device: rejection for rejection in reversed(request.rejections)}
        devices = tuple(
            [
                RefusedDevice(rejection.device, self._reason(rejection, published[rejection.device]))
                for rejection in request.rejections
                if first[rejection.device] is rejection
            ]
        )
        common_reason = _common_reason(why, request, [refused.reason for refused in devices])
        return RequestRefusal(request.claim, request.request, request.wanted, request.placed, devices, common_reason)

    def _reason(self, rejection: Rejection, device: Device) -> Reason:
        if rejection.reason == MISMATCH:
            facts = self._reader.facts(rejection.expression, rejection.device.driver, device)
            return Reason(MISMATCH, facts.text or rejection.summary, term=facts.expression)
        if rejection.reason == TAINTED:
            return Reason(TAINTED, f"{rejection.detail.replace('=:', ':')} isn't tolerated")
        words = _WORDS.get(rejection.reason)
        return Reason(rejection.reason, words or rejection.summary, "" if words else rejection.detail)


def _of_containers(refusal: ExplainedRefusal, attempt: DeviceAttempt, node: Node) -> ExplainedRefusal:
    """The refusal with the resources that special requests stand for: ``example.com/gpu of container c``."""
    titles = {
        mapping.request_name: f"{mapping.resource_name} of container {mapping.container_name}"
        for mapping in attempt.nodes.mappings_on(node)
    }
    if not titles:
        return refusal
    requests = tuple(
        replace(request, request=titles.get(request.request, request.request))
        if request.claim.endswith(f"/{IN_MEMORY}")
        else request
        for request in refusal.requests
    )
    return replace(refusal, requests=requests)


_WORDS: Final[Mapping[str, str]] = {IN_USE: "in use", TAKEN: "taken by another request of the same pod"}


def _undecided(refusal: FilterRefusal, why: Explanation) -> ExplainedRefusal:
    """The refusal of a node whose pools are invalid, or for which the search came to no end."""
    if why.pools:
        reason = Reason(why.pools[0].reason, "pool invalid", why.pools[0].detail)
    else:
        reason = Reason(NODE_ERROR, refusal.message)
    return ExplainedRefusal(refusal, (reason,), (), why.pools, why.devices)


def _common_reason(why: Explanation, request: RequestExplanation, reasons: Sequence[Reason]) -> Reason | None:
    """The reason of a request where it isn't that of a single device."""
    if request.over_limit:
        return Reason(TOO_MANY, why.summary)
    if why.pools and all(reason.code in SELECTION_REASONS for reason in reasons):
        return Reason(why.reason, why.summary, why.pools[0].detail)
    if not reasons:
        return Reason(TOO_FEW if request.placed else why.reason, why.summary)
    if request.placed and min(map(distance_of, reasons)) >= distance_of(Reason(MISMATCH, "")):
        return Reason(TOO_FEW, "too few devices")
    return None


def _decided_by_key(refusal: ExplainedRefusal) -> bool:
    """Whether devices are in use, mismatch, or are too few: then the refusal holds for all nodes of the key."""
    reasons = [
        *refusal.reasons,
        *(request.common_reason for request in refusal.requests if request.common_reason is not None),
    ]
    return all(reason.code == TOO_FEW for reason in reasons) and all(
        refused.reason.code in (MISMATCH, IN_USE, TAKEN) for request in refusal.requests for refused in request.devices
    )
