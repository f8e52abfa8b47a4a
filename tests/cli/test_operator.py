"""``virt-dra operator`` as a process on a real API server: what it says, how it starts and ends, and that of several
one leads."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from devtools.agents.worlds import eventually
from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.ports import free_port
from devtools.cluster.processes import Component, ComponentError, operator
from devtools.deployed.operator import Vms, devices_kind, kinds, replica
from devtools.deployed.webhook import kubevirt_kinds, until
from tests.controllers.hostile_selectors import HOSTILE
from virt_dra.cli.operator import command
from virt_dra.controllers.operator.instance_loop import LoopSettings
from virt_dra.operator.process import OperatorProcess, operate

OLD, NEW = "0000:41:00.0", "0000:42:00.0"


def lease(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = plane.request(
        "GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/virt-dra-operator"
    )["spec"]
    return spec


def leads(running: Component) -> bool:
    return running.metrics()["virt_dra_leader"] == 1


def said(running: Component, message: str) -> list[dict[str, Any]]:
    return [line for line in running.log() if re.search(message, line["message"])]


def test_help_says_what_it_does_and_how_it_ends() -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    for word in ("--mode", "--lease-seconds", "--no-election", "/readyz", "Exit codes: 0 stopped by SIGTERM"):
        assert word in text


@pytest.mark.control_plane
def test_it_works_tells_and_ends(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    vms.create("vm")
    with replica(control_plane, namespace, "one") as running:
        running.ready()
        vms.allocate("vm")
        until(lambda: vms.address("vm") == OLD)
        until(lambda: ("DevicesResolved", 1) in vms.events("vm"))

        assert running.get("/readyz") == (200, "ok\n")
        assert running.healthy()
        metrics = running.metrics()
        assert (metrics["virt_dra_leader"], metrics['virt_dra_devices{state="Resolved"}']) == (1, 1)
        assert metrics['virt_dra_reconciles_total{result="written"}'] >= 1
        assert lease(control_plane, namespace)["holderIdentity"] == "one"

        began = time.monotonic()
        assert running.terminate() == 0
        assert time.monotonic() - began < 5
        assert lease(control_plane, namespace).get("holderIdentity") is None
        lines = running.log()
        assert [line["message"] for line in lines] == [
            "watching the cluster",
            f"one leads: it holds the lease {namespace}/virt-dra-operator",
            "stopping",
            "stopped",
        ]
        assert {line["identity"] for line in lines if "identity" in line} == {"one"}


@pytest.mark.control_plane
def test_with_the_same_again_nothing_is_written(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    vms.create("vm")
    vms.allocate("vm")
    with replica(control_plane, namespace, "one") as first:
        until(lambda: vms.address("vm") == OLD)
        assert first.terminate() == 0
    before, told = vms.devices("vm"), vms.events("vm")
    with replica(control_plane, namespace, "two") as second:
        until(lambda: second.ready().metrics().get('virt_dra_reconciles_total{result="unchanged"}'))
        assert second.terminate() == 0
    assert (vms.devices("vm"), vms.events("vm")) == (before, told)


# --- what is in its way ---


def failure(running: Component) -> str:
    """What it said last, once it has ended with 1."""
    assert running.ended() == 1
    assert "Traceback" not in running.said()
    return running.said().splitlines()[-1]


@pytest.mark.control_plane
def test_where_nobody_answers_it_says_so(tmp_path: Path, control_plane: ControlPlane) -> None:
    port = free_port()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(control_plane.kubeconfig.read_text().replace(str(control_plane.port), str(port)))
    with operator(control_plane, kubeconfig) as running:
        assert re.fullmatch(
            rf"Error: https://127\.0\.0\.1:{port} can't be reached: .*; tried "
            rf"https://127\.0\.0\.1:{port} \(.*kubeconfig.*\): "
            "check that the server runs and that its address and port are right, and the network and proxy on the way",
            failure(running),
        )


@pytest.mark.control_plane
def test_a_missing_kubeconfig_is_named(tmp_path: Path, control_plane: ControlPlane) -> None:
    with operator(control_plane, tmp_path / "none") as running:
        assert str(tmp_path / "none") in failure(running)


@pytest.mark.control_plane
@pytest.mark.parametrize("taken", ["plain", "health"])
def test_a_port_that_is_taken_is_named(control_plane: ControlPlane, namespace: str, taken: str) -> None:
    with (
        kinds(control_plane),
        operator(control_plane, None, "--own-namespace", namespace, "--lease", "other") as first,
    ):
        first.ready()
        until(first.healthy)
        ports: dict[str, Any] = (
            {"plain_port": first.plain_port} if taken == "plain" else {"health_port": first.health_port}
        )
        with operator(control_plane, None, "--own-namespace", namespace, **ports) as second:
            wanted = (
                rf"Error: cannot listen on 127\.0\.0\.1, ports {second.plain_port} and "
                rf"{second.health_port}: .*[Aa]ddress already in use.*"
            )
            assert re.fullmatch(wanted, failure(second))


@pytest.mark.control_plane
def test_without_our_definitions_it_waits_and_says_what_to_do(control_plane: ControlPlane, namespace: str) -> None:
    wanted = (
        "VirtualMachineInstanceDevices (virt-dra.io/v1alpha1), which the cluster doesn't serve: "
        "virt-dra install applies its CustomResourceDefinition"
    )
    with kubevirt_kinds(control_plane), replica(control_plane, namespace, "one") as running:
        until(lambda: running.get("/readyz") == (503, f"waiting for {wanted}\n"))
        with pytest.raises(ComponentError, match="isn't ready after 0 s"):
            running.ready(0)
        until(lambda: said(running, re.escape(f"not ready yet: waiting for {wanted}")))
        assert running.healthy()
        with devices_kind(control_plane):
            running.ready()
        assert running.terminate() == 0


@pytest.mark.control_plane
def test_it_ends_in_order_while_the_api_server_hangs(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    with replica(control_plane, namespace, "one") as running:
        until(lambda: leads(running.ready()))
        with control_plane.paused():
            began = time.monotonic()
            assert running.terminate() == 0
            assert time.monotonic() - began < 10
        assert [line["message"] for line in running.log()[-3:]] == [
            "stopping",
            f"the lease {namespace}/virt-dra-operator could not be given back: no answer in time",
            "stopped",
        ]


@pytest.mark.control_plane
async def test_one_that_is_stuck_says_so_to_its_probe(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    """In this process, since after five minutes it is for a user."""
    process = OperatorProcess(
        identity="one", namespace=namespace, host="127.0.0.1", plain_port=free_port(), health_port=free_port(),
        kubeconfig=str(control_plane.kubeconfig), stuck_seconds=0.5,
    )  # fmt: skip

    running = asyncio.create_task(operate(process, LoopSettings(namespace=namespace)))
    async with aiohttp.ClientSession() as client:

        async def answer(port: int, path: str) -> tuple[int, str]:
            try:
                async with client.get(f"http://127.0.0.1:{port}{path}") as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                return 0, ""

        async def metrics() -> str:
            return (await answer(process.plain_port, "/metrics"))[1]

        await eventually(metrics, lambda text: "virt_dra_leader 1" in text)
        for number in range(20):  # until the API server stands still in the middle of a look at a VMI
            await asyncio.to_thread(vms.create, f"vm-{number}")
            await asyncio.to_thread(vms.allocate, f"vm-{number}")
            with control_plane.paused():
                await asyncio.sleep(0.2)
                if 'virt_dra_queue_depth{state="in_work"} 0.0' in await metrics():
                    continue
                await asyncio.sleep(0.5)
                assert (await answer(process.health_port, "/healthz"))[0] == 500
                break
        else:
            pytest.fail("every look at a VMI was over before the API server stood still")
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.control_plane
def test_a_claim_made_to_compute_for_ever_holds_up_neither_probes_nor_the_end(
    control_plane: ControlPlane, namespace: str, vms: Vms
) -> None:
    """It kept a core and the interpreter: /readyz took 35 ms, and SIGTERM 25 s. Others are explained all the same."""
    control_plane.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    try:
        accepted = [selector for selector in HOSTILE.values() if vms.accepts(selector)]
        assert len(accepted) >= 4
        for number, selector in enumerate(accepted):
            vms.create(f"hostile-{number}", node=None, selector=selector)
        vms.create("honest", node=None, selector="false")
        with replica(control_plane, namespace, "one") as running:
            until(lambda: leads(running.ready()))
            until(lambda: _allocatable(vms, "honest"), seconds=180)
            took: list[float] = []
            end = time.monotonic() + 5
            while time.monotonic() < end:
                began = time.monotonic()
                running.ready()
                took.append(time.monotonic() - began)
                time.sleep(0.01)
            assert sorted(took)[len(took) // 2] < 0.1, "5 ms where nothing else runs"
            began = time.monotonic()
            assert running.terminate() == 0
            assert time.monotonic() - began < 10, "2 s where nothing else runs"
        assert _allocatable(vms, "honest") == "NoNodeFits"
        told = {_allocatable(vms, f"hostile-{number}") for number in range(len(accepted))}
        assert told != {None}
    finally:
        control_plane.request("DELETE", "/apis/resource.k8s.io/v1/deviceclasses/gpu")


def _allocatable(vms: Vms, name: str) -> str | None:
    """The reason of the condition Allocatable."""
    status = vms.devices(name)
    conditions = status["status"].get("conditions", []) if status is not None else []
    return next((str(condition["reason"]) for condition in conditions if condition["type"] == "Allocatable"), None)


# --- several ---


@pytest.mark.control_plane
def test_when_the_leader_is_killed_the_other_takes_over(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    vms.create("vm")
    vms.allocate("vm")
    with replica(control_plane, namespace, "one") as leader:
        until(lambda: vms.address("vm") == OLD)
        with replica(control_plane, namespace, "two") as two:
            two.ready()
            assert (leads(leader), leads(two)) == (True, False)
            leader.kill()
            vms.publish(NEW, generation=2)
            until(lambda: vms.address("vm") == NEW)
            assert leads(two)
            spec = lease(control_plane, namespace)
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
            assert two.terminate() == 0


@pytest.mark.control_plane
def test_a_leader_that_stood_still_writes_nothing_when_it_wakes(
    control_plane: ControlPlane, namespace: str, vms: Vms
) -> None:
    vms.create("vm")
    vms.allocate("vm")
    with replica(control_plane, namespace, "one") as first, replica(control_plane, namespace, "two") as two:
        for process in (first, two):
            process.ready()
        until(lambda: vms.address("vm") == OLD)
        asleep, awake = (first, two) if leads(first) else (two, first)
        asleep.pause()
        until(lambda: leads(awake))
        awake.pause()
        vms.publish(NEW, generation=2)
        vms.create("vm2")
        vms.allocate("vm2")
        asleep.resume()
        # It learns of both changes and of its loss at once. Whatever comes first: there is nobody who may write.
        assert "the lease" in failure(asleep)
        assert (vms.address("vm"), vms.address("vm2")) == (OLD, None)
        awake.resume()
        # If it stood still for too long itself, it ends as well; its successor does what is left.
        with replica(control_plane, namespace, "three"):
            until(lambda: (vms.address("vm"), vms.address("vm2")) == (NEW, NEW))


@pytest.mark.control_plane
def test_standalone_leaves_a_kubevirts_vms_alone(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    path = f"/apis/kubevirt.io/v1/namespaces/{namespace}/kubevirts"
    control_plane.request(
        "POST", path, {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    )
    vms.create("vm")
    vms.allocate("vm")
    with replica(control_plane, namespace, "one", "--mode", "standalone") as running:
        until(lambda: running.ready().metrics().get('virt_dra_reconciles_total{result="unchanged"}'))
        assert (
            set(running.metrics())
            & {f'virt_dra_reconciles_total{{result="{result}"}}' for result in ("written", "failed")}
            == set()
        )
        assert said(running, f"KubeVirt {namespace}/kubevirt exists: standalone mode is paused until it is deleted")
        control_plane.request("DELETE", f"{path}/kubevirt")
        until(lambda: running.metrics().get('virt_dra_reconciles_total{result="written"}'))
        assert said(running, "the last KubeVirt object was deleted: standalone mode resumes")
        assert running.terminate() == 0
