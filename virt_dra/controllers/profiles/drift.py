"""The difference between what a VM's line stands for now and what its VMI was made with (P-11). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from virt_dra.api.go_text import visible
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.instances import ProfilesRecord, ProfileVersion
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.controllers.events import shortened
from virt_dra.controllers.profiles.problems import LINE_CHANGED, PROFILE_CHANGED, PROFILE_DELETED, ProfileProblem

_LINE = 200
"""Characters of a line in a message."""


def drift(
    vmi: VirtualMachineInstance, vm: VirtualMachine | None, profiles: Mapping[str, DeviceProfile]
) -> ProfileProblem | None:
    """The first difference, of the line before profiles; None without one, or without a readable record. A line that
    the VM doesn't have may be its instancetype's, which isn't read here (P-10)."""
    record = record_of(vmi)
    line = vm.spec.template.metadata.annotations.get(DEVICES_ANNOTATION) if vm is not None else None
    before = record.line if record is not None else vmi.metadata.annotations.get(DEVICES_ANNOTATION, "")
    if line is not None and line != before:
        message = f"the VM asks for {_shown(line)} now, and was started with {_shown(before)}"
        return ProfileProblem(LINE_CHANGED, f"{message}; restart the VM to get what it asks for")
    for name, version in record.profiles.items() if record is not None else ():
        profile = profiles.get(name)
        if profile is None:
            message = f"DeviceProfile {visible(name)} was deleted; the VM keeps its devices, and can't be started again"
            return ProfileProblem(PROFILE_DELETED, f"{message} as long as its line names it")
        if ProfileVersion.of_profile(profile) != version:
            message = f"DeviceProfile {name} was changed since the VM was started"
            return ProfileProblem(PROFILE_CHANGED, f"{message}; restart the VM to get what it asks for now")
    return None


def record_of(vmi: VirtualMachineInstance) -> ProfilesRecord | None:
    """The record of what the VMI's devices were made from; None without one that can be read."""
    try:
        return ProfilesRecord.from_annotations(vmi.metadata.annotations)
    except AnnotationError:
        return None


def _shown(line: str) -> str:
    return visible(shortened(line, _LINE)) or "no profiles"
