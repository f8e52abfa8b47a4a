"""The objects that a VMI needs for its line of profiles, and what keeps one from being made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from virt_dra.api.defaults import defaulted
from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import controller_reference
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.instances import expanded_instance
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.controllers.profiles.problems import (
    DEVICES_NOT_WRITTEN,
    LINE_REFUSED,
    TEMPLATE_BEING_DELETED,
    TEMPLATE_NAME_TAKEN,
    ProfileProblem,
)


@dataclass(frozen=True)
class NeededObjects:
    """The templates of the VMI's claims, to be created. ``preferences``: alignments that they don't have."""

    templates: tuple[ResourceClaimTemplate, ...] = ()
    preferences: tuple[PreferredAlignment, ...] = ()


def needed_objects(
    vmi: VirtualMachineInstance, profiles: Mapping[str, DeviceProfile], namespace_labels: Mapping[str, str]
) -> NeededObjects | ProfileProblem:
    """What the VMI needs for its line, which is read again: the VMI must have what it stands for, so that its claims
    fit its devices, whoever wrote these. ``vmi``: with its templates in place of claims that its VM keeps."""
    try:
        expanded = expanded_instance(vmi, profiles, namespace_labels)
    except RefusedLineError as error:
        return ProfileProblem(LINE_REFUSED, str(error))
    if expanded is None:
        return NeededObjects()
    if expanded.spec != vmi.spec:
        message = (
            f"the VMI lacks devices that {DEVICES_ANNOTATION} stands for: virt-dra's webhook writes them as a VMI is "
            "created; restart the VM, or check that the webhook is installed"
        )
        return ProfileProblem(DEVICES_NOT_WRITTEN, message)
    templates = tuple(_of_vmi(template, vmi) for template in expanded.templates)
    return NeededObjects(templates, expanded.preferences)


def _of_vmi(template: ResourceClaimTemplate, vmi: VirtualMachineInstance) -> ResourceClaimTemplate:
    """The template where the VMI is, owned by it, so that garbage collection removes it."""
    metadata = template.metadata.with_(
        namespace=vmi.namespace,
        labels={**template.metadata.labels, PART_OF_LABEL: PART_OF},
        owner_references=(controller_reference(vmi, blocks_deletion=False),),
    )
    return template.with_(metadata=metadata)


def objection(
    stored: ResourceClaimTemplate, wanted: ResourceClaimTemplate, vmi: VirtualMachineInstance
) -> ProfileProblem | None:
    """The problem with the template that has the name of the wanted one; None if it serves. One without an owner that
    has the same claims is the user's, who may have rendered the profile himself."""
    if stored.metadata.deletion_timestamp is not None or is_of_earlier(stored, vmi):
        message = (
            f"ResourceClaimTemplate {stored.key} of an earlier VMI is being deleted; the VM gets one as soon as it is "
            "gone"
        )
        return ProfileProblem(TEMPLATE_BEING_DELETED, message)
    if stored.is_controlled_by(vmi) or (not stored.metadata.owner_references and _same_claims(stored, wanted)):
        return None
    message = (
        f"ResourceClaimTemplate {stored.key} exists and isn't the VMI's; delete it, or give the item of "
        f"{DEVICES_ANNOTATION} another name"
    )
    return ProfileProblem(TEMPLATE_NAME_TAKEN, message)


def is_of_earlier(stored: ResourceClaimTemplate, vmi: VirtualMachineInstance) -> bool:
    """True if a template was made for another VMI of this name."""
    owner = stored.metadata.controller_owner
    return owner is not None and (owner.kind, owner.name) == (vmi.KIND, vmi.name) and owner.uid != vmi.metadata.uid


def _same_claims(*templates: ResourceClaimTemplate) -> bool:
    first, second = (defaulted(ResourceClaim(spec=template.spec.spec)).spec.to_wire() for template in templates)
    return first == second
