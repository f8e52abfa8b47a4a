"""Why PCI functions must not be bound to another driver now: what is looked at before anything is unbound (D-45, D-62).
The facts are gathered from the kernel's files; :func:`obstacle` decides, and is pure. What the node itself needs is
said by :mod:`node_driver.hardware.protection`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from node_driver.hardware.inventory import BRIDGE_CLASS
from node_driver.host.binding import PCI
from node_driver.host.kernel_files import AttributeRead, KernelFiles
from node_driver.host.nvme import nvme_namespaces

GROUPS: Final = "/sys/kernel/iommu_groups"
HARMLESS_DRIVERS: Final = frozenset(("", "pci-stub", "pcieport"))
"""Drivers that leave a group viable, beside those that provide VFIO."""
DEPTH_MAX: Final = 9
"""Levels of sysfs below a function: host/target/lun/block/disk/partition are six."""
FOLDERS_MAX: Final = 4096
SHOWN_MAX: Final = 5
NVIDIA_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """How a PCI function is used. ``neighbours``: the other functions of its group that spoil it, with drivers.
    ``needed``: why the node needs it. ``interface_moved``: whether its interface is in another network namespace.
    ``processes``: that have a device node of it open."""

    address: str
    driver: str
    group: str
    neighbours: tuple[str, ...] = ()
    enabled_vfs: int = 0
    needed: str = ""
    interface_moved: bool = False
    processes: tuple[str, ...] = ()


def obstacle(use: FunctionUse) -> str:
    """The first reason not to touch the function, with what to do; "" if there is none."""
    if not use.group:
        cure = "enable the IOMMU in the node's firmware, and boot with intel_iommu=on or amd_iommu=on"
        return f"{use.address} has no IOMMU group; {cure}"
    if use.neighbours:
        problem = f"IOMMU group {use.group} of {use.address} isn't viable: {first_of(use.neighbours)} is in it, too"
        return f"{problem}; publish the group as one device, or unbind that function"
    return in_use(use)


def in_use(use: FunctionUse) -> str:
    """What the node does with the function; "" if nothing."""
    if use.enabled_vfs:
        return f"{use.address} has {use.enabled_vfs} VFs; set sriov_numvfs to 0 first, or claim a VF instead"
    if use.needed:
        return f"{use.address} {use.needed}; let the node do without it first"
    if use.interface_moved:
        where = "its interface is in another network namespace, such as a pod's"
        return f"{use.address} is in use: {where}; take it back first"
    if use.processes:
        return f"{use.address} is held by {first_of(use.processes)}; end the process first"
    return ""


def first_of(names: Sequence[str]) -> str:
    """The first few names, for a message.

    >>> first_of(["qemu (1)", "qemu (2)", "qemu (3)", "qemu (4)", "qemu (5)", "qemu (6)"])
    'qemu (1), qemu (2), qemu (3), qemu (4) and 2 more'
    """
    if len(names) <= SHOWN_MAX:
        return ", ".join(names)
    return f"{', '.join(names[: SHOWN_MAX - 1])} and {len(names) - SHOWN_MAX + 1} more"


class Obstacles:
    """Looks at functions and their groups."""

    def __init__(self, files: KernelFiles) -> None:
        self._files = files

    async def first(self, members: Sequence[str], target_driver: str) -> str:
        """Functions that are bound to the target driver already are left as they are, and only their group is looked
        at."""
        if not self._files.exists(f"{PCI}/drivers/{target_driver}"):
            return f"driver {target_driver} isn't loaded; run modprobe {target_driver} on the node"
        for address in members:
            use = await self._use(address, members, target_driver)
            if use is not None and (refusal := obstacle(use)):
                return refusal
        return ""

    async def in_use(self, address: str) -> str:
        """What the node does with a function, whatever its driver and group."""
        use = await self._use(address, (address,), "")
        return "" if use is None else in_use(use)

    async def _use(self, address: str, members: Sequence[str], target_driver: str) -> FunctionUse | None:
        """None if there is no such function."""
        folder = f"{PCI}/devices/{address}"
        if not self._files.exists(folder):
            return None
        driver = self._files.link(f"{folder}/driver")
        group = self._files.link(f"{folder}/iommu_group")
        neighbours = await self._neighbours(address, group, members) if group else ()
        if driver in ("", target_driver):
            return FunctionUse(address, driver, group, neighbours)
        has_interface = self._files.exists(f"{folder}/net")
        needed = await self._files.needed_functions(addresses=has_interface)
        nodes = await self._device_nodes(address, folder)
        return FunctionUse(
            address,
            driver,
            group,
            neighbours,
            enabled_vfs=sum(name.startswith("virtfn") for name in self._files.names(folder)),
            needed=needed.get(address, ""),
            # The folder stays where an interface was moved, and only what is in the driver's namespace is shown.
            interface_moved=has_interface and not self._files.names(f"{folder}/net"),
            processes=await self._files.holders(nodes | await self._nvidia_nodes(address)),
        )

    async def _neighbours(self, address: str, group: str, members: Sequence[str]) -> tuple[str, ...]:
        spoiling = []
        for neighbour in self._files.names(f"{GROUPS}/{group}/devices"):
            folder = f"{PCI}/devices/{neighbour}"
            driver = self._files.link(f"{folder}/driver")
            if neighbour in members or driver in HARMLESS_DRIVERS or "vfio" in driver:
                continue
            if self._files.exists(f"{folder}/vfio-dev"):
                continue
            (class_code,) = await self._texts(address, [f"{folder}/class"])
            if not class_code.removeprefix("0x").startswith(BRIDGE_CLASS):
                spoiling.append(f"{neighbour} ({driver})")
        return tuple(spoiling)

    async def _device_nodes(self, address: str, folder: str) -> frozenset[str]:
        """All device nodes of the function."""
        roots = (folder, *nvme_namespaces(self._files, folder))
        folders = list(dict.fromkeys(path for root in roots for path in self._folders_with_nodes(root)))
        events = await self._texts(address, [f"{path}/uevent" for path in folders])
        return frozenset(
            f"/dev/{_device_name(event) or path.rpartition('/')[2]}"
            for path, event in zip(folders, events, strict=True)
        )

    def _folders_with_nodes(self, folder: str) -> Iterator[str]:
        """The folder and those below that stand for a device node; links aren't followed."""
        pending, seen = [(folder, 0)], 0
        while pending and seen < FOLDERS_MAX:
            path, depth = pending.pop()
            seen += 1
            names = self._files.names(path)
            if "dev" in names:
                yield path
            if depth < DEPTH_MAX:
                pending += [
                    (f"{path}/{name}", depth + 1)
                    for name in names
                    if name not in ("power", "holders", "queue", "msi_irqs") and not self._files.link(f"{path}/{name}")
                ]

    async def _nvidia_nodes(self, address: str) -> frozenset[str]:
        """Nodes of NVIDIA's own driver, which sysfs doesn't show."""
        path = f"/proc/driver/nvidia/gpus/{address}/information"
        if not self._files.exists(path):
            return frozenset()
        minor = NVIDIA_MINOR.search((await self._texts(address, [path]))[0])
        return frozenset({f"/dev/nvidia{minor[1]}"} if minor else ())

    async def _texts(self, address: str, paths: Sequence[str]) -> tuple[str, ...]:
        """The files' texts, "" for those that aren't there."""
        present = [path for path in paths if self._files.exists(path)]
        if not present:
            return ("",) * len(paths)
        texts = await self._files.operate(address, *map(AttributeRead, present))
        by_path: Mapping[str, str] = dict(zip(present, texts, strict=True))
        return tuple(by_path.get(path, "") for path in paths)


def _device_name(uevent: str) -> str:
    return next((line[len("DEVNAME=") :] for line in uevent.splitlines() if line.startswith("DEVNAME=")), "")
