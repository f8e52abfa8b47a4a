"""Equivalence classes of pods: pods whose claims differ in nothing but their names, as those made from one template do.

Their requests are planned once, and the outcome on a node is kept by the node's class and usage (node_classes.py): the
next pod of the class, and every node of an equal class and usage, needs no search. Errors aren't kept: they are found
again, with the right names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.allocator.errors import AllocationError
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.attributes import applies
from virt_dra.allocator.features.capacity import Capacities
from virt_dra.allocator.features.prioritized_list import alternatives
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.gates import Features
from virt_dra.allocator.memo import remember
from virt_dra.allocator.model import Choice, ClaimPlan, PoolDevice, Request
from virt_dra.allocator.pools import Pools, Reachable
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.result import Results
from virt_dra.allocator.reuse.node_classes import NodeClasses, UsageKeys
from virt_dra.allocator.usage import Used
from virt_dra.api.resource_v1 import DeviceClass, DeviceSubRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec

_REMEMBERED_OUTCOMES = 200_000
"""Outcomes that a class keeps; beyond it all are dropped and found anew."""
_REMEMBERED_CLASSES = 1024

Pick = tuple[Request, int]
"""A device for a request, by its position in search order."""

OutcomeKey = tuple[int, Hashable]
"""The class and the usage of a node."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Per claim the picks, in the order in which they were made, and the alternative chosen for each firstAvailable
    request."""

    picks: tuple[tuple[Pick, ...], ...]
    selected: tuple[dict[int, int], ...]


class PodClass:
    """The claims of equal pods. ``plans`` are those of the first pod: right but for names and mode All."""

    def __init__(self, plans: tuple[ClaimPlan, ...], nodes: NodeClasses, usage: UsageKeys, results: Results) -> None:
        self.plans = plans
        self.requests = tuple(_requests(plans))
        self.results = results
        self.outcomes: dict[OutcomeKey, Solution | None] = {}
        """None: there is no solution."""
        self._nodes = nodes
        self._usage = usage
        self.same_everywhere = not any(
            slots.fixed is not None for plan in plans for entry in plan.requests for slots in entry.alternatives
        )
        """True if the plans hold for every node: no request asks for all devices of a node."""

    def key(
        self, reachable: Reachable, used: Used, selectors: SelectorFilter, features: Callable[[], FeatureTable]
    ) -> OutcomeKey | None:
        """The key of the outcome on the node; None if it can't be reused."""
        number = self._nodes.number(reachable, selectors, features)
        return None if number is None else (number, self._usage.key(reachable, used))

    def remember(self, key: OutcomeKey | None, solution: Solution | None) -> None:
        if key is not None:
            if len(self.outcomes) >= _REMEMBERED_OUTCOMES:
                self.outcomes.clear()
            self.outcomes[key] = solution


class PodClasses:
    """The classes met so far, for one set of slices, DeviceClasses and features."""

    def __init__(
        self, pools: Pools, classes: Mapping[str, DeviceClass], capacities: Capacities, features: Features
    ) -> None:
        self.pools = pools
        self._capacities = capacities
        self._device_classes = classes
        self._features = features
        self._usage = UsageKeys(pools)
        self._by_identity: dict[tuple[int, ...], tuple[tuple[ResourceClaimSpec, ...], PodClass]] = {}
        self._by_value: dict[tuple[str, ...], PodClass] = {}
        self._nodes: dict[tuple[str, ...], NodeClasses] = {}

    def pod_class(self, claims: Sequence[ResourceClaim]) -> PodClass | None:
        """The class of a pod with these claims; None if they break a rule: which one, planning them on a node tells
        (A-6)."""
        identity = tuple([id(claim.spec) for claim in claims])
        specs, pod_class = self._by_identity.get(identity, ((), None))
        if pod_class is None:
            specs = tuple(claim.spec for claim in claims)
            texts = tuple(spec.model_dump_json(by_alias=True, exclude_unset=True) for spec in specs)
            pod_class = self._by_value.get(texts)
            if pod_class is None:
                try:
                    pod_class = remember(self._by_value, texts, self._plan(claims), _REMEMBERED_CLASSES)
                except AllocationError:
                    return None
            # Holding the specs keeps their identities from being reused.
            remember(self._by_identity, identity, (specs, pod_class), _REMEMBERED_CLASSES)
        return pod_class

    def _plan(self, claims: Sequence[ResourceClaim]) -> PodClass:
        plans = plan_claims(claims, self._device_classes, Reachable("", (), (), ()), self._features, _never)
        requests: dict[str, Request] = {}
        for plan in plans:
            for entry, wanted in zip(plan.requests, plan.claim.spec.devices.requests, strict=True):
                for slots, alternative in zip(entry.alternatives, alternatives(plan.claim, wanted), strict=True):
                    requests[_signature(plan.claim, slots.request, alternative.wanted)] = slots.request
        key = tuple(sorted(requests))
        nodes = self._nodes.get(key)
        if nodes is None:
            nodes = NodeClasses(self.pools, tuple(requests[signature] for signature in key))
            remember(self._nodes, key, nodes, _REMEMBERED_CLASSES)
        return PodClass(plans, nodes, self._usage, Results(plans, self._features, self._capacities))


def _never(request: Request, device: PoolDevice) -> bool:
    return False


def _signature(claim: ResourceClaim, request: Request, wanted: ExactDeviceRequest | DeviceSubRequest) -> str:
    """All of a request and its claim that decides which facts of a device matter: neither its name nor its count."""
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
    """The solution of a search. ``selected``: (claim, entry) -> alternative. ``plans``: those that were searched;
    ``named``: equal ones, whose requests the solution refers to."""
    devices = {device: number for number, device in enumerate(reachable.devices)}
    requests = dict(zip(_requests(plans), _requests(named), strict=True))
    picks = tuple(tuple((requests[choice.request], devices[choice.device]) for choice in choices) for choices in chosen)
    by_claim: tuple[dict[int, int], ...] = tuple({} for _ in plans)
    for (claim, entry), alternative in selected.items():
        by_claim[claim][entry] = alternative
    return Solution(picks, by_claim)


def _requests(plans: Sequence[ClaimPlan]) -> list[Request]:
    return [slots.request for plan in plans for entry in plan.requests for slots in entry.alternatives]
