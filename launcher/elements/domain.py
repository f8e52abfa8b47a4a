"""The ``<domain>`` and the elements of its devices other than disks and host devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from launcher.elements.disks import DiskElement
from launcher.elements.hostdev import Hostdev
from launcher.elements.numa import HugePageElement, MemNodeElement, NumaCellElement, VcpuPinElement
from launcher.elements.overrides import OverriddenDevice
from launcher.elements.page import Page, Property


@dataclass(frozen=True)
class Controller(Page):
    """A controller. Those of PCI are the root, root ports and bridges of the guest's PCI tree."""

    TAG: ClassVar[str] = "controller"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("type", attribute="type"),
        Property("index", attribute="index"),
        Property("model", attribute="model"),
        Property("bus_nr", "target", "busNr"),
        Property("node", "target/node"),
        Property("address_type", "address", "type"),
        Property("domain", "address", "domain"),
        Property("bus", "address", "bus"),
        Property("slot", "address", "slot"),
        Property("function", "address", "function"),
    )

    index: int | None = None
    model: str | None = None
    type: str = "pci"
    bus_nr: int | None = None
    node: int | None = None
    address_type: str | None = None
    domain: str | None = None
    bus: str | None = None
    slot: str | None = None
    function: str | None = None


def expander(index: int, bus_nr: int, cell: int | None) -> Controller:
    """A PCIe expander on the NUMA cell of a guest, on none if the cell is None (K-8.3)."""
    return Controller(index, "pcie-expander-bus", bus_nr=bus_nr, node=cell)


def root_port(index: int, parent: int, slot: int) -> Controller:
    """A root port in a slot of the expander with that index, which libvirt takes for a bus (K-8.3)."""
    return Controller(
        index,
        "pcie-root-port",
        address_type="pci",
        domain="0x0000",
        bus=str(parent),
        slot=f"0x{slot:02x}",
        function="0x0",
    )


@dataclass(frozen=True)
class Graphics(Page):
    """A VNC display without a listener, which the launcher configures; ``display="on"`` needs one (K-14.1)."""

    TAG: ClassVar[str] = "graphics"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("type", attribute="type"),
        Property("listen", "listen", "type"),
    )

    type: str = "vnc"
    listen: str | None = "none"


@dataclass(frozen=True)
class Video(Page):
    """The emulated graphics adapter beside the passed-through GPU."""

    TAG: ClassVar[str] = "video"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("model", "model", "type"),
        Property("heads", "model", "heads"),
    )

    model: str | None = None
    heads: int | None = 1


@dataclass(frozen=True)
class Domain(Page):
    """A ``<domain>``. A field that is ``None``, ``False`` or empty is not written."""

    TAG: ClassVar[str] = "domain"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("type", attribute="type"),
        Property("name", "name"),
        Property("uuid", "uuid"),
        Property("memory_unit", "memory", "unit"),
        Property("memory", "memory"),
        Property("hugepages", "memoryBacking/hugepages"),
        Property("pages", "memoryBacking/hugepages"),
        Property("memory_source", "memoryBacking/source", "type"),
        Property("allocation", "memoryBacking/allocation", "mode"),
        Property("vcpus_placement", "vcpu", "placement"),
        Property("vcpus", "vcpu"),
        Property("vcpu_pins", "cputune"),
        Property("emulator_cpus", "cputune/emulatorpin", "cpuset"),
        Property("numa_mode", "numatune/memory", "mode"),
        Property("numa_nodes", "numatune/memory", "nodeset"),
        Property("memnodes", "numatune"),
        Property("arch", "os/type", "arch"),
        Property("machine", "os/type", "machine"),
        Property("os_type", "os/type"),
        Property("boot_device", "os/boot", "dev"),
        Property("acpi", "features/acpi"),
        Property("dedicated_hint", "features/kvm/hint-dedicated", "state"),
        Property("cpu_mode", "cpu", "mode"),
        Property("cpu_match", "cpu", "match"),
        Property("cpu_model", "cpu/model"),
        Property("sockets", "cpu/topology", "sockets"),
        Property("cores", "cpu/topology", "cores"),
        Property("threads", "cpu/topology", "threads"),
        Property("cells", "cpu/numa"),
        Property("disks", "devices"),
        Property("controllers", "devices"),
        Property("graphics", "devices"),
        Property("video", "devices"),
        Property("hostdevs", "devices"),
        Property("overrides", "qemu:override"),
    )

    name: str | None = None
    uuid: str | None = None
    memory: int | None = None
    hugepages: bool = False
    vcpus: int | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    cpu_mode: str | None = None
    cpu_match: str | None = None
    cpu_model: str | None = None
    arch: str | None = None
    machine: str | None = None
    boot_device: str | None = None
    acpi: bool = False
    disks: tuple[DiskElement, ...] = ()
    controllers: tuple[Controller, ...] = ()
    graphics: tuple[Graphics, ...] = ()
    video: tuple[Video, ...] = ()
    hostdevs: tuple[Hostdev, ...] = ()
    overrides: tuple[OverriddenDevice, ...] = ()
    vcpu_pins: tuple[VcpuPinElement, ...] = ()
    emulator_cpus: str | None = None
    cells: tuple[NumaCellElement, ...] = ()
    memnodes: tuple[MemNodeElement, ...] = ()
    numa_mode: str | None = None
    numa_nodes: str | None = None
    pages: tuple[HugePageElement, ...] = ()
    memory_source: str | None = None
    allocation: str | None = None
    dedicated_hint: str | None = None
    type: str = "kvm"
    os_type: str | None = "hvm"
    memory_unit: str | None = "b"
    vcpus_placement: str | None = "static"
