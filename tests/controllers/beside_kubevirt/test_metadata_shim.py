"""What the operator fills into launcher pods; read by the launcher's own readers, behind the pod webhook's own patches
(K-11.1, K-11.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from launcher import AddressSources, hostdevs
from tests.controllers.changed_objects import changed
from tests.controllers.listed_sources import ListedSources
from tests.controllers.published_world import BASE, CLAIM, NOW, POD, World
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import ANNOTATIONS_LIMIT, INTEGRATION_ANNOTATION, metadata_annotation
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES, HOST_DEVICES_WITH_DRA, Gates, KubeVirtVersion
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.patches import patched
from virt_dra.controllers.beside_kubevirt import metadata_shim
from virt_dra.controllers.devices.inputs import DeviceInputs, gather
from virt_dra.controllers.pods.launcher_pods import render
from virt_dra.controllers.pods.launcher_resources import RenderError
from webhooks.knowledge import KubeVirtOnly
from webhooks.launcher_pod.mutation import mutate

KEY = metadata_annotation("gpus", "gpu")


def record(layout: str = "KEP-5304", **more: Any) -> Json:
    return {
        "format": 1,
        "pairs": [{"claim": "gpus", "request": "gpu", "path": "metadata-shim", "layout": layout}],
        **more,
    }


def inputs_of(changes: Mapping[str, object], *, annotation: Json | None = None, **lists: Any) -> DeviceInputs:
    annotations = {} if annotation is None else {INTEGRATION_ANNOTATION: json.dumps(annotation)}
    raw = changed(BASE, {"pod.metadata.annotations": annotations, **changes})
    sources = ListedSources(
        [VirtualMachineInstance.from_wire(raw["vmi"])],
        [Pod.from_wire(raw["pod"])],
        [ResourceClaim.from_wire(claim) for claim in raw.get("claims", [])],
        [ResourceSlice.from_wire(slice_) for slice_ in raw.get("slices", [])],
        [DeviceTaintRule.from_wire(rule) for rule in raw.get("rules", [])],
        **lists,
    )
    inputs = gather(sources, "lab/fedora", NOW)
    assert inputs is not None
    return inputs


def file_of(inputs: DeviceInputs) -> Json:
    (action,) = metadata_shim.plan(inputs).actions
    text = action.annotations[KEY]
    assert text is not None
    written: Json = json.loads(text)
    return written


def test_the_file_has_the_published_attributes_and_the_address_kubevirt_reads() -> None:
    attributes = {
        "pciAddress": {"string": "0000:05:00.0"},
        "model": {"string": '</script>"\n'},
        "memory": {"int": 16},
        "vgpu": {"bool": False},
        "driverVersion": {"version": "1.2.3"},
        "tags": {"strings": ["a", "b"]},
        "vendor.example.com/uuid": {"string": "GPU-1"},
    }
    inputs = inputs_of({"slices.0.spec.devices.0.attributes": attributes}, annotation=record())
    assert file_of(inputs) == {
        "kind": "DeviceMetadata",
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "metadata": {"name": CLAIM, "namespace": "lab", "uid": "claim-1", "generation": 1},
        "podClaimName": "gpus",
        "requests": [
            {
                "name": "gpu",
                "devices": [
                    {
                        "driver": "gpu.example.com",
                        "pool": "node-a",
                        "name": "d0",
                        "attributes": {**attributes, "resource.kubernetes.io/pciBusID": {"string": "0000:05:00.0"}},
                    }
                ],
            }
        ],
    }


UUID = "12345678-9abc-def0-1234-56789abcdef0"


@pytest.mark.parametrize(
    ("attributes", "read"),
    [
        ({"resource.kubernetes.io/pciBusID": "0000:01:00.0"}, {"resource.kubernetes.io/pciBusID": "0000:01:00.0"}),
        ({"mdevUUID": UUID}, {"mdevUUID": UUID}),
        ({"resource.kubernetes.io/mdevUUID": UUID}, {"mdevUUID": UUID}),
        ({"gpu.example.com/mDevUUID": UUID}, {"mdevUUID": UUID}),
        (
            {"mdevUUID": UUID, "pciAddress": "0000:01:00.0"},
            {"mdevUUID": UUID, "resource.kubernetes.io/pciBusID": "0000:01:00.0"},
        ),
        ({"mdevUUID": UUID, "resource.kubernetes.io/pciBusID": "not one"}, {"mdevUUID": UUID}),
        ({"mdevUUID": "", "pciAddress": "0000:01:00.0"}, {"resource.kubernetes.io/pciBusID": "0000:01:00.0"}),
    ],
)
def test_the_two_keys_that_kubevirt_reads_say_what_was_resolved(
    attributes: dict[str, str], read: dict[str, str]
) -> None:
    published = {key: {"string": value} for key, value in attributes.items()}
    told = file_of(inputs_of({"slices.0.spec.devices.0.attributes": published}, annotation=record()))
    (device,) = told["requests"][0]["devices"]
    assert {
        key: device["attributes"][key]["string"]
        for key in ("mdevUUID", "resource.kubernetes.io/pciBusID")
        if key in device["attributes"]
    } == read


def test_a_device_has_no_more_attributes_than_a_file_may_the_address_among_them() -> None:
    published = {f"a{number:02}": {"int": number} for number in range(31)} | {"pciAddress": {"string": "0000:01:00.0"}}
    (device,) = file_of(inputs_of({"slices.0.spec.devices.0.attributes": published}, annotation=record()))["requests"][
        0
    ]["devices"]
    assert len(device["attributes"]) == 32
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": "0000:01:00.0"}


def test_a_chosen_alternative_is_named_as_the_vm_asks_for_it() -> None:
    told = file_of(inputs_of({"claims.0.status.allocation.devices.results.0.request": "gpu/big"}, annotation=record()))
    assert [request["name"] for request in told["requests"]] == ["gpu"]


def test_a_direct_claims_file_names_no_entry_and_carries_network_data() -> None:
    source = {
        "pod.spec.resourceClaims.0": {"name": "gpus", "resourceClaimName": CLAIM},
        "pod.status.resourceClaimStatuses": None,
    }
    data = {
        "driver": "gpu.example.com",
        "pool": "node-a",
        "device": "d0",
        "networkData": {"interfaceName": "net1", "ips": ["10.1.2.3/24"]},
    }
    told = file_of(
        inputs_of(
            {**source, "claims.0.metadata.ownerReferences": None, "claims.0.status.devices": [data]},
            annotation=record(),
        )
    )
    assert "podClaimName" not in told
    assert told["requests"][0]["devices"][0]["networkData"] == {"interfaceName": "net1", "ips": ["10.1.2.3/24"]}


@pytest.mark.parametrize(
    "waits",
    [
        {"claims.0.status": None},
        {"claims.0.status.reservedFor": None},
        {"claims": []},
        {"pod.status.resourceClaimStatuses": None},
        {"slices": []},
        {"slices.0.spec.pool.resourceSliceCount": 2},
        {"claims.0.metadata.ownerReferences.0.uid": "pod-9"},
        {"claims.0.status.allocation.devices.results.1": {"request": "gpu", "driver": "gpu.example.com",
            "pool": "node-a", "device": "d1"}},
        {"claims.0.status.allocation.devices.results.0.adminAccess": True},
        {"slices.0.spec.devices.0.attributes": {"model": {"string": "x"}}},
    ],
    ids=[
        "not allocated", "not reserved", "no claim", "none recorded", "not published", "pool incomplete", "foreign",
        "two devices", "admin", "no address",
    ],
)  # fmt: skip
def test_nothing_is_written_before_one_device_is_the_pods(waits: dict[str, object]) -> None:
    assert metadata_shim.plan(inputs_of(waits, annotation=record())) == metadata_shim.FillInPlan()


def test_nothing_is_written_without_a_record_or_where_the_pod_is_going() -> None:
    assert metadata_shim.plan(inputs_of({})) == metadata_shim.FillInPlan()
    going = {"pod.metadata.deletionTimestamp": "2026-11-21T09:00:00Z"}
    assert metadata_shim.plan(inputs_of(going, annotation=record())) == metadata_shim.FillInPlan()


def test_a_record_that_names_what_is_not_the_pods_is_not_followed() -> None:
    forged = {"format": 1,
        "pairs": [{"claim": "other", "request": "gpu", "path": "metadata-shim", "layout": "KEP-5304"},
                                     {"claim": "gpus", "request": "else", "path": "metadata-shim",
                                         "layout": "KEP-5304"}]}  # fmt: skip
    planned = metadata_shim.plan(inputs_of({}, annotation=forged))
    assert planned.actions == ()
    assert [(problem.reason, problem.subject) for problem in planned.problems] == [
        ("NotThePodsClaim", "other/gpu"), ("NotThePodsClaim", "gpus/else"),
    ]  # fmt: skip


def test_what_is_no_record_is_told() -> None:
    inputs = inputs_of({"pod.metadata.annotations": {INTEGRATION_ANNOTATION: "["}})
    (problem,) = metadata_shim.plan(inputs).problems
    assert (problem.reason, problem.subject) == ("BadIntegrationAnnotation", f"lab/{POD}")


async def test_what_is_written_is_written_once_and_put_right_when_somebody_changes_it() -> None:
    world = World.with_changes({"pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(record())}})
    await world.reconcile()
    written = (await world.pod()).metadata.annotations[KEY]
    version = world.memory.resource_version
    await world.reconcile()
    assert world.memory.resource_version == version
    await world.memory.patch(Pod, POD, "lab", merge={"metadata": {"annotations": {KEY: "{}"}}})
    await world.reconcile()
    assert (await world.pod()).metadata.annotations[KEY] == written


async def test_a_running_vm_keeps_the_address_that_it_was_started_with() -> None:
    world = World.with_changes({"pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(record())}})
    await world.reconcile()
    written = (await world.pod()).metadata.annotations[KEY]
    await world.runs()
    published = await world.memory.get(ResourceSlice, "node-a-gpus")
    moved = changed(
        BASE, {"slices.0.spec.devices.0.attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:09:00.0"}}}
    )
    await world.memory.update(published.with_(spec=ResourceSlice.from_wire(moved["slices"][0]).spec))
    await world.reconcile()
    assert (await world.pod()).metadata.annotations[KEY] == written
    await world.memory.delete(ResourceSlice, "node-a-gpus")
    await world.reconcile()
    assert (await world.pod()).metadata.annotations[KEY] == written


def test_where_annotations_are_full_only_the_addresses_are_written_and_then_nothing() -> None:
    published = {f"a{n:02}": {"strings": ["x" * 64] * 64} for n in range(20)} | {
        "pciAddress": {"string": "0000:01:00.0"}
    }
    for room, keys in ((20_000, ["resource.kubernetes.io/pciBusID"]), (400, None)):
        changes: dict[str, object] = {
            "slices.0.spec.devices.0.attributes": published,
            "pod.metadata.annotations": {
                INTEGRATION_ANNOTATION: json.dumps(record()),
                "filler": "x" * (ANNOTATIONS_LIMIT - room),
            },
        }
        planned = metadata_shim.plan(inputs_of(changes))
        if keys is None:
            assert planned.actions == ()
            assert [problem.reason for problem in planned.problems] == ["AnnotationsTooLarge"]
        else:
            (action,) = planned.actions
            text = action.annotations[KEY]
            assert text is not None
            assert sorted(json.loads(text)["requests"][0]["devices"][0]["attributes"]) == keys


# --- variables ---


def plugin(
    devices: dict[str, tuple[str, str, str]], results: dict[str, str], **attributes: Json
) -> tuple[dict[str, object], Json]:
    """``devices``: name -> kind, resource, request; ``results``: request -> device. Changes of the base, and the
    record."""
    entries = {
        kind: [{"name": name, "deviceName": res} for name, (k, res, _) in devices.items() if k == kind]
        for kind in ("gpus", "hostDevices")
    }
    found = [
        {"request": request, "driver": "gpu.example.com", "pool": "node-a", "device": device}
        for request, device in results.items()
    ]
    changes: dict[str, object] = {
        "vmi.spec.domain.devices": entries,
        "pod.spec.containers.0.resources.claims": [{"name": "gpus", "request": request} for request in results],
        "claims.0.status.allocation.devices.results": found,
        **{f"slices.0.spec.devices.{number}.attributes": value for number, value in enumerate(attributes.values())},
    }
    pairs = [{"claim": "gpus", "request": request, "path": "device-plugin"} for request in results]
    listed = [
        {"kind": k, "name": name, "resource": res, "claim": "gpus", "request": request}
        for name, (k, res, request) in devices.items()
    ]
    return changes, {"format": 1, "pairs": pairs, "devices": listed}


def variables(changes: dict[str, object], annotation: Json) -> dict[str, str | None]:
    (action,) = metadata_shim.plan(inputs_of(changes, annotation=annotation)).actions
    return {key.partition("/")[2]: value for key, value in action.annotations.items()}


def test_addresses_stand_in_the_order_in_which_kubevirt_takes_them() -> None:
    changes, annotation = plugin(
        {"b": ("gpus", "v.com/x", "r1"), "a": ("gpus", "v.com/x", "r0")}, {"r0": "d0", "r1": "d1"}
    )
    annotation["devices"].reverse()  # the VMI's order counts, not the record's
    assert variables(changes, annotation) == {"ready": "true", "PCI_RESOURCE_V_COM_X": "0000:02:00.0,0000:01:00.0"}


def test_each_resource_has_its_variable_by_the_kind_of_address() -> None:
    mdev = {"mdevUUID": {"string": UUID}}
    changes, annotation = plugin(
        {"a": ("gpus", "v.com/x", "r0"), "b": ("hostDevices", "v.com/y", "r1")}, {"r0": "d0", "r1": "d1"},
        d0=mdev, d1={"pciAddress": {"string": "0000:02:00.0"}},
    )  # fmt: skip
    assert variables(changes, annotation) == {
        "ready": "true",
        "MDEV_PCI_RESOURCE_V_COM_X": UUID,
        "PCI_RESOURCE_V_COM_Y": "0000:02:00.0",
    }


def test_a_forged_second_variable_is_removed() -> None:
    changes, annotation = plugin({"a": ("gpus", "v.com/x", "r0")}, {"r0": "d0"})
    forged = {"addresses.virt-dra.io/MDEV_PCI_RESOURCE_V_COM_X": UUID, INTEGRATION_ANNOTATION: json.dumps(annotation)}
    (action,) = metadata_shim.plan(inputs_of({**changes, "pod.metadata.annotations": forged})).actions
    assert action.annotations["addresses.virt-dra.io/MDEV_PCI_RESOURCE_V_COM_X"] is None


def test_until_all_addresses_are_known_none_is_written() -> None:
    changes, annotation = plugin(
        {"a": ("gpus", "v.com/x", "r0"), "b": ("gpus", "v.com/x", "r1")}, {"r0": "d0", "r1": "d9"}
    )
    assert metadata_shim.plan(inputs_of(changes, annotation=annotation)) == metadata_shim.FillInPlan()


@pytest.mark.parametrize(
    ("devices", "change", "reasons"),
    [
        ({"a": ("gpus", "v.com/x", "r0"), "b": ("gpus", "v.com/x", "r1")}, {}, ["MixedAddresses"]),
        ({"a": ("gpus", "v.com/x", "r0"), "b": ("hostDevices", "v.com/x", "r1")}, {}, ["SharedVariable"]),
        (
            {"a": ("gpus", "v.com/x", "r0")},
            {"vmi.spec.domain.devices": {"gpus": [{"name": "a", "deviceName": "v.com/z"}]}},
            ["NotTheVmisDevice"],
        ),
        ({"a": ("gpus", "v.com/x", "r0")}, {"vmi.spec.domain.devices": {}}, ["NotTheVmisDevice"]),
        ({"a": ("gpus", "v.com/x", "r7")}, {}, ["NotThePodsClaim"]),
    ],
)
def test_what_kubevirt_would_hand_out_wrongly_is_not_written(
    devices: dict[str, tuple[str, str, str]], change: dict[str, object], reasons: list[str]
) -> None:
    pci = {"pciAddress": {"string": "0000:02:00.0"}}
    changes, annotation = plugin(devices, {"r0": "d0", "r1": "d1"}, d0={"mdevUUID": {"string": UUID}}, d1=pci)
    planned = metadata_shim.plan(inputs_of({**changes, **change}, annotation=annotation))
    assert (planned.actions, [problem.reason for problem in planned.problems]) == ((), reasons)


# --- from the pod webhook to the launcher ---


@dataclass(frozen=True)
class Knows(KubeVirtOnly):
    """The webhook knows the VMI."""

    instance: VirtualMachineInstance | None = None

    def vmi(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        return self.instance


def rendered(vmi: VirtualMachineInstance, gates: Gates) -> Pod:
    """The pod as KubeVirt makes it and the webhook completes it."""
    pod = render(vmi, gates)
    assert not isinstance(pod, RenderError)
    raw = pod.with_(metadata=pod.metadata.without("generate_name").with_(name=POD)).to_wire()
    verdict = mutate(raw, "lab", Knows(gates, instance=vmi))
    assert verdict.allowed, verdict.causes
    return Pod.from_wire(patched(raw, verdict.patch))


def kubelet(pod: Pod) -> tuple[dict[str, str], dict[str, str]]:
    """The files and variables of the container compute, as the kubelet makes them of annotations."""
    (compute,) = [container for container in pod.spec.containers if container.name == "compute"]

    def annotation(reference: Json) -> str:
        field = reference["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
        return pod.metadata.annotations.get(field, "")

    volumes = {volume.name: volume.downward_api for volume in pod.spec.volumes if volume.downward_api}
    files = {
        f"{mount.mount_path}/{item['path']}": annotation(item["fieldRef"])
        for mount in compute.volume_mounts
        for item in (volumes.get(mount.name) or {"items": []})["items"]
    }
    refers = [
        (v.name, v.value_from["fieldRef"])
        for v in compute.env
        if v.value_from and "annotations" in v.value_from["fieldRef"]["fieldPath"]
    ]
    return files, {name: annotation(reference) for name, reference in refers}


def gates_of(version: str) -> Gates:
    return Gates.for_version(
        KubeVirtVersion.parse(version), dict.fromkeys((GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES), True)
    )


@pytest.mark.parametrize("version", ["1.8.0", "1.8.2", "1.8.3", "1.9", "main"])
@pytest.mark.parametrize("direct", [False, True], ids=["template", "direct"])
async def test_a_shimmed_device_reaches_the_domain_of_every_kubevirt(version: str, direct: bool) -> None:
    source = {"resourceClaimName": CLAIM} if direct else {"resourceClaimTemplateName": "single-gpu"}
    gpu_address = {"gpu.example.com/pciAddress": {"string": "0000:01:00.0"}}
    changes: dict[str, object] = {
        "vmi.spec.resourceClaims.0": {"name": "gpus", **source},
        "slices.0.spec.devices.0.attributes": gpu_address,
        "vmi.metadata.annotations": {KEY: '{"forged": true}', INTEGRATION_ANNOTATION: "forged"},
    }
    raw = changed(BASE, changes)
    vmi = VirtualMachineInstance.from_wire(raw["vmi"])
    pod = rendered(vmi, gates_of(version))
    assert KEY not in pod.metadata.annotations
    world = World.with_changes({**changes, "pod": None})
    status = {} if direct else {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": CLAIM}]}
    stored = pod.to_wire() | {"status": {"phase": "Pending", **status}}
    stored["metadata"]["uid"] = "pod-1"
    stored["spec"]["nodeName"] = "node-a"
    world.memory.load([Pod.from_wire(stored)])
    files, _ = kubelet(await world.pod())
    assert list(files.values()) == [""]  # KubeVirt tries again until there is something (K-7.26)
    await world.reconcile()
    files, env = kubelet(await world.pod())
    (device,) = hostdevs(vmi, AddressSources(env, files), kubevirt=version)
    assert (device.device, str(device.address)) == ("gpus/g0", "0000:01:00.0")
    assert (await world.status())["devices"][0]["integrationPath"] == "metadata-shim"


@pytest.mark.parametrize("version", ["1.5.2", "1.7", "1.9"])
async def test_a_claim_in_place_of_a_plugin_device_reaches_the_domain_of_every_kubevirt(version: str) -> None:
    wanted = {"a": {"resourceClaimName": CLAIM, "request": "gpu"}}
    changes: dict[str, object] = {
        "vmi.spec": {"domain": {"devices": {"gpus": [{"name": "a", "deviceName": "vendor.com/a.b"}]}}},
        "vmi.metadata.annotations": {"virt-dra.io/device-claims": json.dumps(wanted)},
    }
    vmi = VirtualMachineInstance.from_wire(changed(BASE, changes)["vmi"])
    pod = rendered(vmi, gates_of(version))
    world = World.with_changes({**changes, "pod": None})
    stored = pod.to_wire() | {"status": {"phase": "Pending"}}
    stored["metadata"]["uid"] = "pod-1"
    stored["spec"]["nodeName"] = "node-a"
    world.memory.load([Pod.from_wire(stored)])
    _, env = kubelet(await world.pod())
    assert set(env.values()) == {""}
    await world.reconcile()
    assert (await world.pod()).metadata.annotations["addresses.virt-dra.io/ready"] == "true"
    _, env = kubelet(await world.pod())
    (device,) = hostdevs(vmi, AddressSources(env), kubevirt=version)
    assert (device.device, str(device.address), device.source) == ("gpus/a", "0000:01:00.0", "environment")
    assert [device["integrationPath"] for device in (await world.status())["devices"]] == ["device-plugin"]


def test_a_migration_target_is_filled_in_before_it_is_the_current_pod() -> None:
    target = changed(BASE, {
        "pod.metadata.name": "target", "pod.metadata.uid": "pod-2",
        "pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(record())},
        "pod.status.resourceClaimStatuses.0.resourceClaimName": "target-gpus",
        "claims.0.metadata.name": "target-gpus", "claims.0.metadata.ownerReferences.0.uid": "pod-2",
        "claims.0.status.reservedFor.0.uid": "pod-2", "claims.0.status.allocation.devices.results.0.device": "d1",
    })  # fmt: skip
    target["pod"]["metadata"]["labels"] = {
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": "vmi-1",
        "kubevirt.io/migrationJobUID": "m",
    }
    inputs = inputs_of({})
    claim = ResourceClaim.from_wire(target["claims"][0])
    inputs = replace(
        inputs, pods=(*inputs.pods, Pod.from_wire(target["pod"])), claims={**inputs.claims, claim.key: claim}
    )
    (action,) = metadata_shim.plan(inputs).actions
    text = action.annotations[KEY]
    assert (action.name, json.loads(text or "")["requests"][0]["devices"][0]["name"]) == ("target", "d1")
