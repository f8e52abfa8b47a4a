"""The claims that a VM keeps: their names, what marks them, and how a VMI is made to use them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.keeping.terms import (
    KeepingError,
    KeepTerms,
    keep_terms,
    recorded_terms,
    speaks_of_keeping,
    vm_keep_annotations,
)
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, controller_reference, parse_time
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate

KEPT_CLAIMS_ANNOTATION: Final = "virt-dra.io/kept-claims"
"""On a VMI: its entries that name kept claims, with the templates that they named before, as a JSON object."""
KEPT_LABEL: Final = "virt-dra.io/kept"
"""On a claim that belongs to a VM; its value is "true"."""
STOPPED_ANNOTATION: Final = "virt-dra.io/stopped-since"
"""On a kept claim that no pod uses: since when."""
NODE_LOST_ANNOTATION: Final = "virt-dra.io/node-lost-since"
"""On a kept claim whose node is away: since when."""
RELEASE_ANNOTATION: Final = "virt-dra.io/release-requested"
"""On a kept claim: somebody asks that it be released while the VM is stopped."""

NAME_MAX: Final = 63
"""Characters of a kept claim's name."""
RECORD_MAX: Final = 16 * 1024
"""Characters of :data:`KEPT_CLAIMS_ANNOTATION` that are read."""
_DIGEST_LENGTH: Final = 8


def kept_claim_name(vm: str, entry: str) -> str:
    """``<vm>-<entry>``; a longer name than a label may have is cut, and ends in a digest of the whole."""
    name = f"{vm}-{entry}"
    if len(name) <= NAME_MAX:
        return name
    digest = hashlib.sha256(f"{vm}/{entry}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: NAME_MAX - _DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"


def kept_entries(vmi: VirtualMachineInstance) -> dict[str, str]:
    """Entry → template of the entries that name kept claims; empty if the record is absent or unreadable."""
    text = vmi.metadata.annotations.get(KEPT_CLAIMS_ANNOTATION, "")
    if not text or len(text) > RECORD_MAX:
        return {}
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(record, dict) or not all(isinstance(template, str) for template in record.values()):
        return {}
    named = {entry.name: entry.resource_claim_name for entry in vmi.spec.resource_claims}
    return {
        entry: template
        for entry, template in record.items()
        if template and named.get(entry) == kept_claim_name(vmi.name, entry)
    }


def with_templates(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    """The VMI with the templates that its entries named before they named kept claims; itself if it keeps none."""
    templates = kept_entries(vmi)
    if not templates:
        return vmi

    def templated(entry: PodResourceClaim) -> PodResourceClaim:
        return entry.without("resource_claim_name").with_(resource_claim_template_name=templates[entry.name])

    entries = tuple(templated(entry) if entry.name in templates else entry for entry in vmi.spec.resource_claims)
    return vmi.with_(spec=vmi.spec.with_(resource_claims=entries))


def with_kept_claims(
    vmi: VirtualMachineInstance, asked: Mapping[str, str], only: Collection[str] | None = None
) -> VirtualMachineInstance:
    """The VMI with each entry that names a template naming the VM's own claim instead, and the templates recorded.

    ``asked``: the annotations that speak of keeping, which the VMI gets; ``only``: these entries, None for all. A VMI
    that keeps already is returned as it is.
    """
    templates = {
        entry.name: entry.resource_claim_template_name
        for entry in vmi.spec.resource_claims
        if entry.resource_claim_template_name and (only is None or entry.name in only)
    }
    if not templates:
        return vmi
    entries = tuple(
        entry.without("resource_claim_template_name").with_(resource_claim_name=kept_claim_name(vmi.name, entry.name))
        if entry.name in templates
        else entry
        for entry in vmi.spec.resource_claims
    )
    record = json.dumps({**kept_entries(vmi), **templates}, sort_keys=True, separators=(",", ":"))
    annotations = {**vmi.metadata.annotations, **asked, KEPT_CLAIMS_ANNOTATION: record}
    return vmi.with_(metadata=vmi.metadata.with_(annotations=annotations), spec=vmi.spec.with_(resource_claims=entries))


def kept_claim(
    vm: VirtualMachine, entry: str, template: ResourceClaimTemplate, asked: Mapping[str, str]
) -> ResourceClaim:
    """The claim that a VM keeps for an entry. ``asked``: annotations of its VMI.

    The terms are only recorded where the VM doesn't state them itself, and so can't be asked while it is stopped.
    """
    recorded = {} if speaks_of_keeping(*vm_keep_annotations(vm)) else recorded_terms(asked)
    metadata = ObjectMeta(
        name=kept_claim_name(vm.name, entry),
        namespace=vm.namespace,
        labels={**template.spec.metadata.labels, KEPT_LABEL: "true"},
        annotations={**template.spec.metadata.annotations, **recorded},
        owner_references=(controller_reference(vm),),
    )
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def claim_terms(vm: VirtualMachine | None, claim: ResourceClaim) -> tuple[KeepTerms | None, str]:
    """The terms that a claim is kept on, and what is wrong with their text: then it is kept until that is mended.
    ``vm``: None where it isn't known, so that only what the claim records counts."""
    places = vm_keep_annotations(vm) if vm is not None else ()
    try:
        return keep_terms(*places, claim.metadata.annotations), ""
    except KeepingError as error:
        return KeepTerms(None, None), str(error)


def is_kept(claim: ResourceClaim) -> bool:
    """True if a claim is a VM's by its label, or held by a VM, whoever took the label away."""
    return claim.metadata.labels.get(KEPT_LABEL) == "true" or any(map(is_vm_reference, claim.status.reserved_for))


def vm_reference(vm: VirtualMachine) -> ResourceClaimConsumerReference:
    """The entry of ``reservedFor`` by which a VM keeps a claim's devices (P-1)."""
    group = vm.API_VERSION.partition("/")[0]
    return ResourceClaimConsumerReference(
        api_group=group, resource="virtualmachines", name=vm.name, uid=vm.metadata.uid
    )


def is_vm_reference(consumer: ResourceClaimConsumerReference) -> bool:
    return consumer.api_group == "kubevirt.io" and consumer.resource == "virtualmachines"


def other_consumers(claim: ResourceClaim) -> tuple[ResourceClaimConsumerReference, ...]:
    """The consumers of a claim that aren't VMs: pods, as a rule."""
    return tuple(consumer for consumer in claim.status.reserved_for if not is_vm_reference(consumer))


def marked_time(claim: ResourceClaim, annotation: str, now: datetime | None) -> datetime | None:
    """The time in an annotation of the keeper; None without one, or if it is later than ``now``: somebody else wrote
    it, and the keeper overwrites it. ``now`` None: no clock is known, any time counts."""
    try:
        moment = parse_time(claim.metadata.annotations.get(annotation, ""))
    except ValueError:
        return None
    return moment if now is None or moment <= now else None


def vm_name_of(claim: ResourceClaim) -> str:
    """The VM that a kept claim belongs to: its owner, or who else it is still reserved for; "" if neither is a VM."""
    owner = claim.metadata.controller_owner
    if owner is not None and owner.kind == VirtualMachine.KIND:
        return owner.name
    return next((consumer.name for consumer in claim.status.reserved_for if is_vm_reference(consumer)), "")
