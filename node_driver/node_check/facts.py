"""What ``virt-dra node-check`` reads of a node. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from node_driver.devices import PublishedSet
from node_driver.hardware.inventory import Hardware, PciFunction, VfCount, no_entries
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion


class FileKind(StrEnum):
    """What is at the path of a device node."""

    NOTHING = "nothing"
    CHARACTER = "character device"
    OTHER = "something else"


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """``mode``: the permission bits."""

    kind: FileKind = FileKind.NOTHING
    mode: int = 0


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """``virtualization``: whether the processor shows vmx or svm; None where it doesn't say, as on ARM.
    ``firmware_tables``: names of ACPI tables; empty if they aren't shown. ``pci_drivers``: those that are loaded.
    ``modules``: names of the kernel's VFIO modules, built in ones too, with ``_``; None if they aren't known."""

    release: str = ""
    command_line: tuple[str, ...] = ()
    processor: str = ""
    virtualization: bool | None = None
    firmware_tables: frozenset[str] = frozenset()
    iommu_groups: int = 0
    pci_drivers: frozenset[str] = frozenset()
    modules: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HugePages:
    """``kib``: the size of a page."""

    kib: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class MemoryLock:
    """How much memory a process and its children may lock. ``limit``: the hard limit in bytes; None for no limit."""

    process: str
    limit: int | None


CONTAINERD: Final = "containerd"
CRI_O: Final = "crio"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """``bridges``: function -> the bridges above it, from the root on. ``resettable``: functions that the kernel can
    reset. ``resettable_buses``: bridge -> the functions on its bus, which are reset together. ``device_nodes``: path ->
    what is there; None where the tree has no /dev. ``runtimes``: limits of container runtimes. ``programs``: program ->
    the version that it says; None if they weren't asked."""

    hardware: Hardware
    kernel: KernelFacts = KernelFacts()
    bridges: Mapping[str, tuple[str, ...]] = field(default_factory=no_entries)
    resettable: frozenset[str] = frozenset()
    resettable_buses: Mapping[str, frozenset[str]] = field(default_factory=no_entries)
    huge_pages: tuple[HugePages, ...] = ()
    runtimes: tuple[MemoryLock, ...] = ()
    device_nodes: Mapping[str, DeviceNode] | None = None
    programs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NodeExamination:
    """A node's facts beside what is to happen on it. ``published``: what policies publish; None if none was given.
    ``wanted_vfs``: PF -> the VFs that the driver makes. ``kubevirts``: KubeVirt objects of its cluster.
    ``kubevirt_version``: overrides theirs. ``labels``: the node's; None if they weren't given."""

    facts: NodeFacts
    published: PublishedSet | None = None
    wanted_vfs: Mapping[str, VfCount] = field(default_factory=no_entries)
    kubevirts: tuple[KubeVirt, ...] = ()
    kubevirt_version: KubeVirtVersion | None = None
    labels: Mapping[str, str] | None = None

    @property
    def endpoints(self) -> tuple[PciFunction, ...]:
        """The functions that might be given to VMs: with policies those that they publish, else all but bridges and
        what the node needs; by address."""
        hardware = self.facts.hardware
        if self.published is None:
            addresses = {
                address
                for address, function in hardware.functions.items()
                if not function.is_bridge and address not in hardware.protected
            }
        else:
            addresses = {address for device in self.published.devices for address in device.members}
        return tuple(hardware.functions[address] for address in sorted(addresses))
