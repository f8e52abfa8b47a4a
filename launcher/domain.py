"""The ``<domain>``: the smallest one that libvirt accepts and that can hold the VMI's host devices.

The launcher that runs the VM adds what the devices don't depend on: networks, consoles, firmware.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from launcher.conversion import ConvertedDevice
from launcher.elements.disks import DiskElement, disks
from launcher.elements.domain import Controller, Domain, Graphics, Video
from launcher.elements.hostdev import LIBVIRT, Dialect, Hostdev
from launcher.elements.numa import HugePageElement, MemNodeElement, NumaCellElement, VcpuPinElement
from launcher.elements.overrides import as_display
from launcher.elements.page import text_of_field
from launcher.errors import AddressSyntaxError, invalid_domain
from launcher.guest_shape import MACHINES, cpu_shape, has_pcie_root, machine_of, memory_of
from launcher.host_addresses.mdev import MdevUuid
from launcher.hostdev_options import display_alias
from launcher.layout import GuestLayout
from launcher.placement.cpu_lists import cpu_list
from virt_dra.api.kubevirt_v1 import CPU, VirtualMachineInstance

if TYPE_CHECKING:
    from launcher.placement.numa import GuestNuma

_OF_LIBVIRT = ("usb", "memballoon")
"""Devices behind root ports that libvirt's QEMU driver gives to every domain."""
_BEHIND_PORTS = ("virtio", "scsi")
"""Buses of drives that take root ports: a virtio disk does, and on arm64 the controller of SCSI disks."""
_MACHINE_TYPE = re.compile(r"[A-Za-z0-9_.-]+")


def domain(
    vmi: VirtualMachineInstance, layout: GuestLayout, dialect: Dialect = LIBVIRT, spare_ports: int = 0
) -> tuple[Domain, tuple[str, ...]]:
    """The domain, and a sentence for everything that the dialect can't express. Raises :class:`LauncherError` naming
    the field."""
    machine = machine_of(vmi)
    converted = [(device, *dialect.converted(device.element)) for device in layout.devices]
    hostdevs = tuple(element for _, element, _ in converted)
    shown = any(element.display == "on" for element in hostdevs)
    name = _name(vmi)
    drives = disks(vmi)
    _check_boot_orders(vmi, drives, layout.devices)
    aliases = {device.device: element.alias for device, element, _ in converted}
    display = display_alias(vmi, aliases, has_adapter=shown)
    shape = cpu_shape(vmi)
    mode, match, model = _cpu_model(vmi.spec.domain.cpu)
    type_ = vmi.spec.domain.machine.type if vmi.spec.domain.machine else ""
    placed = (*layout.controllers, *_free_ports(layout, hostdevs, drives, spare_ports))
    orders = [*(drive.boot_order for drive in drives), *(device.boot_order for device in hostdevs)]
    page = Domain(
        name=name,
        uuid=_uuid(vmi, name),
        memory=memory_of(vmi),
        hugepages=bool(vmi.spec.domain.memory and vmi.spec.domain.memory.hugepages),
        vcpus=shape.vcpus,
        sockets=shape.sockets,
        cores=shape.cores,
        threads=shape.threads,
        cpu_mode=mode,
        cpu_match=match,
        cpu_model=model,
        arch=machine.arch,
        machine=_machine_type(type_ or machine.type),
        # libvirt accepts boot orders of devices or one boot device (K-14.1).
        boot_device="hd" if all(order is None for order in orders) else None,
        acpi=machine.acpi,
        disks=drives,
        controllers=placed if has_pcie_root(vmi) else (),
        hostdevs=hostdevs,
        graphics=(Graphics(),) if shown else (),
        video=(Video(machine.video),) if shown else (),
        overrides=(as_display(display),) if display is not None else (),
    )
    if layout.numa is not None:
        page = _with_numa(page, layout.numa)
    return page, tuple(f"{device.device}: {sentence}" for device, _, lost in converted for sentence in lost)


def _with_numa(page: Domain, numa: GuestNuma) -> Domain:
    """The domain with pinned vCPUs and NUMA cells."""
    mirrored = [cell for cell in numa.cells if cell.node is not None]
    page_size = numa.page_size
    return page.with_(
        vcpu_pins=tuple(VcpuPinElement(vcpu, str(cpu)) for vcpu, cpu in enumerate(numa.pinning.vcpus)),
        emulator_cpus=cpu_list(numa.pinning.emulator) or None,
        cells=tuple(NumaCellElement(cell.id, cpu_list(cell.vcpus), cell.memory) for cell in numa.cells),
        memnodes=tuple(MemNodeElement(cell.id, str(cell.node)) for cell in mirrored),
        numa_mode="strict" if mirrored else None,
        numa_nodes=",".join(str(cell.node) for cell in mirrored) or None,
        pages=tuple(HugePageElement(page_size, str(cell.id)) for cell in mirrored) if page_size is not None else (),
        memory_source="memfd" if numa.memory_is_file else None,
        allocation="immediate" if mirrored else None,
        dedicated_hint="on" if page.arch == MACHINES["amd64"].arch else None,
    )


def _free_ports(
    layout: GuestLayout, hostdevs: tuple[Hostdev, ...], drives: tuple[DiskElement, ...], spare: int
) -> tuple[Controller, ...]:
    """A root port for each device without a guest address, and if ``spare`` is given so many more, beside as many as
    libvirt takes for its own devices."""
    first = len(layout.controllers)
    count = sum(device.takes_a_pcie_port for device in hostdevs)
    if spare:
        count += spare + len(_OF_LIBVIRT) + sum(drive.bus in _BEHIND_PORTS for drive in drives)
    return tuple(Controller(index, "pcie-root-port") for index in range(first, first + count))


def _machine_type(type_: str) -> str:
    if _MACHINE_TYPE.fullmatch(type_) is None:
        raise invalid_domain("spec.domain.machine.type", f"{type_!r} is no machine type; write for example q35")
    return type_


def _name(vmi: VirtualMachineInstance) -> str:
    """``<namespace>_<name>``, as in KubeVirt. A VMI without a name (a fragment in a test) gets one from its
    generateName."""
    name = vmi.name or vmi.metadata.generate_name.rstrip("-") or "vmi"
    return _plain(vmi.namespace or "default", "metadata.namespace") + "_" + _plain(name, "metadata.name")


def _plain(text: str, field: str) -> str:
    """The text, as part of a domain's name: libvirt keeps a file per domain, so it has no slash and no line break."""
    if "/" in text or "\n" in text:
        fault = f"{text!r} contains '/' or a line break, which libvirt doesn't accept in a domain's name"
        raise invalid_domain(field, fault)
    return text_of_field(text, field)


def _uuid(vmi: VirtualMachineInstance, name: str) -> str:
    """The VMI's uid, else a UUID derived from the domain's name, so that the same VMI can be defined again."""
    try:
        return MdevUuid.parse(vmi.metadata.uid).text
    except AddressSyntaxError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"kubevirt.io/{name}"))


def _cpu_model(cpu: CPU | None) -> tuple[str | None, str | None, str | None]:
    """``mode``, ``match`` and model name. KubeVirt's special model names are modes; without a model libvirt chooses."""
    if cpu is None or not cpu.model:
        return None, None, None
    if cpu.model in ("host-model", "host-passthrough"):
        return cpu.model, None, None
    return "custom", "exact", text_of_field(cpu.model, "spec.domain.cpu.model")


def _check_boot_orders(
    vmi: VirtualMachineInstance, drives: tuple[DiskElement, ...], devices: tuple[ConvertedDevice, ...]
) -> None:
    seen: dict[int, str] = {}
    entries = zip(vmi.spec.domain.devices.disks, drives, strict=True)
    ordered = [(f"disks/{entry.name}", drive.boot_order) for entry, drive in entries]
    ordered += [(device.device, device.element.boot_order) for device in devices]
    for name, order in ordered:
        if order is None:
            continue
        if order < 1:
            raise invalid_domain(f"{name}.bootOrder", f"{order} must be 1 or more")
        if order in seen:
            fault = f"{order} is also that of {seen[order]}; libvirt wants each order once"
            raise invalid_domain(f"{name}.bootOrder", fault)
        seen[order] = name
