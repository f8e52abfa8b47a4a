"""A VMI as it is admitted: with the devices of its line, and the annotation ``virt-dra.io/devices-from-profiles``,
which records what they were made from.

Whoever may write VMIs may write the record, so it grants nothing: it only tells which devices a running VMI was made
with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Self

from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, ITEMS_MAX, asked_profiles
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.expansion import ExpandedVm, VmAsking, expand_profiles
from virt_dra.api.reading.json_annotations import AnnotationRecord, StrictWire
from virt_dra.api.wire import Int, Map, Str

RECORD_ANNOTATION: Final = "virt-dra.io/devices-from-profiles"


class ProfileVersion(StrictWire):
    """A profile as it was when it was read."""

    uid: Str = ""
    generation: Int = 0

    @classmethod
    def of_profile(cls, profile: DeviceProfile) -> Self:
        return cls(uid=profile.metadata.uid, generation=profile.metadata.generation or 0)


class ProfilesRecord(AnnotationRecord):
    """The annotation's value: the line, and the profiles that it asked for, by name."""

    KEY: ClassVar = RECORD_ANNOTATION

    line: Str = ""
    profiles: Map[ProfileVersion] = {}

    def faults(self) -> Iterable[tuple[str, str]]:
        if len(self.profiles) > ITEMS_MAX:
            yield "profiles", f"must have at most {ITEMS_MAX} profiles"


def expanded_instance(
    vmi: VirtualMachineInstance, profiles: Mapping[str, DeviceProfile], namespace_labels: Mapping[str, str] | None
) -> ExpandedVm | None:
    """What the VMI's line stands for; None without a line. ``profiles``: by name. Raises
    :class:`~virt_dra.api.profiles.asking.RefusedLineError`."""
    asked = asked_profiles(vmi.metadata.annotations)
    if not asked:
        return None
    return expand_profiles(vmi.spec, asked, profiles, VmAsking(vmi.name, vmi.namespace, namespace_labels))


def admitted_instance(
    vmi: VirtualMachineInstance, profiles: Mapping[str, DeviceProfile], namespace_labels: Mapping[str, str] | None
) -> VirtualMachineInstance:
    """The VMI with the devices of its line and their record; itself without a line. Admitting it again changes nothing.
    Raises as :func:`expanded_instance`."""
    expanded = expanded_instance(vmi, profiles, namespace_labels)
    if expanded is None:
        return vmi
    names = dict.fromkeys(item.profile for item in asked_profiles(vmi.metadata.annotations))
    record = ProfilesRecord(
        line=vmi.metadata.annotations[DEVICES_ANNOTATION],
        profiles={name: ProfileVersion.of_profile(profiles[name]) for name in names},
    )
    annotations = {**vmi.metadata.annotations, RECORD_ANNOTATION: record.to_annotation()}
    return vmi.with_(spec=expanded.spec, metadata=vmi.metadata.with_(annotations=annotations))
