"""To which driver a PCI function is bound (D-44). By ``driver_override`` and a probe, never by an id for
the driver to take, which would take every equal card."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final

from node_driver.host.changes import HostError, TargetGone
from node_driver.host.kernel_files import AttributeRead, AttributeWrite, KernelFiles, KernelOperation

PCI: Final = "/sys/bus/pci"
NO_OVERRIDE: Final = "(null)"
"""What the kernel shows where ``driver_override`` isn't set."""


@dataclass(frozen=True, slots=True)
class Binding:
    """``driver``: what a function is bound to; ``override``: what alone may bind it; each "" for none."""

    driver: str
    override: str

    @classmethod
    def parse(cls, text: str) -> Binding:
        driver, _, override = text.partition("/")
        return cls(driver, override)

    @classmethod
    def to(cls, driver: str) -> Binding:
        """What the driver wants where it binds a function."""
        return cls(driver, driver)

    def __str__(self) -> str:
        return f"{self.driver}/{self.override}"


class DriverBinding:
    """The property ``driver`` of PCI functions."""

    def __init__(self, files: KernelFiles) -> None:
        self._files = files

    async def value(self, address: str) -> str:
        folder = function_folder(self._files, address)
        await vfs_made(self._files, address)
        try:
            (override,) = await self._files.operate(address, AttributeRead(f"{folder}/driver_override"))
        except FileNotFoundError:
            raise TargetGone(f"PCI function {address} is gone") from None
        except OSError as error:
            raise HostError(f"the driver of {address} can't be read: {kernel_answer(error)}") from error
        return str(Binding(self._files.link(f"{folder}/driver"), "" if override == NO_OVERRIDE else override))

    async def set_value(self, address: str, value: str) -> None:
        wanted = Binding.parse(value)
        folder = function_folder(self._files, address)
        if wanted.driver and not self._files.exists(f"{PCI}/drivers/{wanted.driver}"):
            raise HostError(f"driver {wanted.driver} isn't loaded; run modprobe {wanted.driver} on the node")
        bound = self._files.link(f"{folder}/driver")
        operations: list[KernelOperation] = [AttributeWrite(f"{folder}/driver_override", wanted.override or "\n")]
        if bound != wanted.driver:
            if bound:
                operations.append(AttributeWrite(f"{PCI}/drivers/{bound}/unbind", address))
            if wanted.driver:
                operations.append(AttributeWrite(f"{PCI}/drivers_probe", address))
        try:
            await self._files.operate(address, *operations)
        except OSError as error:
            if not self._files.exists(folder):
                raise TargetGone(f"PCI function {address} is gone") from None
            message = f"{address} can't be bound to {wanted.driver or 'no driver'}: {kernel_answer(error)}"
            raise HostError(message) from error
        bound = self._files.link(f"{folder}/driver")
        if bound != wanted.driver:
            message = f"{address} was to be bound to {wanted.driver or 'no driver'}, but is bound to {bound or 'none'}"
            raise HostError(f"{message}; the node's kernel log says why")


def function_folder(files: KernelFiles, address: str) -> str:
    """Where sysfs shows a function. Raises :class:`TargetGone`."""
    folder = f"{PCI}/devices/{address}"
    if not files.exists(folder):
        raise TargetGone(f"PCI function {address} is gone")
    return folder


async def vfs_made(files: KernelFiles, address: str) -> None:
    """Waits for an earlier change of the number of VFs, if this is one: it may yet take the function away (D-48).
    Raises :class:`~node_driver.host.changes.HostBusy`."""
    if physical_function := files.link(f"{PCI}/devices/{address}/physfn"):
        await files.operate(physical_function)


def kernel_answer(error: OSError) -> str:
    """What the kernel answered, and to what."""
    return f"{error.filename}: {error.strerror} ({errno.errorcode.get(error.errno or 0, error.errno)})"
