"""Which claims a pod uses, and whether it may: names, owners and reservations of 1.26 to 1.31 (C-3.1, C-18.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.resource_v1 import ResourceClaimConsumerReference
from virt_dra.classic.objects import ClassicClaim
from virt_dra.classic.release import ClassicRelease
from virt_dra.scheduling.claim_references import (
    NotCreatedYet,
    NotNeeded,
    Resolved,
    UnsupportedClaimSource,
    claim_name,
    consumer_reference,
)


@dataclass(frozen=True)
class PodClaim:
    """A claim of a pod under the name of the pod's entry."""

    entry: str
    claim: ClassicClaim


@dataclass(frozen=True)
class MissingClaim:
    """Why a pod's claims can't be used yet."""

    message: str


ClaimLookup = Callable[[str, str], ClassicClaim | None]
"""Namespace and name -> the claim, if it exists."""


def fixed_name(pod: Pod, entry: PodResourceClaim) -> str:
    """The name of a generated claim before 1.28: it isn't recorded in the pod's status."""
    return f"{pod.name}-{entry.name}"


def name_of(pod: Pod, entry: PodResourceClaim, *, fixed: bool) -> Resolved | NotCreatedYet | NotNeeded:
    """As :func:`claim_name`; ``fixed``: a template's claim is known before it exists. Raises UnsupportedClaimSource."""
    if fixed and entry.resource_claim_name is None and entry.resource_claim_template_name is not None:
        return Resolved(fixed_name(pod, entry), must_check_owner=True)
    return claim_name(pod, entry)


def is_owned_by(claim: ClassicClaim, pod: Pod) -> bool:
    """Whether the claim was generated for this pod, by UID (C-3.2)."""
    return claim.is_controlled_by(pod) and claim.namespace == pod.namespace


def not_owner(claim: ClassicClaim, pod: Pod) -> str:
    """The error that a generated claim isn't this pod's."""
    return f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"


def resolve_claims(pod: Pod, lookup: ClaimLookup, release: ClassicRelease) -> tuple[PodClaim, ...] | MissingClaim:
    """The claims of a pod in its order, or what is missing first (C-5.1)."""
    claims: list[PodClaim] = []
    for entry in pod.spec.resource_claims:
        try:
            name = name_of(pod, entry, fixed=release.fixed_claim_names)
        except UnsupportedClaimSource as error:
            return MissingClaim(str(error))
        if isinstance(name, NotNeeded):
            continue
        if isinstance(name, NotCreatedYet):
            return MissingClaim(name.message)
        claim = lookup(pod.namespace, name.name)
        if claim is None:
            return MissingClaim(release.claim_not_found(pod.namespace, name.name))
        if claim.metadata.deletion_timestamp is not None:
            return MissingClaim(f'resourceclaim "{claim.name}" is being deleted')
        if name.must_check_owner and not is_owned_by(claim, pod):
            return MissingClaim(not_owner(claim, pod))
        claims.append(PodClaim(entry.name, claim))
    return tuple(claims)


def is_reserved(claim: ClassicClaim, pod: Pod) -> bool:
    """Whether the pod is among the claim's consumers, by UID (C-3.3)."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def is_reservable(claim: ClassicClaim) -> bool:
    """Whether one more consumer may be added: the allocation is shareable, as all of v1alpha3, or absent (C-18.7)."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    return bool(allocation.shareable) or claim.spec.controller is not None or not claim.status.reserved_for


def with_consumer(claim: ClassicClaim, pod: Pod, *, first: bool = False) -> ClassicClaim:
    """The claim, also reserved for the pod. ``first``: before its others, as a strategic merge patch adds it."""
    others, mine = claim.status.reserved_for, (consumer_reference(pod),)
    return claim.with_(status=claim.status.with_(reserved_for=(*mine, *others) if first else (*others, *mine)))


def with_consumers(claim: ClassicClaim, consumers: tuple[ResourceClaimConsumerReference, ...]) -> ClassicClaim:
    """The claim with exactly these consumers."""
    status = claim.status.with_(reserved_for=consumers) if consumers else claim.status.without("reserved_for")
    return claim.with_(status=status)


def claims_named_by(pod: Pod, *, fixed: bool) -> Iterator[tuple[str, str]]:
    """Namespace and name of the claims that a pod refers to, as far as they are known."""
    recorded = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or (fixed_name(pod, entry) if fixed else recorded.get(entry.name))
        if name:
            yield pod.namespace, name
