"""A VMI whose VM keeps its devices: who asks for it, and that admitting it twice changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from virt_dra.api.keeping.claims import with_templates
from virt_dra.api.keeping.instances import kept_instance
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.profiles.asking import RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile

KEEP, LOSS, RECORD, LINE = (
    f"virt-dra.io/{name}" for name in ("keep-devices", "on-node-loss", "kept-claims", "devices")
)
OWNER: dict[str, Any] = {
    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "a", "uid": "vm-1", "controller": True
}  # fmt: skip


def vmi(annotations: dict[str, str], owners: tuple[dict[str, Any], ...] = (OWNER,)) -> VirtualMachineInstance:
    return VirtualMachineInstance.from_wire(
        {
            "metadata": {"name": "a", "namespace": "vms", "annotations": annotations, "ownerReferences": list(owners)},
            "spec": {
                "domain": {"devices": {"gpus": [{"name": "own", "claimName": "own", "requestName": "r"}]}},
                "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "one-gpu"}],
            },
        }
    )


def profile(**keep: str) -> dict[str, DeviceProfile]:
    wire: dict[str, Any] = {
        "metadata": {"name": "h100"},
        "spec": {"keep": keep, "devices": [{"name": "gpu", "gpu": {}, "deviceClassName": "gpu.example.com"}]},
    }
    return {"h100": DeviceProfile.from_wire(wire)}


def asked(
    annotations: dict[str, str], profiles: dict[str, DeviceProfile], vm_annotations: dict[str, str]
) -> dict[str, Any]:
    """What the VMI says of keeping once it is admitted, and its claims."""
    kept = kept_instance(vmi(annotations), profiles, {}, vm_annotations)
    assert kept_instance(kept, profiles, {}, vm_annotations) == kept
    ours = {key: value for key, value in kept.metadata.annotations.items() if key in (KEEP, LOSS)}
    record = json.loads(kept.metadata.annotations.get(RECORD, "{}"))
    claims = {entry.name: entry.resource_claim_name for entry in kept.spec.resource_claims if entry.resource_claim_name}
    return {"says": ours, "record": record, "claims": claims}


NOT_KEPT: dict[str, Any] = {"record": {}, "claims": {}}
OWN_KEPT: dict[str, Any] = {"record": {"own": "one-gpu"}, "claims": {"own": "a-own"}}


@pytest.mark.parametrize(
    ("annotations", "profiles", "vm_annotations", "says"),
    [
        ({}, {}, {}, {"says": {}, **NOT_KEPT}),
        ({KEEP: "24h"}, {}, {}, {"says": {KEEP: "24h"}, **OWN_KEPT}),
        ({}, {}, {KEEP: "true", LOSS: "never"}, {"says": {KEEP: "true", LOSS: "never"}, **OWN_KEPT}),
        ({KEEP: "1h"}, {}, {KEEP: "2h"}, {"says": {KEEP: "1h"}, **OWN_KEPT}),
        ({KEEP: "false"}, {}, {KEEP: "true"}, {"says": {KEEP: "false"}, **NOT_KEPT}),
    ],
)
def test_the_vmi_is_heard_before_the_vm(
    annotations: dict[str, str], profiles: dict[str, DeviceProfile], vm_annotations: dict[str, str], says: Any
) -> None:
    assert asked(annotations, profiles, vm_annotations) == says


@pytest.mark.parametrize(
    ("keep", "own", "says"),
    [
        ({}, {}, {KEEP: "true"}),
        ({"stoppedFor": "8h", "onNodeLoss": "never"}, {}, {KEEP: "8h", LOSS: "never"}),
        ({"stoppedFor": "8h", "onNodeLoss": "5m"}, {LOSS: "never"}, {KEEP: "8h", LOSS: "never"}),
        ({"stoppedFor": "8h"}, {KEEP: "1h"}, {KEEP: "1h"}),
        ({"stoppedFor": "8h"}, {KEEP: "false"}, {KEEP: "false"}),
    ],
)
def test_profiles_are_heard_last(keep: dict[str, str], own: dict[str, str], says: dict[str, str]) -> None:
    got = asked({LINE: "gpu=h100", **own}, profile(**keep), {})
    kept = says[KEEP] != "false"
    assert got["says"] == says
    assert set(got["claims"]) == ({"own", "gpu"} if kept else set())


def test_without_a_vm_nobody_could_keep_the_devices() -> None:
    alone = vmi({KEEP: "true"}, owners=())
    assert kept_instance(alone, {}, {}, {}) is alone


def test_with_its_templates_it_is_what_it_was() -> None:
    before = vmi({})
    kept = kept_instance(before, {}, {}, {KEEP: "true"})
    assert with_templates(kept).spec == before.spec
    assert with_templates(before) is before


def test_a_value_that_means_nothing_is_refused_with_its_place() -> None:
    with pytest.raises(RefusedLineError) as refused:
        kept_instance(vmi({}), {}, {}, {KEEP: "soon"})
    assert str(refused.value) == (
        'metadata.annotations[virt-dra.io/keep-devices]: Invalid value: "soon": must be "true", "false" or a duration '
        "between 1s and 3650d, such as 30m, 24h or 1d12h"
    )
