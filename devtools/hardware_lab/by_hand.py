"""What an administrator does with a machine's devices where no driver of DRA does it: binding, making and removing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from devtools.hardware_lab.machine import LabMachine

_PCI: Final = "/sys/bus/pci"
_MTTY: Final = "/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-1"
_HUGE_PAGES: Final = "/sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages"


@contextmanager
def bound_to_vfio(machine: LabMachine, *addresses: str) -> Iterator[None]:
    """PCI functions are bound to vfio-pci, whatever driver they had; then to none."""
    machine.check("modprobe", "vfio-pci")
    unbind = "[ ! -e $function/driver ] || basename $function > $function/driver/unbind"
    bind = f"echo vfio-pci > $function/driver_override; basename $function > {_PCI}/drivers_probe"
    functions = " ".join(f"{_PCI}/devices/{address}" for address in addresses)
    machine.check("sh", "-ec", f"for function in {functions}; do {unbind}; {bind}; done")
    try:
        yield
    finally:
        machine.check("sh", "-ec", f"for function in {functions}; do {unbind}; echo > $function/driver_override; done")


@contextmanager
def virtual_functions(machine: LabMachine, address: str, count: int) -> Iterator[tuple[str, ...]]:
    """The VFs of a physical function, which gets so many, without drivers."""
    folder = f"{_PCI}/devices/{address}"
    machine.check("sh", "-ec", f"echo 0 > {folder}/sriov_drivers_autoprobe; echo {count} > {folder}/sriov_numvfs")
    links = f"for link in {folder}/virtfn*; do basename $(readlink $link); done"
    try:
        yield tuple(machine.check("sh", "-c", links).split())
    finally:
        machine.check("sh", "-c", f"echo 0 > {folder}/sriov_numvfs")


@contextmanager
def mtty(machine: LabMachine, uuid: str) -> Iterator[None]:
    """A mediated device of the kernel's sample driver."""
    machine.check("modprobe", "mtty")
    machine.check("sh", "-c", f"echo {uuid} > {_MTTY}/create")
    try:
        yield
    finally:
        machine.check("sh", "-c", f"echo 1 > /sys/bus/mdev/devices/{uuid}/remove")


@contextmanager
def huge_pages(machine: LabMachine, count: int) -> Iterator[None]:
    """So many of 2 MiB are kept on each NUMA node."""
    keep = f"for pages in {_HUGE_PAGES}; do echo %d > $pages; done"
    mount = "mkdir -p /dev/hugepages; mountpoint -q /dev/hugepages || mount -t hugetlbfs hugetlbfs /dev/hugepages"
    machine.check("sh", "-ec", f"{keep % count}; {mount}")
    try:
        yield
    finally:
        machine.check("sh", "-c", keep % 0)
