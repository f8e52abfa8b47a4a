"""Mediated devices and vGPU profiles: made, refused, and left alone where they are somebody else's (D-65)."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.node.faults import Process
from devtools.node.kernel import Function, Kernel, Mdev, ProcessKernel
from node_driver.host.changes import HostError, TargetGone
from node_driver.host.mediated import MediatedDevices
from node_driver.host.vgpu import VgpuProfiles

CARD, VF = "0000:04:00.0", "0000:05:00.4"
UUID = "5b1f2c3d-0000-5000-8000-000000000001"
OTHER = "5b1f2c3d-0000-5000-8000-000000000002"


def a_kernel() -> Kernel:
    kernel = Kernel()
    kernel.drivers.add("nvidia")
    kernel.mdev_types = {CARD: {"nvidia-63": 2, "nvidia-64": 1}}
    kernel.profiles = {VF: "0"}
    kernel.add(Function(CARD, 15, "nvidia"))
    kernel.add(Function(VF, 16, "nvidia"))
    return kernel


async def test_an_mdev_is_made_once_and_removed_once() -> None:
    kernel = a_kernel()
    mdevs = MediatedDevices(ProcessKernel(kernel, Process()))
    wanted = f"{CARD}/nvidia-63"

    for _ in range(2):
        await mdevs.set_value(UUID, wanted)
        assert await mdevs.value(UUID) == wanted
    for _ in range(2):
        await mdevs.set_value(UUID, "")
        assert await mdevs.value(UUID) == ""
    assert kernel.mdevs == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            f"{CARD}/nvidia-64",
            f"{CARD} can't make another nvidia-64; other devices of the card may have used it up: "
            f"/sys/class/mdev_bus/{CARD}/mdev_supported_types/nvidia-64/create: No space left on device (ENOSPC)",
        ),
        (
            f"{CARD}/nvidia-99",
            f"{CARD} doesn't offer mediated devices of type nvidia-99 (now: nvidia-63, nvidia-64)",
        ),
        (
            "0000:09:00.0/nvidia-63",
            "0000:09:00.0 doesn't offer mediated devices of type nvidia-63 (now: none)",
        ),
    ],
)
async def test_an_mdev_that_can_not_be_made_is_refused_with_what_there_is(value: str, message: str) -> None:
    kernel = a_kernel()
    kernel.mdevs[OTHER] = Mdev(CARD, "nvidia-63", 30)
    mdevs = MediatedDevices(ProcessKernel(kernel, Process()))

    with pytest.raises(HostError) as refused:
        await mdevs.set_value(UUID, value)
    assert str(refused.value) == message
    assert kernel.mdevs.keys() == {OTHER}


async def test_a_profile_is_set_and_cleared_and_another_owners_is_left_alone() -> None:
    kernel = a_kernel()
    profiles = VgpuProfiles(ProcessKernel(kernel, Process()))
    await profiles.set_value(VF, "558")
    assert await profiles.value(VF) == "558"

    outcomes: list[Any] = []
    for value in ("559", "0", "77"):
        try:
            await profiles.set_value(VF, value)
            outcomes.append(kernel.profiles[VF])
        except HostError as error:
            outcomes.append(str(error))
    assert outcomes == [
        f"{VF} has vGPU profile 558, not 0: somebody else uses it",
        "0",
        f"vGPU profile 77 can't be set on {VF}: /sys/bus/pci/devices/{VF}/nvidia/current_vgpu_type: Invalid argument "
        "(EINVAL); other VFs of the card may have used it up, or a process has it open",
    ]


async def test_a_profile_of_a_vf_that_is_in_use_isnt_cleared() -> None:
    kernel = a_kernel()
    kernel.profiles[VF] = "558"
    kernel.open_nodes["/dev/vfio/16"] = "qemu (7)"
    with pytest.raises(HostError, match="Device or resource busy"):
        await VgpuProfiles(ProcessKernel(kernel, Process())).set_value(VF, "0")
    assert kernel.profiles[VF] == "558"


async def test_cards_without_profiles_and_gone_functions_are_told_apart() -> None:
    profiles = VgpuProfiles(ProcessKernel(a_kernel(), Process()))
    with pytest.raises(HostError, match="is the card's vGPU driver loaded"):
        await profiles.value(CARD)
    with pytest.raises(TargetGone):
        await profiles.value("0000:09:00.0")
