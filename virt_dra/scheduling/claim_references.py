"""Resolves a pod's claim entries to ResourceClaims, and a claim to the pods that own or reserve it (C-3), for scheduler
and controllers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod, PodResourceClaim, PodResourceClaimStatus
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from virt_dra.api.scheduling_v1 import GROUP, PodGroup, PodGroupResourceClaim, PodGroupResourceClaimStatus

PODS = "pods"
POD_GROUPS = "podgroups"
SCHEDULING_GROUP = GROUP


class UnsupportedClaimSource(ValueError):
    """A pod's claim entry has no known source: the API is newer, or the object never passed validation."""


@dataclass(frozen=True)
class Resolved:
    """The entry stands for the claim object of this name. ``must_check_owner``: if :func:`is_for_pod` must hold."""

    name: str
    must_check_owner: bool


@dataclass(frozen=True)
class NotCreatedYet:
    """The entry names a template and the claim controller has not recorded a claim for it."""

    message: str


@dataclass(frozen=True)
class NotNeeded:
    """The claim controller recorded that this entry needs no claim. Skip it everywhere."""


@dataclass(frozen=True)
class NotForPod:
    """Why a claim found through a pod's status was not created for that pod."""

    message: str


def claim_name(pod: Pod, pod_claim: PodResourceClaim) -> Resolved | NotCreatedYet | NotNeeded:
    """The name of the claim object in the pod's namespace that an entry of ``pod.spec.resourceClaims`` stands for
    (C-3.1). Raises :class:`UnsupportedClaimSource` if the entry names neither a claim nor a template."""
    if pod_claim.resource_claim_name is not None:
        return Resolved(pod_claim.resource_claim_name, must_check_owner=False)
    if pod_claim.resource_claim_template_name is None:
        raise UnsupportedClaimSource(
            f'pod "{pod.namespace}/{pod.name}", spec.resourceClaim "{pod_claim.name}": '
            "none of the supported fields are set"
        )
    return _recorded(pod_claim.name, pod.status.resource_claim_statuses, f'pod "{pod.namespace}/{pod.name}"')


def group_claim_name(group: PodGroup, entry: PodGroupResourceClaim) -> Resolved | NotCreatedYet | NotNeeded:
    """The name of the claim object that an entry of ``podGroup.spec.resourceClaims`` stands for, as :func:`claim_name`
    for pods. ``must_check_owner``: :func:`not_for_group` must be None before it is used."""
    if entry.resource_claim_name is not None:
        return Resolved(entry.resource_claim_name, must_check_owner=False)
    if entry.resource_claim_template_name is None:
        raise UnsupportedClaimSource(
            f"PodGroup {group.key}, spec.resourceClaim {entry.name}: none of the supported fields are set"
        )
    return _recorded(entry.name, group.status.resource_claim_statuses, f"PodGroup {group.key}")


def _recorded(
    entry: str, statuses: Iterable[PodResourceClaimStatus | PodGroupResourceClaimStatus], whose: str
) -> Resolved | NotCreatedYet | NotNeeded:
    """The claim that the claim controller recorded for an entry with a template."""
    for status in statuses:
        if status.name == entry:
            name = status.resource_claim_name
            return NotNeeded() if name is None else Resolved(name, must_check_owner=True)
    return NotCreatedYet(f"{whose}: ResourceClaim not created yet")


def not_for_group(claim: ResourceClaim, group: PodGroup) -> NotForPod | None:
    """Why the claim wasn't created for this PodGroup (by UID); None if it was."""
    claim_name, whose = f"ResourceClaim {claim.key}", f"PodGroup {group.key}"
    if claim.namespace != group.namespace:
        return NotForPod(f"{claim_name} is not in the same namespace as {whose}")
    owner = claim.metadata.controller_owner
    if owner is not None and owner.uid == group.metadata.uid:
        return None
    return NotForPod(f"{claim_name} was not created for {whose} (PodGroup is not owner)")


def bind_to(pod: Pod, group: PodGroup | None, entry: PodResourceClaim) -> ResourceClaimConsumerReference:
    """The consumer that the claim of a pod's entry is reserved for: the pod's group if the group has the same entry,
    else the pod (C-3.5). ``group``: the PodGroup that the pod names, None if it names none."""
    if group is not None and any(_same_entry(entry, shared) for shared in group.spec.resource_claims):
        return ResourceClaimConsumerReference(
            api_group=SCHEDULING_GROUP, resource=POD_GROUPS, name=group.name, uid=group.metadata.uid
        )
    return consumer_reference(pod)


def _same_entry(entry: PodResourceClaim, shared: PodGroupResourceClaim) -> bool:
    return (entry.name, entry.resource_claim_name, entry.resource_claim_template_name) == (
        shared.name, shared.resource_claim_name, shared.resource_claim_template_name
    )  # fmt: skip


def is_of_group(consumer: ResourceClaimConsumerReference) -> bool:
    """True if the reservation is a PodGroup's."""
    return consumer.api_group == SCHEDULING_GROUP and consumer.resource == POD_GROUPS


def not_for_pod(claim: ResourceClaim, pod: Pod, *, workload_claims: bool = False) -> NotForPod | None:
    """Why the claim wasn't created for this pod; None if it was (C-3.2). ``workload_claims``: gate
    DRAWorkloadResourceClaims; then the controller owner may also be the pod's PodGroup, by name."""
    claim_text, whose = f"ResourceClaim {claim.namespace}/{claim.name}", f"Pod {pod.namespace}/{pod.name}"
    if claim.namespace != pod.namespace:
        return NotForPod(f"{claim_text} is not in the same namespace as {whose}")
    owner = claim.metadata.controller_owner
    if owner is not None and owner.uid == pod.metadata.uid:
        return None
    group = pod_group_name(pod) if workload_claims else None
    if group is None:
        return NotForPod(f"{claim_text} was not created for {whose} (Pod is not owner)")
    # The version of the owner's API may change, its group may not.
    of_group = (
        owner is not None
        and owner.api_version.startswith(f"{SCHEDULING_GROUP}/")
        and owner.kind == "PodGroup"
        and owner.name == group
    )
    return (
        None
        if of_group
        else NotForPod(f"{claim_text} was not created for {whose} (neither Pod nor PodGroup {group} is the owner)")
    )


def is_for_pod(claim: ResourceClaim, pod: Pod, *, workload_claims: bool = False) -> bool:
    """True if the claim was created for this pod (C-3.2); :func:`not_for_pod` says why not."""
    return not_for_pod(claim, pod, workload_claims=workload_claims) is None


def is_reserved_for(claim: ResourceClaim, pod: Pod, *, workload_claims: bool = False) -> bool:
    """True if the pod (by UID), or with ``workload_claims`` its PodGroup (by name), is a consumer (C-3.3)."""
    group = pod_group_name(pod) if workload_claims else None
    return any(
        consumer.uid == pod.metadata.uid
        or (
            group is not None
            and consumer.api_group == SCHEDULING_GROUP
            and consumer.resource == POD_GROUPS
            and consumer.name == group
        )
        for consumer in claim.status.reserved_for
    )


def consumer_reference(pod: Pod) -> ResourceClaimConsumerReference:
    """The entry of ``claim.status.reservedFor`` that stands for a pod (C-3.5)."""
    return ResourceClaimConsumerReference(resource=PODS, name=pod.name, uid=pod.metadata.uid)


def with_reservations(
    status: ResourceClaimStatus, reserved_for: tuple[ResourceClaimConsumerReference, ...]
) -> ResourceClaimStatus:
    """A claim's status with these consumers; with none the key is absent, as Kubernetes writes it."""
    if reserved_for:
        return status.with_(reserved_for=reserved_for)
    return ResourceClaimStatus.from_wire(
        {key: value for key, value in status.to_wire().items() if key != "reservedFor"}
    )


def pod_group_name(pod: Pod) -> str | None:
    """``spec.schedulingGroup.podGroupName``, or None for a pod that is in no PodGroup."""
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name
