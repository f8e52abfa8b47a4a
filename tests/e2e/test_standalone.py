"""Without KubeVirt: from a VM to a guest that runs, by our own pods and by ``virt-dra-launcher`` as a process on
libvirt's test driver."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from devtools.cluster.control_plane import RequestError
from devtools.deployed.worlds import Json, World
from devtools.libvirt import witness as libvirt_witness
from tests.conftest import Golden
from tests.e2e import cases
from tests.e2e.cases import Case
from tests.e2e.conftest import InWorld
from tests.e2e.told import domain_of, told
from virt_dra.api.resource_v1 import DeviceTaint

PLACE = cases.STANDALONE
CASES = [case for case in cases.of(PLACE) if case.phase == "Running"]

pytestmark = [pytest.mark.libvirt, pytest.mark.usefixtures("libvirt"), pytest.mark.control_plane]


@pytest.fixture
def world(in_world: InWorld) -> World:
    return in_world(PLACE)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_vm_gets_its_devices_and_runs(world: World, golden: Golden, case: Case) -> None:
    (name,) = case.vmis
    vmi = world.in_phase(name, "Running")
    pod = world.launcher_pod(vmi)
    world.eventually(lambda: world.events(name), lambda found: any(reason == "Running" for _, reason, _ in found))
    golden(f"standalone/{name}.yaml", told(world, vmi, pod))
    xml = domain_of(world, pod)
    libvirt_witness.validate(xml)
    for uri in libvirt_witness.URIS:
        libvirt_witness.define(xml, uri)


@pytest.mark.parametrize("end", ["shut_down", "kill"])
def test_a_guest_that_ends_is_started_again_with_its_devices(world: World, end: str) -> None:
    name = "by-claim"
    before = world.in_phase(name, "Running")
    assert world.launchers is not None
    world.background.call(getattr(world.launchers, end), world.launcher_pod(before)["metadata"]["uid"])
    after = _restarted(world, name, before)
    assert after["status"]["deviceStatus"]["gpuStatuses"][0]["deviceResourceClaimStatus"]["attributes"] == {
        "pciAddress": "0000:42:00.0"
    }
    vm = world.eventually(lambda: world.get("virtualmachines", name), lambda vm: vm["status"].get("ready"))
    assert (vm["status"]["printableStatus"], vm["status"]["created"]) == ("Running", True)
    columns = world.table("virtualmachines", name)
    assert (columns["Status"], columns["Ready"]) == ("Running", "True")


def _restarted(world: World, name: str, before: Json) -> Json:
    """The VM's next VMI, once it runs."""

    def is_next(found: Json | None) -> bool:
        return (
            found is not None and found["metadata"]["uid"] != before["metadata"]["uid"] and _phase(found) == "Running"
        )

    after = world.eventually(lambda: world.find("virtualmachineinstances", name), is_next)
    assert after is not None
    return after


def _phase(vmi: Json) -> str:
    phase: str = vmi.get("status", {}).get("phase", "")
    return phase


def test_a_vm_that_is_halted_has_nothing_left(world: World) -> None:
    """The pods of its earlier lives are gone too, and with them their claims."""
    name = "by-claim"
    world.in_phase(name, "Running")
    world.patch("virtualmachines", name, {"spec": {"runStrategy": "Halted"}})
    world.eventually(lambda: world.find("virtualmachineinstances", name) is None)
    world.eventually(lambda: not world.launcher_pods(name))
    vm = world.eventually(
        lambda: world.get("virtualmachines", name), lambda vm: vm["status"].get("printableStatus") == "Stopped"
    )
    assert (vm["status"]["created"], vm["status"]["ready"]) == (False, False)
    world.eventually(
        lambda: [claim for claim in world.all("resourceclaims") if "e2e-by-claim" in str(claim["spec"])],
        lambda left: not left,
    )
    world.patch("virtualmachines", name, {"spec": {"runStrategy": "Always"}})
    world.in_phase(name, "Running")


def test_a_pod_that_waits_for_devices_says_which_and_gets_them_when_they_come(world: World) -> None:
    def allocatable() -> Json | None:
        conditions = world.get("virtualmachineinstances", "patient").get("status", {}).get("conditions", ())
        return next((condition for condition in conditions if condition["type"] == "Allocatable"), None)

    told = world.eventually(allocatable)
    assert told is not None
    assert (told["status"], told["reason"]) == ("False", "NoNodeFits")
    assert told["message"].startswith("0 of 1 nodes can take the pod: 1 node (")
    assert ("Warning", "DevicesNotAllocatable", told["message"]) in world.eventually(lambda: world.events("patient"))
    driver = world.drivers["gpu.example.com"]
    (pool,) = driver.pools
    bigger = [
        replace(device, attributes={**device.attributes, "size": "big"}) if device.name == "pgpu-9" else device
        for device in pool.devices
    ]
    world.background.do(driver.change(pool.next_generation(tuple(bigger))))
    world.in_phase("patient", "Running")
    assert allocatable() is None


def test_a_vm_whose_device_evicts_it_runs_again_once_it_may(world: World) -> None:
    """Kubernetes ends the pod; the VM starts anew, waits, and gets the device when its taint is gone."""
    before = world.in_phase("by-name", "Running")
    driver = world.drivers["gpu.example.com"]
    taint = DeviceTaint(key="example.com/broken", effect="NoExecute", time_added="2026-11-21T09:00:00Z")
    world.background.do(driver.taint(world.node, "pgpu-0", taint))

    def is_waiting(found: Json | None) -> bool:
        return (
            found is not None
            and found["metadata"]["uid"] != before["metadata"]["uid"]
            and _phase(found) == "Scheduling"
        )

    world.eventually(lambda: world.find("virtualmachineinstances", "by-name"), is_waiting)
    told = [event[1] for event in world.events("by-name")]
    assert "InstanceDeleted" in told
    assert "PodGone" in told
    vm = world.eventually(lambda: world.get("virtualmachines", "by-name"), lambda vm: not vm["status"]["ready"])
    assert vm["status"].get("startFailure") is None, "it had run"
    world.background.do(driver.taint(world.node, "pgpu-0"))
    after = _restarted(world, "by-name", before)
    status = after["status"]["deviceStatus"]["gpuStatuses"][0]["deviceResourceClaimStatus"]
    assert status["attributes"] == {"pciAddress": "0000:41:00.0"}


def test_nobody_else_says_which_device_a_vm_has(world: World) -> None:
    """The status is no subresource, so whoever may change a VMI could; a policy keeps it from them."""
    world.in_phase("by-name", "Running")
    with pytest.raises(RequestError) as refused:
        world.patch("virtualmachineinstances", "by-name", {"status": {"deviceStatus": {"gpuStatuses": []}}})
    message = "the status of a VirtualMachineInstance is written by virt-dra's operator only; leave it out"
    assert refused.value.status == 403
    assert message in str(refused.value)
    world.patch("virtualmachineinstances", "by-name", {"metadata": {"labels": {"mine": "yes"}}})


def test_during_an_outage_of_the_webhook_no_vm_is_made_and_existing_ones_run_on(world: World) -> None:
    before = world.in_phase("no-claims", "Running")
    body: Json = {"kind": "VirtualMachine", "metadata": {"name": "during-outage"}}
    body["spec"] = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}
    world.running.webhook.kill()
    try:
        answer = world.post("virtualmachines", body)
        assert answer.code == 500
        assert answer.body["message"].startswith('Internal error occurred: failed calling webhook "vm.virt-dra.io": ')
        world.patch("virtualmachineinstances", "no-claims", {"metadata": {"labels": {"changed": "yes"}}})
        ended = world.in_phase("by-claim", "Running")
        assert world.launchers is not None
        world.background.call(world.launchers.shut_down, world.launcher_pod(ended)["metadata"]["uid"])
        world.eventually(lambda: world.find("virtualmachineinstances", "by-claim") is None)
    finally:
        world.running.start_webhook()
    world.create("virtualmachines", body)
    _restarted(world, "by-claim", ended)
    after = world.get("virtualmachineinstances", "no-claims")
    assert (after["metadata"]["uid"], after["status"]["phase"]) == (before["metadata"]["uid"], "Running")


@pytest.mark.parametrize("place", ["1.9.0", "standalone"])
def test_components_have_all_rights_that_they_use_and_complain_of_nothing(in_world: InWorld, place: str) -> None:
    world = in_world(place)
    world.in_phase("no-claims", "Running")
    running = world.running
    metrics = running.operator.metrics()
    assert {
        name: value
        for name, value in metrics.items()
        if name.startswith("virt_dra_api_requests_total") and 'code="403"' in name
    } == {}
    for component in (running.operator, running.webhook):
        said = [
            json.dumps(line)
            for line in component.log()
            if line.get("level") not in ("info", "debug") and not _is_due(line)
        ]
        assert said == [], "\n".join(said)


def _is_due(line: Json) -> bool:
    """What is said of an outage of the webhook, also before it is ready (URLs don't wait for that), and what the API
    server warned of."""
    not_ready = str(line.get("reason", "")).startswith("the cluster's state isn't known yet")
    unanswered = 'failed calling webhook "' in line.get("error", "") + line["message"]
    return not_ready or unanswered or " warns: spec." in line["message"]
