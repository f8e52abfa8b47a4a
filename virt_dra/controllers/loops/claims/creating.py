"""Decides which claims of a pod or a PodGroup are created, recorded, and reserved for a pod on a node (C-10.4 to
C-10.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Pod, PodResourceClaim, PodResourceClaimStatus
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.meta import ObjectMeta, controller_reference
from virt_dra.api.resource_v1 import (
    POD_CLAIM_NAME_ANNOTATION,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from virt_dra.api.scheduling_v1 import PodGroup, PodGroupResourceClaim, PodGroupResourceClaimStatus
from virt_dra.controllers.events import Event, warning
from virt_dra.controllers.loops.claims.actions import (
    CREATION_FAILED,
    ClaimOwner,
    CreateClaim,
    RecordClaimNames,
    entry_label,
)
from virt_dra.controllers.loops.claims.releasing import is_done
from virt_dra.controllers.loops.claims.view import ClaimView
from virt_dra.scheduling.claim_references import (
    NotCreatedYet,
    NotNeeded,
    Resolved,
    UnsupportedClaimSource,
    bind_to,
    claim_name,
    group_claim_name,
    is_of_group,
    is_reserved_for,
    not_for_group,
    not_for_pod,
    pod_group_name,
)

POD_GROUP_DISABLED: Final = "PodGroupDisabled"
"""The pod is in a PodGroup, which only the gate GenericWorkload allows; not tried again (C-10.4)."""
POD_GROUP_MISSING: Final = "PodGroupMissing"
"""The pod's PodGroup does not exist (yet); tried again (C-10.4)."""
WRONG_OWNER: Final = "WrongClaimOwner"
"""The claim of a bound pod belongs to another pod and is not reserved (C-10.7)."""

LONGEST_BASE = 57
"""Bytes of a generated name before the API server's five random ones: 63, less those and one (C-10.5.5)."""


@dataclass(frozen=True)
class Reserve:
    """Reserve an allocated claim, too, for a pod that has a node, or for its group."""

    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference


PodDecision = CreateClaim | RecordClaimNames | Reserve | Event
"""Events come last: the first problem ends the turn of the pod; what was decided before is done."""


class _CannotCreate(Exception):
    """Why the claim of an entry can't be made now."""


def for_pod(view: ClaimView, pod: Pod, gates: FeatureGates) -> list[PodDecision]:
    """The writes for a pod (C-10.4 to C-10.7). After new claims, whose names are known then, decide again."""
    if not pod.spec.resource_claims or is_done(pod) or pod.metadata.deletion_timestamp is not None:
        return []
    group = _group_of(view, pod, gates)
    if isinstance(group, Event):
        return [group]
    decided, current = _claims_of(view, pod, group, gates)
    if current is None:
        return decided
    return [*decided, *_reservations(view, current, group, gates)]


def for_group(view: ClaimView, group: PodGroup, gates: FeatureGates) -> list[PodDecision]:
    """The writes for a PodGroup, as for pods, but nothing is reserved for a group here (C-10.8)."""
    if not gates.workload_resource_claims or group.metadata.deletion_timestamp is not None:
        return []
    return _claims_of(view, group, None, gates)[0]


def _group_of(view: ClaimView, pod: Pod, gates: FeatureGates) -> PodGroup | Event | None:
    """The PodGroup of a pod; None for a pod in no group."""
    name = pod_group_name(pod)
    if name is None:
        return None
    if not gates.generic_workload:
        message = f"Pod is a member of PodGroup {name} but GenericWorkload feature is disabled"
        return warning(pod, POD_GROUP_DISABLED, message, retry=False)
    group = view.pod_group(pod.namespace, name)
    if group is None:
        message = f'get PodGroup for Pod {pod.key}: podgroup.scheduling.k8s.io "{name}" not found'
        return warning(pod, POD_GROUP_MISSING, message)
    return group


def _claims_of(
    view: ClaimView, owner: ClaimOwner, group: PodGroup | None, gates: FeatureGates
) -> tuple[list[PodDecision], ClaimOwner | None]:
    """The claims to make and record for an owner, and the owner with the names as recorded then; None as long as that
    isn't all. The first claim that can't be made stops the owner's turn; others are found again by owner and
    annotation."""
    created: list[PodDecision] = []
    names: dict[str, str] = {}
    for entry in owner.spec.resource_claims:
        try:
            claim = _claim_for(view, owner, group, entry, gates)
        except (UnsupportedClaimSource, _CannotCreate) as error:
            return [*created, warning(owner, CREATION_FAILED, f"{entry_label(owner)} {entry.name}: {error}")], None
        if isinstance(claim, CreateClaim):
            created.append(claim)
        elif claim is not None:
            names[entry.name] = claim
    if created:
        return created, None
    recorded = {
        status.name: status.resource_claim_name
        for status in owner.status.resource_claim_statuses
        if status.resource_claim_name is not None
    }
    if all(recorded.get(entry) == name for entry, name in names.items()):
        return [], owner
    record, current = _recorded(owner, recorded | names)
    return [record], current


def _recorded(owner: ClaimOwner, names: dict[str, str]) -> tuple[RecordClaimNames, ClaimOwner]:
    record: type[PodResourceClaimStatus | PodGroupResourceClaimStatus]
    record = PodResourceClaimStatus if isinstance(owner, Pod) else PodGroupResourceClaimStatus
    statuses = tuple(record(name=entry, resource_claim_name=name) for entry, name in sorted(names.items()))
    return RecordClaimNames(owner, statuses), owner.with_(status=owner.status.with_(resource_claim_statuses=statuses))


def _claim_for(
    view: ClaimView,
    owner: ClaimOwner,
    group: PodGroup | None,
    entry: PodResourceClaim | PodGroupResourceClaim,
    gates: FeatureGates,
) -> str | CreateClaim | None:
    """The name of the generated claim of an entry, or what to create, or None for nothing to do (C-10.5)."""
    try:
        reference = name_of(owner, entry)
    except UnsupportedClaimSource as error:
        raise _CannotCreate(f"checking for claim before creating it: {error}") from error
    if isinstance(reference, NotNeeded) or (isinstance(reference, Resolved) and not reference.must_check_owner):
        return None
    if isinstance(reference, Resolved):
        claim = view.certain_claim(owner.namespace, reference.name)
        if claim is not None and belongs_to(claim, owner, gates):
            return claim.name
    if (
        isinstance(owner, Pod)
        and isinstance(entry, PodResourceClaim)
        and is_of_group(bind_to(owner, group, entry))
        and group is not None
    ):
        if not gates.workload_resource_claims:
            raise _CannotCreate(
                f"claim {entry.name} is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
            )
        return _orphan(view, group, entry.name)
    return _orphan(view, owner, entry.name) or CreateClaim(owner, entry.name, _from_template(view, owner, entry, gates))


def _orphan(view: ClaimView, owner: ClaimOwner, entry: str) -> str | None:
    """The first claim by name that was made for the entry. Others are left until the owner is deleted (C-10.5.2)."""
    for claim in view.claims_of(owner.namespace, owner.metadata.uid):
        if claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION) == entry:
            return claim.name
    return None


def _from_template(
    view: ClaimView, owner: ClaimOwner, entry: PodResourceClaim | PodGroupResourceClaim, gates: FeatureGates
) -> ResourceClaim:
    name = entry.resource_claim_template_name or ""
    template = view.template(owner.namespace, name)
    if template is None:
        raise _CannotCreate(
            f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
        )
    requests = template.spec.spec.devices.requests
    if not gates.admin_access and any(
        request.exactly is not None and request.exactly.admin_access for request in requests
    ):
        raise _CannotCreate("admin access is requested, but the feature is disabled")
    if not gates.prioritized_list and any(request.first_available for request in requests):
        raise _CannotCreate("template includes a prioritized list of subrequests, but the feature is disabled")
    return generated_claim(owner, entry.name, template)


def name_of(owner: ClaimOwner, entry: PodResourceClaim | PodGroupResourceClaim) -> Resolved | NotCreatedYet | NotNeeded:
    """The claim object that an entry of an owner stands for (C-3.1). Raises :class:`UnsupportedClaimSource`."""
    if isinstance(owner, PodGroup):
        if not isinstance(entry, PodGroupResourceClaim):
            raise TypeError("the entries of a PodGroup are PodGroupResourceClaims")
        return group_claim_name(owner, entry)
    if not isinstance(entry, PodResourceClaim):
        raise TypeError("the entries of a pod are PodResourceClaims")
    return claim_name(owner, entry)


def belongs_to(claim: ResourceClaim, owner: ClaimOwner, gates: FeatureGates) -> bool:
    """Whether the claim was created for this pod, its group, or this group (C-3.2)."""
    if isinstance(owner, PodGroup):
        return not_for_group(claim, owner) is None
    return not_for_pod(claim, owner, workload_claims=gates.workload_resource_claims) is None


def generated_claim(owner: ClaimOwner, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    """The claim to create for an entry of a pod or PodGroup."""
    return ResourceClaim(metadata=generated_metadata(owner, entry, template.spec.metadata), spec=template.spec.spec)


def generated_metadata(owner: ClaimOwner, entry: str, given: ObjectMeta) -> ObjectMeta:
    """The metadata of a claim for an entry: the template's labels and annotations (``given``), owned (C-10.5.5)."""
    metadata = ObjectMeta(
        generate_name=generate_name(owner.name, entry),
        namespace=owner.namespace,
        annotations={**given.annotations, POD_CLAIM_NAME_ANNOTATION: entry},
        owner_references=(controller_reference(owner),),
    )
    return metadata.with_(labels=given.labels) if given.labels else metadata


def generate_name(owner: str, entry: str) -> str:
    """``<owner>-<entry>-``; if too long, both parts shortened in proportion, and no hyphen at the end (C-10.5.5)."""
    base = f"{owner}-{entry}-"
    length = len(base.encode())
    if length <= LONGEST_BASE:
        return base
    return f"{_first_part(owner, length)}-{_first_part(entry, length)}"


def _first_part(name: str, length: int) -> str:
    """The first bytes of a name, as many as are its share of LONGEST_BASE where ``length`` bytes are too long. A
    character that would be cut in two (no valid name has one) is dropped."""
    raw = name.encode()
    return raw[: len(raw) * LONGEST_BASE // length].decode(errors="ignore")


def _reservations(view: ClaimView, pod: ClaimOwner, group: PodGroup | None, gates: FeatureGates) -> list[PodDecision]:
    """The reservations of a pod's allocated claims, once it has a node; unallocated claims are left alone (C-10.7)."""
    decided: list[PodDecision] = []
    if not isinstance(pod, Pod) or not pod.spec.node_name:
        return decided
    reserved: set[str] = set()
    for entry in pod.spec.resource_claims:
        reference = claim_name(pod, entry)
        if not isinstance(reference, Resolved):
            continue
        claim = view.claim(pod.namespace, reference.name)
        if claim is None:
            break
        foreign = (
            not_for_pod(claim, pod, workload_claims=gates.workload_resource_claims)
            if reference.must_check_owner
            else None
        )
        if foreign is not None:
            return [*decided, warning(pod, WRONG_OWNER, foreign.message)]
        consumer = bind_to(pod, group, entry)
        if is_of_group(consumer) and not gates.workload_resource_claims:
            continue
        if not _needs_reservation(claim, pod, gates) or claim.name in reserved:
            continue  # two entries of one pod may name one claim; it is reserved for the pod once
        reserved.add(claim.name)
        decided.append(Reserve(claim, consumer))
    return decided


def needs_work(view: ClaimView, pod: Pod, gates: FeatureGates) -> bool:
    """Whether a change makes work for a pod: a claim isn't recorded, is to be made again, or is to be reserved
    (C-10.3). A finished pod needs none, other than in Kubernetes 1.37 (docs/decisions/0010-corrections.md)."""
    if pod.metadata.deletion_timestamp is not None or is_done(pod):
        return False
    for entry in pod.spec.resource_claims:
        try:
            reference = claim_name(pod, entry)
        except UnsupportedClaimSource:
            return True
        if isinstance(reference, NotCreatedYet):
            return True
        if isinstance(reference, NotNeeded):
            continue
        claim = view.claim(pod.namespace, reference.name)
        if claim is None:
            if entry.resource_claim_template_name is not None and _must_be_made(view, pod, entry, gates):
                return True
        elif reference.must_check_owner and not belongs_to(claim, pod, gates):
            continue
        elif pod.spec.node_name and _needs_reservation(claim, pod, gates):
            return True
    return False


def _must_be_made(view: ClaimView, pod: Pod, entry: PodResourceClaim, gates: FeatureGates) -> bool:
    """Whether a missing claim of a pod is to be made for the pod. That of a group is made for the group."""
    group = _group_of(view, pod, gates)
    return isinstance(group, Event) or not is_of_group(bind_to(pod, group, entry))


def group_needs_work(view: ClaimView, group: PodGroup) -> bool:
    """As :func:`needs_work`, for a PodGroup, whose claims need no reservation here."""
    if group.metadata.deletion_timestamp is not None:
        return False
    for entry in group.spec.resource_claims:
        try:
            reference = group_claim_name(group, entry)
        except UnsupportedClaimSource:
            return True
        if isinstance(reference, NotCreatedYet):
            return True
        if (
            isinstance(reference, Resolved)
            and reference.must_check_owner
            and view.claim(group.namespace, reference.name) is None
        ):
            return True
    return False


def _needs_reservation(claim: ResourceClaim, pod: Pod, gates: FeatureGates) -> bool:
    return claim.status.allocation is not None and not is_reserved_for(
        claim, pod, workload_claims=gates.workload_resource_claims
    )
