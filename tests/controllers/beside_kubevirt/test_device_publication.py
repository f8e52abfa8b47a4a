"""What is published of a VMI's devices beside KubeVirt: when, what, once, and again after whatever happens (K-5.14,
K-5.21, K-9)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from tests.controllers.changed_objects import cases_in, changed
from tests.controllers.listed_sources import ListedSources
from tests.controllers.published_world import BASE, CASES, CLAIM, LATER, NOW, POD, World, objects
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, INTEGRATION_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError, Conflict, Forbidden, NotFound, Unavailable
from virt_dra.controllers.beside_kubevirt import publication as device_publication
from virt_dra.controllers.devices import inputs as device_inputs
from virt_dra.controllers.reconciled import NOTHING
from virt_dra.controllers.writes import Create, PatchAnnotations

Found = TypeVar("Found", VirtualMachineInstance, Pod, ResourceClaim, ResourceSlice)

DEVICE_STATUS: Json = {
    "gpuStatuses": [
        {
            "name": "g0",
            "deviceResourceClaimStatus": {
                "name": "d0",
                "resourceClaimName": CLAIM,
                "attributes": {"pciAddress": "0000:01:00.0"},
            },
        }
    ]
}
RESOLVED: Json = {
    "name": "g0",
    "kind": "gpus",
    "claimName": "gpus",
    "requestName": "gpu",
    "integrationPath": "native",
    "resourceClaimName": CLAIM,
    "driver": "gpu.example.com",
    "pool": "node-a",
    "device": "d0",
    "pciAddress": "0000:01:00.0",
    "state": "Resolved",
}


def condition(kind: str, status: str, reason: str, message: str = "", since: str = "2026-11-21T09:00:00Z") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


async def run(life: Callable[[World], Awaitable[None]], changes: dict[str, Any] | None = None) -> None:
    await _run(life, World.with_changes(changes))


async def _run(life: Callable[[World], Awaitable[None]], world: World) -> None:
    await life(world)


async def test_a_claim_that_is_heard_of_after_its_pod_runs_is_not_taken_for_deleted() -> None:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}

    async def life(world: World) -> None:
        done = await world.reconcile()
        assert (done.events, done.requeue_at) == ((), NOW + timedelta(seconds=10))
        assert (await world.conditions())["DevicesResolved"] == ("False", "ClaimMissing")
        assert (await world.status())["devices"][0]["state"] == "Pending"
        world.now = NOW + timedelta(seconds=11)
        ((kind, reason, message),) = await world.told()
        assert (kind, reason, message.endswith("it was deleted while the pod runs; restart the VM")) == (
            "Warning",
            "ClaimMissing",
            True,
        )

    await run(life, {"claims": [], "pod.status.phase": "Running", "pod.status.conditions": [bound]})


async def test_a_pod_whose_claims_are_allocated_before_it_is_bound_is_told_without_a_place() -> None:
    async def life(world: World) -> None:
        assert await world.told() == [("Normal", "DevicesResolved", "gpus/g0 0000:01:00.0")]
        assert await world.told() == []

    await run(life, {"pod.spec.nodeName": None})


async def test_what_is_resolved_is_published_whole_and_once() -> None:
    async def life(world: World) -> None:
        assert await world.told() == [("Normal", "DevicesResolved", "on node node-a: gpus/g0 0000:01:00.0")]
        devices = await world.devices()
        assert devices.to_wire()["status"] == {
            "ready": "1/1",
            "podName": POD,
            "podUID": "pod-1",
            "nodeName": "node-a",
            "integrationPaths": "native",
            "deviceStatus": DEVICE_STATUS,
            "devices": [RESOLVED],
            "conditions": [
                condition("DevicesResolved", "True", "AllDevicesResolved"),
                condition("DevicesHealthy", "True", "AllDevicesHealthy"),
            ],
        }
        assert devices.metadata.labels == {"app.kubernetes.io/part-of": "virt-dra"}
        (owner,) = devices.metadata.owner_references
        assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == (
            "kubevirt.io/v1", "VirtualMachineInstance", "fedora", "vmi-1", True,
        )  # fmt: skip
        assert json.loads((await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION]) == DEVICE_STATUS
        version, world.now = world.memory.resource_version, LATER
        assert await world.reconcile() == NOTHING
        assert world.memory.resource_version == version

    await run(life)


async def test_step_by_step_conditions_and_times_move_and_only_ends_are_told() -> None:
    async def life(world: World) -> None:
        assert await world.told() == []
        status = await world.status()
        waiting = (
            f"gpus/g0: ResourceClaim {CLAIM} is not allocated yet; if this "
            "lasts, the pod's condition PodScheduled says why"
        )
        assert status["conditions"] == [
            condition("DevicesResolved", "False", "NotAllocated", waiting),
            condition("DevicesHealthy", "Unknown", "DevicesNotResolved"),
        ]
        assert (status["ready"], status["devices"][0]["state"], status["devices"][0]["reason"]) == (
            "0/1",
            "Pending",
            "NotAllocated",
        )
        assert DEVICE_STATUS_ANNOTATION not in (await world.vmi()).metadata.annotations
        world.now = LATER
        await world.allocate()
        assert [reason for _, reason, _ in await world.told()] == ["DevicesResolved"]
        assert (await world.status())["conditions"] == [
            condition("DevicesResolved", "True", "AllDevicesResolved", since="2026-11-21T09:05:00Z"),
            condition("DevicesHealthy", "True", "AllDevicesHealthy", since="2026-11-21T09:05:00Z"),
        ]

    await run(life, {"claims.0.status": None})


async def test_what_kubectl_shows_of_a_waiting_pod_is_why_its_claims_do_not_fit() -> None:
    async def life(world: World) -> None:
        why = "0 of 1 nodes can take the pod: 1 node (node-a), claim default/c, request gpu: 1 device: in use"
        explained = Condition.from_wire(condition("Allocatable", "False", "NoNodeFits", why))
        await world.reconcile(explained=explained)
        assert (await world.status())["conditions"] == [
            condition("Allocatable", "False", "NoNodeFits", why),
            condition("DevicesResolved", "False", "NotAllocated", f"gpus/g0: {why}"),
            condition("DevicesHealthy", "Unknown", "DevicesNotResolved"),
        ]
        await world.reconcile()  # what was explained is kept
        assert (await world.conditions())["DevicesResolved"] == ("False", "NotAllocated")
        assert (await world.status())["conditions"][1]["message"] == f"gpus/g0: {why}"
        await world.allocate()
        await world.reconcile()
        assert (await world.conditions()).keys() == {"DevicesResolved", "DevicesHealthy"}

    await run(life, {"claims.0.status": None, "pod.spec.nodeName": None})


async def test_before_there_is_a_pod_that_is_what_is_waited_for() -> None:
    async def life(world: World) -> None:
        assert await world.told() == []
        status = await world.status()
        assert (status["ready"], [device["reason"] for device in status["devices"]]) == ("0/1", ["PodMissing"])
        assert "podName" not in status

    await run(life, {"pod": None})


async def test_an_error_is_told_once_and_again_when_it_is_another() -> None:
    async def life(world: World) -> None:
        assert [(kind, reason) for kind, reason, _ in await world.told()] == [("Warning", "RequestNotInClaim")]
        assert await world.told() == []
        claim = await world.memory.get(ResourceClaim, CLAIM, "lab")
        await world.memory.delete(ResourceClaim, CLAIM, "lab")
        assert await world.told() == []  # the claim may come again
        wire = claim.to_wire() | {"metadata": {"name": CLAIM, "namespace": "lab"}}
        await world.memory.create(ResourceClaim.from_wire(wire))
        assert [(kind, reason) for kind, reason, _ in await world.told()] == [("Warning", "ClaimForeign")]

    await run(life, {"claims.0.status.allocation.devices.results.0.request": "other"})


async def test_an_object_that_somebody_deleted_comes_again() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        before = await world.status()
        await world.memory.delete(VirtualMachineInstanceDevices, "fedora", "lab")
        await world.reconcile()
        assert await world.status() == before

    await run(life)


async def test_what_somebody_else_wrote_into_the_object_is_put_right() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        before = await world.status()
        forged = {
            "status": {"ready": "7/7", "devices": []},
            "metadata": {"labels": {"app.kubernetes.io/part-of": None, "mine": "1"}},
        }
        await world.memory.patch(VirtualMachineInstanceDevices, "fedora", "lab", merge=forged)
        await world.reconcile()
        devices = await world.devices()
        assert devices.metadata.labels == {"mine": "1", "app.kubernetes.io/part-of": "virt-dra"}
        after = await world.status()
        assert {**after, "conditions": None} == {**before, "conditions": None}

    await run(life)


async def test_the_object_goes_with_its_vmi_and_one_of_an_earlier_vmi_is_replaced() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        (old,) = (await world.memory.list(VirtualMachineInstanceDevices)).items
        await world.memory.delete(VirtualMachineInstance, "fedora", "lab")
        with pytest.raises(NotFound):
            await world.devices()
        world.memory.load([*objects({"vmi.metadata.uid": "vmi-2", "pod": None, "claims": []})[:1], old])
        assert await world.told() == []
        status = await world.status()
        assert (await world.devices()).metadata.owner_references[0].uid == "vmi-2"
        assert (status["ready"], status["devices"][0]["reason"]) == ("0/1", "PodMissing")

    await run(life)


async def test_a_vmi_without_claimed_devices_has_no_object_and_loses_one_it_had() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        vmi = await world.vmi()
        await world.memory.update(
            vmi.with_(spec=vmi.spec.with_(domain=vmi.spec.domain.with_(devices=vmi.spec.domain.devices.with_(gpus=()))))
        )
        await world.reconcile()
        with pytest.raises(NotFound):
            await world.devices()
        assert DEVICE_STATUS_ANNOTATION not in (await world.vmi()).metadata.annotations

    await run(life)


@pytest.mark.parametrize(
    "gone",
    [
        {"vmi.status": {"phase": "Succeeded"}},
        {"vmi.status": {"phase": "Failed"}},
        {"vmi.metadata.deletionTimestamp": "2026-11-21T09:00:00Z", "vmi.metadata.finalizers": ["x.example.com/y"]},
    ],
)
async def test_a_vmi_that_ended_or_is_going_is_left_as_it_is(gone: dict[str, Any]) -> None:
    async def life(world: World) -> None:
        version = world.memory.resource_version
        assert await world.told() == []
        assert world.memory.resource_version == version

    await run(life, gone)


async def test_a_forged_annotation_is_removed_and_a_wrong_one_corrected() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        assert DEVICE_STATUS_ANNOTATION not in (await world.vmi()).metadata.annotations
        await world.allocate()
        await world.memory.patch(
            VirtualMachineInstance,
            "fedora",
            "lab",
            merge={"metadata": {"annotations": {DEVICE_STATUS_ANNOTATION: "x"}}},
        )
        await world.reconcile()
        assert json.loads((await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION]) == DEVICE_STATUS

    await run(
        life, {"claims.0.status": None, "vmi.metadata.annotations": {DEVICE_STATUS_ANNOTATION: '{"gpuStatuses":[]}'}}
    )


# --- while the VMI runs ---


async def test_a_device_that_vanishes_under_a_running_vmi_keeps_what_is_known() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        await world.memory.delete(ResourceSlice, "node-a-gpus")
        world.now = LATER
        message = (
            "no slice of pool node-a of driver gpu.example.com is published; "
            "the driver may have withdrawn the allocated device: check the driver, then restart the VM"
        )
        assert await world.told() == [("Warning", "DeviceNotPublished", f"gpus/g0: {message}")]
        status = await world.status()
        assert status["devices"] == [RESOLVED | {"reason": "DeviceNotPublished", "message": message}]
        assert (status["ready"], status["deviceStatus"]) == ("1/1", DEVICE_STATUS)
        assert await world.conditions() == {
            "DevicesResolved": ("True", "AllDevicesResolved"),
            "DevicesHealthy": ("False", "DeviceNotPublished"),
        }
        assert await world.told() == []
        await world.memory.create(ResourceSlice.from_wire(BASE["slices"][0]))
        assert await world.told() == [("Normal", "DevicesHealthy", "all devices are healthy again")]
        assert (await world.status())["devices"] == [RESOLVED]

    await run(life)


async def test_an_address_that_changes_under_a_running_vmi_is_told_and_not_taken() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        moved = changed(
            BASE,
            {"slices.0.spec.devices.0.attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:09:00.0"}}},
        )
        published = await world.memory.get(ResourceSlice, "node-a-gpus")
        await world.memory.update(published.with_(spec=ResourceSlice.from_wire(moved["slices"][0]).spec))
        (told,) = await world.told()
        assert told == (
            "Warning", "DeviceChanged",
            "gpus/g0: the VMI runs with device d0 at 0000:01:00.0, its claim now leads to device d0 at 0000:09:00.0; "
            "restart the VM to use that",
        )  # fmt: skip
        assert (await world.status())["devices"][0]["pciAddress"] == "0000:01:00.0"

    await run(life)


async def test_another_pod_is_not_held_to_what_the_first_was_started_with() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        second = changed(BASE, {
            "pod.metadata.name": "second", "pod.metadata.uid": "pod-2", "pod.spec.nodeName": "node-a",
            "pod.status.resourceClaimStatuses.0.resourceClaimName": "second-gpus",
            "claims.0.metadata.name": "second-gpus", "claims.0.metadata.uid": "claim-2",
            "claims.0.metadata.ownerReferences.0.uid": "pod-2", "claims.0.status.reservedFor.0.uid": "pod-2",
            "claims.0.status.allocation.devices.results.0.device": "d1",
        })  # fmt: skip
        await world.memory.patch(Pod, POD, "lab", merge={"status": {"phase": "Failed"}}, subresource="status")
        world.memory.load([Pod.from_wire(second["pod"]), ResourceClaim.from_wire(second["claims"][0])])
        await world.reconcile()
        status = await world.status()
        assert (status["podUID"], status["devices"][0]["pciAddress"], status["devices"][0].get("reason")) == (
            "pod-2",
            "0000:02:00.0",
            None,
        )

    await run(life)


RULE: Json = {
    "metadata": {"name": "broken"},
    "spec": {"deviceSelector": {"driver": "gpu.example.com", "pool": "node-a", "device": "d0"},
             "taint": {"key": "example.com/broken", "value": "yes", "effect": "NoExecute",
                 "timeAdded": "2026-11-21T08:59:00Z"}},
}  # fmt: skip


async def test_a_taint_rule_on_a_running_vmis_device_is_told_and_shown() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        assert (await world.status())["devices"][0]["taints"] == [RULE["spec"]["taint"]]
        assert (await world.conditions())["DevicesHealthy"] == (
            "True",
            "AllDevicesHealthy",
        )  # the scheduler's matter until it runs
        await world.runs()
        assert await world.told() == [
            (
                "Warning",
                "DeviceTainted",
                "gpus/g0: device d0 has taint example.com/broken=yes:NoExecute; see the driver's logs",
            )
        ]
        await world.memory.delete(DeviceTaintRule, "broken")
        assert await world.told() == [("Normal", "DevicesHealthy", "all devices are healthy again")]
        assert "taints" not in (await world.status())["devices"][0]

    await run(life, {"rules": [RULE]})


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_a_tolerated_taint_is_shown_and_not_told(effect: str) -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        assert await world.told() == []
        assert (await world.status())["devices"][0]["taints"] == [
            {"key": "k", "effect": effect, "timeAdded": "2026-11-21T09:00:00Z"}
        ]

    await run(life, {
        "slices.0.spec.devices.0.taints": [{"key": "k", "effect": effect}],
        "claims.0.status.allocation.devices.results.0.tolerations": [{"key": "k", "operator": "Exists"}],
    })  # fmt: skip


@pytest.mark.parametrize("resource_id", ["gpu.example.com/node-a/d0", "gpu.example.com/gpu=claim-1-d0"])
async def test_health_is_read_from_the_pod_whatever_the_kubelet_calls_the_device(resource_id: str) -> None:
    async def life(world: World) -> None:
        def says(health: Json) -> Json:
            status = {"name": "claim:gpus/gpu", "resources": [{"resourceID": resource_id, **health}]}
            return {"status": {"containerStatuses": [{"name": "compute", "allocatedResourcesStatus": [status]}]}}

        await world.memory.patch(Pod, POD, "lab", merge=says({"health": "Healthy"}), subresource="status")
        await world.reconcile()
        assert (await world.status())["devices"][0]["health"] == {"status": "Healthy"}
        sick = says({"health": "Unhealthy", "message": "ECC errors"})
        await world.memory.patch(Pod, POD, "lab", merge=sick, subresource="status")
        assert await world.told() == [
            ("Warning", "DeviceUnhealthy", "gpus/g0: device d0 is unhealthy: ECC errors; see the driver's logs")
        ]
        assert (await world.status())["devices"][0]["health"] == {"status": "Unhealthy", "message": "ECC errors"}
        assert (await world.conditions())["DevicesHealthy"] == ("False", "DeviceUnhealthy")

    await run(life)


# --- others ---


SECOND = objects({
    "vmi.metadata": {"name": "second", "namespace": "lab", "uid": "vmi-2"},
    "pod.metadata.name": "second", "pod.metadata.uid": "pod-2",
    "pod.metadata.labels": {"kubevirt.io/created-by": "vmi-2"}, "pod.metadata.ownerReferences.0.uid": "vmi-2",
    "pod.metadata.ownerReferences.0.name": "second",
    "pod.status.resourceClaimStatuses.0.resourceClaimName": "second-gpus",
    "claims.0.metadata.name": "second-gpus", "claims.0.metadata.uid": "claim-2",
    "claims.0.metadata.ownerReferences.0.uid": "pod-2", "claims.0.status.reservedFor.0.uid": "pod-2",
    "slices": None, "rules": None,
})  # fmt: skip
"""A VMI with a pod and a claim of its own, and the same device."""


async def test_an_address_that_two_vmis_have_is_told_of_the_later_one() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        world.memory.load(SECOND)
        told = await world.told("lab/second")
        assert told[0] == (
            "Warning", "SharedAddress",
            "gpus/g0: PCI 0000:01:00.0 on node node-a is also a device of VMI lab/fedora; "
            "only a driver that shares the device makes this work",
        )  # fmt: skip
        assert [reason for _, reason, _ in told] == ["SharedAddress", "DevicesResolved"]
        assert await world.told() == []

    await run(life)


@pytest.mark.parametrize(
    "end",
    [
        {"vmi.metadata.deletionTimestamp": "2026-01-01T00:00:00Z", "vmi.metadata.finalizers": ["x"]},
        {"vmi.metadata.uid": "another-of-that-name"},
        {"vmi.status.phase": "Succeeded"},
        None,
    ],
    ids=["being deleted", "another of that name", "finished", "gone"],
)
async def test_an_address_is_not_shared_with_a_vmi_that_gave_it_back(end: dict[str, Any] | None) -> None:
    """Its object stays until the garbage collector sees it, with the address that the next VMI has now."""

    async def life(world: World) -> None:
        await world.reconcile()
        first = await world.devices()
        assert first.status.devices[0].pci_address == "0000:01:00.0"
        later = [*SECOND, *(obj for obj in objects(end) if end is not None or isinstance(obj, ResourceSlice))]

        def of(kind: type[Found]) -> list[Found]:
            return [obj for obj in later if isinstance(obj, kind)]

        sources = ListedSources(
            of(VirtualMachineInstance), of(Pod), of(ResourceClaim), of(ResourceSlice), devices=[first]
        )
        inputs = device_inputs.gather(sources, "lab/second", NOW)
        assert inputs is not None
        assert [event.reason for event in device_publication.plan(inputs).events] == ["DevicesResolved"]

    await run(life)


RECORD = {
    "format": 1,
    "pairs": [
        {"claim": "gpus", "request": "gpu", "path": "native"},
        {"claim": "virt-dra-0", "request": "gpu", "path": "device-plugin"},
    ],
    "devices": [
        {"kind": "hostDevices", "name": "card", "resource": "v.com/x", "claim": "virt-dra-0", "request": "gpu"}
    ],
}
PLUGIN: dict[str, Any] = {
    "vmi.spec.domain.devices.hostDevices": [{"name": "card", "deviceName": "v.com/x"}],
    "pod.spec.resourceClaims.1": {"name": "virt-dra-0", "resourceClaimName": "direct"},
    "pod.spec.containers.0.resources.claims.1": {"name": "virt-dra-0", "request": "gpu"},
    "pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(RECORD)},
    "claims.1": {
        "metadata": {"name": "direct", "namespace": "lab", "uid": "claim-2"},
        "spec": BASE["claims"][0]["spec"],
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "d1"}]
                }
            },
            "reservedFor": [{"resource": "pods", "name": POD, "uid": "pod-1"}],
        },
    },
}


async def test_plugin_devices_are_shown_and_stay_out_of_the_device_status() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        assert (status["ready"], status["integrationPaths"], status["deviceStatus"]) == (
            "2/2",
            "native,device-plugin",
            DEVICE_STATUS,
        )
        assert status["devices"][1] == {
            "name": "card", "kind": "hostDevices", "claimName": "virt-dra-0", "requestName": "gpu",
            "integrationPath": "device-plugin", "resourceClaimName": "direct", "driver": "gpu.example.com",
            "pool": "node-a", "device": "d1", "pciAddress": "0000:02:00.0", "state": "Resolved",
        }  # fmt: skip
        await world.runs()
        await world.memory.delete(ResourceSlice, "node-a-gpus")
        world.now = LATER
        await world.reconcile()
        assert [device["pciAddress"] for device in (await world.status())["devices"]] == [
            "0000:01:00.0",
            "0000:02:00.0",
        ]

    await run(life, PLUGIN)


async def test_a_record_that_cannot_be_read_is_told_and_nothing_is_believed_of_it() -> None:
    async def life(world: World) -> None:
        told = await world.told()
        assert told[0] == (
            "Warning", "BadIntegrationAnnotation",
            f"pod {POD}: metadata.annotations[virt-dra.io/integration].pairs: must be a list, not an integer",
        )  # fmt: skip
        status = await world.status()
        message = (
            f"virt-dra's record on pod {POD} can't be read or has nothing of request "
            "gpu of claim gpus, so its address is not handed on. "
            "Restart the VM"
        )
        unknown = {"integrationPath": "none", "state": "Error", "reason": "NotInIntegrationRecord", "message": message}
        assert (status["devices"], status["ready"]) == ([RESOLVED | unknown], "0/1")
        assert await world.told() == []

    await run(life, {"pod.metadata.annotations": {INTEGRATION_ANNOTATION: '{"pairs": 1}'}})


@pytest.mark.parametrize(
    ("error", "again", "told"),
    [
        (Conflict("the object has been modified"), True, []),
        (Forbidden("no"), False, [("WriteRefused", "creating VirtualMachineInstanceDevices lab/fedora: no")]),
    ],
)
async def test_a_refused_write(
    monkeypatch: pytest.MonkeyPatch, error: ApiError, again: bool, told: list[tuple[str, str]]
) -> None:
    async def life(world: World) -> None:
        monkeypatch.setattr(world.memory, "create", _refuse(error))
        done = await world.reconcile()
        assert (done.stale, [(event.reason, event.message) for event in done.events], done.written) == (again, told, 0)

    await run(life)


async def test_a_server_that_does_not_answer_is_for_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async def life(world: World) -> None:
        monkeypatch.setattr(world.memory, "create", _refuse(Unavailable("starting")))
        with pytest.raises(Unavailable):
            await world.reconcile()

    await run(life)


def _refuse(error: ApiError) -> Callable[..., Awaitable[None]]:
    async def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


async def test_the_end_of_the_grace_period_is_looked_at_again() -> None:
    async def life(world: World) -> None:
        world.now = NOW
        assert (await world.reconcile()).requeue_at == NOW + timedelta(minutes=1, seconds=30)
        assert (await world.status())["devices"][0]["state"] == "Pending"
        world.now = NOW + timedelta(minutes=2)
        done = await world.reconcile()
        assert (done.requeue_at, [event.reason for event in done.events]) == (None, ["DeviceNotPublished"])
        assert (await world.status())["devices"][0]["state"] == "Error"

    await run(life, {"slices": [], "claims.0.status.allocation.allocationTimestamp": "2026-11-21T08:59:30Z"})


@pytest.mark.parametrize("case", cases_in(CASES))
def test_a_plan_that_is_done_leaves_nothing_to_do(case: Json) -> None:
    """Every case of the resolution: what is planned, once stored, is as it should be."""
    raw = changed(BASE, case.get("set", {}))
    vmi = VirtualMachineInstance.from_wire(raw["vmi"])
    pods = [Pod.from_wire(raw["pod"])] if "pod" in raw else []
    claims = [ResourceClaim.from_wire(claim) for claim in raw.get("claims", [])]
    slices = [ResourceSlice.from_wire(slice_) for slice_ in raw.get("slices", [])]
    inputs = device_inputs.gather(ListedSources([vmi], pods, claims, slices), vmi.key, NOW)
    if inputs is None:
        assert vmi.finished or not vmi.metadata.uid or vmi.metadata.deletion_timestamp
        return
    annotations = dict(vmi.metadata.annotations)
    devices = []
    for action in device_publication.plan(inputs).actions:
        if isinstance(action, Create) and isinstance(action.obj, VirtualMachineInstanceDevices):
            devices.append(VirtualMachineInstanceDevices.from_wire(json.loads(json.dumps(action.obj.to_wire()))))
        elif isinstance(action, PatchAnnotations):
            annotations |= {key: value for key, value in action.annotations.items() if value is not None}
    told = vmi.with_(metadata=vmi.metadata.with_(annotations=annotations))
    again = device_inputs.gather(ListedSources([told], pods, claims, slices, (), devices), vmi.key, NOW)
    assert again is not None
    assert device_publication.plan(again) == device_publication.NOTHING


@pytest.mark.parametrize(
    "passing",
    [{"slices.0.spec.pool.resourceSliceCount": 2}, {"pod": None}],
    ids=["pool published anew", "no pod for a moment"],
)
async def test_what_passes_by_itself_is_not_told_of_a_running_vmi(passing: dict[str, Any]) -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        before = await world.status()
        changed_objects = {type(obj): obj for obj in objects(passing)}
        if "pod" in passing:
            await world.memory.delete(Pod, POD, "lab")
            world.memory.load([ResourceClaim.from_wire(BASE["claims"][0])])
        else:
            announced = changed_objects[ResourceSlice]
            assert isinstance(announced, ResourceSlice)
            await world.memory.update((await world.memory.get(ResourceSlice, "node-a-gpus")).with_(spec=announced.spec))
        assert await world.told() == []
        assert await world.status() == before

    await run(life)
