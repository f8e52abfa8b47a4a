"""The preferred alignments that a VMI's claims ask for: chosen before a template is made, then read from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from virt_dra.api.core_v1 import PodResourceClaimStatus
from virt_dra.api.defaults import defaulted
from virt_dra.api.keeping.claims import kept_claim_name
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates
from virt_dra.api.profiles.alignment import PreferredAlignment, with_alignments
from virt_dra.api.profiles.expansion import template_name
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.controllers.loops.claims import generated_claim
from virt_dra.controllers.pods import launcher_pods
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.scheduling.alignment import AlignmentRequest

_GATES: Final = Gates.for_version(NEWEST)
"""Which of KubeVirt's gates are on doesn't matter to where a pod fits."""


def decided_by_kept_claims(
    vmi: VirtualMachineInstance, preferences: Sequence[PreferredAlignment], claims: Mapping[str, ResourceClaim]
) -> dict[str, tuple[PreferredAlignment, ...]]:
    """The alignments of devices that the VM keeps already, by entry. ``claims``: those that it keeps, by name."""
    held: dict[str, tuple[PreferredAlignment, ...]] = {}
    for own in preferences:
        claim = claims.get(kept_claim_name(vmi.name, own.entry))
        if claim is not None and claim.status.allocation is not None:
            before = held.get(own.entry, ())
            held[own.entry] = (*before, own) if own.constraint in claim.spec.devices.constraints else before
    return held


def alignment_request(
    vmi: VirtualMachineInstance,
    templates: Sequence[ResourceClaimTemplate],
    preferences: Sequence[PreferredAlignment],
    attempt: int = 0,
    asked: Sequence[PreferredAlignment] = (),
) -> AlignmentRequest | None:
    """The request for a VMI whose templates are to be made; None where nothing of them is preferred, or there can't be
    a pod. The VMI's other claims aren't known here."""
    made = {template.name: template for template in templates}
    wanted = tuple(own for own in preferences if template_name(vmi.name, own.entry) in made)
    pod = launcher_pods.render(vmi, _GATES) if wanted else None
    if pod is None or isinstance(pod, RenderError):
        return None
    entries = tuple(entry for entry in pod.spec.resource_claims if (entry.resource_claim_template_name or "") in made)
    pod = pod.with_(
        metadata=pod.metadata.with_(name=vmi.name, namespace=vmi.namespace, uid=vmi.metadata.uid),
        spec=pod.spec.with_(resource_claims=entries),
        status=pod.status.with_(
            resource_claim_statuses=tuple(
                PodResourceClaimStatus(name=entry.name, resource_claim_name=entry.name) for entry in entries
            )
        ),
    )
    claims = (
        (entry.name, defaulted(generated_claim(pod, entry.name, made[entry.resource_claim_template_name or ""])))
        for entry in entries
    )
    named = tuple(claim.with_(metadata=claim.metadata.with_(name=name, uid=name)) for name, claim in claims)
    return AlignmentRequest(pod, named, wanted, attempt, tuple(asked))


def with_choice(
    vmi: VirtualMachineInstance, template: ResourceClaimTemplate, held: Sequence[PreferredAlignment]
) -> ResourceClaimTemplate:
    """The template with the alignments that are to hold."""
    own = [alignment for alignment in held if template_name(vmi.name, alignment.entry) == template.name]
    return template.with_(spec=template.spec.with_(spec=with_alignments(template.spec.spec, own))) if own else template


def asked_for(
    vmi: VirtualMachineInstance,
    templates: Mapping[str, ResourceClaimTemplate],
    preferences: Sequence[PreferredAlignment],
) -> tuple[PreferredAlignment, ...]:
    """The alignments that are preferred and that the VMI's templates, by name, ask for."""
    return tuple(own for own, asked in _of_templates(vmi, templates, preferences) if asked)


def given_up(
    vmi: VirtualMachineInstance,
    templates: Mapping[str, ResourceClaimTemplate],
    preferences: Sequence[PreferredAlignment],
) -> tuple[str, ...]:
    """Sentences about the preferred alignments that the VMI's templates, by name, don't ask for."""
    judged = _of_templates(vmi, templates, preferences)
    return tuple(dict.fromkeys(own.given_up for own, asked in judged if not asked))


def _of_templates(
    vmi: VirtualMachineInstance,
    templates: Mapping[str, ResourceClaimTemplate],
    preferences: Sequence[PreferredAlignment],
) -> Iterator[tuple[PreferredAlignment, bool]]:
    """The alignments whose templates are there, each with whether its template asks for it."""
    for own in preferences:
        template = templates.get(template_name(vmi.name, own.entry))
        if template is not None:
            yield own, own.constraint in template.spec.spec.devices.constraints
