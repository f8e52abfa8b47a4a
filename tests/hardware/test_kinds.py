"""What a policy can make of cards, on a real kernel: virtual functions, groups, mediated devices and vGPUs, all in one
pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from devtools.hardware_lab.launching import launch
from devtools.hardware_lab.machine import LabMachine
from devtools.hardware_lab.node import LabNode
from devtools.hardware_lab.pods import (
    DRIVER,
    METADATA,
    allocated_device,
    at_address,
    bindings,
    create_claim,
    create_pod,
    delete_pod,
    device_name,
    eventually,
    iommu_group,
    published_devices,
    running_container,
    taint_reasons,
    virtual_function_addresses,
)

pytestmark = [pytest.mark.hardware, pytest.mark.control_plane, pytest.mark.node]

CLAIMED = ("together", "each", "vf", "port", "vgpu")


@dataclass(frozen=True)
class User:
    """A pod with one claim of each kind. ``root``: its container's root folder as the machine sees it. ``before``: what
    drivers the functions had."""

    container: str
    root: str
    before: Mapping[str, str]


@pytest.fixture(scope="module")
def user(driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]) -> User:
    before = bindings(machine)
    create_claim(driver, "together", at_address(addresses["together1"]))
    create_claim(driver, "each", at_address(addresses["each1"]))
    create_claim(driver, "vf", at_address(virtual_function_addresses(machine, addresses["sriov"])[1]), "sriov")
    create_claim(driver, "port", f'device.attributes["{DRIVER}"].mdevType == "mtty-2"', "mdev")
    create_claim(driver, "vgpu", f'device.attributes["{DRIVER}"].vgpuProfileID == "558"', "vgpu")
    create_pod(driver, "user", *CLAIMED)
    container = running_container(driver, "user")
    return User(container, driver.container_root(container), before)


def test_virtual_functions_are_made_and_one_is_bound(
    user: User, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    first, second = virtual_function_addresses(machine, addresses["sriov"])
    now = bindings(machine)
    assert (now[first], now[second], now[addresses["sriov"]]) == ("", "vfio-pci", "nvme")


def test_an_iommu_group_is_one_device(
    user: User, driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    members = [addresses["together1"], addresses["together2"]]
    assert [bindings(machine)[address] for address in members] == ["vfio-pci", "vfio-pci"]
    (group,) = {iommu_group(machine, f"pci/devices/{address}") for address in members}
    assert group in machine.check("ls", f"{user.root}/dev/vfio").split()
    names = {address: device_name(address) for address in members}
    assert [name in published_devices(driver) for name in names.values()] == [True, False]


def test_other_pods_are_kept_away_from_the_rest_of_a_group_of_several_devices(
    user: User, driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    claimed = allocated_device(driver, "each")
    assert claimed == device_name(addresses["each1"])
    other = device_name(addresses["each2"])
    eventually(lambda: taint_reasons(driver, other) == {"group-shared"}, driver)
    assert taint_reasons(driver, claimed) == set()


def test_a_mediated_device_is_made(user: User, machine: LabMachine) -> None:
    (uuid,) = machine.check("ls", "/sys/bus/mdev/devices").split()
    assert machine.check("readlink", f"/sys/bus/mdev/devices/{uuid}/mdev_type").strip().endswith("/mtty-2")
    group = iommu_group(machine, f"mdev/devices/{uuid}")
    assert group in machine.check("ls", f"{user.root}/dev/vfio").split()
    assert '"mdevUUID"' in machine.check("cat", f"{user.root}{METADATA}/port/device/{DRIVER}-metadata.json")


def test_a_virtual_function_gets_its_vgpu_profile_and_keeps_the_vendors_driver(
    user: User, driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    """By which KubeVirt 1.9 takes it for a host device without vfio-pci."""
    functions = virtual_function_addresses(machine, addresses["gpu"])
    assert [bindings(machine)[address] for address in functions] == ["nvidia", "nvidia"]
    profiles = {address: _profile(machine, address) for address in functions}
    (vgpu,) = [address for address, profile in profiles.items() if profile == "558"]
    assert sorted(profiles.values()) == ["0", "558"]
    assert allocated_device(driver, "vgpu") == f"{device_name(vgpu)}-558".replace("pci-", "vgpu-")
    group = iommu_group(machine, f"pci/devices/{vgpu}")
    assert group in machine.check("ls", f"{user.root}/dev/vfio").split()


def test_a_device_that_is_bound_but_not_claimed_cannot_be_opened(
    user: User, driver: LabNode, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    address = addresses["unclaimed"]
    function = f"/sys/bus/pci/devices/{address}"
    machine.check(
        "sh", "-c", f"echo vfio-pci > {function}/driver_override; echo {address} > /sys/bus/pci/drivers_probe"
    )
    assert bindings(machine)[address] == "vfio-pci"
    answers = {}
    for name in ("unclaimed", "together1"):
        group = iommu_group(machine, f"pci/devices/{addresses[name]}")
        numbers = machine.check("stat", "-c", "%Hr %Lr", f"/dev/vfio/{group}").split()
        opened = f"busybox mknod /tmp/{name} c {' '.join(numbers)} && dd if=/tmp/{name} of=/dev/null count=1"
        answers[name] = driver.exec(user.container, "sh", "-c", opened).err.strip().splitlines()[-1]
    assert answers["unclaimed"] == "dd: can't open '/tmp/unclaimed': Operation not permitted"
    assert "not permitted" not in answers["together1"]  # it is opened, and has nothing to read
    machine.check(
        "sh", "-c", f"echo {address} > {function}/driver/unbind; echo > {function}/driver_override"
    )  # fmt: skip


def test_a_guest_uses_the_functions_that_the_driver_bound(
    user: User, machine: LabMachine, addresses: Mapping[str, str]
) -> None:
    """QEMU's virtual functions are offline, so that the guest doesn't get further than its registers."""
    virtual_function = virtual_function_addresses(machine, addresses["sriov"])[1]
    lines = launch(machine, addresses["together1"], addresses["together2"], virtual_function)
    assert [line.split()[2:] for line in lines if line.startswith("edu ")] == [["id=ok", "invert=ok", "dma=ok"]] * 2
    assert len([line for line in lines if line.startswith("pci ") and line.split()[2] == "1b36:0010"]) == 1


def test_all_is_put_back_when_the_pod_is_gone(user: User, driver: LabNode, machine: LabMachine) -> None:
    delete_pod(driver, "user", *CLAIMED)
    assert bindings(machine) == user.before
    assert machine.check("ls", "/sys/bus/mdev/devices") == ""
    functions = [address for address, bound in bindings(machine).items() if bound == "nvidia"]
    assert [_profile(machine, address) for address in functions] == ["0", "0"]


def _profile(machine: LabMachine, address: str) -> str:
    return machine.check("cat", f"/sys/bus/pci/devices/{address}/nvidia/current_vgpu_type").strip()
