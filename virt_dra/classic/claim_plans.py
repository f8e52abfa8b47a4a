"""What the claim controller of 1.26 to 1.31 does about a pod or a claim: pure decisions (C-18.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod, PodResourceClaim, PodResourceClaimStatus
from virt_dra.api.meta import ObjectMeta, controller_reference
from virt_dra.api.resource_v1 import POD_CLAIM_NAME_ANNOTATION, ResourceClaimConsumerReference
from virt_dra.classic.objects import (
    BUILTIN_FINALIZER,
    ClassicClaim,
    ClassicClaimTemplate,
    PodSchedulingContext,
    SchedulingContextSpec,
)
from virt_dra.classic.pod_claims import (
    ClaimLookup,
    fixed_name,
    is_owned_by,
    is_reservable,
    is_reserved,
    name_of,
    not_owner,
    with_consumers,
)
from virt_dra.controllers.loops.claims.creating import generated_metadata
from virt_dra.controllers.loops.claims.releasing import is_done
from virt_dra.scheduling.claim_references import PODS, NotNeeded, Resolved, UnsupportedClaimSource


@dataclass(frozen=True)
class NewClaim:
    """Create the claim of a pod's entry from its template."""

    entry: str
    claim: ClassicClaim


@dataclass(frozen=True)
class NoClaim:
    """The claim of an entry can't be made; reported on the pod."""

    entry: str
    message: str


@dataclass(frozen=True)
class ClaimsKnown:
    """All claims of the pod exist. ``statuses``: what to record in its status, None if it is recorded or needn't be."""

    statuses: tuple[PodResourceClaimStatus, ...] | None


@dataclass(frozen=True)
class PodView:
    """``owned``: the claims that a pod owns, by its UID."""

    claim: ClaimLookup
    owned: Callable[[str], Sequence[ClassicClaim]]
    template: Callable[[str, str], ClassicClaimTemplate | None]
    context: Callable[[str, str], PodSchedulingContext | None]
    fixed: bool


def next_for_pod(pod: Pod, view: PodView) -> NewClaim | NoClaim | ClaimsKnown:
    """The first claim that is missing, or what to record of all. One made before a crash is found by its owner."""
    names: dict[str, str] = {}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None or entry.resource_claim_template_name is None:
            continue
        claim = _existing(pod, entry, view)
        if isinstance(claim, NoClaim):
            return claim
        if claim is None:
            return _new_claim(pod, entry, view)
        names[entry.name] = claim.name
    if view.fixed or not names:
        return ClaimsKnown(None)
    kept = {status.name: status for status in pod.status.resource_claim_statuses}
    wanted = {
        **kept,
        **{name: PodResourceClaimStatus(name=name, resource_claim_name=claim) for name, claim in names.items()},
    }
    return ClaimsKnown(None if wanted == kept else tuple(wanted[name] for name in sorted(wanted)))


def _existing(pod: Pod, entry: PodResourceClaim, view: PodView) -> ClassicClaim | NoClaim | None:
    if view.fixed:
        claim = view.claim(pod.namespace, fixed_name(pod, entry))
        if claim is not None and not is_owned_by(claim, pod):
            return NoClaim(entry.name, not_owner(claim, pod))
        return claim
    claim = view.claim(pod.namespace, pod.claim_names.get(entry.name, ""))
    if claim is not None and is_owned_by(claim, pod):
        return claim
    mine = (claim for claim in view.owned(pod.metadata.uid) if is_owned_by(claim, pod))
    return next(
        (claim for claim in mine if claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION) == entry.name), None
    )


def _new_claim(pod: Pod, entry: PodResourceClaim, view: PodView) -> NewClaim | NoClaim:
    name = entry.resource_claim_template_name or ""
    template = view.template(pod.namespace, name)
    if template is None:
        not_found = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
        return NoClaim(entry.name, f'resource claim template "{name}": {not_found}')
    metadata = generated_metadata(pod, entry.name, template.spec.metadata)
    if view.fixed:
        metadata = metadata.without("generate_name").with_(name=fixed_name(pod, entry))
    return NewClaim(entry.name, ClassicClaim(metadata=metadata, spec=template.spec.spec))


@dataclass(frozen=True)
class ReserveFor:
    """Add the pod, which has a node, to the claim's consumers."""

    claim: ClassicClaim


@dataclass(frozen=True)
class AskDrivers:
    """Create or change the pod's scheduling context, so that drivers allocate for the node that the pod has."""

    context: PodSchedulingContext
    new: bool


def for_scheduled_pod(pod: Pod, view: PodView) -> tuple[ReserveFor | AskDrivers, ...]:
    """What a pod needs that got its node without the scheduler, in the order of its claims: the first one that drivers
    have to allocate, or that isn't there, ends it (C-18.7)."""
    actions: list[ReserveFor | AskDrivers] = []
    for entry in pod.spec.resource_claims if pod.spec.node_name else ():
        try:
            name = name_of(pod, entry, fixed=view.fixed)
        except UnsupportedClaimSource:
            break
        if isinstance(name, NotNeeded):
            continue
        claim = view.claim(pod.namespace, name.name) if isinstance(name, Resolved) else None
        if claim is None or not isinstance(name, Resolved) or (name.must_check_owner and not is_owned_by(claim, pod)):
            break
        if claim.status.allocation is None and claim.delayed:
            return (*actions, *_ask_drivers(pod, view.context(pod.namespace, pod.name)))
        if not is_reserved(claim, pod) and is_reservable(claim) and not claim.deallocating:
            actions.append(ReserveFor(claim))
    return tuple(actions)


def _ask_drivers(pod: Pod, context: PodSchedulingContext | None) -> tuple[AskDrivers, ...]:
    """Select the pod's node, if that isn't done. Another pod's context is left alone."""
    if context is None:
        spec = SchedulingContextSpec(selected_node=pod.spec.node_name or "")
        return (AskDrivers(new_context(pod, spec), new=True),)
    if context.spec.selected_node == pod.spec.node_name or not context.is_controlled_by(pod):
        return ()
    return (AskDrivers(context.with_(spec=context.spec.with_(selected_node=pod.spec.node_name)), new=False),)


def new_context(pod: Pod, spec: SchedulingContextSpec) -> PodSchedulingContext:
    """A scheduling context of a pod, which owns it as controller."""
    owners = (controller_reference(pod),)
    return PodSchedulingContext(
        metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, owner_references=owners), spec=spec
    )


# --- claims ---


@dataclass(frozen=True)
class ClaimCleanup:
    """The writes for a claim, in order: its status, its finalizers, its deletion. None or False: not needed."""

    status: ClassicClaim | None = None
    unprotect: bool = False
    delete: bool = False


def for_claim(
    claim: ClassicClaim, alive: Callable[[ResourceClaimConsumerReference], bool], owner: Pod | None
) -> ClaimCleanup:
    """Drop consumers that are gone; with the last one a delayed claim is deallocated in the same write (C-18.7).
    ``alive``: whether a consumer that is a pod still needs the claim. ``owner``: the pod of the claim's owner
    reference, if it is known."""
    reserved = claim.status.reserved_for
    kept = tuple(
        consumer for consumer in reserved if consumer.api_group or consumer.resource != PODS or alive(consumer)
    )
    builtin = BUILTIN_FINALIZER in claim.metadata.finalizers
    new = claim if kept == reserved else with_consumers(claim, kept)
    deleting = claim.metadata.deletion_timestamp is not None
    released = bool(reserved) and not kept
    if builtin and not kept and (deleting or (released and claim.delayed)):
        new = new.with_(status=new.status.without("allocation"))
    elif released and claim.delayed and claim.status.allocation is not None and not claim.deallocating:
        new = new.with_(status=new.status.with_(deallocation_requested=True))
    unprotect = builtin and not kept and new.status.allocation is None and (deleting or released)
    return ClaimCleanup(
        new if new != claim else None, unprotect, delete=not kept and not deleting and _is_unused(claim, owner)
    )


def _is_unused(claim: ClassicClaim, owner: Pod | None) -> bool:
    """Whether a generated claim's pod is known, and done or another. An unknown one is left to garbage collection."""
    reference = claim.metadata.controller_owner
    if reference is None or reference.kind != "Pod" or owner is None:
        return False
    return owner.metadata.uid != reference.uid or is_done(owner)
