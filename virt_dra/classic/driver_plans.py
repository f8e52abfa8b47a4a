"""What a driver's controller does about a claim or a scheduling context: pure decisions over what was read (C-18.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.classic.objects import (
    NODES_MAX,
    ClaimSchedulingStatus,
    ClassicClaim,
    ClassicDeviceClass,
    PodSchedulingContext,
    ResourceClass,
    driver_finalizer,
)
from virt_dra.classic.pod_claims import ClaimLookup, MissingClaim, PodClaim, is_owned_by, name_of, not_owner
from virt_dra.scheduling.claim_references import Resolved, UnsupportedClaimSource

AnyClass = ResourceClass | ClassicDeviceClass


@dataclass(frozen=True)
class Nothing:
    """Nothing to do. ``retry``: to be tried again, as its class may change its driver; ``missing``: it has none."""

    retry: bool = False
    missing: str = ""


@dataclass(frozen=True)
class Deallocate:
    """Free the claim, clear its status, then remove the finalizer."""


@dataclass(frozen=True)
class Unprotect:
    """Remove the finalizer that an interrupted deallocation left."""


@dataclass(frozen=True)
class AllocateNow:
    """Allocate for any node. ``resource_class``: the claim's; None for one with a controller that names no class."""

    resource_class: AnyClass | None


DriverClaimPlan = Nothing | Deallocate | Unprotect | AllocateNow
ClassLookup = Callable[[ClassicClaim, str], AnyClass | None]
"""A claim and the name of one of its classes, or "" for its first."""


def class_requests(claim: ClassicClaim) -> Iterator[tuple[str, str]]:
    """Name and class of each request of a claim of v1alpha3."""
    if claim.spec.devices is not None:
        for request in claim.spec.devices.requests:
            yield request.name, request.device_class_name


def class_names(claim: ClassicClaim) -> tuple[str, ...]:
    """The classes that a claim names: its own, or those of its requests (v1alpha3)."""
    if claim.spec.controller is None:
        return (claim.spec.resource_class_name,)
    return tuple(dict.fromkeys(name for _, name in class_requests(claim) if name))


def driver_of(claim: ClassicClaim, cls: AnyClass | None) -> str | None:
    """The driver that is to allocate a claim: its controller, else its class's; None without a class."""
    if claim.spec.controller is not None:
        return claim.spec.controller
    return cls.driver_name if isinstance(cls, ResourceClass) else None


def is_structured(cls: AnyClass | None) -> bool:
    """Whether the scheduler allocates claims of the class, not a driver's controller."""
    return isinstance(cls, ResourceClass) and bool(cls.structured_parameters)


def no_class(name: str) -> str:
    """The error of a look-up of a ResourceClass."""
    return f'resourceclass.resource.k8s.io "{name}" not found'


def plan_claim(claim: ClassicClaim, classes: ClassLookup, driver: str, *, releasing: bool = False) -> DriverClaimPlan:
    """C-18.5.1: in-use claims are left alone, released ones deallocated, immediate ones allocated. ``releasing``: this
    process began to deallocate the claim; without that, a finalizer on an unallocated claim may be that of an
    allocation in progress, and stays until the claim is allocated or deleted, as upstream."""
    if claim.status.reserved_for:
        return Nothing()
    if claim.metadata.deletion_timestamp is not None or claim.deallocating:
        return Deallocate() if driver_finalizer(driver) in claim.metadata.finalizers else Nothing()
    if releasing and claim.status.allocation is None and driver_finalizer(driver) in claim.metadata.finalizers:
        return Unprotect()
    if claim.status.allocation is not None or claim.delayed:
        return Nothing()
    cls = classes(claim, "")
    responsible = driver_of(claim, cls)
    if responsible is None:
        return Nothing(missing=no_class(claim.spec.resource_class_name))
    if is_structured(cls):
        return Nothing()
    if responsible != driver:
        return Nothing(retry=True)
    return AllocateNow(cls)


def is_left_over(claim: ClassicClaim, driver: str) -> bool:
    """Whether a driver that starts finds the claim in the middle of something: protected, with nothing allocated."""
    return claim.status.allocation is None and driver_finalizer(driver) in claim.metadata.finalizers


def deallocated(claim: ClassicClaim) -> ClassicClaim:
    """The claim as it was before its allocation."""
    return claim.with_(status=claim.status.without("allocation", "driver_name", "deallocation_requested"))


# --- scheduling contexts ---


def wants_answers(context: PodSchedulingContext) -> bool:
    """Whether the scheduler asks for anything."""
    alive = context.metadata.deletion_timestamp is None
    return alive and bool(context.spec.selected_node or context.spec.potential_nodes)


def claims_to_allocate(
    pod: Pod, lookup: ClaimLookup, classes: ClassLookup, driver: str, *, fixed: bool
) -> tuple[PodClaim, ...] | MissingClaim:
    """The pod's claims that this driver allocates when the pod has a node: delayed, unallocated, its own. Missing ones
    are left out; one without a class, or of another pod, keeps all from being looked at."""
    claims: list[PodClaim] = []
    for entry in pod.spec.resource_claims:
        try:
            name = name_of(pod, entry, fixed=fixed)
        except UnsupportedClaimSource as error:
            return MissingClaim(f"pod claim {entry.name}: {error}")
        claim = lookup(pod.namespace, name.name) if isinstance(name, Resolved) else None
        if claim is None or not isinstance(name, Resolved):
            continue
        if name.must_check_owner and not is_owned_by(claim, pod):
            return MissingClaim(f"pod claim {entry.name}: {not_owner(claim, pod)}")
        if claim.status.allocation is not None or not claim.delayed or claim.metadata.deletion_timestamp is not None:
            continue
        missing = _missing_class(claim, classes, driver)
        if missing:
            return MissingClaim(f"pod claim {entry.name}: {missing}")
        cls = classes(claim, "")
        if driver_of(claim, cls) == driver and not is_structured(cls):
            claims.append(PodClaim(entry.name, claim))
    return tuple(claims)


def _missing_class(claim: ClassicClaim, classes: ClassLookup, driver: str) -> str:
    """The error that a class of the claim isn't there; those of another driver's requests aren't looked at."""
    if claim.spec.controller is None:
        return no_class(claim.spec.resource_class_name) if classes(claim, "") is None else ""
    for request, name in class_requests(claim) if claim.spec.controller == driver else ():
        if not name:
            return f"claim {claim.key}: unknown request type in request {request}"
        if classes(claim, name) is None:
            not_found = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"claim {claim.key}: request {request}: class {name}: {not_found}"
    return ""


def nodes_to_ask_about(context: PodSchedulingContext) -> tuple[str, ...]:
    """The potential nodes and the selected one. None for a pod that was scheduled: no node can be refused for it."""
    potential, selected = context.spec.potential_nodes, context.spec.selected_node
    if not potential or not selected or selected in potential:
        return potential
    return (*potential, selected)


def truncated(unsuitable: Collection[str], selected: str) -> tuple[str, ...]:
    """At most 128 nodes, sorted; the selected node is among them if it is unsuitable (C-18.5.3)."""
    nodes = sorted(set(unsuitable))
    if len(nodes) <= NODES_MAX:
        return tuple(nodes)
    kept = nodes[:NODES_MAX]
    return tuple(sorted([*kept[:-1], selected])) if selected in nodes and selected not in kept else tuple(kept)


def with_answers(context: PodSchedulingContext, answers: Mapping[str, Sequence[str]]) -> PodSchedulingContext:
    """The context with this driver's entries replaced, in place. The same object if nothing changes."""
    left = dict(answers)
    entries = [
        _with_nodes(status, left.pop(status.name)) if status.name in left else status
        for status in context.status.resource_claims
    ]
    entries += [_with_nodes(ClaimSchedulingStatus(name=name), nodes) for name, nodes in left.items()]
    if tuple(entries) == context.status.resource_claims:
        return context
    return context.with_(status=context.status.with_(resource_claims=tuple(entries)))


def _with_nodes(entry: ClaimSchedulingStatus, nodes: Sequence[str]) -> ClaimSchedulingStatus:
    """An empty list isn't written."""
    return entry.with_(unsuitable_nodes=tuple(nodes)) if nodes else entry.without("unsuitable_nodes")
