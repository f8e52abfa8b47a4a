"""The kernel's files of a node, as far as the driver looks at them: no kinder than Linux.

A write that Linux refuses is refused with its errno, a driver binds what it matches unless ``driver_override`` says
otherwise, vfio-pci isn't unbound from what a process has open, and what is held up goes on later, beyond the caller.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Union

from devtools.node.faults import Fault, Process
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
    whether it has a reset. ``tenant``: whose data it holds. ``total_vfs``: how many VFs it can have, at the other
    functions of its slot; ``probes_vfs``: whether the kernel binds drivers to those that are made."""

    address: str
    group: int
    natural: str = ""
    class_code: str = "0x020000"
    files: dict[str, str | Link | Tree] = field(default_factory=dict)
    resets: bool = True
    driver: str = ""
    override: str = ""
    tenant: str = ""
    total_vfs: int = 0
    probes_vfs: bool = True
    virtual_functions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Mdev:
    parent: str
    type_id: str
    group: int


@dataclass(slots=True)
class Kernel:
    """What the kernel knows, and what it does with a write."""

    functions: dict[str, Function] = field(default_factory=dict)
    drivers: set[str] = field(default_factory=lambda: {"vfio-pci", "nvme", "e1000e", "pcieport"})
    mdevs: dict[str, Mdev] = field(default_factory=dict)
    mdev_types: dict[str, dict[str, int]] = field(default_factory=dict)
    """Parent -> type -> instances at most. A card makes one type at a time."""
    profiles: dict[str, str] = field(default_factory=dict)
    """VF whose driver offers vGPU profiles -> its profile."""
    creatable_profiles: frozenset[str] = frozenset({"558", "559"})
    vf_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Network VF -> its settings at the physical function."""
    vfio_groups: bool = True
    """Whether there are nodes of groups."""
    vfio_devices: bool = False
    """Whether sysfs shows a node of its own for each device."""
    iommufd: bool = False
    """Whether those nodes exist."""
    needed: dict[str, str] = field(default_factory=dict)
    """Function -> why the node itself needs it."""
    open_nodes: dict[str, str] = field(default_factory=dict)
    """Node -> the process that has it open, as ``name (pid)``."""
    pending: dict[str, list[KernelOperation]] = field(default_factory=dict)
    """Target -> what is stuck."""
    touched: set[str] = field(default_factory=set)
    """Functions that were written to."""
    reset_in_use: set[str] = field(default_factory=set)
    """Functions that were reset while a process had them open."""
    uevents: list[str] = field(default_factory=list)
    """Functions and mdevs that were added, removed, bound or unbound, in order."""

    def add(self, function: Function) -> None:
        """A function appears, and the kernel's driver binds it."""
        self.functions[function.address] = function
        self.uevents.append(function.address)
        self._probe(function)

    def remove(self, address: str) -> None:
        """It is pulled out."""
        self.functions.pop(address, None)
        self.uevents.append(address)
        self.pending.pop(address, None)
        self.mdevs = {uuid: mdev for uuid, mdev in self.mdevs.items() if mdev.parent != address}

    def reboot(self) -> None:
        self.open_nodes.clear()
        self.pending.clear()
        self.mdevs.clear()
        self.profiles = dict.fromkeys(self.profiles, "0")
        for function in list(self.functions.values()):
            self.make_vfs(function, 0)
            function.probes_vfs = True
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

    def link(self, path: str) -> str:
        entry = self.entry(path)
        return entry.name if isinstance(entry, Link) else ""

    def names(self, path: str) -> tuple[str, ...]:
        entry = self.entry(path)
        return tuple(sorted(entry)) if isinstance(entry, Mapping) else ()

    def is_character_device(self, path: str) -> bool:
        if path == "/dev/vfio/vfio":
            return self.vfio_groups
        if path == "/dev/iommu":
            return self.iommufd
        if path.startswith("/dev/vfio/devices/vfio"):
            return self.iommufd and path.removeprefix("/dev/vfio/devices/vfio").isdigit()
        group = path.removeprefix("/dev/vfio/")
        return (
            group.isdigit()
            and self.vfio_groups
            and (
                any(
                    function.group == int(group) and self._provides_vfio(function)
                    for function in self.functions.values()
                )
                or any(mdev.group == int(group) for mdev in self.mdevs.values())
            )
        )

    def _provides_vfio(self, function: Function) -> bool:
        return "vfio" in function.driver or self.profiles.get(function.address, "0") != "0"

    def operate(self, process: Process, target: str, operations: Sequence[KernelOperation], limit: float) -> list[str]:
        process.alive()
        if target in self.pending or self._is_held(operations):
            self.pending.setdefault(target, list(operations))
            raise _stuck(target, limit)
        texts = []
        for index, operation in enumerate(operations):
            if isinstance(operation, AttributeRead):
                texts.append(self._do(operation))
                continue
            fault = process.before(f"write {operation.path}")
            if fault is Fault.REFUSED:
                raise _refused(errno.EIO, operation.path)
            if fault is Fault.STUCK:
                self.pending[target] = list(operations[index:])
                raise _stuck(target, limit)
            self._do(operation)
            process.after(fault)
        return texts

    # --- what is in the files ---

    def entry(self, path: str) -> str | Link | Tree | None:
        if path.startswith(f"{PCI}devices/"):
            address, *below = path.removeprefix(f"{PCI}devices/").split("/")
            function = self.functions.get(address)
            return None if function is None else _below(self._folder(function), below)
        if path.startswith(f"{PCI}drivers/"):
            name = path.removeprefix(f"{PCI}drivers/")
            return {"unbind": "", "bind": ""} if name in self.drivers else None
        if path.startswith("/sys/bus/mdev/devices/"):
            uuid, *below = path.removeprefix("/sys/bus/mdev/devices/").split("/")
            mdev = self.mdevs.get(uuid)
            tree: Tree = (
                {"mdev_type": Link(mdev.type_id), "iommu_group": Link(str(mdev.group)), "remove": ""} if mdev else {}
            )
            return _below(tree, below) if tree else None
        if path.startswith("/sys/class/mdev_bus"):
            return _below(self._mdev_parents(), path.removeprefix("/sys/class/mdev_bus").split("/")[1:])
        if path.startswith("/sys/kernel/iommu_groups/"):
            group, *below = path.removeprefix("/sys/kernel/iommu_groups/").split("/")
            devices = {
                function.address: Link(function.address)
                for function in self.functions.values()
                if str(function.group) == group
            }
            return _below({"devices": devices}, below) if devices else None
        return None

    def _mdev_parents(self) -> Tree:
        return {
            parent: {
                "mdev_supported_types": {type_id: {"create": ""} for type_id in types},
                **{uuid: {} for uuid, mdev in self.mdevs.items() if mdev.parent == parent},
            }
            for parent, types in self.mdev_types.items()
            if parent in self.functions
        }

    def _folder(self, function: Function) -> Tree:
        folder: dict[str, str | Link | Tree] = {
            "driver_override": function.override or "(null)",
            "class": function.class_code,
            **function.files,
        }
        if function.group >= 0:
            folder["iommu_group"] = Link(str(function.group))
        if function.driver:
            folder["driver"] = Link(function.driver)
        if self.vfio_devices and self._provides_vfio(function):
            folder["vfio-dev"] = {f"vfio{function.group}": {}}
        if function.resets:
            folder["reset"] = ""
        if function.total_vfs:
            folder["sriov_totalvfs"] = str(function.total_vfs)
            folder["sriov_numvfs"] = str(len(function.virtual_functions))
            folder["sriov_drivers_autoprobe"] = str(int(function.probes_vfs))
            folder |= {f"virtfn{index}": Link(address) for index, address in enumerate(function.virtual_functions)}
        if function.address in self.profiles:
            folder["nvidia"] = {"current_vgpu_type": self.profiles[function.address]}
        return folder

    # --- what writes do ---

    def _do(self, operation: KernelOperation) -> str:
        path = operation.path
        if isinstance(operation, AttributeRead):
            entry = self.entry(path)
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
            self.uevents.append(function.address)
            function.driver = ""
        elif path.startswith("/sys/class/mdev_bus/") and path.endswith("/create"):
            self._make_mdev(path.split("/")[4], path.split("/")[6], operation.text, path)
        elif path.startswith("/sys/bus/mdev/devices/") and path.endswith("/remove"):
            uuid = path.split("/")[5]
            if self.mdevs.pop(uuid, None) is None:
                raise _refused(errno.ENOENT, path)
            self.uevents.append(uuid)
        elif path.startswith(f"{PCI}devices/"):
            address, attribute = path.removeprefix(f"{PCI}devices/").split("/", 1)
            function = self._written_function(address, errno.ENOENT, path)
            self.touched.add(address)
            self._set(function, attribute, operation.text, path)
        else:
            raise _refused(errno.EACCES, path)
        return ""

    def _make_mdev(self, parent: str, type_id: str, uuid: str, path: str) -> None:
        made = [mdev.type_id for mdev in self.mdevs.values() if mdev.parent == parent]
        if parent not in self.functions or type_id not in self.mdev_types.get(parent, {}):
            raise _refused(errno.ENOENT, path)
        if uuid in self.mdevs:
            raise _refused(errno.EEXIST, path)
        if len(made) >= self.mdev_types[parent][type_id] or set(made) - {type_id}:
            raise _refused(errno.ENOSPC, path)
        self.uevents.append(uuid)
        self.mdevs[uuid] = Mdev(parent, type_id, 1000 + len(uuid) + sum(map(ord, uuid)) % 1000)

    def _set(self, function: Function, attribute: str, text: str, path: str) -> None:
        if attribute == "driver_override":
            if len(text) >= PAGE - 1 or not text:
                raise _refused(errno.EINVAL, path)
            function.override = text.split("\n")[0]
        elif attribute == "sriov_drivers_autoprobe" and function.total_vfs:
            function.probes_vfs = text == "1"
        elif attribute == "sriov_numvfs" and function.total_vfs:
            self._set_numvfs(function, int(text), path)
        elif attribute == "reset" and function.resets:
            if text != "1":
                raise _refused(errno.EINVAL, path)
            if f"/dev/vfio/{function.group}" in self.open_nodes:
                self.reset_in_use.add(function.address)
            if function.natural != "nvme":
                function.tenant = ""
        elif attribute == "nvidia/current_vgpu_type" and function.address in self.profiles:
            if self.profiles[function.address] != "0" and f"/dev/vfio/{function.group}" in self.open_nodes:
                raise _refused(errno.EBUSY, path)
            if text not in {"0", *self.creatable_profiles}:
                raise _refused(errno.EINVAL, path)
            self.profiles[function.address] = text
        else:
            raise _refused(errno.EACCES, path)

    def _set_numvfs(self, function: Function, number: int, path: str) -> None:
        if number > function.total_vfs:
            raise _refused(errno.ERANGE, path)
        if number == len(function.virtual_functions):
            return
        if not function.driver or function.driver != function.natural:
            raise _refused(errno.ENOENT, path)
        if number and function.virtual_functions:
            raise _refused(errno.EBUSY, path)
        self.make_vfs(function, number)

    def make_vfs(self, function: Function, number: int) -> None:
        for address in function.virtual_functions:
            del self.functions[address]
            self.uevents.append(address)
        slot = function.address.rpartition(".")[0]
        function.virtual_functions = [f"{slot}.{index + 1}" for index in range(number)]
        for index, address in enumerate(function.virtual_functions):
            natural = function.natural if function.probes_vfs else ""
            physical_function: dict[str, str | Link | Tree] = {"physfn": Link(function.address)}
            self.add(Function(address, function.group + 100 + index, natural, files=physical_function))

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
            self.uevents.append(function.address)

    def _is_held(self, operations: Iterable[KernelOperation]) -> bool:
        """Whether an operation waits for a process to close the device: vfio-pci is unbound only then."""
        groups = [
            group
            for operation in operations
            if isinstance(operation, AttributeWrite)
            for group in self._groups_taken(operation)
        ]
        return any(f"/dev/vfio/{group}" in self.open_nodes for group in groups)

    def _groups_taken(self, operation: AttributeWrite) -> list[int]:
        """The groups of the devices that a write takes away from VFIO."""
        path = operation.path
        if path.endswith("vfio-pci/unbind") and operation.text in self.functions:
            return [self.functions[operation.text].group]
        if path.startswith("/sys/bus/mdev/devices/") and path.endswith("/remove"):
            mdev = self.mdevs.get(path.split("/")[5])
            return [mdev.group] if mdev else []
        if path.endswith("/sriov_numvfs") and operation.text == "0":
            function = self.functions.get(path.split("/")[5])
            return [self.functions[address].group for address in function.virtual_functions] if function else []
        return []


@dataclass(frozen=True, slots=True)
class ProcessKernel:
    """:class:`node_driver.host.kernel_files.KernelFiles`: the kernel as one process sees it."""

    kernel: Kernel
    process: Process

    def exists(self, path: str) -> bool:
        return self.kernel.entry(path) is not None

    def link(self, path: str) -> str:
        return self.kernel.link(path)

    def names(self, path: str) -> tuple[str, ...]:
        return self.kernel.names(path)

    def is_character_device(self, path: str) -> bool:
        return self.kernel.is_character_device(path)

    async def holders(self, nodes: frozenset[str]) -> tuple[str, ...]:
        self.process.alive()
        return tuple(process for node, process in self.kernel.open_nodes.items() if node in nodes)

    async def needed_functions(self, *, addresses: bool) -> Mapping[str, str]:
        self.process.alive()
        return self.kernel.needed

    async def operate(self, target: str, *operations: KernelOperation, limit: float = LIMIT) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return tuple(self.kernel.operate(self.process, target, operations, limit))

    async def sleep(self, seconds: float) -> None:
        self.process.alive()
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class ProcessPrograms:
    """:class:`node_driver.host.sanitizing.Programs`: of NVMe drives, as one process runs them."""

    kernel: Kernel
    process: Process

    async def run(self, target: str, *arguments: str, limit: float) -> tuple[int, str]:
        await asyncio.sleep(0)
        function = self.kernel.functions[target]
        if arguments[0] == "vf-settings":
            return self._vf_settings(target, *arguments[1:])
        if arguments[0] == "disk-sample":
            return 0, "\n".join((function.tenant or "blank", "blank", "blank"))
        fault = self.process.before(" ".join(arguments))
        if fault is not Fault.NONE and fault is not Fault.CRASH_AFTER:
            return 1, "NVMe status: Access Denied"
        function.tenant = ""
        self.process.after(fault)
        return 0, ""

    def _vf_settings(self, address: str, interface: str, index: str, wanted: str = "{}") -> tuple[int, str]:
        settings = self.kernel.vf_settings[address]
        for name, value in json.loads(wanted).items():
            fault = self.process.before(f"{interface} vf {index} {name}")
            if fault is Fault.REFUSED or name not in settings:
                return 1, f"{name}: Operation not supported"
            if fault is not Fault.STUCK:  # a card that says yes and does nothing
                settings[name] = value
            self.process.after(fault)
        return 0, json.dumps(settings, sort_keys=True)


def _below(tree: Tree, names: list[str]) -> str | Link | Tree | None:
    entry: str | Link | Tree | None = tree
    for name in names:
        entry = entry.get(name) if isinstance(entry, Mapping) else None
    return entry


def _refused(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _stuck(target: str, limit: float) -> HostBusy:
    return HostBusy(f"the kernel hasn't finished changing {target} within {limit:.0f} s")
