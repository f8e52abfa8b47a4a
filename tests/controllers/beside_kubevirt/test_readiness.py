"""READY, conditions and Events of ``kubectl get vmid`` count what reaches the VM, and say why it doesn't (K-5.27,
K-5.34, K-5.35)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from tests.controllers.beside_kubevirt.test_migration import migrating, target_pod
from tests.controllers.published_world import BASE, CLAIM, LATER, NOW, POD, World
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.cluster.port import NotFound
from virt_dra.controllers.reconciled import NOTHING

RECORD = "pod.metadata.annotations"
NOT_SYNCHRONIZED: Json = {
    "type": "Synchronized",
    "status": "False",
    "reason": "Synchronizing with the Domain failed.",
    "message": 'server error. command SyncVMI failed: "failed to read metadata of gpus/gpu"',
    "lastTransitionTime": "2026-11-21T08:59:00Z",
}
DENIED = 'admission webhook "launcher-pods.virt-dra.io" denied the request: ResourceClaimTemplate "t" does not exist'


async def run(life: Callable[[World], Awaitable[None]], changes: dict[str, Any] | None = None) -> None:
    await life(World.with_changes(changes))


def recorded(*pairs: Json) -> dict[str, str]:
    return {"virt-dra.io/integration": json.dumps({"format": 1, "pairs": list(pairs), "devices": []})}


def shim(request: str = "gpu", **more: str) -> Json:
    return {
        "claim": "gpus",
        "request": request,
        "path": "metadata-shim",
        "reason": "DriverUnknown",
        "layout": "KEP-5304",
        **more,
    }


def two_requests() -> dict[str, Any]:
    """Two GPUs of one claim with two requests, and compute as KubeVirt 1.8.0 renders it: with the first of them."""
    gpus = [
        {"name": f"g{n}", "claimName": "gpus", "requestName": request} for n, request in enumerate(("gpu", "second"))
    ]
    claim = deepcopy(BASE["claims"][0])
    results = claim["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "request": "second", "device": "d1"})
    compute = {"name": "compute", "resources": {"claims": [{"name": "gpus", "request": "gpu"}]}}
    return {"vmi.spec.domain.devices.gpus": gpus, "claims.0": claim, "pod.spec.containers": [compute]}


CASES: dict[str, tuple[dict[str, Any], str, str, list[str], list[str | None]]] = {
    "the driver mounts a file where the pod has our volume": (
        {
            RECORD: recorded(shim()),
            "claims.0.status.allocation.devices.results.0.driver": "gpu.intel.com",
            "slices.0.spec.driver": "gpu.intel.com",
        },
        "0/1", "metadata-shim", ["Error"], ["MetadataClash"],
    ),
    "KubeVirt 1.8.0 left the second request out": (
        {**two_requests(), RECORD: recorded(shim(layout="KubeVirt-1.8.0"))},
        "1/2", "metadata-shim,none", ["Resolved", "Error"], [None, "RequestNotUsed"],
    ),
    "KubeVirt 1.7 reads no files": (
        {RECORD: recorded({"claim": "gpus", "request": "gpu", "path": "none", "reason": "NoMetadataRead"})},
        "0/1", "none", ["Error"], ["NoIntegrationPath"],
    ),
    "path native was asked for, and KubeVirt 1.8.0 looks elsewhere": (
        {RECORD: recorded({"claim": "gpus", "request": "gpu", "path": "none", "reason": "NativeNotRead"})},
        "0/1", "none", ["Error"], ["NoIntegrationPath"],
    ),
    "a DeviceClass says that the driver mounts a file": (
        {
            RECORD: recorded(shim(reason="AskedFor")),
            "classes": [
                {"metadata": {"name": "any", "annotations": {"virt-dra.io/writes-metadata": "gpu.example.com"}}}
            ],
        },
        "0/1", "metadata-shim", ["Error"], ["MetadataClash"],
    ),
    "path native was asked for, the driver writes no file, and the launcher looks for it": (
        {
            RECORD: recorded({"claim": "gpus", "request": "gpu", "path": "native", "reason": "AskedFor"}),
            "vmi.status": {"phase": "Scheduled", "conditions": [NOT_SYNCHRONIZED]},
        },
        "0/1", "native", ["Error"], ["NoMetadataFile"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_device_that_cannot_reach_the_vm_is_not_ready(name: str) -> None:
    changes, ready, paths, states, reasons = CASES[name]
    reason = next(reason for reason in reasons if reason)

    async def life(world: World) -> None:
        ((kind, told, message),) = await world.told()
        status = await world.status()
        assert (status["ready"], status["integrationPaths"]) == (ready, paths)
        assert ([d["state"] for d in status["devices"]], [d.get("reason") for d in status["devices"]]) == (
            states,
            reasons,
        )
        assert all(device["pciAddress"] for device in status["devices"])
        bad = next(device for device in status["devices"] if device.get("reason"))
        assert (kind, told, message) == ("Warning", reason, f"gpus/{bad['name']}: {bad['message']}")
        assert bad["message"].endswith("estart the VM")
        assert await world.conditions() == {
            "DevicesResolved": ("False", reason),
            "DevicesHealthy": ("Unknown", "DevicesNotResolved"),
        }
        assert await world.told() == []
        await world.runs()
        world.now = LATER
        assert [(event[0], event[1]) for event in await world.told()] == [("Normal", "DevicesResolved")]
        status = await world.status()
        assert status["ready"] == "{0}/{0}".format(len(states))

    await run(life, changes)


async def test_a_driver_that_is_not_known_to_write_may_write_and_is_waited_for() -> None:
    """As long as KubeVirt doesn't say that the launcher finds nothing; a running guest proves that it did."""

    async def life(world: World) -> None:
        assert await world.told() == []
        (device,) = (await world.status())["devices"]
        assert (device["state"], device["reason"], device["integrationPath"]) == ("Pending", "NoMetadataFile", "native")
        assert (await world.status())["ready"] == "0/1"
        await world.runs()
        assert [(event[0], event[1]) for event in await world.told()] == [("Normal", "DevicesResolved")]
        assert (await world.status())["ready"] == "1/1"

    await run(
        life, {RECORD: recorded({"claim": "gpus", "request": "gpu", "path": "native", "reason": "DriversDiffer"})}
    )


NATIVE_BY_CHOICE = recorded({"claim": "gpus", "request": "gpu", "path": "native", "reason": "AskedFor"})


async def test_a_driver_that_silently_writes_nothing_is_an_error_after_a_while() -> None:
    """KubeVirt says nothing, and the pod has been ready for the grace period: the file would be there."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T08:59:00Z"}

    async def life(world: World) -> None:
        done = await world.reconcile()
        assert (done.events, done.requeue_at) == ((), NOW + timedelta(minutes=1))
        (device,) = (await world.status())["devices"]
        assert (device["state"], device["reason"]) == ("Pending", "NoMetadataFile")
        world.now = NOW + timedelta(minutes=1)
        done = await world.reconcile()
        ((kind, reason, message),) = [(event.type, event.reason, event.message) for event in done.events]
        assert (kind, reason, done.requeue_at) == ("Warning", "NoMetadataFile", None)
        assert message == (
            "gpus/g0: path native needs a metadata file, and driver gpu.example.com is not known to write metadata "
            "files, without which the VM doesn't start: remove annotation virt-dra.io/integration-path, or set it to "
            "metadata-shim; if the driver writes them, name it in annotation virt-dra.io/writes-metadata of a "
            "DeviceClass. Then restart the VM"
        )
        (device,) = (await world.status())["devices"]
        assert device["state"] == "Error"
        await world.runs()
        assert [(event[0], event[1]) for event in await world.told()] == [("Normal", "DevicesResolved")]

    await run(life, {RECORD: NATIVE_BY_CHOICE, "vmi.status": {"phase": "Scheduled"}, "pod.status.conditions": [ready]})


async def test_another_reason_of_kubevirt_s_is_not_hidden_by_a_driver_that_may_write() -> None:
    failing = {"phase": "Scheduled", "conditions": [NOT_SYNCHRONIZED | {"message": "no disk of that name"}]}

    async def life(world: World) -> None:
        world.now = LATER
        ((kind, reason, message),) = await world.told()
        assert (kind, reason) == ("Warning", "GuestNotStarted")
        assert "no disk of that name" in message

    await run(life, {RECORD: NATIVE_BY_CHOICE, "vmi.status": failing})


@pytest.mark.parametrize(
    ("record", "phase", "reason"),
    [
        ({}, "Scheduled", "Synchronizing with the Domain failed."),
        ({}, "Scheduling", "FailedGuaranteePodResources"),
        (recorded(shim()), "Scheduling", "FailedGuaranteePodResources"),
    ],
)
async def test_a_guest_that_kubevirt_cannot_start_does_not_have_its_devices(
    record: dict[str, str], phase: str, reason: str
) -> None:
    failing = {"phase": phase, "conditions": [NOT_SYNCHRONIZED | {"reason": reason}]}

    async def life(world: World) -> None:
        done = await world.reconcile()
        assert done.requeue_at is not None
        assert done.requeue_at <= NOW + timedelta(minutes=1)
        (device,) = (await world.status())["devices"]
        assert (device["state"], device["reason"]) == ("Pending", "GuestNotStarted")
        assert (await world.status())["ready"] == "0/1"
        assert await world.conditions() == {
            "DevicesResolved": ("False", "GuestNotStarted"),
            "DevicesHealthy": ("Unknown", "DevicesNotResolved"),
        }
        world.now = LATER
        ((kind, told, message),) = await world.told()
        assert (kind, told) == ("Warning", "GuestNotStarted")
        assert message == (
            f"gpus/g0: KubeVirt can't start the guest with the device ({reason}): {NOT_SYNCHRONIZED['message']}. "
            "It retries; see the VMI's events"
        )
        await world.runs()
        assert [(event[0], event[1]) for event in await world.told()] == [("Normal", "DevicesResolved")]
        assert (await world.status())["ready"] == "1/1"

    await run(life, {RECORD: record, "vmi.status": failing})


async def test_a_guest_that_lacks_our_metadata_for_a_moment_keeps_its_devices() -> None:
    """The kubelet brings them a moment after the pod's start. Later it is an error."""
    failing = {"phase": "Scheduled", "conditions": [NOT_SYNCHRONIZED]}

    async def life(world: World) -> None:
        done = await world.reconcile()
        assert done.requeue_at is not None
        (device,) = (await world.status())["devices"]
        assert (device["state"], device.get("reason")) == ("Resolved", None)
        world.now = LATER
        await world.reconcile()
        (device,) = (await world.status())["devices"]
        assert (device["state"], device["reason"]) == ("Error", "GuestNotStarted")

    await run(life, {RECORD: recorded(shim()), "vmi.status": failing})


async def test_a_guest_that_waits_for_one_device_s_metadata_keeps_the_others_too() -> None:
    """KubeVirt's message is about the whole guest: a device of path native that was Resolved doesn't become Pending and
    Resolved again, with a second Event, because another one's file comes a moment later."""
    changes = two_requests()
    (compute,) = changes["pod.spec.containers"]
    compute["resources"]["claims"].append({"name": "gpus", "request": "second"})
    native = {"claim": "gpus", "request": "second", "path": "native", "reason": "DriverWritesMetadata"}

    async def life(world: World) -> None:
        assert [event[1] for event in await world.told()] == ["DevicesResolved"]
        assert (await world.status())["ready"] == "2/2"
        world.now = LATER
        await world.reconcile()
        assert [device.get("reason") for device in (await world.status())["devices"]] == ["GuestNotStarted"] * 2

    failing = {"phase": "Scheduled", "conditions": [NOT_SYNCHRONIZED]}
    await run(life, {**changes, RECORD: recorded(shim(), native), "vmi.status": failing})


async def test_a_pod_that_could_not_be_created_before_it_was_has_its_devices() -> None:
    """KubeVirt's condition about the creation stays for a moment after it."""
    stale = {"phase": "Scheduling", "conditions": [NOT_SYNCHRONIZED | {"reason": "FailedCreate"}]}

    async def life(world: World) -> None:
        await world.reconcile()
        (device,) = (await world.status())["devices"]
        assert (device["state"], device.get("reason")) == ("Resolved", None)
        assert (await world.status())["ready"] == "1/1"

    await run(life, {"vmi.status": stale})


async def test_a_migration_target_whose_device_cannot_reach_it_is_not_ready() -> None:
    target = target_pod()
    target["metadata"]["annotations"] = recorded(
        {"claim": "gpus", "request": "gpu", "path": "none", "reason": "NoMetadataRead"}
    )

    async def life(world: World) -> None:
        events = await world.told()
        status = await world.status()
        assert (status["ready"], status["migrationTarget"]["ready"]) == ("1/1", "0/1")
        (device,) = status["migrationTarget"]["devices"]
        assert (device["state"], device["reason"]) == ("Error", "NoIntegrationPath")
        assert [event[1] for event in events if event[0] == "Warning"] == ["NoIntegrationPath"]

    await run(life, migrating(pod2=target))


async def test_addresses_that_cannot_be_written_together_make_no_device_ready() -> None:
    """One resource has a PCI device and an mdev: KubeVirt would mix them up, so nothing is written, and the VM waits
    for ever."""
    devices = [{"name": name, "deviceName": "v.com/x"} for name in ("a", "b")]
    claim = deepcopy(BASE["claims"][0])
    results = claim["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "request": "second", "device": "vgpu"})
    published = deepcopy(BASE["slices"][0])
    published["spec"]["devices"].append(
        {"name": "vgpu", "attributes": {"mdevUUID": {"string": "aa618089-8b16-4d01-a136-25a0f3c73123"}}}
    )
    pairs = [
        {"claim": "gpus", "request": request, "path": "device-plugin", "reason": "InDeviceClaims"}
        for request in ("gpu", "second")
    ]
    recorded_devices = [
        {"kind": "gpus", "name": name, "resource": "v.com/x", "claim": "gpus", "request": request}
        for name, request in (("a", "gpu"), ("b", "second"))
    ]
    record = {"virt-dra.io/integration": json.dumps({"format": 1, "pairs": pairs, "devices": recorded_devices})}
    uses = [{"name": "gpus", "request": request} for request in ("gpu", "second")]

    async def life(world: World) -> None:
        told = await world.told()
        status = await world.status()
        assert (status["ready"], status["integrationPaths"]) == ("0/2", "device-plugin")
        assert [device["reason"] for device in status["devices"]] == ["MixedAddresses", "MixedAddresses"]
        assert "devices of resource v.com/x have PCI addresses and mdev UUIDs" in status["devices"][0]["message"]
        assert [event[:2] for event in told] == [("Warning", "MixedAddresses")] * 2

    changes = {
        "vmi.spec.domain.devices.gpus": devices, "claims.0": claim, "slices.0": published, RECORD: record,
        "pod.spec.containers": [{"name": "compute", "resources": {"claims": uses}}],
    }  # fmt: skip
    await run(life, changes)


# --- no pod -----------------------------------------------------------------------------------------------------------


def failed(reason: str, message: str, phase: str = "Pending") -> dict[str, Any]:
    condition = {"type": "Synchronized", "status": "False", "reason": reason, "message": message}
    return {"pod": None, "claims": [], "vmi.status": {"phase": phase, "conditions": [condition]}}


@pytest.mark.parametrize(
    "message",
    [
        f"failed to create virtual machine pod: {DENIED}",
        "failed to create virtual machine pod: Internal error occurred: failed "
        'calling webhook "launcher-pods.virt-dra.io": refused',
        'failed to create virtual machine pod: Pod "virt-launcher-vm" is invalid: '
        "spec.containers[0].resources.claims[0].request: Invalid",
        "failed to render launch manifest: HostDevice  is not permitted in permittedHostDevices configuration",
    ],
)
async def test_a_pod_that_cannot_be_created_is_told_in_kubevirts_words(message: str) -> None:
    async def life(world: World) -> None:
        wanted = (
            f"KubeVirt can't create the launcher pod (FailedCreate): {message}. It "
            "retries; see the VMI's events for the latest attempt"
        )
        assert await world.told() == [("Warning", "PodNotCreated", f"gpus/g0: {wanted}")]
        status = await world.status()
        assert (status["ready"], status.get("integrationPaths"), status.get("podName")) == ("0/1", None, None)
        (device,) = status["devices"]
        assert (device["state"], device["reason"], device["message"]) == ("Error", "PodNotCreated", wanted)
        assert "integrationPath" not in device
        (resolved,) = [c for c in status["conditions"] if c["type"] == "DevicesResolved"]
        assert (resolved["reason"], resolved["message"]) == ("PodNotCreated", f"gpus/g0: {wanted}")
        assert await world.told() == []

    await run(life, failed("FailedCreate", message))


async def test_a_failure_of_a_moment_is_not_told() -> None:
    changes = failed("FailedCreate", f"failed to create virtual machine pod: {DENIED}")
    changes["vmi.status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T09:00:00Z"

    async def life(world: World) -> None:
        done = await world.reconcile()
        assert (done.events, (await world.status())["devices"][0]["state"]) == ((), "Pending")
        assert done.requeue_at is not None
        world.now = NOW + timedelta(seconds=2)
        assert done.requeue_at <= world.now
        assert [event[1] for event in await world.told()] == ["PodNotCreated"]
        assert (await world.status())["devices"][0]["state"] == "Error"

    await run(life, changes)


async def test_devices_of_the_device_plugin_path_are_told_of_without_a_pod_too() -> None:
    claims = '{"a": {"resourceClaimTemplateName": "one", "request": "gpu"}}'
    changes = {
        **failed("FailedCreate", f"failed to create virtual machine pod: {DENIED}"),
        "vmi.metadata.annotations": {"virt-dra.io/device-claims": claims},
        "vmi.spec.domain.devices.gpus": [
            {"name": "a", "deviceName": "v.com/x"},
            {"name": "plain", "deviceName": "v.com/y"},
        ],
        "vmi.spec.resourceClaims": [],
    }

    async def life(world: World) -> None:
        await world.reconcile()
        (device,) = (await world.status())["devices"]
        assert (device["name"], device["claimName"], device["requestName"], device["reason"]) == (
            "a",
            "virt-dra-0",
            "gpu",
            "PodNotCreated",
        )

    await run(life, changes)

    async def unusable(world: World) -> None:
        await world.reconcile()
        with pytest.raises(NotFound):
            await world.devices()

    await run(unusable, {**changes, "vmi.metadata.annotations": {"virt-dra.io/device-claims": '{"nope": {}}'}})


async def test_what_kubevirt_waits_for_is_no_error() -> None:
    async def life(world: World) -> None:
        assert await world.told() == []
        (device,) = (await world.status())["devices"]
        wanted = "KubeVirt has not created the launcher pod yet (BackendStorageNotReady): PVC pending"
        assert (device["state"], device["reason"], device["message"]) == ("Pending", "PodMissing", wanted)

    await run(life, failed("BackendStorageNotReady", "PVC pending"))


async def test_a_vmi_of_which_kubevirt_says_nothing_yet() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        (device,) = status["devices"]
        assert (device["state"], device["reason"], "integrationPath" in device) == ("Pending", "PodMissing", False)
        assert "admitted" not in device["message"]

    await run(life, {"pod": None, "claims": [], "vmi.status": {"phase": "Pending"}})


async def test_a_long_message_of_kubevirts_is_cut() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        (device,) = (await world.status())["devices"]
        assert len(device["message"]) < 2300

    await run(life, failed("FailedCreate", "x" * 100_000))


async def test_the_operator_makes_kubevirt_try_again() -> None:
    async def life(world: World) -> None:
        vmi = await world.vmi()
        await world.memory.update(vmi.with_(status=VirtualMachineInstance.from_wire({"status": failing}).status))
        done = await world.reconcile()
        assert done.requeue_at is not None
        assert (await world.vmi()).metadata.annotations["virt-dra.io/pod-retry"] == "2026-11-21T09:05:00.000+00:00"
        await world.memory.create(Pod.from_wire(BASE["pod"]))
        vmi = await world.vmi()
        await world.memory.update(vmi.with_(status=vmi.status.with_(phase="Scheduling", conditions=())))
        await world.reconcile()
        assert "virt-dra.io/pod-retry" not in (await world.vmi()).metadata.annotations

    condition = {"type": "Synchronized", "status": "False", "reason": "FailedCreate", "message": f"failed: {DENIED}"}
    failing = {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": "2026-11-21T09:00:00Z"}]}

    async def later(world: World) -> None:
        world.now = LATER
        await life(world)

    await run(later, {"pod": None})


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_of_a_finished_vmi_stays_what_was_and_nothing_is_ready(phase: str) -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        await world.reconcile()
        before, annotation = await world.status(), (await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION]
        assert (before["ready"], before["integrationPaths"]) == ("1/1", "metadata-shim")
        # The guest ends: first its pod, then what KubeVirt says of it; Kubernetes takes the claim back.
        pod = await world.pod()
        await world.memory.update_status(pod.with_(status=pod.status.with_(phase=phase)))
        await world.reconcile()
        assert (await world.status())["integrationPaths"] == "metadata-shim"
        vmi = await world.vmi()
        await world.memory.update(vmi.with_(status=vmi.status.with_(phase=phase)))
        await world.memory.delete(ResourceClaim, CLAIM, "lab")
        world.now = LATER
        assert (await world.reconcile()).events == ()
        status = await world.status()
        kept = ("podName", "podUID", "nodeName", "integrationPaths", "deviceStatus")
        assert {key: status[key] for key in kept} == {key: before[key] for key in kept}
        assert status["ready"] == "0/1"
        (device,), (was,) = status["devices"], before["devices"]
        message = f"the VMI has finished ({phase}) and released its devices; this is their last status"
        assert device == was | {"state": "Released", "reason": "VMIFinished", "message": message}
        assert await world.conditions() == {
            "DevicesResolved": ("False", "VMIFinished"),
            "DevicesHealthy": ("Unknown", "VMIFinished"),
        }
        assert (await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION] == annotation
        version = world.memory.resource_version
        assert await world.reconcile() is NOTHING
        assert world.memory.resource_version == version

    await run(life, {RECORD: recorded(shim())})


async def test_a_vmi_that_failed_before_it_had_its_devices_keeps_the_reason() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        vmi = await world.vmi()
        await world.memory.update(vmi.with_(status=vmi.status.with_(phase="Failed")))
        await world.reconcile()
        status = await world.status()
        assert (status["ready"], status["devices"][0]["state"], status["devices"][0]["reason"]) == (
            "0/1",
            "Error",
            "NoIntegrationPath",
        )
        assert (await world.conditions())["DevicesResolved"] == ("False", "NoIntegrationPath")

    await run(life, {RECORD: recorded({"claim": "gpus", "request": "gpu", "path": "none", "reason": "NoMetadataRead"})})


async def test_a_finished_vmi_of_which_nothing_was_told_stays_untold() -> None:
    async def life(world: World) -> None:
        assert await world.reconcile() is NOTHING

    await run(life, {"vmi.status": {"phase": "Failed"}})


async def test_a_running_vmi_whose_pod_is_gone_keeps_its_path() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        await world.runs()
        await world.reconcile()
        await world.memory.delete(Pod, POD, "lab")
        await world.reconcile()
        assert (await world.status())["integrationPaths"] == "metadata-shim"

    await run(life, {RECORD: recorded(shim())})
