"""Nobody reaches another namespace's claims, pods, templates or names through us, whatever is written where a name
belongs."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.controllers.changed_objects import changed
from tests.controllers.operator.test_pending import explained, node, slice_of
from tests.controllers.operator.watched_stores import Stores
from tests.controllers.published_world import BASE, NOW, POD, World
from tests.controllers.standalone.world import SETTINGS
from tests.sampling import sample
from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.integration.paths import INTEGRATION_ANNOTATION, ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.controllers.beside_kubevirt import publication as device_publication
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices import inputs as device_inputs
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, Write
from webhooks.lint import Preflight
from webhooks.lint.inputs import LintInputs as Known

SECRET = "0000:99:00.0"
NAMES = st.text(max_size=20) | st.sampled_from([
    "secret", "../other/secret", "other/secret", "/secret", "..", ".", "%2e%2e/other/secret", "secret\0",
    "lab/../other/secret", "secret?fieldSelector=metadata.namespace=other", "other\\secret", "secret/status", "*",
    "other/*",
])  # fmt: skip
"""What a tenant may write where the name of a claim belongs."""
RECORD: Json = {
    "format": 1,
    "pairs": [{"claim": "gpus", "request": "gpu", "path": "metadata-shim", "layout": "KEP-5304"}],
}


def neighbours(name: str, namespace: str = "other") -> Json:
    """A claim with all that would make it the VMI's but its namespace."""
    claim: Json = deepcopy(BASE["claims"][0])
    claim["metadata"] |= {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    claim["status"]["allocation"]["devices"]["results"][0]["device"] = "d9"
    return claim


def objects_with(source: Json, recorded: str | None, *claims: Json) -> list[TypedObject]:
    """The base's VMI and pod with another entry in resourceClaims and another claim in the pod's status. Device d9 is
    the neighbour's."""
    raw = changed(BASE, {
        "vmi.spec.resourceClaims": [{"name": "gpus", **source}],
        "pod.spec.resourceClaims": [{"name": "gpus", **source}],
        "pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(RECORD)},
        "pod.status.resourceClaimStatuses": None if recorded is None else [{"name": "gpus",
            "resourceClaimName": recorded}],
        "slices.0.spec.devices.2": {"name": "d9",
            "attributes": {"resource.kubernetes.io/pciBusID": {"string": SECRET}}},
    })  # fmt: skip
    return [
        VirtualMachineInstance.from_wire(raw["vmi"]),
        Pod.from_wire(raw["pod"]),
        ResourceSlice.from_wire(raw["slices"][0]),
        *(ResourceClaim.from_wire(claim) for claim in claims),
    ]


def writes_for(objects: list[TypedObject]) -> list[Write]:
    """All that would be written for the VMI, by both operators, over informers' stores and over lists."""
    stores = Stores()
    stores.put(*objects)
    written: list[Write] = []
    for sources in (stores.sources, stores.listed()):
        inputs = device_inputs.gather(sources, "lab/fedora", NOW)
        own = standalone.gather(sources, "lab/fedora", NOW, SETTINGS)
        assert inputs is not None
        assert own is not None
        beside, alone = beside_kubevirt.plan(inputs), standalone.plan(own)
        written += [*beside.first, *beside.then, *alone.first, *alone.then]
    return written


def told(write: Write) -> str:
    match write:
        case PatchAnnotations(annotations=annotations):
            return json.dumps(dict(annotations))
        case Delete():
            return ""
        case _:
            return json.dumps(write.obj.to_wire() | {"changes": getattr(write, "changes", None)})


def namespace_of(write: Write) -> str:
    return write.namespace if isinstance(write, PatchAnnotations | Delete) else write.obj.namespace


@given(NAMES, NAMES)
@settings(max_examples=sample(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_claim_of_another_namespace_is_never_resolved(direct: str, recorded: str) -> None:
    theirs = [neighbours(name) for name in {direct, recorded, "secret"} if name]
    for source, status in (({"resourceClaimName": direct}, None), ({"resourceClaimTemplateName": "t"}, recorded)):
        written = writes_for(objects_with(source, status, *theirs))
        assert written
        assert {namespace_of(write) for write in written} == {"lab"}
        assert not [write for write in written if SECRET in told(write)]


def test_the_same_claim_in_the_vmis_own_namespace_is() -> None:
    written = writes_for(objects_with({"resourceClaimName": "secret"}, None, neighbours("secret", "lab")))
    assert len([write for write in written if SECRET in told(write)]) >= 6


@pytest.mark.parametrize(
    "foreign", [{"ownerReferences.0.uid": "pod-9"}, {"ownerReferences": None}], ids=["another pod's", "nobody's"]
)
def test_a_claim_that_was_not_made_for_the_pod_leads_nowhere(foreign: dict[str, Any]) -> None:
    claim = changed(neighbours("secret", "lab"), {f"metadata.{key}": value for key, value in foreign.items()})
    written = writes_for(objects_with({"resourceClaimTemplateName": "t"}, "secret", claim))
    assert not [write for write in written if SECRET in told(write)]
    (made, *_) = [write.obj for write in written if isinstance(write, Create)]
    assert isinstance(made, VirtualMachineInstanceDevices)
    assert [device.reason for device in made.status.devices] == ["ClaimForeign"]


@pytest.mark.parametrize(
    "reserved", [[], [{"resource": "pods", "name": POD, "uid": "pod-9"}]], ids=["for nobody", "for another pod"]
)
def test_a_claim_that_is_not_reserved_for_the_pod_leads_nowhere(reserved: list[Json]) -> None:
    claim = changed(neighbours("secret", "lab"), {"status.reservedFor": reserved})
    assert not [
        write
        for write in writes_for(objects_with({"resourceClaimName": "secret"}, None, claim))
        if SECRET in told(write)
    ]


def test_admin_access_hands_no_device_to_a_vm() -> None:
    claim = changed(neighbours("secret", "lab"), {"status.allocation.devices.results.0.adminAccess": True})
    assert not [
        write
        for write in writes_for(objects_with({"resourceClaimName": "secret"}, None, claim))
        if SECRET in told(write)
    ]


def test_a_pod_of_another_namespace_is_not_the_vmis_whatever_owner_it_names() -> None:
    pod = changed(
        BASE["pod"],
        {"metadata.namespace": "other", "metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(RECORD)}},
    )
    vmi, _, published = objects_with({"resourceClaimName": "secret"}, None)
    stores = Stores()
    stores.put(vmi, Pod.from_wire(pod), published, ResourceClaim.from_wire(neighbours("secret")))
    for sources in (stores.sources, stores.listed()):
        inputs = device_inputs.gather(sources, "lab/fedora", NOW)
        assert inputs is not None
        assert (inputs.pods, inputs.pod, dict(inputs.claims)) == ((), None, {})


def test_a_shared_address_tells_no_name_of_another_namespace() -> None:
    world = World.with_changes()
    raw = changed(
        BASE, {"vmi.metadata.name": "a-secret", "vmi.metadata.namespace": "elsewhere", "vmi.metadata.uid": "vmi-0"}
    )
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "a-secret",
        "uid": "vmi-0",
        "controller": True,
    }
    device = {"name": "g0", "kind": "gpus", "state": "Resolved", "pciAddress": "0000:01:00.0"}
    devices = {
        "metadata": {"name": "a-secret", "namespace": "elsewhere", "ownerReferences": [owner]},
        "status": {"nodeName": "node-a", "devices": [device]},
    }
    world.memory.load([VirtualMachineInstance.from_wire(raw["vmi"]), VirtualMachineInstanceDevices.from_wire(devices)])
    stores = Stores()
    stores.put(*world.memory.snapshot())
    inputs = device_inputs.gather(stores.sources, "lab/fedora", NOW)
    assert inputs is not None
    plan = device_publication.plan(inputs)
    (event, *_) = [event for event in plan.events if event.reason == "SharedAddress"]
    assert event.message.startswith(
        "gpus/g0: PCI 0000:01:00.0 on node node-a is also a device of another namespace; only a driver "
    )
    assert not [write for write in plan.actions if "elsewhere" in told(write) or "a-secret" in told(write)]


@given(NAMES)
@settings(max_examples=sample(60), deadline=None)
def test_the_webhook_knows_drivers_of_objects_of_the_requests_namespace_only(name: str) -> None:
    device_class = DeviceClass.from_wire(
        {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    )
    spec: Json = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    published = ResourceSlice.from_wire(BASE["slices"][0])
    sources: tuple[Json, ...] = ({"resourceClaimName": name}, {"resourceClaimTemplateName": name})
    for namespace, visible in (("other", False), ("lab", True)):
        meta: Json = {"name": name or "x", "namespace": namespace}
        objects = [
            ResourceClaim.from_wire({"metadata": meta, "spec": spec}),
            ResourceClaimTemplate.from_wire({"metadata": meta, "spec": {"spec": spec}}),
        ]
        knowledge = Preflight(Known.from_objects([device_class, published, *objects]))
        for source in sources:
            entry = PodResourceClaim.from_wire({"name": "c", **source})
            serving = knowledge.drivers("lab", [entry], [ClaimRequestPair("c", "gpu")]).get(
                ClaimRequestPair("c", "gpu")
            )
            assert (serving is not None and serving.drivers == ("gpu.example.com",)) == (visible and bool(name))


def test_why_a_pod_waits_names_nobody_elses_claims_and_devices() -> None:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "secret-device"}
    status: Json = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "secret-pod", "uid": "u"}],
    }
    theirs = ResourceClaim.from_wire(
        {"metadata": {"name": "secret-claim", "namespace": "secret", "uid": "x"}, "status": status}
    )
    published = slice_of("a", 1).to_wire()
    published["spec"]["devices"] = [{"name": "secret-device", "attributes": {"secret-key": {"string": "secret-value"}}}]
    told_ = explained([node("a")], [ResourceSlice.from_wire(published)], (theirs,))
    assert (told_.reason, "1 device: in use" in told_.message, "secret" in told_.message) == ("NoNodeFits", True, False)
