"""vGPU profiles on VFs of cards whose driver needs no mediated devices (D-61): a type id is written to the VF, 0 clears
it."""

from __future__ import annotations

from typing import Final

from node_driver.host.binding import function_folder, kernel_answer, vfs_made
from node_driver.host.changes import HostError
from node_driver.host.kernel_files import AttributeRead, AttributeWrite, KernelFiles

NO_PROFILE: Final = "0"


class VgpuProfiles:
    """The property ``vgpu-profile`` of VFs."""

    def __init__(self, files: KernelFiles) -> None:
        self._files = files

    async def value(self, address: str) -> str:
        path = self._profile(address)
        await vfs_made(self._files, address)
        try:
            (profile,) = await self._files.operate(address, AttributeRead(path))
        except OSError as error:
            message = f"{address} has no vGPU profiles ({kernel_answer(error)}); is the card's vGPU driver loaded?"
            raise HostError(message) from error
        return profile.strip()

    async def set_value(self, address: str, value: str) -> None:
        now = await self.value(address)
        if now == value:
            return
        if NO_PROFILE not in (now, value):
            raise HostError(f"{address} has vGPU profile {now}, not {NO_PROFILE}: somebody else uses it")
        try:
            await self._files.operate(address, AttributeWrite(self._profile(address), value))
        except OSError as error:
            message = f"vGPU profile {value} can't be set on {address}: {kernel_answer(error)}"
            cause = "other VFs of the card may have used it up, or a process has it open"
            raise HostError(f"{message}; {cause}") from error
        if (now := await self.value(address)) != value:
            raise HostError(f"{address} was to have vGPU profile {value}, but has {now}")

    def _profile(self, address: str) -> str:
        return f"{function_folder(self._files, address)}/nvidia/current_vgpu_type"
