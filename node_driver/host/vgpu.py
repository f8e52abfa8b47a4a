"""vGPU profiles on VFs of cards whose driver needs no mediated devices (D-61): a type id is written to the VF, 0 clears
it."""

from __future__ import annotations

from typing import Final

from node_driver.host.binding import PCI, kernel_answer, vfs_made
from node_driver.host.changes import HostError, TargetGone
from node_driver.host.kernel_files import AttributeRead, AttributeWrite, KernelFiles

NO_PROFILE: Final = "0"


class VgpuProfiles:
    """The property ``vgpu-profile`` of VFs."""

    def __init__(self, files: KernelFiles) -> None:
        self._files = files

    async def value(self, address: str) -> str:
        folder = f"{PCI}/devices/{address}"
        if not self._files.exists(folder):
            raise TargetGone(f"PCI function {address} is gone")
        await vfs_made(self._files, address)
        try:
            (profile,) = await self._files.operate(address, AttributeRead(_profile(address)))
        except OSError as error:
            raise HostError(
                f"{address} has no vGPU profiles ({kernel_answer(error)}); is the card's vGPU driver loaded?"
            ) from error
        return profile.strip()

    async def set_value(self, address: str, value: str) -> None:
        now = await self.value(address)
        if now == value:
            return
        if NO_PROFILE not in (now, value):
            raise HostError(f"{address} has vGPU profile {now}, not {NO_PROFILE}: somebody else uses it")
        try:
            await self._files.operate(address, AttributeWrite(_profile(address), value))
        except OSError as error:
            raise HostError(
                f"vGPU profile {value} can't be set on {address}: {kernel_answer(error)}; other VFs of the card may "
                "have used it up, or a process has it open"
            ) from error
        if (now := await self.value(address)) != value:
            raise HostError(f"{address} was to have vGPU profile {value}, but has {now}")


def _profile(address: str) -> str:
    return f"{PCI}/devices/{address}/nvidia/current_vgpu_type"
