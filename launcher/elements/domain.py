"""The ``<domain>`` and the elements of its devices other than disks and host devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from launcher.elements.disks import DiskElement
from launcher.elements.hostdev import Hostdev
from launcher.elements.numa import HugePageElement, MemNodeElement, NumaCellElement, VcpuPinElement
from launcher.elements.overrides import OverriddenDevice
from launcher.elements.page import Page


@dataclass(frozen=True)
class Controller(Page):
    """A controller. Those of PCI are the root, root ports and bridges of the guest's PCI tree."""

    TAG: ClassVar[str] = "controller"

    type: Annotated[str, "@type"] = field(default="pci", kw_only=True)
    index: Annotated[int | None, "@index"] = None
    model: Annotated[str | None, "@model"] = None
    bus_nr: Annotated[int | None, "target/@busNr"] = None
    node: Annotated[int | None, "target/node"] = None
    address_type: Annotated[str | None, "address/@type"] = None
    domain: Annotated[str | None, "address/@domain"] = None
    bus: Annotated[str | None, "address/@bus"] = None
    slot: Annotated[str | None, "address/@slot"] = None
    function: Annotated[str | None, "address/@function"] = None


def expander(index: int, bus_nr: int, cell: int | None) -> Controller:
    """A PCIe expander on the NUMA cell of a guest, on none if the cell is None (K-8.3)."""
    return Controller(index, "pcie-expander-bus", bus_nr=bus_nr, node=cell)


def root_port(index: int, parent: int, slot: int) -> Controller:
    """A root port in a slot of the expander with that index, which libvirt takes for a bus (K-8.3)."""
    port = Controller(index, "pcie-root-port", address_type="pci", domain="0x0000", bus=str(parent))
    return port.with_(slot=f"0x{slot:02x}", function="0x0")


@dataclass(frozen=True)
class Graphics(Page):
    """A VNC display without a listener, which the launcher configures; ``display="on"`` needs one (K-14.1)."""

    TAG: ClassVar[str] = "graphics"

    type: Annotated[str, "@type"] = "vnc"
    listen: Annotated[str | None, "listen/@type"] = "none"


@dataclass(frozen=True)
class Video(Page):
    """The emulated graphics adapter beside the passed-through GPU."""

    TAG: ClassVar[str] = "video"

    model: Annotated[str | None, "model/@type"] = None
    heads: Annotated[int | None, "model/@heads"] = 1


@dataclass(frozen=True, kw_only=True)
class Domain(Page):
    """A ``<domain>``. A field that is ``None``, ``False`` or empty is not written."""

    TAG: ClassVar[str] = "domain"

    type: Annotated[str, "@type"] = "kvm"
    name: Annotated[str | None, "name"] = None
    uuid: Annotated[str | None, "uuid"] = None
    memory_unit: Annotated[str | None, "memory/@unit"] = "b"
    memory: Annotated[int | None, "memory"] = None
    hugepages: Annotated[bool, "memoryBacking/hugepages"] = False
    pages: Annotated[tuple[HugePageElement, ...], "memoryBacking/hugepages"] = ()
    memory_source: Annotated[str | None, "memoryBacking/source/@type"] = None
    allocation: Annotated[str | None, "memoryBacking/allocation/@mode"] = None
    vcpus_placement: Annotated[str | None, "vcpu/@placement"] = "static"
    vcpus: Annotated[int | None, "vcpu"] = None
    vcpu_pins: Annotated[tuple[VcpuPinElement, ...], "cputune"] = ()
    emulator_cpus: Annotated[str | None, "cputune/emulatorpin/@cpuset"] = None
    numa_mode: Annotated[str | None, "numatune/memory/@mode"] = None
    numa_nodes: Annotated[str | None, "numatune/memory/@nodeset"] = None
    memnodes: Annotated[tuple[MemNodeElement, ...], "numatune"] = ()
    arch: Annotated[str | None, "os/type/@arch"] = None
    machine: Annotated[str | None, "os/type/@machine"] = None
    os_type: Annotated[str | None, "os/type"] = "hvm"
    boot_device: Annotated[str | None, "os/boot/@dev"] = None
    acpi: Annotated[bool, "features/acpi"] = False
    dedicated_hint: Annotated[str | None, "features/kvm/hint-dedicated/@state"] = None
    cpu_mode: Annotated[str | None, "cpu/@mode"] = None
    cpu_match: Annotated[str | None, "cpu/@match"] = None
    cpu_model: Annotated[str | None, "cpu/model"] = None
    sockets: Annotated[int | None, "cpu/topology/@sockets"] = None
    cores: Annotated[int | None, "cpu/topology/@cores"] = None
    threads: Annotated[int | None, "cpu/topology/@threads"] = None
    cells: Annotated[tuple[NumaCellElement, ...], "cpu/numa"] = ()
    disks: Annotated[tuple[DiskElement, ...], "devices"] = ()
    controllers: Annotated[tuple[Controller, ...], "devices"] = ()
    graphics: Annotated[tuple[Graphics, ...], "devices"] = ()
    video: Annotated[tuple[Video, ...], "devices"] = ()
    hostdevs: Annotated[tuple[Hostdev, ...], "devices"] = ()
    overrides: Annotated[tuple[OverriddenDevice, ...], "qemu:override"] = ()
