"""The ``<domain>``: the smallest one that libvirt accepts and that can hold the VMI's host devices.

The launcher that runs the VM adds what the devices don't depend on: networks, consoles, firmware, CPU pinning.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.conversion import ConvertedDevice
from launcher.elements.disks import DiskElement, disks
from launcher.elements.domain import Controller, Domain, Graphics, Video
from launcher.elements.hostdev import LIBVIRT, Dialect, Hostdev
from launcher.elements.page import XmlTextError, checked_text
from launcher.errors import INVALID_DOMAIN, UNWRITABLE_TEXT, AddressSyntaxError, LauncherError
from launcher.host_addresses.mdev import MdevUuid
from virt_dra.api.kubevirt_v1 import CPU, VirtualMachineInstance
from virt_dra.api.quantity import Quantity

DEFAULT_MEMORY = Quantity("1Gi")
"""For a VMI without memory. KubeVirt refuses it at admission; in a unit test it may be left out."""
_LARGEST_MEMORY = 2**63 - 1
_MOST_CPUS = 2**16 - 1
"""Limits of libvirt's schema; machine types have lower ones."""
_MACHINE_TYPE = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Architecture:
    """libvirt's names and defaults for a CPU architecture."""

    arch: str
    type: str
    is_pcie: bool
    acpi: bool
    video: str


MACHINES: Mapping[str, Architecture] = {
    "amd64": Architecture("x86_64", "q35", is_pcie=True, acpi=True, video="vga"),
    # There ACPI needs UEFI firmware, which the launcher adds.
    "arm64": Architecture("aarch64", "virt", is_pcie=True, acpi=False, video="virtio"),
    "s390x": Architecture("s390x", "s390-ccw-virtio", is_pcie=False, acpi=False, video="virtio"),
}


def domain(
    vmi: VirtualMachineInstance, devices: tuple[ConvertedDevice, ...], dialect: Dialect = LIBVIRT
) -> tuple[Domain, tuple[str, ...]]:
    """The domain, and a sentence for everything that the dialect can't express. Raises :class:`LauncherError` naming
    the field."""
    machine = _machine(vmi)
    converted = [(device, *dialect.converted(device.element)) for device in devices]
    hostdevs = tuple(element for _, element, _ in converted)
    shown = any(element.display == "on" for element in hostdevs)
    name = _name(vmi)
    drives = disks(vmi)
    _check_boot_orders(drives, devices)
    sockets, cores, threads = _topology(vmi)
    mode, match, model = _cpu_model(vmi.spec.domain.cpu)
    type_ = vmi.spec.domain.machine.type if vmi.spec.domain.machine else ""
    page = Domain(
        name=name,
        uuid=_uuid(vmi, name),
        memory=_memory(vmi),
        hugepages=bool(vmi.spec.domain.memory and vmi.spec.domain.memory.hugepages),
        sockets=sockets,
        cores=cores,
        threads=threads,
        cpu_mode=mode,
        cpu_match=match,
        cpu_model=model,
        arch=machine.arch,
        machine=_machine_type(type_ or machine.type),
        boot_device=_boot_device(drives, hostdevs),
        acpi=machine.acpi,
        disks=drives,
        controllers=_pcie_ports(machine, type_, hostdevs),
        hostdevs=hostdevs,
        graphics=(Graphics(),) if shown else (),
        video=(Video(machine.video),) if shown else (),
    )
    return page, tuple(f"{device.device}: {sentence}" for device, _, lost in converted for sentence in lost)


def _machine(vmi: VirtualMachineInstance) -> Architecture:
    architecture = vmi.spec.architecture or "amd64"
    machine = MACHINES.get(architecture)
    if machine is None:
        raise _invalid("spec.architecture", f"{architecture!r} is not one of {', '.join(MACHINES)}")
    return machine


def _machine_type(type_: str) -> str:
    if _MACHINE_TYPE.fullmatch(type_) is None:
        raise _invalid("spec.domain.machine.type", f"{type_!r} is no machine type; write for example q35")
    return type_


def _name(vmi: VirtualMachineInstance) -> str:
    """``<namespace>_<name>``, as in KubeVirt. A VMI without a name (a fragment in a test) gets one from its
    generateName."""
    name = vmi.name or vmi.metadata.generate_name.rstrip("-") or "vmi"
    return _plain(vmi.namespace or "default", "metadata.namespace") + "_" + _plain(name, "metadata.name")


def _plain(text: str, field: str) -> str:
    """The text, as part of a domain's name: libvirt keeps a file per domain, so it has no slash and no line break."""
    if "/" in text or "\n" in text:
        raise _invalid(field, f"{text!r} contains '/' or a line break, which libvirt doesn't accept in a domain's name")
    return _text(text, field)


def _text(text: str, field: str) -> str:
    try:
        return checked_text(text)
    except XmlTextError as error:
        raise LauncherError(UNWRITABLE_TEXT, field, f"{field}: {error}") from None


def _uuid(vmi: VirtualMachineInstance, name: str) -> str:
    """The VMI's uid, else a UUID derived from the domain's name, so that the same VMI can be defined again."""
    try:
        return MdevUuid.parse(vmi.metadata.uid).text
    except AddressSyntaxError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"kubevirt.io/{name}"))


def _memory(vmi: VirtualMachineInstance) -> int:
    """Memory in bytes: ``domain.memory.guest``, else the request, else the limit, else :data:`DEFAULT_MEMORY`."""
    spec = vmi.spec.domain
    choices = {
        "spec.domain.memory.guest": spec.memory.guest if spec.memory else None,
        "spec.domain.resources.requests.memory": spec.resources.requests.get("memory"),
        "spec.domain.resources.limits.memory": spec.resources.limits.get("memory"),
    }
    field, memory = next(((field, q) for field, q in choices.items() if q is not None), ("", DEFAULT_MEMORY))
    count = memory.value()
    if not 0 < count <= _LARGEST_MEMORY:
        raise _invalid(field, f"{memory} is no amount of memory for a guest; write for example 2Gi")
    return count


def _topology(vmi: VirtualMachineInstance) -> tuple[int, int, int]:
    """Sockets, cores, threads: 0 and absent mean 1; without any, the CPU limit or request counts as sockets, as in
    KubeVirt."""
    cpu, resources = vmi.spec.domain.cpu or CPU(), vmi.spec.domain.resources
    given = {"sockets": cpu.sockets or 0, "cores": cpu.cores or 0, "threads": cpu.threads or 0}
    if not any(given.values()):
        wanted = resources.limits.get("cpu", resources.requests.get("cpu"))
        given["sockets"] = wanted.value() if wanted is not None else 1
    sockets, cores, threads = (count or 1 for count in given.values())
    if min(sockets, cores, threads) < 1 or sockets * cores * threads > _MOST_CPUS:
        raise _invalid(
            "spec.domain.cpu",
            f"{sockets} sockets of {cores} cores of {threads} threads are no topology; "
            f"all must be positive, together at most {_MOST_CPUS}",
        )
    return sockets, cores, threads


def _cpu_model(cpu: CPU | None) -> tuple[str | None, str | None, str | None]:
    """``mode``, ``match`` and model name. KubeVirt's special model names are modes; without a model libvirt chooses."""
    if cpu is None or not cpu.model:
        return None, None, None
    if cpu.model in ("host-model", "host-passthrough"):
        return cpu.model, None, None
    return "custom", "exact", _text(cpu.model, "spec.domain.cpu.model")


def _boot_device(drives: tuple[DiskElement, ...], hostdevs: tuple[Hostdev, ...]) -> str | None:
    """The first disk, unless devices have a boot order of their own: libvirt accepts only one of the two (K-14.1)."""
    orders = [drive.boot_order for drive in drives] + [device.boot_order for device in hostdevs]
    return "hd" if all(order is None for order in orders) else None


def _check_boot_orders(drives: tuple[DiskElement, ...], devices: tuple[ConvertedDevice, ...]) -> None:
    seen: dict[int, str] = {}
    ordered = [(f"disks/{drive.volume}", drive.boot_order) for drive in drives]
    ordered += [(device.device, device.element.boot_order) for device in devices]
    for name, order in ordered:
        if order is None:
            continue
        if order < 1:
            raise _invalid(f"{name}.bootOrder", f"{order} must be 1 or more")
        if order in seen:
            raise _invalid(f"{name}.bootOrder", f"{order} is also that of {seen[order]}; libvirt wants each order once")
        seen[order] = name


def _pcie_ports(machine: Architecture, type_: str, hostdevs: tuple[Hostdev, ...]) -> tuple[Controller, ...]:
    """The root, and a root port for each device without a guest address. libvirt adds ports for its own devices."""
    if not machine.is_pcie or re.fullmatch(r"pc|pc-i440fx.*", type_):
        return ()
    ports = sum(device.takes_a_pcie_port for device in hostdevs)
    return (Controller(0, "pcie-root"), *(Controller(index, "pcie-root-port") for index in range(1, ports + 1)))


def _invalid(field: str, reason: str) -> LauncherError:
    return LauncherError(INVALID_DOMAIN, field, f"{field}: {reason}" if field else reason)
