"""A VMI without KubeVirt: its phase from its pod, its pod's shape, its devices; and what is written when the world
isn't as expected."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.process.waiting import Waiting, decide, read_device_status, read_vmi
from tests.controllers.listed_sources import ListedSources
from tests.controllers.standalone.world import SETTINGS, START, World, slice_of, vmi_spec
from virt_dra.api import names
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.api.validation import FieldError, Rules, validate_create
from virt_dra.api.wire import Json
from virt_dra.cel.validation import COMPILED
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone.instance_phase import ever_ran, phase_times, verdict, with_phase
from virt_dra.controllers.standalone.pod import pod_name, standalone_pod

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "instance_phase.yaml").read_text())


def vmi(name: str = "fedora", spec: Json | None = None, **metadata: Any) -> VirtualMachineInstance:
    about = {"name": name, "namespace": "lab", **metadata}
    return VirtualMachineInstance.from_wire({"metadata": about, "spec": vmi_spec() if spec is None else spec})


def pod_of(raw: dict[str, Any]) -> Pod:
    status: Json = {key: raw[key] for key in ("phase", "reason", "message") if key in raw}
    state: Json = {}
    if "waiting" in raw:
        state = {"waiting": dict(zip(("reason", "message"), raw["waiting"], strict=True))}
    if "ended" in raw:
        state = {"terminated": dict(zip(("exitCode", "reason", "message"), raw["ended"], strict=True))}
    if state or "ready" in raw:
        status["containerStatuses"] = [
            {"name": "sidecar", "ready": True},
            {"name": "compute", "ready": raw.get("ready", False), "state": state},
        ]
    if "scheduled" in raw:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": raw["scheduled"]}
        ]
    return Pod.from_wire(
        {
            "metadata": {"name": "p", "uid": "pod-1"},
            "spec": {"nodeName": raw["node"]} if "node" in raw else {},
            "status": status,
        }
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in CASES])
def test_phase(case: dict[str, Any]) -> None:
    before = VirtualMachineInstance.from_wire({"status": {"phase": case["before"]} if "before" in case else {}})
    pod = pod_of(case["pod"]) if "pod" in case else None
    judgement = verdict(before, pod)
    assert [judgement.phase, judgement.reason, judgement.message] == case["want"]
    updated = with_phase(before, pod, judgement, START)
    ready = next(condition for condition in updated.status.conditions if condition["type"] == "Ready")
    assert (ready["status"] == "True") == (judgement.phase == "Running" and not judgement.reason)
    scheduled = [condition for condition in updated.status.conditions if condition["type"] == "PodScheduled"]
    assert bool(scheduled) == case.get("scheduled", False)
    assert updated.status.phase == judgement.phase
    assert (updated.status.reason == judgement.reason) == (judgement.phase == "Failed") or judgement.reason == ""
    assert (
        with_phase(
            updated, pod, verdict(updated, pod) if judgement.phase not in ("Failed", "Succeeded") else judgement, START
        )
        is updated
    )


def test_the_times_of_phases_are_kept_and_say_whether_the_guest_ever_ran() -> None:
    pod = pod_of({"node": "n", "phase": "Running", "ready": True})
    running = with_phase(vmi(), pod, verdict(vmi(), pod), START)
    assert phase_times(running.status) == [{"phase": "Running", "phaseTransitionTimestamp": "2026-11-21T09:00:00Z"}]
    assert (running.status.node_name, running.status.active_pods) == ("n", {"pod-1": "n"})
    ended = with_phase(running, None, verdict(running, None), START)
    assert (ended.status.phase, ever_ran(ended), ever_ran(vmi())) == ("Failed", True, False)
    odd = VirtualMachineInstance.from_wire({"status": {"phaseTransitionTimestamps": ["x", {"phase": "Running"}]}})
    assert ever_ran(odd)


# --- the pod ---


def rendered(of: VirtualMachineInstance) -> Pod:
    pod = standalone_pod(of, SETTINGS.gates, SETTINGS.pods)
    assert not isinstance(pod, RenderError)
    return pod


def faults(pod: Pod) -> tuple[FieldError, ...]:
    rules: Rules = COMPILED
    return tuple(validate_create(pod, rules))


def test_the_pod_may_do_nothing_but_run_its_guest() -> None:
    pod = rendered(
        vmi(uid="u", spec=vmi_spec() | {"volumes": [{"name": "sa", "serviceAccount": {"serviceAccountName": "x"}}]})
    )
    assert pod.spec.automount_service_account_token is False
    compute = pod.spec.containers[0]
    assert compute.security_context == {
        "runAsUser": 107, "runAsGroup": 107, "runAsNonRoot": True, "privileged": False,
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert compute.command == ("virt-dra-launcher",)
    assert compute.termination_message_path == "/dev/termination-log"
    assert compute.readiness_probe == {
        "exec": {"command": ["test", "-e", "/run/virt-dra/ready"]},
        "periodSeconds": 2,
        "failureThreshold": 1,
    }
    assert not pod.spec.readiness_gates  # nobody would ever open KubeVirt's
    assert [name for name in compute.resources.limits if name.startswith("devices.kubevirt.io")] == []
    assert pod.spec.node_selector == {}
    assert faults(pod) == ()


def test_what_a_tenant_writes_into_our_annotations_does_not_reach_the_pod() -> None:
    forged = {
        "virt-dra.io/device-status": "{}",
        "virt-dra.io/vmi": "{}",
        "virt-dra.io/integration": "{}",
        "metadata.virt-dra.io/a.b": "{}",
        "addresses.virt-dra.io/ready": "true",
        "mine": "1",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    annotations = rendered(vmi(uid="u", annotations=forged)).metadata.annotations
    assert [key for key in annotations if "virt-dra.io" in key] == ["virt-dra.io/vmi"]
    told = json.loads(annotations["virt-dra.io/vmi"])
    assert (annotations["mine"], "kubectl.kubernetes.io/last-applied-configuration" in annotations) == ("1", False)
    assert told["metadata"]["annotations"]["mine"] == "1"


def test_many_annotations_take_time_in_proportion_to_their_number() -> None:
    """8,000 took 100 s of the operator's event loop when each was compared with all."""
    made = vmi(annotations={f"a/{number}": "" for number in range(8000)})
    begin = time.process_time()
    annotations = rendered(made).metadata.annotations
    assert (len(annotations) > 8000, time.process_time() - begin < 5) == (True, True)


@pytest.mark.parametrize("name", ["a", "a" * 43, "a" * 44, "a" * 253, "with.dots.in.it"])
def test_the_name_of_the_pod_is_a_name_and_always_the_same(name: str) -> None:
    made = vmi(name, uid="11111111-2222")
    assert pod_name(made) == pod_name(made) != pod_name(vmi(name, uid="11111111-2223"))
    assert names.dns1123_subdomain(pod_name(made)) == ()
    assert len(pod_name(made)) <= 63


async def test_a_vmi_that_no_annotation_holds_gets_no_pod_and_is_told_why() -> None:
    world = await World.made()
    await world.memory.create(vmi(annotations={"a": "x" * 130_000}))
    await world.settle()
    message = "metadata.annotations: the VMI and its annotations have more than the 224 KiB that its pod can carry"
    assert world.told() == [("VirtualMachineInstance fedora", "CannotRenderPod", message)]
    made = await world.vmi("fedora")
    assert made is not None
    ready = made.status.conditions[0]
    assert (ready["type"], ready["reason"], ready["message"]) == ("Ready", "VmiTooLarge", message)
    await world.settle()
    assert world.told() == []


# --- on a cluster ---


async def test_the_launcher_gets_its_devices_once_all_are_there() -> None:
    world = await World.made(devices=1)
    await world.memory.create(vmi(spec=vmi_spec(gpus=2)))
    await world.settle()
    pod = await world.pod("fedora")
    assert "virt-dra.io/device-status" not in pod.metadata.annotations
    waiting = decide(*launchers_view(pod), {}, {})
    assert isinstance(waiting, Waiting)
    await world.memory.update(
        (await world.memory.get(ResourceSlice, "node-0-gpus")).with_(spec=slice_of("node-0", 2).spec)
    )
    await world.settle()
    conversion = decide(*launchers_view(await world.pod("fedora")), {}, {})
    assert not isinstance(conversion, Waiting)
    assert [str(device.address) for device in conversion.hostdevs] == ["0000:01:00.0", "0000:02:00.0"]


def launchers_view(pod: Pod) -> tuple[VirtualMachineInstance, Any]:
    """What the downwardAPI volume shows."""
    made = read_vmi(pod.metadata.annotations["virt-dra.io/vmi"], "vmi.json")
    assert not isinstance(made, Waiting)
    return made, read_device_status(pod.metadata.annotations.get("virt-dra.io/device-status", ""), "device-status.json")


async def test_a_running_vmi_keeps_its_devices_and_tells_what_befalls_them() -> None:
    world = await World.made()
    await world.memory.create(vmi())
    await world.settle()
    await world.pod_says("fedora", "Running", ready=True)
    await world.settle()
    before = await world.vmi("fedora")
    assert before is not None
    world.told()
    await world.memory.delete(ResourceSlice, "node-0-gpus")
    world.pass_time(300)
    await world.settle()
    ((subject, reason, _),) = world.told()
    assert (subject, reason) == ("VirtualMachineInstance fedora", "DeviceNotPublished")
    after = await world.vmi("fedora")
    assert after is not None
    assert after.status.device_status == before.status.device_status
    assert await world.operator() == 0


async def test_a_pod_that_is_deleted_ends_its_vmi_only_if_the_cluster_has_none() -> None:
    world = await World.made()
    await world.memory.create(vmi())
    await world.settle()
    made = await world.vmi("fedora")
    assert made is not None
    behind = ListedSources([made])  # our copy of pods is older than that of VMIs
    done = await standalone.reconcile(behind, world.memory, "lab/fedora", world.now, SETTINGS)
    assert (done.stale, done.written) == (True, 0)
    await world.memory.delete(Pod, (await world.pod("fedora")).name, "lab")
    world.told()
    await world.settle()
    assert world.told() == [("VirtualMachineInstance fedora", "PodGone", "the launcher pod was deleted")]
    ended = await world.vmi("fedora")
    assert ended is not None
    assert (ended.status.phase, ended.status.reason) == ("Failed", "PodGone")


async def test_an_old_copy_never_makes_a_second_pod() -> None:
    world = await World.made()
    fresh = await world.memory.create(vmi())
    behind = ListedSources([fresh])
    first = await standalone.reconcile(behind, world.memory, "lab/fedora", world.now, SETTINGS)
    second = await standalone.reconcile(behind, world.memory, "lab/fedora", world.now, SETTINGS)
    assert (first.stale, second.stale, second.events) == (False, True, ())
    assert len((await world.memory.list(Pod, "lab")).items) == 1


async def test_a_foreign_pod_of_that_name_is_told() -> None:
    world = await World.made()
    fresh = await world.memory.create(vmi())
    name = pod_name(fresh)
    await world.memory.create(
        Pod.from_wire(
            {"metadata": {"name": name, "namespace": "lab"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
    )
    await world.operator()
    assert world.told() == [
        ("VirtualMachineInstance fedora", "PodNameTaken", f"pod lab/{name} is not the VMI's; delete it")
    ]


async def test_why_it_waits_is_a_condition_until_it_has_a_node() -> None:
    world = await World.made(devices=0)
    await world.memory.create(vmi())
    await world.settle()
    made = await world.vmi("fedora")
    assert made is not None
    scheduled = next(condition for condition in made.status.conditions if condition["type"] == "PodScheduled")
    assert (made.status.phase, scheduled["reason"]) == ("Scheduling", "Unschedulable")
    pending = Condition(
        type="Allocatable", status="False", reason="NoNodeFits", message="0 of 1 nodes can take the pod"
    )
    for told in ([("DevicesNotAllocatable", "0 of 1 nodes can take the pod")], []):
        sources = await ListedSources.read(world.memory)
        done = await standalone.reconcile(
            sources, world.memory, "lab/fedora", world.now, SETTINGS, lambda _, __: pending
        )
        assert [(event.reason, event.message) for event in done.events] == told
    await world.memory.update(
        (await world.memory.get(ResourceSlice, "node-0-gpus")).with_(spec=slice_of("node-0", 1).spec)
    )
    await world.settle()
    made = await world.vmi("fedora")
    assert made is not None
    assert {condition["type"] for condition in made.status.conditions} == {"Ready", "DevicesResolved"}


async def test_a_vmi_without_devices_runs_too() -> None:
    world = await World.made()
    await world.memory.create(vmi(spec={"domain": {"devices": {}}}))
    await world.settle()
    await world.pod_says("fedora", "Running", ready=True)
    await world.settle()
    made = await world.vmi("fedora")
    assert made is not None
    assert (made.status.phase, [condition["type"] for condition in made.status.conditions]) == ("Running", ["Ready"])


async def test_an_address_that_two_vmis_have_is_told_of_the_later_one_until_the_other_ends() -> None:
    """One device for all: a driver that shares it, as K-5.13 has it."""

    world = await World.made(devices=1)
    raw = (await world.memory.get(ResourceSlice, "node-0-gpus")).to_wire()
    raw["spec"]["devices"][0]["allowMultipleAllocations"] = True
    await world.memory.update(ResourceSlice.from_wire(raw))
    for name in ("a", "b"):
        await world.memory.create(vmi(name))
    await world.settle()
    message = (
        "gpus/gpu0: PCI 0000:01:00.0 on node node-0 is also a device of VMI lab/a; "
        "only a driver that shares the device makes this work"
    )
    shared = [
        condition for condition in (await known(world, "b")).status.conditions if condition["type"] == "DevicesShared"
    ]
    assert [(condition["status"], condition["reason"], condition["message"]) for condition in shared] == [
        ("True", "SharedAddress", message)
    ]
    assert [event for event in world.told() if event[1] == "SharedAddress"] == [
        ("VirtualMachineInstance b", "SharedAddress", message)
    ]
    assert "DevicesShared" not in [condition["type"] for condition in (await known(world, "a")).status.conditions]
    assert await world.operator() == 0
    await world.pod_says("a", "Succeeded")
    await world.settle()
    assert "DevicesShared" not in [condition["type"] for condition in (await known(world, "b")).status.conditions]


async def known(world: World, name: str) -> VirtualMachineInstance:
    vmi = await world.vmi(name)
    assert vmi is not None
    return vmi
