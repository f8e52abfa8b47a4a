"""A VMI as admitted where its VM keeps its devices: with those of its line, and own claims in place of templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virt_dra.api.keeping.claims import with_kept_claims, with_templates
from virt_dra.api.keeping.terms import KEEP_ANNOTATION, NODE_LOSS_ANNOTATION, KeepingError, asked_terms, keep_terms
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.asking import RefusedLineError, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile, ProfileKeep
from virt_dra.api.profiles.instances import admitted_instance
from virt_dra.api.validation.field_errors import invalid


def kept_instance(
    vmi: VirtualMachineInstance,
    profiles: Mapping[str, DeviceProfile],
    namespace_labels: Mapping[str, str] | None,
    vm_annotations: Mapping[str, str],
) -> VirtualMachineInstance:
    """The VMI as its VM asks for it; itself if it asks for nothing. Admitting it again changes nothing.

    ``vm_annotations``: the VM's own, heard after those of the VMI and before the profiles'. Without a VM that owns the
    VMI nobody could keep its devices. Raises :class:`RefusedLineError`, for the terms of keeping, too.
    """
    admitted = admitted_instance(with_templates(vmi), profiles, namespace_labels)
    owner = vmi.metadata.controller_owner
    if owner is None or owner.kind != VirtualMachine.KIND:
        return admitted
    places = places_of_terms(vmi.metadata.annotations, vm_annotations, profiles)
    try:
        terms = keep_terms(*places)
    except KeepingError as error:
        raise RefusedLineError(
            invalid(f"metadata.annotations[{error.annotation}]", error.value, error.wanted)
        ) from None
    if terms is None:
        return admitted
    return with_kept_claims(admitted, asked_terms(*places))


def places_of_terms(
    annotations: Mapping[str, str], vm_annotations: Mapping[str, str], profiles: Mapping[str, DeviceProfile]
) -> list[Mapping[str, str]]:
    """The places where a VM's wish to keep its devices may be written, the first to count first. ``annotations``: of
    its VMI; ``profiles``: those that aren't there say nothing. Raises :class:`RefusedLineError`."""
    named = [profiles[item.profile] for item in asked_profiles(annotations) if item.profile in profiles]
    return [annotations, vm_annotations, *profile_terms(profile.spec.keep for profile in named)]


def profile_terms(keeps: Iterable[ProfileKeep | None]) -> Iterable[dict[str, str]]:
    """What profiles say about keeping, as annotations would."""
    for keep in keeps:
        if keep is not None:
            loss = {} if keep.on_node_loss is None else {NODE_LOSS_ANNOTATION: keep.on_node_loss}
            yield {KEEP_ANNOTATION: keep.stopped_for or "true", **loss}
