"""The VMI webhook: the JSON patch by which a new VMI gets the devices of its line ``virt-dra.io/devices``, and their
record (P-9, docs/decisions/0024-device-profiles.md), and the claims that its VM keeps in place of templates (P-6).
Pure.

The patch only adds what the VMI lacks: entries that it has stay as they were written, and a second call changes
nothing. A line that can't be written out is refused, since the VM would start without its devices; virt-controller
tries again.

Any caller gets the patch, verified or not: it says what a profile's devices are called, in which list of a VM they are,
and their tags, which who creates VMs has to know. What is asked of a device isn't in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from virt_dra.api.keeping.instances import kept_instance
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import V1_6_0, V1_9_0, KubeVirtVersion
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION, RefusedLineError
from virt_dra.api.validation.field_errors import FieldError, forbidden
from virt_dra.api.wire import Json, Wire
from webhooks.knowledge import Knowledge
from webhooks.patch import Patch
from webhooks.verdict import AdmissionCause, Verdict

_LINE: Final = f"metadata.annotations[{DEVICES_ANNOTATION}]"


def mutate(vmi: VirtualMachineInstance, raw: Json, knowledge: Knowledge) -> Verdict:
    """The verdict on creating a VMI, in the namespace of the request, with the patch of ``raw``, from which it was
    read."""
    asks = DEVICES_ANNOTATION in vmi.metadata.annotations
    if not asks and KEEP_ANNOTATION not in vmi.metadata.annotations:
        return Verdict(allowed=True)
    profiles = knowledge.profiles if asks else {}
    if profiles is None:
        return _refused(forbidden(_LINE, "DeviceProfiles aren't known here"))
    try:
        admitted = kept_instance(vmi, profiles, knowledge.namespace_labels(vmi.namespace), {})
    except RefusedLineError as error:
        return _refused(*error.errors)
    dropped = _dropped_by(knowledge.gates.version, admitted) if asks else ""
    if dropped:
        return _refused(forbidden(_LINE, dropped))
    return Verdict(True, patch=_patch(vmi, admitted, raw).operations)


def _dropped_by(version: KubeVirtVersion, admitted: VirtualMachineInstance) -> str:
    """Why this release would drop the devices in silence; "" if it keeps them (K-2.35)."""
    if version < V1_6_0:
        return f"KubeVirt {version} has no devices from claims; they need {V1_6_0}"
    if version < V1_9_0 and any(network.resource_claim is not None for network in admitted.spec.networks):
        return f"KubeVirt {version} has no networks from claims; they need {V1_9_0}"
    return ""


def _refused(*errors: FieldError) -> Verdict:
    """KubeVirt's Events show only the message of a cause, so that it names the field, too."""
    return Verdict(False, tuple(AdmissionCause(error.type.value, str(error), error.field) for error in errors))


def _patch(vmi: VirtualMachineInstance, admitted: VirtualMachineInstance, raw: Json) -> Patch:
    patch = Patch()
    if admitted == vmi:
        return patch
    for path in (("spec",), ("spec", "domain"), ("spec", "domain", "devices")):
        if not _has(raw, path):
            patch.put(path, {})
    spec, before, devices = admitted.spec, vmi.spec.domain.devices, ("spec", "domain", "devices")
    claims = ("spec", "resourceClaims")
    if spec.resource_claims[: len(vmi.spec.resource_claims)] == vmi.spec.resource_claims:
        _append(patch, claims, vmi.spec.resource_claims, spec.resource_claims)
    else:  # entries name the VM's own claims
        patch.put(claims, [entry.to_wire() for entry in spec.resource_claims])
    _append(patch, (*devices, "gpus"), before.gpus, spec.domain.devices.gpus)
    _append(patch, (*devices, "hostDevices"), before.host_devices, spec.domain.devices.host_devices)
    _append(patch, ("spec", "networks"), vmi.spec.networks, spec.networks)
    _append(patch, (*devices, "interfaces"), before.interfaces, spec.domain.devices.interfaces)
    for key, value in admitted.metadata.annotations.items():
        if vmi.metadata.annotations.get(key) != value:
            patch.put(("metadata", "annotations", key), value)
    return patch


def _append(patch: Patch, path: Sequence[str], before: Sequence[Wire], after: Sequence[Wire]) -> None:
    """An expansion adds at the end of a list."""
    patch.append(path, len(before), [entry.to_wire() for entry in after[len(before) :]])


def _has(raw: Any, path: Sequence[str]) -> bool:
    for key in path:
        raw = raw.get(key)
        if raw is None:
            return False
    return True
