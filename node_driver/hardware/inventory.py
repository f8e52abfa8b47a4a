"""The devices of a node, as its sysfs describes them at one moment. Immutable values without I/O.

Addresses are ``dddd:bb:dd.f`` in lower-case hexadecimal; PCI ids are four lower-case hexadecimal digits without ``0x``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

BRIDGE_CLASS: Final = "0604"
"""PCI-to-PCI bridges: they share groups with what is behind them and keep their driver (D-43)."""
_BRIDGES: Final = "06"
DEFAULT_VFIO_DRIVER: Final = "vfio-pci"
LONG_DOMAIN: Final = re.compile(r"[0-9a-f]{5,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""An address that the kernel invents a domain for, as behind Intel's VMD."""


def no_entries() -> Mapping[_K, _V]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function of a PCI device.

    ``class_code``: six digits, as in ``030200``. ``driver``: "" if none is bound. ``numa_node``: None where the kernel
    says -1. ``pcie_root``: as in ``pci0000:40`` (D-40). ``reset_methods``: in the kernel's order, empty if it can't be
    reset. ``vfio_device``: the name of its character device under ``/dev/vfio/devices``, if it has a folder
    ``vfio-dev``; whether that node exists is another question (D-30).
    """

    address: str
    vendor: str
    device: str
    class_code: str
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    driver: str = ""
    driver_override: str = ""
    iommu_group: int | None = None
    numa_node: int | None = None
    pcie_root: str = ""
    modalias: str = ""
    reset_methods: tuple[str, ...] = ()
    vfio_device: str = ""
    physical_function: str = ""
    """Address of the PF, if this is a VF."""
    vf_index: int | None = None
    virtual_functions: tuple[str, ...] = ()
    """Addresses of the enabled VFs, by index, if this is a PF."""
    total_vfs: int = 0

    @property
    def is_bridge(self) -> bool:
        """True for bridges of any kind: a host's and an ISA bridge can't be passed through either."""
        return self.class_code.startswith(_BRIDGES)

    @property
    def slot(self) -> str:
        """The address without the function: functions of one slot are one card."""
        return self.address.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class VfCount:
    """How many VFs a PF has, or should have. ``probed``: whether the kernel lets drivers have them by themselves, as
    vGPU profiles need it (D-48, D-61)."""

    number: int
    probed: bool = False

    @classmethod
    def parse(cls, text: str) -> VfCount:
        number, _, probed = text.partition("/")
        return cls(int(number), probed == "1")

    def __str__(self) -> str:
        return f"{self.number}/{int(self.probed)}"


@dataclass(frozen=True, slots=True)
class MdevType:
    """A type that a parent can make. ``parent``: a PCI address, or a name such as ``mtty``. ``available``: instances
    that it could make now; making one takes away from other types, too (D-49)."""

    parent: str
    type_id: str
    name: str = ""
    description: str = ""
    device_api: str = ""
    available: int = 0


@dataclass(frozen=True, slots=True)
class MediatedDevice:
    uuid: str
    parent: str
    type_id: str
    iommu_group: int | None = None


@dataclass(frozen=True, slots=True)
class VgpuFunction:
    """A VF of a card whose driver provides vGPUs without mdev (D-61). ``current_type``: "0" if it has no profile.
    ``creatable``: type id -> profile name, what it could be given now; that shrinks with each profile that is in use on
    the card."""

    address: str
    current_type: str = "0"
    creatable: Mapping[str, str] = field(default_factory=no_entries)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """``distances``: its ACPI SLIT row, empty where the kernel doesn't show it. ``socket``: None for a node without
    processors."""

    distances: tuple[int, ...] = ()
    socket: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class VfioAlias:
    """A VFIO driver of the node's kernel, for functions whose modalias matches the pattern (D-64)."""

    pattern: str
    driver: str


@dataclass(frozen=True, slots=True)
class UnreadableDevice:
    """A device whose sysfs entry isn't as the kernel writes it. ``message`` names the file and what it has."""

    subject: str
    message: str
    iommu_group: int | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """All devices of a node. ``mdev_types`` by parent's address; the other mappings by address or UUID.

    ``protected``: address -> why the node itself needs that function (disks, console, route: D-39), as in ``it has the
    disk nvme0n1, which is mounted at /``. ``vfio_aliases``: the most specific first.
    """

    functions: Mapping[str, PciFunction] = field(default_factory=no_entries)
    mdev_types: Mapping[str, tuple[MdevType, ...]] = field(default_factory=no_entries)
    mdevs: Mapping[str, MediatedDevice] = field(default_factory=no_entries)
    vgpus: Mapping[str, VgpuFunction] = field(default_factory=no_entries)
    numa_nodes: Mapping[int, NumaNode] = field(default_factory=no_entries)
    protected: Mapping[str, str] = field(default_factory=no_entries)
    vfio_aliases: tuple[VfioAlias, ...] = ()
    unreadable: tuple[UnreadableDevice, ...] = ()

    def group_members(self, group: int) -> tuple[PciFunction, ...]:
        """The functions of an IOMMU group, by address, bridges included."""
        members = (function for function in self.functions.values() if function.iommu_group == group)
        return tuple(sorted(members, key=lambda function: function.address))

    def vfio_driver(self, function: PciFunction) -> str:
        """The VFIO driver that the kernel has for a function: that of the most specific alias, ``vfio-pci`` if none
        matches (D-64)."""
        name = "vfio_" + function.modalias
        return next(
            (alias.driver for alias in self.vfio_aliases if fnmatchcase(name, alias.pattern)), DEFAULT_VFIO_DRIVER
        )
