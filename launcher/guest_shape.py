"""The shape of a VMI's guest, whatever its devices: its machine, its memory, its CPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.errors import invalid_domain
from virt_dra.api.kubevirt_v1 import CPU, VirtualMachineInstance
from virt_dra.api.quantity import Quantity

DEFAULT_MEMORY = Quantity("1Gi")
"""For a VMI without memory. KubeVirt refuses it at admission; in a unit test it may be left out."""
_LARGEST_MEMORY = 2**63 - 1
_MOST_CPUS = 2**16 - 1
"""Limits of libvirt's schema; machine types have lower ones."""


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


@dataclass(frozen=True)
class CpuShape:
    """A guest's sockets, the cores of each, the threads of each core."""

    sockets: int
    cores: int
    threads: int

    @property
    def vcpus(self) -> int:
        return self.sockets * self.cores * self.threads


def machine_of(vmi: VirtualMachineInstance) -> Architecture:
    """The machine of its architecture. Raises :class:`launcher.errors.LauncherError`."""
    architecture = vmi.spec.architecture or "amd64"
    machine = MACHINES.get(architecture)
    if machine is None:
        raise invalid_domain("spec.architecture", f"{architecture!r} is not one of {', '.join(MACHINES)}")
    return machine


def has_pcie_root(vmi: VirtualMachineInstance) -> bool:
    """True if the machine has PCI Express, unlike those of type ``pc``."""
    type_ = vmi.spec.domain.machine.type if vmi.spec.domain.machine else ""
    return machine_of(vmi).is_pcie and not re.fullmatch(r"pc|pc-i440fx.*", type_)


def memory_of(vmi: VirtualMachineInstance) -> int:
    """Memory in bytes: ``domain.memory.guest``, else the request, else the limit, else :data:`DEFAULT_MEMORY`. Raises
    :class:`launcher.errors.LauncherError`."""
    spec = vmi.spec.domain
    choices = {
        "spec.domain.memory.guest": spec.memory.guest if spec.memory else None,
        "spec.domain.resources.requests.memory": spec.resources.requests.get("memory"),
        "spec.domain.resources.limits.memory": spec.resources.limits.get("memory"),
    }
    field, memory = next(((field, q) for field, q in choices.items() if q is not None), ("", DEFAULT_MEMORY))
    count = memory.value()
    if not 0 < count <= _LARGEST_MEMORY:
        raise invalid_domain(field, f"{memory} is no amount of memory for a guest; write for example 2Gi")
    return count


def cpu_shape(vmi: VirtualMachineInstance) -> CpuShape:
    """The guest's CPUs: 0 and absent mean 1; without any, the CPU limit or request counts as sockets, as in KubeVirt.
    Raises :class:`launcher.errors.LauncherError`."""
    cpu, resources = vmi.spec.domain.cpu or CPU(), vmi.spec.domain.resources
    given = {"sockets": cpu.sockets or 0, "cores": cpu.cores or 0, "threads": cpu.threads or 0}
    if not any(given.values()):
        wanted = resources.limits.get("cpu", resources.requests.get("cpu"))
        given["sockets"] = wanted.value() if wanted is not None else 1
    shape = CpuShape(*(count or 1 for count in given.values()))
    if min(shape.sockets, shape.cores, shape.threads) < 1 or shape.vcpus > _MOST_CPUS:
        topology = f"{shape.sockets} sockets of {shape.cores} cores of {shape.threads} threads"
        cure = f"all must be positive, together at most {_MOST_CPUS}"
        raise invalid_domain("spec.domain.cpu", f"{topology} are no topology; {cure}")
    return shape
