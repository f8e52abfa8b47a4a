"""A VM's line ``virt-dra.io/devices``, and the DeviceProfiles that it asks for (P-9, P-10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from virt_dra.api.instancetypes.names import CLUSTER_INSTANCETYPE, INSTANCETYPE
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.validation.field_errors import ErrorType, FieldError
from webhooks.lint.finding import LintIssue
from webhooks.lint.inputs import LintInputs
from webhooks.lint.linted import Linted
from webhooks.verdict import FieldIssue


def profile_line(linted: Linted) -> Iterator[FieldIssue]:
    """A line that can't be read, or asks for what can't be."""
    for error in _refusals(linted):
        if error.type not in (ErrorType.NOT_FOUND, ErrorType.FORBIDDEN) and _is_of_line(error):
            yield _issue(error)


def profile_missing(linted: Linted) -> Iterator[FieldIssue]:
    """Profiles that aren't there, or that an API server would refuse."""
    for error in _refusals(linted):
        if error.type != ErrorType.NOT_FOUND:
            continue
        why = linted.inputs.refused.get((DeviceProfile.KIND, "", _wrong(error)))
        if why is None and not linted.inputs.model.knows(DeviceProfile):
            why = "isn't known: DeviceProfiles can't be read"
        issue = _issue(error)
        yield issue if why is None else replace(issue, message=f"DeviceProfile {error.value} {why}")


def profile_not_allowed(linted: Linted) -> Iterator[FieldIssue]:
    """Profiles that aren't for the VM's namespace."""
    yield from (_issue(error) for error in _refusals(linted) if error.type == ErrorType.FORBIDDEN)


def profile_conflict(linted: Linted) -> Iterator[FieldIssue]:
    """Entries of the VM that have a name of the line's, and another device."""
    yield from (_issue(error) for error in _refusals(linted) if not _is_of_line(error))


def profile_line_ignored(linted: Linted) -> Iterator[FieldIssue]:
    """A line that has no effect where it stands: KubeVirt passes on annotations of the VM's template alone (P-10)."""
    vm = linted.object
    if not isinstance(vm, VirtualMachine) or DEVICES_ANNOTATION not in vm.metadata.annotations:
        return
    if vm.metadata.annotations[DEVICES_ANNOTATION] == linted.reviewed.annotations.get(DEVICES_ANNOTATION):
        return
    text = "KubeVirt doesn't pass annotations of the VM itself to its VMI, so this asks for nothing"
    advice = f"write it in {linted.reviewed.metadata}.annotations"
    yield FieldIssue(f"metadata.annotations[{DEVICES_ANNOTATION}]", f"{text}; {advice}")


def instancetype_line_ignored(obj: TypedObject, inputs: LintInputs) -> Iterator[FieldIssue]:
    """A line of an instancetype that KubeVirt doesn't pass on: only ``spec.annotations`` is (P-10)."""
    if obj.kind in (INSTANCETYPE, CLUSTER_INSTANCETYPE) and DEVICES_ANNOTATION in obj.metadata.annotations:
        text = "KubeVirt doesn't pass annotations of the instancetype itself to VMIs, so this asks for nothing"
        yield FieldIssue(f"metadata.annotations[{DEVICES_ANNOTATION}]", f"{text}; write it in spec.annotations")


def _refusals(linted: Linted) -> tuple[FieldError, ...]:
    inputs = linted.inputs
    if linted.settings.at_admission and DeviceProfile.KIND not in inputs.known_kinds:
        return ()
    return linted.admitted.refusals


def _is_of_line(error: FieldError) -> bool:
    return error.field.endswith(f"[{DEVICES_ANNOTATION}]") or error.field == "metadata.name"


def _issue(error: FieldError) -> LintIssue:
    return LintIssue(error.field, error.message, part=_wrong(error))


def _wrong(error: FieldError) -> str:
    """The part of the line that is wrong, "" if that can't be named."""
    return error.value.strip('"')
