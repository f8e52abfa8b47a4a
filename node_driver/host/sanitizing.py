"""Nobody inherits data (D-63): functions are reset, and NVMe namespaces erased, before another claim gets them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from node_driver.host.binding import PCI, function_folder, kernel_answer
from node_driver.host.changes import HostError
from node_driver.host.kernel_files import AttributeRead, AttributeWrite, KernelFiles
from node_driver.host.nvme import nvme_namespaces

FUNCTION: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NVME_CLASS: Final = "0108"
ERASE_LIMIT: Final = 3600.0
"""Seconds for one namespace; drives that overwrite everything take long."""
BLANK: Final = "blank"
USER_DATA_ERASE: Final = "1"
"""Secure erase setting of Format NVM."""


class Programs(Protocol):
    async def run(self, target: str, *arguments: str, limit: float) -> tuple[int, str]:
        """Exit code and the end of the output. Programs on one target, and operations on it, wait for each other.
        Raises :class:`~node_driver.host.changes.HostBusy` after the limit, :class:`HostError` if it can't be
        started."""


class Sanitizer:
    """Resets and erases. Success means that it was verified. ``dev``: where device nodes are."""

    def __init__(self, files: KernelFiles, programs: Programs, *, dev: str = "/dev") -> None:
        self._dev = dev
        self._files = files
        self._programs = programs

    async def reset(self, members: Sequence[str]) -> None:
        """Resets each function by the kernel's first method that works: it takes the whole bus only where nothing else
        is on it. A function without one is reset with its bus, if all that is there is ours. Raises :class:`HostError`,
        :class:`TargetGone`."""
        for address in members:
            folder = function_folder(self._files, address)
            path = f"{folder}/reset" if self._files.exists(f"{folder}/reset") else self._bus_reset(address, members)
            try:
                await self._files.operate(address, AttributeWrite(path, "1"))
            except OSError as error:
                raise HostError(f"{address} can't be reset: {kernel_answer(error)}") from error

    def _bus_reset(self, address: str, members: Sequence[str]) -> str:
        """The attribute that resets the bus of a function."""
        devices = f"{PCI}/devices"
        for bridge in self._files.names(devices):
            path = f"{devices}/{bridge}/reset_subordinate"
            if self._files.exists(f"{devices}/{bridge}/{address}") and self._files.exists(path):
                others = set(filter(FUNCTION.fullmatch, self._files.names(f"{devices}/{bridge}"))) - set(members)
                if not others:
                    return path
        cure = "a policy with sanitize: none gives it out as the last guest left it"
        raise HostError(f"{address} has no reset of its own, and its bus isn't ours alone; {cure}")

    async def erase(self, address: str) -> None:
        """Erases all NVMe namespaces of a function that is bound to the kernel's nvme driver, and verifies it; resets
        what is no NVMe controller. Raises :class:`HostError`, :class:`TargetGone`."""
        folder = function_folder(self._files, address)
        try:
            (class_code,) = await self._files.operate(address, AttributeRead(f"{folder}/class"))
        except OSError as error:
            raise HostError(f"{address} can't be read: {kernel_answer(error)}") from error
        if not class_code.removeprefix("0x").startswith(NVME_CLASS):
            await self.reset((address,))
            return
        namespaces = list(nvme_namespaces(self._files, folder))
        if not namespaces:
            raise HostError(f"{address} shows no NVMe namespace to erase; is it bound to the nvme driver?")
        for namespace in namespaces:
            await self._erase(address, f"{self._dev}/{namespace.rpartition('/')[2]}")

    async def _erase(self, address: str, node: str) -> None:
        before = await self._sample(address, node)
        exit_code, output = await self._programs.run(
            address, "nvme", "format", node, f"--ses={USER_DATA_ERASE}", "--force", limit=ERASE_LIMIT
        )
        if exit_code:
            raise HostError(f"{node} can't be erased: nvme format: {output or exit_code}")
        after = await self._sample(address, node)
        if any(left == right != BLANK for left, right in zip(before, after, strict=True)):
            raise HostError(f"nvme format said that {node} was erased, but it has the same contents")

    async def _sample(self, address: str, node: str) -> list[str]:
        """Digests of the namespace's beginning, middle and end; ``blank`` for one that is all zeros or ones."""
        exit_code, output = await self._programs.run(address, "disk-sample", node, limit=ERASE_LIMIT)
        if exit_code:
            raise HostError(f"{node} can't be read: {output or exit_code}")
        return output.split()
