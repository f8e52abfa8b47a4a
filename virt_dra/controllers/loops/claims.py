"""The resource claim controller: claims from templates, their names in pod status, reservations and their release (C-10).

Level-triggered: each pass reconciles all claims, and plans nothing if all are up to date. A pass that creates claims leaves
recording their names to the next one, which finds them by owner and annotation as after a crash (C-10.5.2).

Not here: PodGroups (gates GenericWorkload and DRAWorkloadResourceClaims, off by default); a pod in one is refused by name (C-10.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Pod, PodResourceClaim, PodResourceClaimStatus
from virt_dra.api.meta import ObjectMeta, OwnerReference
from virt_dra.api.resource_v1 import (
    FINALIZER,
    POD_CLAIM_NAME_ANNOTATION,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from virt_dra.cluster.port import ApiError, Cluster, NotFound, Reader, Writer
from virt_dra.controllers.events import Event, is_stale, warning
from virt_dra.scheduling.claim_references import (
    PODS,
    NotNeeded,
    Resolved,
    UnsupportedClaimSource,
    claim_name,
    consumer_reference,
    is_for_pod,
    is_reserved_for,
    not_for_pod,
    pod_group_name,
    with_reservations,
)

CREATION_FAILED: Final = "FailedResourceClaimCreation"
"""A claim of the pod can't be made now; tried again (C-10.4)."""
POD_GROUP_DISABLED: Final = "PodGroupDisabled"
"""The pod is in a PodGroup, which only the gate GenericWorkload allows; not tried again (C-10.4)."""
WRONG_OWNER: Final = "WrongClaimOwner"
"""The claim of a bound pod belongs to another pod and is not reserved (C-10.7)."""
RECORDING_FAILED: Final = "FailedResourceClaimStatusUpdate"
"""The names of a pod's claims could not be written to its status; tried again (C-10.6)."""
RESERVATION_FAILED: Final = "FailedResourceClaimReservation"
"""Reservations of a claim could not be changed; tried again (C-10.7, C-10.10)."""
RELEASE_FAILED: Final = "FailedResourceClaimRelease"
"""A claim's finalizer could not be removed, or an unused generated claim not deleted; tried again (C-10.11, C-10.12)."""

LONGEST_BASE = 57
"""Bytes of a generated name before the API server's five random ones: 63, less those and one (C-10.5.5)."""


@dataclass(frozen=True)
class ClaimInputs:
    """All objects of one namespace, or of all."""

    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    templates: tuple[ResourceClaimTemplate, ...]


@dataclass(frozen=True)
class CreateClaim:
    """Create a claim from a template for one entry of a pod."""

    pod: Pod
    entry: str
    claim: ResourceClaim


@dataclass(frozen=True)
class RecordClaimNames:
    """Write all names of a pod's generated claims into its status, sorted by entry (C-10.6)."""

    pod: Pod
    statuses: tuple[PodResourceClaimStatus, ...]


@dataclass(frozen=True)
class ChangeReservations:
    """Set ``reservedFor``; with ``deallocate`` also clear the allocation and then remove the finalizer (C-10.7, C-10.10)."""

    claim: ResourceClaim
    reserved_for: tuple[ResourceClaimConsumerReference, ...]
    deallocate: bool


@dataclass(frozen=True)
class UnblockDeletion:
    """Clear what is left of the allocation and remove the finalizer of a claim that is being deleted (C-10.11)."""

    claim: ResourceClaim


@dataclass(frozen=True)
class DeleteClaim:
    """Delete a generated claim whose pod is done or replaced (C-10.12), and only that one (its UID; C-20.13)."""

    claim: ResourceClaim


ClaimAction = CreateClaim | RecordClaimNames | ChangeReservations | UnblockDeletion | DeleteClaim


@dataclass(frozen=True)
class ClaimControllerPlan:
    """``actions``: the writes, in order. ``events``: why pods don't get their claims."""

    actions: tuple[ClaimAction, ...]
    events: tuple[Event, ...]


async def gather(reader: Reader, namespace: str = "") -> ClaimInputs:
    """Everything of one namespace, or of all.

    Claims are read before pods, so that a consumer that is not among the pods is certainly gone (C-10.9). A claim that a
    pod's status names and that came after the list is read on its own, so that it isn't created twice (C-10.5.1); then the pods are
    listed again, since that claim may have consumers younger than the first list.
    """
    claims = {claim.key: claim for claim in (await reader.list(ResourceClaim, namespace)).items}
    missing: set[tuple[str, str]] = set()
    late = True
    while late:
        late = False
        pods = (await reader.list(Pod, namespace)).items
        for name, space in _recorded_names(pods):
            if f"{space}/{name}" in claims or (name, space) in missing:
                continue
            try:
                claim = await reader.get(ResourceClaim, name, space)
            except NotFound:
                missing.add((name, space))
            else:
                claims[claim.key] = claim
                late = True
    return ClaimInputs(pods, tuple(claims.values()), (await reader.list(ResourceClaimTemplate, namespace)).items)


def _recorded_names(pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
    for pod in pods:
        for status in pod.status.resource_claim_statuses:
            if status.resource_claim_name:
                yield status.resource_claim_name, pod.namespace


def plan(inputs: ClaimInputs) -> ClaimControllerPlan:
    """What to do for all pods and then for all claims, each in the order of their keys."""
    claims = {claim.key: claim for claim in sorted(inputs.claims, key=lambda claim: claim.key)}
    view = _View(
        {pod.key: pod for pod in inputs.pods}, claims, {template.key: template for template in inputs.templates}, _by_owner(claims.values())
    )
    actions: list[ClaimAction] = []
    events: list[Event] = []
    joining: dict[str, list[ResourceClaimConsumerReference]] = defaultdict(list)
    for _, pod in sorted(view.pods.items()):
        for decided in _for_pod(view, pod):
            if isinstance(decided, Event):
                events.append(decided)
            elif isinstance(decided, _Reserve):
                joining[decided.claim.key].append(consumer_reference(pod))
            else:
                actions.append(decided)
    for key, claim in claims.items():
        actions += _for_claim(view, claim, tuple(joining[key]))
    return ClaimControllerPlan(tuple(actions), tuple(events))


@dataclass(frozen=True)
class _View:
    """The inputs by ``namespace/name``, and generated claims by their pod's UID."""

    pods: Mapping[str, Pod]
    claims: Mapping[str, ResourceClaim]
    templates: Mapping[str, ResourceClaimTemplate]
    owned: Mapping[str, tuple[ResourceClaim, ...]]


@dataclass(frozen=True)
class _Reserve:
    claim: ResourceClaim


def _by_owner(claims: Iterable[ResourceClaim]) -> Mapping[str, tuple[ResourceClaim, ...]]:
    owned: dict[str, tuple[ResourceClaim, ...]] = {}
    for claim in claims:
        owner = _owning_pod(claim)
        if owner is not None:
            owned[owner.uid] = (*owned.get(owner.uid, ()), claim)
    return owned


def _owning_pod(claim: ResourceClaim) -> OwnerReference | None:
    owner = claim.metadata.controller_owner
    return owner if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else None


def is_done(pod: Pod) -> bool:
    """Whether a pod needs no claims any more: it has finished, or is being deleted without ever having had a node (C-10.2)."""
    return pod.status.phase in ("Succeeded", "Failed") or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


# --- pods: creating, recording, reserving -------------------------------------------------------------------------


def _for_pod(view: _View, pod: Pod) -> list[ClaimAction | Event | _Reserve]:
    """C-10.4 to C-10.7. The first claim that can't be had stops the pod's turn; what was made before is found again."""
    if not pod.spec.resource_claims or is_done(pod) or pod.metadata.deletion_timestamp is not None:
        return []
    group = pod_group_name(pod)
    if group is not None:
        message = f"Pod is a member of PodGroup {group} but GenericWorkload feature is disabled"
        return [warning(pod, POD_GROUP_DISABLED, message, retry=False)]
    created: list[ClaimAction | Event | _Reserve] = []
    found: dict[str, str] = {}
    for entry in pod.spec.resource_claims:
        try:
            claim = _claim_for(view, pod, entry)
        except (UnsupportedClaimSource, _NoTemplate) as error:
            return [*created, warning(pod, CREATION_FAILED, f"PodResourceClaim {entry.name}: {error}")]
        if isinstance(claim, CreateClaim):
            created.append(claim)
        elif claim is not None:
            found[entry.name] = claim
    if created:
        return created  # the next pass records the names
    recorded = _recorded(pod)
    if any(recorded.get(entry) != name for entry, name in found.items()):
        statuses = tuple(PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in sorted((recorded | found).items()))
        written = pod.with_(status=pod.status.with_(resource_claim_statuses=statuses))
        return [RecordClaimNames(pod, statuses), *_reservations(view, written)]  # by the names as they are then, not by stale ones
    return _reservations(view, pod)


def _recorded(pod: Pod) -> dict[str, str]:
    return {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses if s.resource_claim_name is not None}


class _NoTemplate(Exception):
    """The template of an entry does not exist."""


def _claim_for(view: _View, pod: Pod, entry: PodResourceClaim) -> str | CreateClaim | None:
    """The name of the generated claim of an entry, or what to create, or None if the entry needs none (C-10.5)."""
    reference = claim_name(pod, entry)
    if isinstance(reference, NotNeeded):
        return None
    if isinstance(reference, Resolved):
        if not reference.must_check_owner:
            return None
        claim = view.claims.get(f"{pod.namespace}/{reference.name}")
        if claim is not None and is_for_pod(claim, pod):
            return claim.name
    for orphan in view.owned.get(pod.metadata.uid, ()):
        if orphan.namespace == pod.namespace and orphan.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION) == entry.name:
            return orphan.name
    name = entry.resource_claim_template_name or ""
    template = view.templates.get(f"{pod.namespace}/{name}")
    if template is None:
        raise _NoTemplate(f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found')
    return CreateClaim(pod, entry.name, generated_claim(pod, entry.name, template))


def generated_claim(pod: Pod, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """The claim to create for an entry of a pod: the template's labels, annotations and spec, owned by the pod (C-10.5.5)."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.metadata.uid, controller=True)
    given = template.spec.metadata
    metadata = ObjectMeta(
        generate_name=generate_name(pod.name, entry),
        namespace=pod.namespace,
        annotations={**given.annotations, POD_CLAIM_NAME_ANNOTATION: entry},
        owner_references=(owner,),
    )
    if given.labels:
        metadata = metadata.with_(labels=given.labels)
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def generate_name(pod: str, entry: str) -> str:
    """``<pod>-<entry>-``; if that is too long both parts shortened in proportion, and then no hyphen at the end (C-10.5.5)."""
    base = f"{pod}-{entry}-"
    length = len(base.encode())
    if length <= LONGEST_BASE:
        return base
    return f"{_first_part(pod, length)}-{_first_part(entry, length)}"


def _first_part(name: str, length: int) -> str:
    """The share of a name in LONGEST_BASE of ``length`` bytes. A character that would be cut in two (no valid name has one) goes."""
    raw = name.encode()
    return raw[: len(raw) * LONGEST_BASE // length].decode(errors="ignore")


def _reservations(view: _View, pod: Pod) -> list[ClaimAction | Event | _Reserve]:
    """For a pod that already has a node: its allocated claims are reserved for it, unallocated ones are left alone (C-10.7)."""
    decided: list[ClaimAction | Event | _Reserve] = []
    if not pod.spec.node_name:
        return decided
    for entry in pod.spec.resource_claims:
        reference = claim_name(pod, entry)
        if not isinstance(reference, Resolved):
            continue
        claim = view.claims.get(f"{pod.namespace}/{reference.name}")
        if claim is None:
            break
        foreign = not_for_pod(claim, pod) if reference.must_check_owner else None
        if foreign is not None:
            return [*decided, warning(pod, WRONG_OWNER, foreign.message)]
        if claim.status.allocation is not None and not is_reserved_for(claim, pod):
            decided.append(_Reserve(claim))
    return decided


# --- claims: releasing, deallocating, deleting --------------------------------------------------------------------


def _for_claim(view: _View, claim: ResourceClaim, joining: tuple[ResourceClaimConsumerReference, ...]) -> list[ClaimAction]:
    """C-10.9 to C-10.12, and the reservations that pods with a node need."""
    actions: list[ClaimAction] = []
    reserved = claim.status.reserved_for
    kept = tuple(consumer for consumer in reserved if _keeps(view, claim.namespace, consumer))
    # Two entries of one pod may name one claim; it is reserved for the pod once.
    wanted = (*kept, *{consumer.uid: consumer for consumer in joining}.values())
    protected = FINALIZER in claim.metadata.finalizers
    if wanted != reserved:
        actions.append(ChangeReservations(claim, wanted, deallocate=not wanted and protected))
    elif protected and claim.metadata.deletion_timestamp is not None and not wanted:
        actions.append(UnblockDeletion(claim))
    owner = _owning_pod(claim)
    if not wanted and owner is not None:
        pod = view.pods.get(f"{claim.namespace}/{owner.name}")
        # An owner that isn't there is left to garbage collection; it may only be younger than our view.
        unused = pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))
        if unused and claim.metadata.deletion_timestamp is None:
            actions.append(DeleteClaim(claim))
    return actions


def _keeps(view: _View, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
    """Whether a reservation still holds. Those of anything but pods are not ours to drop (C-10.9)."""
    if consumer.api_group or consumer.resource != PODS:
        return True
    pod = view.pods.get(f"{namespace}/{consumer.name}")
    return pod is not None and pod.metadata.uid == consumer.uid and not is_done(pod)


# --- apply --------------------------------------------------------------------------------------------------------


async def apply(writer: Writer, actions: Iterable[ClaimAction]) -> tuple[Event, ...]:
    """Write in order; refused writes are returned as Events. An object that has changed or been deleted since is left to the next pass.

    The first error ends the turn of the pod (C-10.4) or of the claim: one that could not be released is not deleted either (C-10.12).
    """
    events: list[Event] = []
    stopped: set[tuple[str, str]] = set()
    for action in actions:
        subject = action.pod if isinstance(action, CreateClaim | RecordClaimNames) else action.claim
        turn = (subject.KIND, subject.key)
        if turn in stopped:
            continue
        try:
            await _write(writer, action)
        except ApiError as error:
            stopped.add(turn)
            if isinstance(action, CreateClaim) or not is_stale(error):
                events.append(_refused(action, error))
    return tuple(events)


def _refused(action: ClaimAction, error: ApiError) -> Event:
    if isinstance(action, RecordClaimNames):
        return warning(action.pod, RECORDING_FAILED, f"update pod {action.pod.key} ResourceClaimStatuses: {error}")
    if isinstance(action, CreateClaim):
        return warning(action.pod, CREATION_FAILED, f"PodResourceClaim {action.entry}: create ResourceClaim : {error}")
    if isinstance(action, ChangeReservations):
        return warning(action.claim, RESERVATION_FAILED, f"reserve claim {action.claim.name}: {error}")
    if isinstance(action, DeleteClaim):
        return warning(action.claim, RELEASE_FAILED, f"delete unused generated claim {action.claim.key}: {error}")
    return warning(action.claim, RELEASE_FAILED, f"remove finalizer of claim {action.claim.key}: {error}")


async def reconcile(cluster: Cluster, namespace: str = "", *, passes: int = 10) -> tuple[Event, ...]:
    """Pass after pass until nothing is left to write, or the cluster refuses a write. What still keeps pods waiting is returned."""
    for _ in range(passes):
        planned = plan(await gather(cluster, namespace))
        refused = await apply(cluster, planned.actions)
        if refused or not planned.actions:
            return (*planned.events, *refused)
    return plan(await gather(cluster, namespace)).events


async def _write(writer: Writer, action: ClaimAction) -> None:
    match action:
        case CreateClaim(claim=claim):
            await writer.create(claim)
        case RecordClaimNames(pod=pod, statuses=statuses):
            # A patch, because the kubelet writes other parts of the same status; the UID keeps it off a pod re-created by that name.
            # Entries without a name are not ours: applied server-side they would stay, and their claims stay unneeded (C-3.1).
            others = [s for s in pod.status.resource_claim_statuses if s.name not in {ours.name for ours in statuses}]
            merged = sorted((*statuses, *others), key=lambda status: status.name)
            merge = {"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": [s.to_wire() for s in merged]}}
            await writer.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
        case ChangeReservations(claim=claim, reserved_for=reserved_for, deallocate=deallocate):
            status = with_reservations(claim.status, reserved_for)
            written = await writer.update_status(claim.with_(status=_without_allocation(status) if deallocate else status))
            if not reserved_for and written.status.allocation is None and FINALIZER in written.metadata.finalizers:
                await writer.update(_without_finalizer(written))
        case UnblockDeletion(claim=claim):
            if claim.status.allocation is not None:
                claim = await writer.update_status(claim.with_(status=_without_allocation(claim.status)))
            await writer.update(_without_finalizer(claim))
        case DeleteClaim(claim=claim):
            await writer.delete(ResourceClaim, claim.name, claim.namespace, uid=claim.metadata.uid)


def _without_allocation(status: ResourceClaimStatus) -> ResourceClaimStatus:
    return ResourceClaimStatus.from_wire({key: value for key, value in status.to_wire().items() if key != "allocation"})


def _without_finalizer(claim: ResourceClaim) -> ResourceClaim:
    left = tuple(finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER)
    return claim.with_(metadata=claim.metadata.with_(finalizers=left))
