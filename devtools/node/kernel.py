"""The kernel's files of a node, as far as the driver looks at them: no kinder than Linux.

A write that Linux refuses is refused with its errno, a driver binds what it matches unless ``driver_override`` says
otherwise, vfio-pci isn't unbound from what a process has open, and what is held up goes on later, beyond the caller.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Union

from devtools.node.faults import Crash, Fault, Faults, no_faults
from node_driver.host.changes import HostBusy
from node_driver.host.kernel_files import LIMIT, AttributeRead, AttributeWrite, KernelOperation

PCI: Final = "/sys/bus/pci/"
PAGE: Final = 4096

Tree = Mapping[str, Union[str, "Link", "Tree"]]
"""A folder: texts are attributes."""


@dataclass(frozen=True, slots=True)
class Link:
    name: str


@dataclass(slots=True)
class Function:
    """A PCI function. ``natural``: the driver that matches it; ``files``: what else is in its folder. ``resets``:
    whether it has a reset. ``tenant``: whose data it holds."""

    address: str
    group: int
    natural: str = ""
    class_code: str = "0x020000"
    files: dict[str, str | Link | Tree] = field(default_factory=dict)
    resets: bool = True
    driver: str = ""
    override: str = ""
    tenant: str = ""


@dataclass(slots=True)
class Kernel:
    """:class:`node_driver.host.kernel_files.KernelFiles`, with the node's side of it."""

    functions: dict[str, Function] = field(default_factory=dict)
    drivers: set[str] = field(default_factory=lambda: {"vfio-pci", "nvme", "e1000e", "pcieport"})
    open_nodes: dict[str, str] = field(default_factory=dict)
    """Node -> the process that has it open, as ``name (pid)``."""
    files: dict[str, str] = field(default_factory=dict)
    """Texts outside of sysfs."""
    faults: Faults = no_faults
    pending: dict[str, list[KernelOperation]] = field(default_factory=dict)
    """Target -> what is stuck."""
    touched: set[str] = field(default_factory=set)
    """Functions that were written to."""
    time: float = 0.0

    def add(self, function: Function) -> None:
        """A function appears, and the kernel's driver binds it."""
        self.functions[function.address] = function
        self._probe(function)

    def remove(self, address: str) -> None:
        """It is pulled out."""
        self.functions.pop(address, None)
        self.pending.pop(address, None)

    def reboot(self) -> None:
        self.open_nodes.clear()
        self.pending.clear()
        for function in self.functions.values():
            function.driver = function.override = ""
            self._probe(function)

    def settle(self) -> None:
        """What was stuck goes through, unless a process still holds it."""
        for target, operations in list(self.pending.items()):
            if not self._is_held(operations):
                del self.pending[target]
                for operation in operations:
                    try:
                        self._do(operation)
                    except OSError:
                        break

    # --- KernelFiles ---

    def exists(self, path: str) -> bool:
        return self._entry(path) is not None

    def link(self, path: str) -> str:
        entry = self._entry(path)
        return entry.name if isinstance(entry, Link) else ""

    def names(self, path: str) -> tuple[str, ...]:
        entry = self._entry(path)
        return tuple(sorted(entry)) if isinstance(entry, Mapping) else ()

    def is_character_device(self, path: str) -> bool:
        if path == "/dev/vfio/vfio":
            return True
        group = path.removeprefix("/dev/vfio/")
        return group.isdigit() and any(
            function.group == int(group) and "vfio" in function.driver for function in self.functions.values()
        )

    async def holders(self, nodes: frozenset[str]) -> tuple[str, ...]:
        return tuple(process for node, process in self.open_nodes.items() if node in nodes)

    async def operate(self, target: str, *operations: KernelOperation, limit: float = LIMIT) -> tuple[str, ...]:
        await asyncio.sleep(0)
        if target in self.pending or self._is_held(operations):
            self.pending.setdefault(target, list(operations))
            self.time += limit
            raise HostBusy(f"the kernel hasn't finished changing {target} within {limit:.0f} s")
        texts = []
        for index, operation in enumerate(operations):
            if isinstance(operation, AttributeWrite):
                fault = self.faults(f"write {operation.path}")
                if fault is Fault.CRASH_BEFORE:
                    raise Crash
                if fault is Fault.REFUSED:
                    raise _refused(errno.EIO, operation.path)
                if fault is Fault.STUCK:
                    self.pending[target] = list(operations[index:])
                    self.time += limit
                    raise HostBusy(f"the kernel hasn't finished changing {target} within {limit:.0f} s")
                self._do(operation)
                if fault is Fault.CRASH_AFTER:
                    raise Crash
            else:
                texts.append(self._do(operation))
        return tuple(texts)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)

    # --- what is in the files ---

    def _entry(self, path: str) -> str | Link | Tree | None:
        if path in self.files:
            return self.files[path]
        if path.startswith(f"{PCI}devices/"):
            address, *below = path.removeprefix(f"{PCI}devices/").split("/")
            function = self.functions.get(address)
            return None if function is None else _below(self._folder(function), below)
        if path.startswith(f"{PCI}drivers/"):
            name = path.removeprefix(f"{PCI}drivers/")
            return {"unbind": "", "bind": ""} if name in self.drivers else None
        if path.startswith("/sys/kernel/iommu_groups/"):
            group, *below = path.removeprefix("/sys/kernel/iommu_groups/").split("/")
            devices = {
                function.address: Link(function.address)
                for function in self.functions.values()
                if str(function.group) == group
            }
            return _below({"devices": devices}, below) if devices else None
        return None

    @staticmethod
    def _folder(function: Function) -> Tree:
        folder: dict[str, str | Link | Tree] = {
            "driver_override": function.override or "(null)",
            "class": function.class_code,
            **function.files,
        }
        if function.group >= 0:
            folder["iommu_group"] = Link(str(function.group))
        if function.driver:
            folder["driver"] = Link(function.driver)
        if function.resets:
            folder["reset"] = ""
        return folder

    # --- what writes do ---

    def _do(self, operation: KernelOperation) -> str:
        path = operation.path
        if isinstance(operation, AttributeRead):
            entry = self._entry(path)
            if not isinstance(entry, str):
                raise _refused(errno.ENOENT, path)
            return entry
        if path == f"{PCI}drivers_probe":
            self._probe(self._written_function(operation.text, errno.ENODEV, path))
        elif path.startswith(f"{PCI}drivers/") and path.endswith("/unbind"):
            function = self._written_function(operation.text, errno.ENODEV, path)
            if function.driver != path.split("/")[-2]:
                raise _refused(errno.ENODEV, path)
            self.touched.add(function.address)
            function.driver = ""
        elif path.startswith(f"{PCI}devices/"):
            address, attribute = path.removeprefix(f"{PCI}devices/").split("/", 1)
            function = self._written_function(address, errno.ENOENT, path)
            self.touched.add(address)
            self._set(function, attribute, operation.text, path)
        else:
            raise _refused(errno.EACCES, path)
        return ""

    @staticmethod
    def _set(function: Function, attribute: str, text: str, path: str) -> None:
        if attribute == "driver_override":
            if len(text) >= PAGE - 1 or not text:
                raise _refused(errno.EINVAL, path)
            function.override = text.split("\n")[0]
        elif attribute == "reset" and function.resets:
            if text != "1":
                raise _refused(errno.EINVAL, path)
            function.tenant = ""
        else:
            raise _refused(errno.EACCES, path)

    def _written_function(self, text: str, code: int, path: str) -> Function:
        function = self.functions.get(text.strip())
        if function is None:
            raise _refused(code, path)
        return function

    def _probe(self, function: Function) -> None:
        if function.driver:
            return
        wanted = function.override or function.natural
        if wanted in self.drivers and (wanted == function.natural or wanted == function.override):
            function.driver = wanted

    def _is_held(self, operations: Iterable[KernelOperation]) -> bool:
        """Whether an operation waits for a process to close the device: vfio-pci is unbound only then."""
        for operation in operations:
            if isinstance(operation, AttributeWrite) and operation.path.endswith("vfio-pci/unbind"):
                function = self.functions.get(operation.text)
                if function is not None and f"/dev/vfio/{function.group}" in self.open_nodes:
                    return True
        return False


def _below(tree: Tree, names: list[str]) -> str | Link | Tree | None:
    entry: str | Link | Tree | None = tree
    for name in names:
        entry = entry.get(name) if isinstance(entry, Mapping) else None
    return entry


def _refused(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
