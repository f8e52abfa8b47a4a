"""How many VFs a PF has (D-48). Another number takes all of them away first: a change goes through 0."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from node_driver.hardware.inventory import VfCount
from node_driver.host.binding import PCI, function_folder, kernel_answer
from node_driver.host.changes import HostError
from node_driver.host.kernel_files import AttributeRead, AttributeWrite, KernelFiles


class VirtualFunctions:
    """The property ``vf-count`` of PFs (:class:`VfCount`)."""

    def __init__(self, files: KernelFiles, use: Callable[[str], Awaitable[str]]) -> None:
        """``use``: what a function is in use for, "" if for nothing."""
        self._files = files
        self._use = use

    async def value(self, address: str) -> str:
        folder = function_folder(self._files, address)
        try:
            number, probed = await self._files.operate(
                address, AttributeRead(f"{folder}/sriov_numvfs"), AttributeRead(f"{folder}/sriov_drivers_autoprobe")
            )
            return str(VfCount(int(number), probed.strip() == "1"))
        except OSError as error:
            raise HostError(f"{address} has no virtual functions to make: {kernel_answer(error)}") from error

    async def set_value(self, address: str, value: str) -> None:
        """Raises :class:`HostError` while one of the VFs that are there is in use."""
        now, wanted = VfCount.parse(await self.value(address)), VfCount.parse(value)
        if now == wanted:
            return
        folder = f"{PCI}/devices/{address}"
        links = [name for name in self._files.names(folder) if name.startswith("virtfn")]
        uses = await asyncio.gather(*(self._use(self._files.link(f"{folder}/{name}")) for name in links))
        if use := next(filter(None, uses), ""):
            raise HostError(use)
        numbers = (*((0,) if now.number else ()), *((wanted.number,) if wanted.number else ()))
        try:
            await self._files.operate(
                address,
                AttributeWrite(f"{folder}/sriov_drivers_autoprobe", str(int(wanted.probed))),
                *(AttributeWrite(f"{folder}/sriov_numvfs", str(number)) for number in numbers),
            )
        except OSError as error:
            message = f"{address} can't be given {wanted.number} virtual functions: {kernel_answer(error)}"
            raise HostError(f"{message}; the node's kernel log says why") from error
        if (text := await self.value(address)) != value:
            has = VfCount.parse(text).number
            raise HostError(f"{address} was to have {wanted.number} virtual functions, but has {has}")
