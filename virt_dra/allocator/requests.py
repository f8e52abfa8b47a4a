"""Plans of claims for the search (A-6): every pre-check, then one form for exact requests and alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.features import admin_access, allocation_mode, derived_attributes, prioritized_list
from virt_dra.allocator.features.allocation_mode import Selectable
from virt_dra.allocator.features.prioritized_list import Alternative
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import RESULT_LIMIT, ClaimPlan, Request, RequestPlan, Slots
from virt_dra.allocator.pools import Reachable
from virt_dra.api.resource_v1 import DeviceClass, DeviceRequest, ResourceClaim


def plan_claims(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    reachable: Reachable,
    features: Features,
    selectable: Selectable,
) -> tuple[ClaimPlan, ...]:
    """All pre-checks of all claims in order (A-6); the first problem raises :class:`FatalError` or, for All, NodeError
    (AC-9)."""
    return tuple(_plan_claim(i, claim, classes, reachable, features, selectable) for i, claim in enumerate(claims))


def _plan_claim(
    index: int,
    claim: ResourceClaim,
    classes: Mapping[str, DeviceClass],
    reachable: Reachable,
    features: Features,
    selectable: Selectable,
) -> ClaimPlan:
    plans: list[RequestPlan] = []
    accounted = 0
    for entry in claim.spec.devices.requests:
        prioritized = prioritized_list.is_prioritized(claim, entry, features)
        _check_capacity(claim, entry, features)
        slots: list[Slots] = []
        for alternative in prioritized_list.alternatives(claim, entry):
            request = _request(index, claim, alternative, classes, features)
            slots.append(allocation_mode.slots(request, reachable, selectable))
        least = min(slot.count for slot in slots)
        if least > RESULT_LIMIT - accounted:
            raise FatalError(
                f"claim {claim.key}, request {entry.name}: adding {least} devices "
                f"exceeds the claim limit of {RESULT_LIMIT}, "
                f"with {accounted} already accounted for"
            )
        accounted += least
        plans.append(RequestPlan(entry.name, tuple(slots), prioritized))
    for i, constraint in enumerate(claim.spec.devices.constraints):
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            raise FatalError(f"claim {claim.key}, constraint #{i}: empty constraint (unsupported constraint type?)")
    return ClaimPlan(claim, tuple(plans))


def _check_capacity(claim: ResourceClaim, entry: DeviceRequest, features: Features) -> None:
    wanting = [("request", entry.name, entry.exactly.capacity)] if entry.exactly is not None else []
    wanting += [("subrequest", sub.name, sub.capacity) for sub in entry.first_available]
    for word, name, capacity in wanting:
        if capacity is not None and not features.consumable_capacity:
            raise FatalError(
                f"claim {claim.key}, {word} {name}: has capacity requests, but "
                "the DRAConsumableCapacity feature is disabled"
            )


def _request(
    index: int, claim: ResourceClaim, alternative: Alternative, classes: Mapping[str, DeviceClass], features: Features
) -> Request:
    name, wanted = alternative.name, alternative.wanted
    subject = f"claim {claim.key}, request {name}"
    derived = derived_attributes.expressions(subject, wanted, features)
    selectors: list[str] = []
    for i, selector in enumerate(wanted.selectors):
        if selector.cel is None:
            raise FatalError(f"{subject}, selector #{i}: CEL expression empty (unsupported selector type?)")
        selectors.append(selector.cel.expression)
    admin = admin_access.wants(subject, wanted, features)
    if not wanted.device_class_name:
        raise FatalError(f"{subject}: missing device class name (unsupported request type?)")
    device_class = classes.get(wanted.device_class_name)
    if device_class is None:
        raise FatalError(
            f"{subject}: could not retrieve device class {wanted.device_class_name}: "
            f'deviceclass.resource.k8s.io "{wanted.device_class_name}" not found'
        )
    return Request(
        claim_index=index,
        claim=claim,
        name=name,
        parent=alternative.parent,
        device_class=device_class,
        selectors=tuple(selectors),
        mode=wanted.allocation_mode,
        count=wanted.count,
        admin_access=admin,
        tolerations=wanted.tolerations,
        capacity=wanted.capacity.requests if wanted.capacity is not None else {},
        derived=derived,
    )
