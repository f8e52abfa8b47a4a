"""VM to VMI without KubeVirt: every run strategy, back-off, and a status that is written only when it differs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.listed_sources import ListedSources
from tests.controllers.standalone.world import START, World, vm
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT, format_time
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.standalone.vm_lifecycle import LifecycleInputs, delay_after, plan
from virt_dra.controllers.writes import Create, Delete, PatchStatus, Write

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "vm_lifecycle.yaml").read_text())
NAMES: dict[type[Any], str] = {Create: "create", Delete: "delete", PatchStatus: "status"}


def inputs_of(case: dict[str, Any]) -> LifecycleInputs:
    metadata: Json = {"name": "vm", "namespace": "lab", "uid": "vm-1", "generation": 1}
    if case.get("deleting"):
        metadata["deletionTimestamp"] = format_time(START)
    status: Json = {}
    if "failures" in case:
        told = case["failures"]
        retry = (
            {"retryAfterTimestamp": told.get("text") or format_time(START + timedelta(seconds=told["retry"]))}
            if {"retry", "text"} & told.keys()
            else {}
        )
        status["startFailure"] = {"consecutiveFailCount": told["count"], "lastFailedVMIUID": told["uid"], **retry}
    machine = VirtualMachine.from_wire(
        {"metadata": metadata, "spec": {**case["vm"], "template": {"spec": {}}}, "status": status}
    )
    instance = None
    if "vmi" in case:
        raw = case["vmi"]
        owner = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "name": "vm",
            "uid": "vm-2" if raw.get("foreign") else "vm-1",
        }
        times = [{"phase": "Running", "phaseTransitionTimestamp": format_time(START)}] if raw.get("ran") else []
        conditions = (
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if raw.get("unscheduled") else []
        )
        about: Json = {
            "name": "vm",
            "namespace": "lab",
            "uid": "vmi-1",
            "ownerReferences": [{**owner, "controller": True}],
        }
        if raw.get("deleting"):
            about["deletionTimestamp"] = format_time(START)
        said = {"phase": raw["phase"], "phaseTransitionTimestamps": times, "conditions": conditions}
        instance = VirtualMachineInstance.from_wire({"metadata": about, "status": said})
    earlier = case.get("vmi", {}).get("earlier", False)
    return LifecycleInputs(machine, instance, tuple(case.get("leftovers", ())), START, of_earlier_vm=earlier)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in CASES])
def test_vm_lifecycle(case: dict[str, Any]) -> None:
    inputs, want = inputs_of(case), case["want"]
    planned = plan(inputs)
    assert [NAMES[type(action)] for action in planned.actions] == want["actions"]
    if not want["actions"]:
        return
    status = after(inputs.vm, planned.actions)
    assert status["printableStatus"] == want["printable"]
    failures = status.get("startFailure")
    assert (failures or {}).get("consecutiveFailCount") == want.get("count")
    if "retry" in want and failures is not None:
        assert failures["retryAfterTimestamp"] == format_time(START + timedelta(seconds=want["retry"]))
    assert planned.requeue_at == (START + timedelta(seconds=want["again"]) if "again" in want else None)
    failed = [condition["reason"] for condition in status["conditions"] if condition["type"] == "Failure"]
    assert failed == ([want["failure"]] if "failure" in want else [])
    # What is written is as it should be: the status is not written again.
    again = plan(replace(inputs, vm=inputs.vm.with_(status=status), now=START + timedelta(seconds=1)))
    assert PatchStatus not in [type(action) for action in again.actions]
    assert [event for event in again.events if event.type == "Warning"] == []


def after(machine: VirtualMachine, actions: tuple[Write, ...]) -> Json:
    """The status once it is written."""
    (patch,) = [action for action in actions if isinstance(action, PatchStatus)]
    merged = {**machine.status, **patch.changes}
    return {key: value for key, value in merged.items() if value is not None}


@given(st.integers(0, 10**6))
def test_the_delay_never_shrinks_and_has_an_end(failures: int) -> None:
    assert timedelta(0) <= delay_after(failures) <= delay_after(failures + 1) <= timedelta(seconds=300)


def test_what_others_wrote_into_the_status_stays() -> None:
    status: Json = {
        "volumeSnapshotStatuses": [1],
        "conditions": [{"type": "Other", "status": "True"}, "garbage"],
        "startFailure": "x",
    }
    machine = VirtualMachine.from_wire(
        {
            "metadata": {"name": "vm", "namespace": "lab", "uid": "vm-1"},
            "spec": {"runStrategy": "Manual"},
            "status": status,
        }
    )
    written = after(machine, plan(LifecycleInputs(machine, None, (), START)).actions)
    assert written["volumeSnapshotStatuses"] == [1]
    assert written["conditions"][0] == {"type": "Other", "status": "True"}
    assert "startFailure" not in written


# --- on a cluster ---


async def test_devices_that_are_resolved_at_the_first_look_are_told_too() -> None:
    world = await World.made()
    await world.memory.create(vm("fedora"))
    await world.operator()
    pod = await world.pod("fedora")
    await world.others()
    vmi = await world.vmi("fedora")
    assert vmi is not None
    # The operator was away meanwhile, and knows nothing of what it had said of the devices.
    others = tuple(condition for condition in vmi.status.conditions if condition["type"] != "DevicesResolved")
    await world.memory.update(vmi.with_(status=vmi.status.with_(conditions=others)))
    world.told()
    await world.operator()
    assert ("VirtualMachineInstance fedora", "DevicesResolved", "every device has an address") in world.told()
    await world.operator()
    assert world.told() == []
    assert (await world.pod("fedora")).metadata.uid == pod.metadata.uid


async def test_a_vm_starts_runs_and_stops() -> None:
    world = await World.made()
    await world.memory.create(vm("fedora"))
    await world.settle()
    assert world.told() == [
        ("VirtualMachine fedora", "InstanceCreated", "started (runStrategy Always)"),
        ("VirtualMachineInstance fedora", "DevicesResolved", "every device has an address"),
    ]
    await world.pod_says("fedora", "Running", ready=True)
    await world.settle()
    assert world.told() == [("VirtualMachineInstance fedora", "Running", "the guest runs on node node-0")]
    machine = await world.memory.get(VirtualMachine, "fedora", "lab")
    assert (machine.status["created"], machine.status["ready"], machine.status["printableStatus"]) == (
        True,
        True,
        "Running",
    )
    await world.memory.patch(VirtualMachine, "fedora", "lab", merge={"spec": {"runStrategy": "Halted"}})
    await world.settle()
    assert world.told() == [("VirtualMachine fedora", "InstanceDeleted", "its VMI was deleted (runStrategy Halted)")]
    assert await world.vmi("fedora") is None
    machine = await world.memory.get(VirtualMachine, "fedora", "lab")
    assert (machine.status["created"], machine.status["ready"], machine.status["printableStatus"]) == (
        False,
        False,
        "Stopped",
    )
    assert await world.operator() == 0


async def test_a_vm_that_cannot_start_is_tried_again_less_and_less_often() -> None:
    world = await World.made()
    await world.memory.create(vm("fedora"))
    await world.settle()
    started = []
    for failures in range(1, 5):
        await world.pod_says("fedora", "Failed", ended={"exitCode": 1, "reason": "Error", "message": "no such device"})
        await world.settle()
        assert await world.vmi("fedora") is None
        machine = await world.memory.get(VirtualMachine, "fedora", "lab")
        assert machine.status["startFailure"]["consecutiveFailCount"] == failures
        began = world.now
        while await world.vmi("fedora") is None:
            world.pass_time(1)
            await world.settle()
        started.append((world.now - began).total_seconds())
    assert started == [10, 40, 90, 160]
    failed = [
        message
        for subject, reason, message in world.told()
        if (subject, reason) == ("VirtualMachineInstance fedora", "LauncherFailed")
    ]
    assert failed == ["no such device"] * 4


class Killed(Exception):
    pass


class Mortal(MemoryCluster):
    """The same cluster, which ends whoever writes to it a second time, before anything is written."""

    def __init__(self, whole: MemoryCluster) -> None:
        self.__dict__ = whole.__dict__ | {"writes": 0}

    def _once(self) -> None:
        if self.__dict__["writes"]:
            raise Killed
        self.__dict__["writes"] = 1

    async def create(self, obj: ObjectT) -> ObjectT:
        self._once()
        return await super().create(obj)

    async def patch(self, kind: type[ObjectT], name: str, namespace: str = "", **patch: Any) -> ObjectT:
        self._once()
        return await super().patch(kind, name, namespace, **patch)

    async def delete(self, kind: type[ObjectT], name: str, namespace: str = "", **preconditions: Any) -> None:
        self._once()
        await super().delete(kind, name, namespace, **preconditions)


async def test_the_operator_may_be_killed_after_every_write() -> None:
    """One write a life: the VM still comes to run, once."""

    world = await World.made()
    await world.memory.create(vm("fedora"))
    killed = 0
    for _ in range(60):
        version = world.memory.resource_version
        try:
            await world.operator(Mortal(world.memory))
        except Killed:
            killed += 1
        await world.others()
        if world.memory.resource_version == version:
            break
    assert killed > 3
    await world.pod_says("fedora", "Running", ready=True)
    await world.settle()
    vmi = await world.vmi("fedora")
    assert vmi is not None
    assert (vmi.status.phase, vmi.status.device_status is not None) == ("Running", True)


async def test_a_vm_that_is_deleted_takes_its_vmi_and_pod_with_it() -> None:
    world = await World.made()
    await world.memory.create(vm("fedora"))
    await world.settle()
    await world.memory.delete(VirtualMachine, "fedora", "lab")
    await world.settle()
    assert await world.vmi("fedora") is None
    assert [obj.KIND for obj in world.memory.snapshot() if obj.namespace == "lab"] == ["ResourceClaimTemplate"]


async def test_the_vmi_of_an_earlier_vm_makes_way_though_nobody_collects_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kube-controller-manager leaves it if a VM went and came again while it had no watch (P-15)."""
    monkeypatch.setattr(MemoryCluster, "_is_there", lambda *_: True)
    world = await World.made()
    earlier = await world.memory.create(vm("fedora"))
    await world.memory.delete(VirtualMachine, "fedora", "lab")
    machine = await world.memory.create(vm("fedora"))
    await world.memory.create(instance_of(earlier))
    await world.operator()
    assert world.told() == [
        ("VirtualMachine fedora", "InstanceDeleted", "the VMI of an earlier VM of this name was deleted")
    ]
    await world.settle()
    vmi = await world.vmi("fedora")
    assert vmi is not None
    assert vmi.is_controlled_by(machine)
    machine = await world.memory.get(VirtualMachine, "fedora", "lab")
    assert [condition["type"] for condition in machine.status["conditions"]] == ["Ready"]


async def test_a_late_watch_of_vms_deletes_nothing_of_the_vm_that_there_is() -> None:
    world = await World.made()
    earlier = await world.memory.create(vm("fedora"))
    await world.memory.delete(VirtualMachine, "fedora", "lab")
    machine = await world.memory.create(vm("fedora"))
    vmi = await world.memory.create(instance_of(machine))
    late = await vm_lifecycle.reconcile(earlier, await ListedSources.read(world.memory), world.memory, START)
    assert [event.reason for event in late.events if event.reason == "InstanceDeleted"] == []
    assert await world.vmi("fedora") == vmi


async def test_nothing_is_known_of_a_vm_before_it_is_asked_for() -> None:
    world = await World.made()
    machine = await world.memory.create(vm("fedora", "Manual"))
    done = await vm_lifecycle.reconcile(machine, ListedSources(), world.memory, START)
    assert (done.written, done.events) == (1, ())
