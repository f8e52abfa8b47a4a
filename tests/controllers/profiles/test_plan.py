"""What a VMI needs for its line of profiles, what is in the way of it, and what has changed about it since."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controllers.profiles.asking_vms import NAMESPACE, admitted, by_name, profile, vm, vmi
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import ResourceClaimTemplate
from virt_dra.api.wire import Json
from virt_dra.controllers.profiles.reconcile import ProfileInputs, ProfilesPlan, plan

OWNER: Json = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "name": "vm",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": False,
}
REQUEST: Json = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}


def template(owner: Json | None = OWNER, request: Json = REQUEST, **metadata: Any) -> ResourceClaimTemplate:
    labels = {"virt-dra.io/device-profile": "h100", "app.kubernetes.io/part-of": "virt-dra"}
    owners = {} if owner is None else {"ownerReferences": [owner]}
    metadata = {"name": "vm-gpu", "namespace": "lab", "labels": labels, **owners, **metadata}
    return ResourceClaimTemplate.from_wire(
        {"metadata": metadata, "spec": {"spec": {"devices": {"requests": [request]}}}}
    )


def planned(
    instance: VirtualMachineInstance,
    *profiles: DeviceProfile,
    machine: VirtualMachine | None = None,
    stored: ResourceClaimTemplate | None = None,
) -> ProfilesPlan | None:
    templates = {} if stored is None else {stored.name: stored}
    return plan(ProfileInputs(instance, machine, by_name(*profiles), NAMESPACE.metadata.labels, templates))


def reasons(result: ProfilesPlan | None) -> tuple[list[str], dict[str, str], str]:
    """The templates to make, the reasons why others aren't made, and the reason about the whole line."""
    assert result is not None
    unmade = {name: problem.reason for name, problem in result.unmade.items()}
    return [made.name for made in result.missing], unmade, result.general.reason if result.general is not None else ""


def test_a_vmi_as_the_webhook_leaves_it_gets_the_templates_of_its_claims() -> None:
    result = planned(admitted(profile()), profile(), machine=vm())
    assert result is not None
    assert [made.to_wire() for made in result.missing] == [template().to_wire()]
    assert (result.unmade, result.general) == ({}, None)


def test_several_items_have_a_template_each() -> None:
    nic = profile("cx7", device="nic")
    both = admitted(profile(), nic, line="gpu=h100 x 2, cx7")
    assert reasons(planned(both, profile(), nic)) == (["vm-gpu", "vm-cx7"], {}, "")
    assert reasons(planned(both, profile(), nic, stored=template())) == (["vm-cx7"], {}, "")


def test_a_vm_without_a_line_needs_nothing() -> None:
    assert planned(vmi(None), profile(), machine=vm(None)) is None


def test_what_exists_already_is_left_as_it_is() -> None:
    assert planned(admitted(profile()), profile(), stored=template()) == ProfilesPlan()


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (template(OWNER | {"uid": "u0"}), "ClaimTemplateBeingDeleted"),
        (template(deletionTimestamp="2026-01-01T00:00:00Z"), "ClaimTemplateBeingDeleted"),
        (template(OWNER | {"name": "vm-of-others", "uid": "u0"}), "ClaimTemplateNameTaken"),
        (template(OWNER | {"kind": "VirtualMachine", "uid": "u0"}), "ClaimTemplateNameTaken"),
        (template(None, REQUEST | {"exactly": {"deviceClassName": "nic"}}), "ClaimTemplateNameTaken"),
        # Rendered by the user, and stored with Kubernetes' defaults.
        (
            template(
                None,
                REQUEST | {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
            ),
            "",
        ),
    ],
)
def test_a_template_of_the_name_is_used_only_if_it_is_the_vms(stored: ResourceClaimTemplate, reason: str) -> None:
    unmade = {"vm-gpu": reason} if reason else {}
    assert reasons(planned(admitted(profile()), profile(), stored=stored)) == ([], unmade, "")


def test_a_vmi_that_lacks_the_devices_of_its_line_gets_no_claims() -> None:
    result = planned(vmi(), profile())
    assert reasons(result) == ([], {}, "DevicesNotWritten")
    assert result is not None
    assert result.general is not None
    assert result.general.message == (
        "the VMI lacks devices that virt-dra.io/devices stands for: virt-dra's webhook writes them as a VMI is "
        "created; restart the VM, or check that the webhook is installed"
    )


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (
            profile("h200"),
            'metadata.annotations[virt-dra.io/devices]: Not found: "h100": there is no DeviceProfile of this name; did '
            "you mean h200?",
        ),
        (
            profile(namespaceSelector={"matchLabels": {"team": "b"}}),
            "metadata.annotations[virt-dra.io/devices]: Forbidden: DeviceProfile h100 isn't for namespace lab "
            "(namespaceSelector)",
        ),
    ],
)
def test_the_record_of_a_vmi_grants_nothing(there: DeviceProfile, message: str) -> None:
    """Its entries and its record say that h100 was allowed; what counts is what is so."""
    forged = admitted(profile())
    result = planned(forged.with_(metadata=forged.metadata.without("annotations").with_(
        annotations={"virt-dra.io/devices": "gpu=h100", "virt-dra.io/devices-from-profiles": "{}"}
    )), there)  # fmt: skip
    assert reasons(result) == ([], {"vm-gpu": "DevicesLineRefused"}, "DevicesLineRefused")
    assert result is not None
    assert result.general is not None
    assert result.general.message == message


@pytest.mark.parametrize(
    ("there", "machine", "reason", "message"),
    [
        (profile(), vm(), "", ""),
        (profile(), vm(None), "", ""),
        (profile(), None, "", ""),
        (
            profile(),
            vm("gpu=h100 x 2"),
            "DevicesLineChanged",
            "the VM asks for gpu=h100 x 2 now, and was started with gpu=h100; restart the VM to get what it asks for",
        ),
        (
            profile(generation=2),
            vm(),
            "DeviceProfileChanged",
            "DeviceProfile h100 was changed since the VM was started; restart the VM to get what it asks for now",
        ),
        (
            profile(generation=2, device="another"),
            vm(),
            "DeviceProfileChanged",
            "DeviceProfile h100 was changed since the VM was started; restart the VM to get what it asks for now",
        ),
        (
            profile("other"),
            vm(),
            "DeviceProfileDeleted",
            "DeviceProfile h100 was deleted; the VM keeps its devices, and can't be started again as long as its line "
            "names it",
        ),
    ],
)
def test_a_vm_keeps_what_it_was_started_with(
    there: DeviceProfile, machine: VirtualMachine | None, reason: str, message: str
) -> None:
    result = planned(admitted(profile()), there, machine=machine, stored=template())
    assert reasons(result) == ([], {}, reason)
    assert result is not None
    assert (result.general.message if result.general is not None else "") == message


def test_a_line_that_a_running_vm_gets_is_said_of_a_vmi_without_one() -> None:
    assert reasons(planned(vmi(None), profile(), machine=vm())) == ([], {}, "DevicesLineChanged")


def test_claims_that_no_longer_fit_the_vmis_devices_are_not_made() -> None:
    """Between the webhook's write and the operator's, the profile's devices got other names."""
    renamed = profile(
        generation=2, devices=[{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "gpu"}]
    )
    result = planned(admitted(profile()), renamed, machine=vm())
    assert reasons(result) == ([], {"vm-gpu": "DevicesNotWritten"}, "DeviceProfileChanged")


def test_a_record_that_cannot_be_read_says_nothing_of_the_past() -> None:
    forged = admitted(profile())
    annotations = forged.metadata.annotations | {"virt-dra.io/devices-from-profiles": "["}
    forged = forged.with_(metadata=forged.metadata.with_(annotations=annotations))
    assert planned(forged, profile(generation=7), machine=vm(), stored=template()) == ProfilesPlan()


def test_a_lines_control_characters_are_shown_as_escapes() -> None:
    result = planned(admitted(profile()), profile(), machine=vm("a\x1b[31m" + "b" * 5000), stored=template())
    assert result is not None
    assert result.general is not None
    assert "\\x1b" in result.general.message
    assert len(result.general.message) < 400
