"""The explanation of a failed attempt: the refusals that an observer collects in a second run of the search, and their
text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from virt_dra.allocator.features import REASONS, SELECTION_REASONS
from virt_dra.allocator.features.compatibility_groups import INCOMPATIBLE
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.model import RESULT_LIMIT, PoolDevice, RejectingFeature, Rejection, Request, Slots
from virt_dra.allocator.observer import Observer
from virt_dra.allocator.pools import INCOMPLETE, INVALID, PoolProblem
from virt_dra.api.counting import counted

NO_DEVICES = "NoDevices"
"""The node reaches no device at all."""
TOO_FEW = "TooFewDevices"
"""Devices match, but fewer than the request (and the others of the pod) need."""
TOO_MANY = "TooManyDevices"
"""The request fits only with more devices than a claim may hold."""
ELSEWHERE = "ClaimNotOnNode"
"""An allocated claim of the pod can't be used from the node (its allocation's nodeSelector)."""
ELSEWHERE_TEXT = "resourceclaim not available on the node"

ORDINARY_DISTANCE: Final = 8
"""That of a reason which isn't listed, as those of most features."""
DISTANCES: Final[Mapping[str, int]] = {
    **dict.fromkeys(REASONS, ORDINARY_DISTANCE),
    IN_USE: 1, TOO_FEW: 2, TAINTED: 3, INCOMPATIBLE: 6, TAKEN: 9, INCOMPLETE: 9, INVALID: 9, TOO_MANY: 10,
    ELSEWHERE: 12, **dict.fromkeys(SELECTION_REASONS, 30), NO_DEVICES: 40,
}  # fmt: skip
"""How far a reason is from a placement. What a user can free or tolerate is near, what isn't there at all is far."""


@dataclass(frozen=True)
class RequestExplanation:
    """One request (or alternative) that was tried. ``wanted`` devices, at best ``placed`` at the same time.
    ``rejections`` has, per device and reason, the first refusal, in the order of the search. ``over_limit``: given up
    because the claim would have held more than 32 devices."""

    claim: str
    request: str
    wanted: int
    placed: int
    rejections: tuple[Rejection, ...]
    over_limit: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why the claims don't fit on a node. ``requests`` in the order in which the search first came to them.
    ``elsewhere``: claims that are allocated already, on other nodes."""

    node: str
    requests: tuple[RequestExplanation, ...]
    pools: tuple[PoolProblem, ...]
    devices: int
    elsewhere: tuple[str, ...] = ()

    @property
    def blocking(self) -> RequestExplanation | None:
        """The request that the search never got past: the last one it came to."""
        return self.requests[-1] if self.requests else None

    @property
    def reason(self) -> str:
        return self._verdict()[0]

    @property
    def summary(self) -> str:
        """A few words for the histogram over nodes, e.g. ``device in use``."""
        return self._verdict()[1]

    def _verdict(self) -> tuple[str, str]:
        if self.elsewhere:
            return ELSEWHERE, ELSEWHERE_TEXT
        blocking = self.blocking
        if blocking is not None and blocking.over_limit:
            return TOO_MANY, f"more than {RESULT_LIMIT} devices in a claim"
        rejections = blocking.rejections if blocking is not None else ()
        nearest = _nearest(rejections)
        if nearest and nearest[0].reason not in SELECTION_REASONS:
            return _most_common(nearest)
        if self.pools:
            problem = self.pools[0]
            return problem.reason, "pool incomplete" if problem.reason == INCOMPLETE else "pool invalid"
        if blocking is not None and blocking.placed:
            return TOO_FEW, "too few devices"
        if nearest:
            return _most_common(nearest)
        return NO_DEVICES, "no device on the node"


def _nearest(rejections: Sequence[Rejection]) -> list[Rejection]:
    """The rejections whose reason is nearest to a placement, in the same order."""
    distances = [DISTANCES.get(rejection.reason, ORDINARY_DISTANCE) for rejection in rejections]
    least = min(distances, default=0)
    return [rejection for rejection, distance in zip(rejections, distances, strict=True) if distance == least]


def _most_common(rejections: Sequence[Rejection]) -> tuple[str, str]:
    """Reason and summary of most rejections; of equally many, the first."""
    return Counter((rejection.reason, rejection.summary) for rejection in rejections).most_common(1)[0][0]


def lines(explanation: Explanation) -> list[str]:
    """The explanation as text, one line per fact, indented by level."""
    text = [f"node {explanation.node}: {explanation.summary} ({counted(explanation.devices, 'device')} reachable)"]
    text += [
        f"  claim {claim}: allocated already, and its devices can't be used from this node"
        for claim in explanation.elsewhere
    ]
    text += [f"  pool {problem.pool}: {problem.reason}: {problem.detail}" for problem in explanation.pools]
    for request in explanation.requests:
        limit = f", over the limit of {RESULT_LIMIT} devices a claim" if request.over_limit else ""
        text.append(
            f"  claim {request.claim}, request {request.request}: {request.placed} "
            f"of {counted(request.wanted, 'device')} at best{limit}"
        )
        text += [f"    {rejection.device}: {rejection.reason}: {rejection.detail}" for rejection in request.rejections]
    return text


@dataclass
class _Tried:
    slots: Slots
    held: int = 0
    placed: int = 0
    over_limit: bool = False
    rejections: dict[tuple[PoolDevice, str], Rejection] = field(default_factory=dict)


class Collector(Observer):
    """The observer that collects refusals."""

    def __init__(self) -> None:
        self._tried: dict[Request, _Tried] = {}

    def entered(self, slots: Slots) -> None:
        self._tried.setdefault(slots.request, _Tried(slots))

    def picked(self, request: Request, device: PoolDevice) -> None:
        tried = self._tried[request]
        tried.held += 1
        tried.placed = max(tried.placed, tried.held)

    def rejected(self, request: Request, device: PoolDevice, by: RejectingFeature) -> None:
        rejections = self._tried[request].rejections
        rejection = by.explain(request, device)
        rejections.setdefault((device, rejection.reason), rejection)

    def backtracked(self, request: Request, device: PoolDevice) -> None:
        self._tried[request].held -= 1

    def over_limit(self, request: Request) -> None:
        self._tried[request].over_limit = True

    def explanation(self, node: str, pools: Sequence[PoolProblem], devices: int) -> Explanation:
        requests = tuple(
            RequestExplanation(
                claim=request.claim.key,
                request=request.full_name,
                wanted=tried.slots.count,
                placed=tried.placed,
                rejections=tuple(tried.rejections.values()),
                over_limit=tried.over_limit,
            )
            for request, tried in self._tried.items()
        )
        return Explanation(node, requests, tuple(pools), devices)
