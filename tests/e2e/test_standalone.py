"""Without KubeVirt: from a VM to a guest that runs, by our own pods and by ``virt-dra-launcher`` as a process on libvirt's test driver."""

from __future__ import annotations

from functools import partial

import pytest

from tests import libvirt_witness
from tests.cluster.control_plane import ControlPlane
from tests.conftest import Golden
from tests.e2e import cases, worlds
from tests.e2e.cases import Case
from tests.e2e.told import domain_of, told
from tests.e2e.worlds import Json, World, Worlds

CASES = cases.read("standalone.yaml")

pytestmark = [pytest.mark.libvirt, pytest.mark.usefixtures("libvirt")]


@pytest.fixture
def world(worlds: Worlds, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> World:
    """In which the VMs of all cases start as soon as it is there."""
    libvirt_witness.require_binding()
    found, new = worlds.get("standalone", partial(_make, control_plane, tmp_path_factory))
    if new:
        for case in CASES:
            case.create(found)
    return found


def _make(control_plane: ControlPlane, folders: pytest.TempPathFactory) -> object:
    return worlds.standalone(control_plane, cases.hardware(CASES), folders.mktemp("e2e"))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_vm_gets_its_devices_and_runs(world: World, golden: Golden, case: Case) -> None:
    (name,) = case.vmis
    vmi = world.in_phase(name, "Running")
    pod = world.launcher_pod(name)
    world.eventually(lambda: world.events(name), lambda found: any(reason == "Running" for _, reason, _ in found))
    golden(f"standalone/{name}.yaml", told(world, vmi, pod))
    xml = domain_of(world, pod)
    libvirt_witness.validate(xml)
    for uri in libvirt_witness.URIS:
        libvirt_witness.define(xml, uri)


def _restarted(world: World, name: str, before: Json) -> Json:
    """The VM's next VMI, once it runs."""

    def is_next(found: Json | None) -> bool:
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"] and found["status"].get("phase") == "Running"

    after = world.eventually(lambda: world.find("virtualmachineinstances", name), is_next)
    assert after is not None
    return after


@pytest.mark.parametrize("end", ["shut_down", "kill"])
def test_a_guest_that_ends_is_started_again_with_its_devices(world: World, end: str) -> None:
    name = "by-claim"
    before = world.in_phase(name, "Running")
    pod = world.launcher_pod(name)
    assert world.launchers is not None
    world.background.call(getattr(world.launchers, end), pod["metadata"]["uid"])
    after = _restarted(world, name, before)
    assert after["status"]["deviceStatus"]["gpuStatuses"][0]["deviceResourceClaimStatus"]["attributes"] == {"pciAddress": "0000:42:00.0"}
    vm = world.eventually(lambda: world.get("virtualmachines", name), lambda vm: vm["status"].get("ready"))
    assert (vm["status"]["printableStatus"], vm["status"]["created"]) == ("Running", True)
    columns = world.table("virtualmachines", name)
    assert (columns["Status"], columns["Ready"]) == ("Running", "True")
    # What was before is gone: the pod, and with it the claim that was made for it.
    (after_pod,) = world.eventually(lambda: world.launcher_pods(name), lambda pods: len(pods) == 1)
    assert after_pod["metadata"]["uid"] != pod["metadata"]["uid"]
