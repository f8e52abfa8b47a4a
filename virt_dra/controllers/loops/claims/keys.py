"""The objects for which a change is work (C-10.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import TypedObject
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.controllers.loops.claims.actions import ClaimOwner
from virt_dra.controllers.loops.claims.creating import group_needs_work, name_of, needs_work
from virt_dra.controllers.loops.claims.releasing import is_done
from virt_dra.controllers.loops.claims.view import ClaimView
from virt_dra.scheduling.claim_references import Resolved, UnsupportedClaimSource


class WorkKey(NamedTuple):
    """An object that is to be reconciled."""

    kind: Literal["pod", "podgroup", "claim"]
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


def key_for(kind: Literal["pod", "podgroup", "claim"], obj: TypedObject) -> WorkKey:
    return WorkKey(kind, obj.namespace, obj.name)


def concerns_claims(pod: Pod) -> bool:
    """Whether a pod has claims at all, of its own or for extended resources."""
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def keys_of_pod(view: ClaimView, pod: Pod, gates: FeatureGates, *, deleted: bool) -> Iterator[WorkKey]:
    """The work that a pod as it is (``deleted``: was) makes: its claims once it is done with them, itself if it lacks
    one."""
    if not concerns_claims(pod):
        return
    if deleted or is_done(pod):
        yield from _claims_named_by(pod)
        extended = pod.status.extended_resource_claim_status
        if extended is not None:
            yield WorkKey("claim", pod.namespace, extended.resource_claim_name)
        # No status names a claim that was made before a crash and never recorded.
        yield from (key_for("claim", claim) for claim in view.claims_of(pod.namespace, pod.metadata.uid))
    if not deleted and needs_work(view, pod, gates):
        yield key_for("pod", pod)


def keys_of_group(view: ClaimView, group: PodGroup, *, deleted: bool) -> Iterator[WorkKey]:
    """The work that a PodGroup makes, as :func:`keys_of_pod`; a group needs its claims until it is deleted."""
    if not group.spec.resource_claims:
        return
    if deleted:
        yield from _claims_named_by(group)
    elif group_needs_work(view, group):
        yield key_for("podgroup", group)


def names_of(owner: ClaimOwner) -> Iterator[str]:
    """The names of an owner's claims, as far as they are known."""
    for entry in owner.spec.resource_claims:
        try:
            reference = name_of(owner, entry)
        except UnsupportedClaimSource:
            continue
        if isinstance(reference, Resolved):
            yield reference.name


def _claims_named_by(owner: ClaimOwner) -> Iterator[WorkKey]:
    for name in names_of(owner):
        yield WorkKey("claim", owner.namespace, name)
