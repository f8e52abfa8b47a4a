"""The deviceStatus loop on the embedded cluster: what it writes, when it writes, and what it tells (K-5.13, K-5.14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.controllers.changed_objects import base_of, changed
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import ObjectT
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import ApiError, Cluster, Conflict, Forbidden, Listed
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops.device_status import apply, gather, plan

BASE = base_of(Path(__file__).parents[1] / "devices" / "cases" / "device_status")
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def cluster(changes: Json | None = None) -> MemoryCluster:
    """The base of the cases, loaded as it is."""
    memory = MemoryCluster.deterministic(NOW)
    objects = changed(BASE, changes or {})
    memory.load(
        [
            VirtualMachineInstance.from_wire(objects["vmi"]),
            *(Pod.from_wire(objects[name]) for name in ("pod",) if name in objects),
            *(ResourceClaim.from_wire(raw) for raw in objects["claims"]),
            *(ResourceSlice.from_wire(raw) for raw in objects["slices"]),
        ]
    )
    return memory


async def reconcile(cluster: Cluster, now: datetime, namespace: str = "") -> tuple[Event, ...]:
    """One pass."""
    planned = plan(await gather(cluster, now, namespace))
    return (*planned.events, *await apply(cluster, planned.updates))


async def status_of(memory: MemoryCluster, name: str = "fedora") -> Json:
    status: Json = (await memory.get(VirtualMachineInstance, name, "lab")).to_wire().get("status", {})
    return status


RESOLVED: Json = {
    "gpuStatuses": [
        {
            "name": "g0",
            "deviceResourceClaimStatus": {
                "name": "d0",
                "resourceClaimName": "fedora-gpus-abcde",
                "attributes": {"pciAddress": "0000:01:00.0"},
            },
        }
    ]
}


async def test_a_resolved_status_is_written_once() -> None:
    memory = cluster()
    assert await reconcile(memory, NOW) == ()
    assert await status_of(memory) == {
        "deviceStatus": RESOLVED,
        "conditions": [
            {
                "type": "DevicesResolved",
                "status": "True",
                "reason": "AllDevicesResolved",
                "message": "",
                "lastTransitionTime": "2026-11-21T09:00:00Z",
            }
        ],
    }
    version = memory.resource_version
    assert await reconcile(memory, LATER) == ()
    assert memory.resource_version == version


async def test_what_is_missing_is_a_condition_and_the_transition_is_timed() -> None:
    memory = cluster({"claims.0.status": None, "vmi.status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert await reconcile(memory, NOW) == ()
    ready, condition = (await status_of(memory))["conditions"]
    assert ready == {"type": "Ready", "status": "False"}
    assert condition == {
        "type": "DevicesResolved",
        "status": "False",
        "reason": "NotAllocated",
        "message": (
            "gpus/g0: ResourceClaim fedora-gpus-abcde is not allocated yet; if this "
            "lasts, the pod's condition PodScheduled says why"
        ),
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }
    claim = await memory.get(ResourceClaim, "fedora-gpus-abcde", "lab")
    await memory.update_status(
        ResourceClaim.from_wire(claim.to_wire() | {"status": {"allocation": BASE["claims"][0]["status"]["allocation"]}})
    )
    await reconcile(memory, LATER)
    assert [(c.get("reason"), c.get("lastTransitionTime")) for c in (await status_of(memory))["conditions"]] == [
        (None, None),
        ("NotReserved", "2026-11-21T09:00:00Z"),
    ]
    claim = await memory.get(ResourceClaim, "fedora-gpus-abcde", "lab")
    await memory.update_status(ResourceClaim.from_wire(claim.to_wire() | {"status": BASE["claims"][0]["status"]}))
    await reconcile(memory, LATER)
    status = await status_of(memory)
    assert status["deviceStatus"] == RESOLVED
    assert [(c.get("reason"), c.get("lastTransitionTime")) for c in status["conditions"]] == [
        (None, None),
        ("AllDevicesResolved", "2026-11-21T09:05:00Z"),
    ]


async def test_an_error_gives_the_reason_before_what_only_takes_time() -> None:
    gpus = [
        {"name": "g0", "claimName": "gpus", "requestName": "gpu"},
        {"name": "g1", "claimName": "none", "requestName": "gpu"},
    ]
    memory = cluster({"claims.0.status": None, "vmi.spec.domain.devices.gpus": gpus})
    await reconcile(memory, NOW)
    (condition,) = (await status_of(memory))["conditions"]
    assert condition["reason"] == "ClaimNotListed"
    assert condition["message"].startswith("gpus/g0: ResourceClaim fedora-gpus-abcde is not allocated yet; ")
    assert "; gpus/g1: the device has claimName 'none', which no entry" in condition["message"]


async def test_a_device_that_vanishes_under_a_running_vmi_keeps_its_entry_and_is_told() -> None:
    memory = cluster()
    await reconcile(memory, NOW)
    vmi = await memory.get(VirtualMachineInstance, "fedora", "lab")
    await memory.update(vmi.with_(status=vmi.status.with_(phase="Running")))
    await memory.delete(ResourceSlice, "node-a-gpus")
    await reconcile(memory, LATER)
    status = await status_of(memory)
    assert status["deviceStatus"] == RESOLVED
    resolved, healthy = status["conditions"]
    assert (resolved["status"], healthy["status"], healthy["reason"]) == ("True", "False", "DeviceNotPublished")
    assert healthy["message"] == (
        "gpus/g0: no slice of pool node-a of driver gpu.example.com is published; "
        "the driver may have withdrawn the allocated device: check the driver, then restart the VM"
    )
    await memory.create(ResourceSlice.from_wire(BASE["slices"][0]))
    await reconcile(memory, LATER + timedelta(minutes=1))
    assert (await status_of(memory))["conditions"][1] == {
        "type": "DevicesHealthy",
        "status": "True",
        "reason": "AllDevicesHealthy",
        "message": "",
        "lastTransitionTime": "2026-11-21T09:06:00Z",
    }


async def test_a_taint_of_a_running_vmis_device_is_a_condition_and_an_event() -> None:
    taint = {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"}
    memory = cluster({"vmi.status": {"phase": "Running"}, "slices.0.spec.devices.0.taints": [taint]})
    (event,) = await reconcile(memory, NOW)
    message = "gpus/g0: device d0 has taint example.com/broken=yes:NoExecute; see the driver's logs"
    assert (event.kind, event.name, event.reason, event.message) == (
        "VirtualMachineInstance",
        "fedora",
        "DeviceTainted",
        message,
    )
    healthy = (await status_of(memory))["conditions"][1]
    assert (healthy["type"], healthy["status"], healthy["reason"], healthy["message"]) == (
        "DevicesHealthy",
        "False",
        "DeviceTainted",
        message,
    )


async def test_two_vmis_with_one_address_on_a_node_are_warned_about() -> None:
    memory = cluster()
    second = changed(
        BASE,
        {
            "vmi.metadata": {"name": "second", "namespace": "lab", "uid": "vmi-2"},
            "pod.metadata.name": "virt-launcher-second",
            "pod.metadata.uid": "pod-2",
            "pod.metadata.labels": {"kubevirt.io/created-by": "vmi-2"},
            "pod.metadata.ownerReferences.0.uid": "vmi-2",
            "pod.status.resourceClaimStatuses.0.resourceClaimName": "second-gpus-abcde",
            "claims.0.metadata.name": "second-gpus-abcde",
            "claims.0.metadata.uid": "claim-2",
            "claims.0.metadata.ownerReferences.0.uid": "pod-2",
            "claims.0.status.reservedFor.0.uid": "pod-2",
        },
    )
    memory.load(
        [
            VirtualMachineInstance.from_wire(second["vmi"]),
            Pod.from_wire(second["pod"]),
            ResourceClaim.from_wire(second["claims"][0]),
        ]
    )
    (event,) = await reconcile(memory, NOW)
    assert (event.name, event.reason, event.message) == (
        "second",
        "SharedAddress",
        "gpus/g0: PCI 0000:01:00.0 on node node-a is also gpus/g0 of VMI lab/fedora; "
        "only a driver that shares the device makes this work",
    )
    inputs = await gather(memory, NOW)
    elsewhere = tuple(
        p.with_(spec=p.spec.with_(node_name="node-b")) if p.metadata.uid == "pod-2" else p for p in inputs.pods
    )
    other_node = inputs.slices[0].with_(spec=inputs.slices[0].spec.with_(node_name=None, all_nodes=True))
    assert plan(type(inputs)(inputs.vmis, elsewhere, inputs.claims, (other_node,), NOW)).events == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_vmi_is_left_as_it_is(phase: str) -> None:
    memory = cluster({"vmi.status": {"phase": phase}, "pod": None})
    assert await reconcile(memory, NOW) == ()
    assert await status_of(memory) == {"phase": phase}


async def test_without_dra_devices_nothing_is_read_or_written(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = cluster({"vmi.spec.domain.devices": {}})
    read: list[str] = []

    async def counting(
        kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        read.append(kind.KIND)
        return await MemoryCluster.list(memory, kind, namespace, labels=labels, fields=fields)

    monkeypatch.setattr(memory, "list", counting)
    assert await reconcile(memory, NOW, "lab") == ()
    assert read == ["VirtualMachineInstance"]
    assert await status_of(memory) == {}


@pytest.mark.parametrize(
    ("error", "told"),
    [(Forbidden("no"), [("FailedDeviceStatusUpdate", "no")]), (Conflict("the object has been modified"), [])],
)
async def test_a_refused_write_is_told_unless_the_vmi_changed(
    monkeypatch: pytest.MonkeyPatch, error: ApiError, told: list[tuple[str, str]]
) -> None:
    memory = cluster()
    monkeypatch.setattr(memory, "update", _refuse(error))
    events = await apply(memory, plan(await gather(memory, NOW)).updates)
    assert [(event.reason, event.message) for event in events] == told


def _refuse(error: ApiError) -> Callable[..., Awaitable[None]]:
    async def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


async def test_a_taint_rule_taints_the_device_of_a_running_vmi() -> None:
    memory = cluster({"vmi.status": {"phase": "Running"}})
    rule = {
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "device": "d0"},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        },
    }
    await memory.create(DeviceTaintRule.from_wire(rule))
    (event,) = await reconcile(memory, NOW)
    assert (event.reason, event.message) == (
        "DeviceTainted",
        "gpus/g0: device d0 has taint example.com/broken=:NoExecute; see the driver's logs",
    )
