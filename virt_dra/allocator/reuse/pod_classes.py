"""What the claims of a pod ask for, whatever they are called; and what is known about where it can be had.

Pods made from one template have claims that differ in nothing but their names. Their requests are read once, and the outcome on a node
is kept by the node's shape and state (shapes.py): the next pod of the kind, and every node alike, needs no search. Only outcomes are
kept that name no claim: an error is found again each time, with the right names in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from virt_dra.allocator.errors import AllocationError
from virt_dra.allocator.features.attributes import applies
from virt_dra.allocator.features.capacity import Capacities
from virt_dra.allocator.features.prioritized_list import alternatives
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Choice, ClaimPlan, Device, Request
from virt_dra.allocator.pools import Pools, Reachable
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import Results
from virt_dra.allocator.reuse.node_classes import Shapes
from virt_dra.api.resource_v1 import DeviceClass, DeviceSubRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec

_REMEMBERED_OUTCOMES = 200_000
"""Bounds the memory of one demand; beyond it all outcomes are forgotten and found anew."""
_REMEMBERED_DEMANDS = 1024
"""Kinds of pods that are remembered; the oldest goes first."""


Pick = tuple[Request, int]
"""A device for a request, by its position in the order of the search."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Per claim the picks, in the order in which they were made, and the alternative of each entry of its requests that has some."""

    picks: tuple[tuple[Pick, ...], ...]
    selected: tuple[dict[int, int], ...]


class Demand:
    """The claims of equal pods. ``plans`` are those of the first pod seen: good for anything but names and for mode All."""

    def __init__(self, plans: tuple[ClaimPlan, ...], shapes: Shapes, results: Results) -> None:
        self.plans = plans
        self.results = results
        self.outcomes: dict[tuple[int, Hashable], Solution | None] = {}
        """By shape and state of a node: the solution, or None where there is none."""
        self.shapes = shapes
        self.same_everywhere = not any(slots.fixed is not None for plan in plans for entry in plan.requests for slots in entry.alternatives)
        """Whether the plans hold for every node: no request asks for all devices of a node."""

    def remember(self, key: tuple[int, Hashable], solution: Solution | None) -> None:
        if len(self.outcomes) >= _REMEMBERED_OUTCOMES:
            self.outcomes.clear()
        self.outcomes[key] = solution


class Demands:
    """All demands met so far, for one set of slices, classes and features."""

    def __init__(self, pools: Pools, classes: Mapping[str, DeviceClass], capacities: Capacities, features: Features) -> None:
        self.pools = pools
        self._capacities = capacities
        self._classes = classes
        self._features = features
        self._by_identity: dict[tuple[int, ...], tuple[tuple[ResourceClaimSpec, ...], Demand]] = {}
        self._by_value: dict[tuple[str, ...], Demand] = {}
        self._shapes: dict[tuple[str, ...], Shapes] = {}

    def of(self, claims: Sequence[ResourceClaim]) -> Demand | None:
        """None for claims that break a rule: which one is found by planning them on a node, in the order of A-6."""
        identity = tuple([id(claim.spec) for claim in claims])
        known = self._by_identity.get(identity)
        if known is None:
            specs = tuple(claim.spec for claim in claims)
            texts = tuple(spec.model_dump_json(by_alias=True, exclude_unset=True) for spec in specs)
            demand = self._by_value.get(texts)
            if demand is None:
                try:
                    demand = self._read(claims)
                except AllocationError:
                    return None
                _forget_oldest(self._by_value)
                self._by_value[texts] = demand
            _forget_oldest(self._by_identity)
            known = self._by_identity[identity] = specs, demand  # holding the specs keeps their identities from being reused
        return known[1]

    def _read(self, claims: Sequence[ResourceClaim]) -> Demand:
        nothing = Reachable("", (), (), ())
        plans = plan_claims(claims, self._classes, nothing, self._features, _never)
        viewers: dict[str, Request] = {}
        for plan in plans:
            for entry, wanted in zip(plan.requests, plan.claim.spec.devices.requests, strict=True):
                for slots, alternative in zip(entry.alternatives, alternatives(plan.claim, wanted), strict=True):
                    viewers[_signature(plan.claim, slots.request, alternative.wanted)] = slots.request
        key = tuple(sorted(viewers))
        shapes = self._shapes.get(key)
        if shapes is None:
            _forget_oldest(self._shapes)
            shapes = self._shapes[key] = Shapes(self.pools, tuple(viewers[each] for each in key))
        return Demand(plans, shapes, Results(plans, self._features, self._capacities))


_K = TypeVar("_K")
_V = TypeVar("_V")


def _forget_oldest(memory: dict[_K, _V]) -> None:
    if len(memory) >= _REMEMBERED_DEMANDS:
        del memory[next(iter(memory))]


def _never(request: Request, device: Device) -> bool:
    return False


def _signature(claim: ResourceClaim, request: Request, wanted: ExactDeviceRequest | DeviceSubRequest) -> str:
    """All of a request and its claim that decides which facts of a device matter: not its name, and not how many it wants."""
    constraints = [
        (constraint.match_attribute, constraint.distinct_attribute)
        for constraint in claim.spec.devices.constraints
        if applies(constraint.requests, request)
    ]
    return f"{wanted.model_dump_json(by_alias=True, exclude={'name', 'count'})} {constraints}"


def solution_of(
    chosen: Sequence[Sequence[Choice]],
    selected: Mapping[tuple[int, int], int],
    plans: Sequence[ClaimPlan],
    named: Sequence[ClaimPlan],
    reachable: Reachable,
) -> Solution:
    """What a search chose. ``selected``: (claim, entry) -> alternative. ``plans``: those that were searched; ``named``: equal ones, whose
    requests the solution is to name."""
    devices = {device: number for number, device in enumerate(reachable.devices)}
    requests = dict(zip(_requests(plans), _requests(named), strict=True))
    picks = tuple(tuple((requests[choice.request], devices[choice.device]) for choice in each) for each in chosen)
    alternatives: tuple[dict[int, int], ...] = tuple({} for _ in plans)
    for (claim, entry), alternative in selected.items():
        alternatives[claim][entry] = alternative
    return Solution(picks, alternatives)


def _requests(plans: Sequence[ClaimPlan]) -> list[Request]:
    return [slots.request for plan in plans for entry in plan.requests for slots in entry.alternatives]
