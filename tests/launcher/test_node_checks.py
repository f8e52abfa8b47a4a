"""What a node must have for a domain's devices, as sysfs, device nodes and limits say (K-8.8, K-8.9): folders made of a
case's lines, and every fault with its advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from launcher import AddressSources, Conversion, HostTopology, LauncherError, convert
from launcher.process import checks
from launcher.process.checks import HostState, NodeAccess, check, node_faults
from launcher.process.host_state import read_host_state
from launcher.process.waiting import OwnHost, Waiting, decide
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.wire import Json

CASES: list[Json] = yaml.load(
    (Path(__file__).parent / "cases/node_checks.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
PCI, MDEV, USB = "0000:41:00.0", "aaaaaaaa-0000-4000-8000-00000000000A", "3:7"
GIBIBYTE = 1024**3


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_node_is_judged_by_its_files(case: Json, tmp_path: Path) -> None:
    for line in case["files"]:
        _make(tmp_path, line)
    conversion = _conversion(case["device"], hugepages=case.get("hugepages", False))
    state = read_host_state(tmp_path, conversion.hostdevs, own_daemon=False)
    faults = [
        [fault.reason, fault.message, "passes" if fault.may_pass else "lasts"]
        for fault in node_faults(conversion.domain, conversion.hostdevs, state)
    ]
    assert faults == case["faults"]


@pytest.mark.parametrize("kind", ["pci", "mdev", "usb"])
def test_an_unprivileged_launcher_needs_access(kind: str) -> None:
    """Pure, as a test that runs as root may use every file."""
    usable = checks.FunctionState("vfio-pci", is_vfio=True, iommu_group="7", cdev="vfio0")
    nodes = dict.fromkeys(("/dev/vfio/vfio", "/dev/vfio/7", "/dev/bus/usb/003/007"), NodeAccess.USABLE)
    state = HostState({PCI: usable}, {MDEV.lower(): "7"}, nodes)
    node = "/dev/bus/usb/003/007" if kind == "usb" else "/dev/vfio/7"
    denied = replace(state, device_nodes={**nodes, node: NodeAccess.DENIED})
    conversion = _conversion(kind)
    message = (
        f"{conversion.hostdevs[0].device}: {node} can't be read and written; give the launcher's user access to it"
    )
    assert check(conversion.domain, conversion.hostdevs, state) is None
    with pytest.raises(LauncherError) as refusal:
        check(conversion.domain, conversion.hostdevs, denied)
    assert (refusal.value.reason, str(refusal.value)) == (checks.NODE_NOT_ACCESSIBLE, message)
    by_cdev = replace(denied, device_nodes={**denied.device_nodes, "/dev/vfio/devices/vfio0": NodeAccess.USABLE})
    assert bool(list(node_faults(conversion.domain, conversion.hostdevs, by_cdev))) == (kind != "pci")


@pytest.mark.parametrize(("limit", "faulty"), [(None, False), (3 * GIBIBYTE, False), (3 * GIBIBYTE - 1, True)])
def test_a_guest_with_vfio_devices_must_be_lockable(limit: int | None, faulty: bool) -> None:
    """K-8.8: a guest of 2 GiB needs 1 GiB more."""
    mediated, usb = _conversion("mdev"), _conversion("usb")
    nodes = ("/dev/vfio/vfio", "/dev/vfio/7", "/dev/bus/usb/003/007")
    state = HostState({}, {MDEV.lower(): "7"}, dict.fromkeys(nodes, NodeAccess.USABLE), limit)
    message = (
        "the limit of locked memory is 3,072 MiB, passed-through devices need 3,072 MiB; raise the container runtime's "
        "LimitMEMLOCK, or allow CAP_SYS_RESOURCE"
    )
    wanted = [checks.NodeFault(checks.MEMLOCK_TOO_LOW, "spec.domain.memory", message, may_pass=False)] if faulty else []
    assert list(node_faults(mediated.domain, mediated.hostdevs, state)) == wanted
    assert list(node_faults(usb.domain, usb.hostdevs, state)) == []


def test_all_faults_are_said_at_once_and_lasting_ones_first() -> None:
    mediated = _conversion("mdev")
    both = (*mediated.hostdevs, *_conversion("pci").hostdevs)
    with pytest.raises(LauncherError) as refusal:
        check(mediated.domain, both, HostState())
    assert (refusal.value.reason, refusal.value.subject) == (checks.NO_SUCH_FUNCTION, "gpus/pci")
    absent = f"gpus/mdev: mediated device {MDEV} doesn't exist on this node; the driver of its parent makes it"
    assert check(mediated.domain, mediated.hostdevs, HostState()) == Waiting(absent)


def test_sysfs_without_any_file_is_a_node_without_devices(tmp_path: Path) -> None:
    devices = _conversion("pci").hostdevs + _conversion("mdev").hostdevs
    assert replace(read_host_state(tmp_path, devices, own_daemon=False), cpus=frozenset()) == HostState()


def _conversion(kind: str, hugepages: bool = False) -> Conversion:
    """A VMI of 2 GiB with one device."""
    variables = {"pci": ("PCI_RESOURCE", PCI), "mdev": ("MDEV_PCI_RESOURCE", MDEV), "usb": ("USB_RESOURCE", USB)}
    prefix, address = variables[kind]
    devices = {"hostDevices" if kind == "usb" else "gpus": [{"name": kind, "deviceName": "v.com/d"}]}
    memory: Json = {"guest": "2Gi", **({"hugepages": {"pageSize": "2Mi"}} if hugepages else {})}
    vmi: Json = {
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm"},
        "spec": {"domain": {"memory": memory, "devices": devices}},
    }
    return convert(vmi, AddressSources({f"{prefix}_V_COM_D": address}))


def _make(root: Path, line: str) -> None:
    """``path``: an empty file; ``path = text``; ``path -> target``; ``path/``: a folder."""
    path, _, target = line.partition(" -> ")
    path, _, text = path.partition(" = ")
    place = root / path.strip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if target:
        place.symlink_to(target)
    elif path.endswith("/"):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.write_text(text.replace("|", "\n"), encoding="utf-8")


@pytest.mark.parametrize(
    ("allowed", "isolated", "faulty"),
    [
        pytest.param({0, 1}, False, False, id="as many as vCPUs"),
        pytest.param({0, 1, 2}, True, False, id="one more, for the emulator's threads"),
        pytest.param({0, 1, 2, 3}, True, True, id="all of the node"),
    ],
)
def test_dedicated_cpus_are_the_pods_alone(allowed: set[int], isolated: bool, faulty: bool) -> None:
    """Pinned to CPUs that other pods use, too, a guest would seem to work (K-8.1)."""
    cpu = {"cores": 2, "dedicatedCpuPlacement": True, "isolateEmulatorThread": isolated}
    spec = {"domain": {"cpu": cpu, "memory": {"guest": "1Gi"}, "devices": {}}}
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "vm"}, "spec": spec})
    host = OwnHost(HostTopology({0: (0, 1, 2, 3)}, {}, {}), frozenset(allowed))
    conversion = decide(vmi, None, {}, {}, host)
    assert isinstance(conversion, Conversion)
    assert [pin.cpuset for pin in conversion.domain.vcpu_pins] == ["0", "1"]
    message = (
        "the guest has 3 CPUs to itself, but its pod may use 4, as others may, too; set the kubelet's cpuManagerPolicy "
        "to static, or take another node"
    )
    subject = "spec.domain.cpu.dedicatedCpuPlacement"
    wanted = [checks.NodeFault(checks.CPUS_NOT_EXCLUSIVE, subject, message, may_pass=False)] if faulty else []
    assert list(node_faults(conversion.domain, (), HostState(cpus=frozenset(allowed)))) == wanted
