"""Checks that a node is ready for a domain's devices, before libvirt tries.

libvirt's own text for a device that isn't there is "An error occurred, but the cause is unknown". Pure:
:mod:`launcher.process.host_state` reads the state that is judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from launcher.conversion import ConvertedDevice
from launcher.elements.domain import Domain
from launcher.errors import LauncherError
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress
from launcher.placement.cpu_lists import parse_cpu_list
from launcher.process.waiting import Waiting

NO_SUCH_FUNCTION: Final = "NoSuchFunction"
"""The node has no PCI function with this address."""
NO_SUCH_MDEV: Final = "NoSuchMdev"
"""The node has no mediated device with this UUID (yet)."""
NO_IOMMU_GROUP: Final = "NoIommuGroup"
"""The device is in no IOMMU group, so that it can't be passed through."""
NOT_ON_VFIO: Final = "NotOnVfio"
"""The function is bound to no VFIO driver (yet)."""
GROUP_IN_USE: Final = "GroupInUse"
"""Another function of the IOMMU group is bound to a driver that does DMA of its own (K-8.9)."""
NO_DEVICE_NODE: Final = "NoDeviceNode"
"""The container has no device node for the device (yet) (K-8.9)."""
NODE_NOT_ACCESSIBLE: Final = "NodeNotAccessible"
"""The launcher may not read and write a device node."""
MEMLOCK_TOO_LOW: Final = "MemlockTooLow"
"""The memory of the guest can't be locked, which DMA of the device needs (K-8.8)."""
TOO_FEW_HUGEPAGES: Final = "TooFewHugepages"
"""The node has too few free huge pages for the guest (yet)."""

CPUS_NOT_EXCLUSIVE: Final = "CpusNotExclusive"
"""The launcher may use more CPUs than a guest with dedicated CPUs has: others use them, too (K-8.1)."""

GIBIBYTE: Final = 1024**3
_HARMLESS_DRIVERS: Final = frozenset(("", "pci-stub", "pcieport"))
VFIO_CONTAINER: Final = "/dev/vfio/vfio"


class NodeAccess(Enum):
    """Whether the launcher can use a device node."""

    ABSENT = "absent"
    DENIED = "denied"
    USABLE = "usable"


@dataclass(frozen=True)
class FunctionState:
    """A PCI function in sysfs. ``driver``, ``iommu_group``: "" for none; ``is_vfio``: its driver is one of VFIO's;
    ``companions``: the other functions of its IOMMU group; ``cdev``: VFIO's character device, ``vfio0``, "" for none.
    """

    driver: str = ""
    is_vfio: bool = False
    is_bridge: bool = False
    iommu_group: str = ""
    cdev: str = ""
    companions: Mapping[str, FunctionState] = field(default_factory=dict)

    @property
    def spoils_its_group(self) -> bool:
        """True if the kernel gives no other function of the group to VFIO because of this one."""
        return not (self.is_vfio or self.is_bridge or self.driver in _HARMLESS_DRIVERS)


@dataclass(frozen=True)
class HostState:
    """What was read of a node for a domain's devices.

    ``functions`` and ``mdevs`` (UUID -> IOMMU group): those that exist, by :attr:`identity` of their addresses.
    ``device_nodes``: those that were looked for. ``cpus``: those that the launcher may use. ``memlock``: the hard limit
    in bytes of what QEMU may lock; None if there is none or it can be raised. ``free_hugepages``: in bytes.
    """

    functions: Mapping[str, FunctionState] = field(default_factory=dict)
    mdevs: Mapping[str, str] = field(default_factory=dict)
    device_nodes: Mapping[str, NodeAccess] = field(default_factory=dict)
    memlock: int | None = None
    free_hugepages: int = 0
    cpus: frozenset[int] = frozenset()


@dataclass(frozen=True)
class NodeFault:
    """Why a domain can't start on the node. ``may_pass``: waiting may remedy it."""

    reason: str
    subject: str
    message: str
    may_pass: bool


def check(domain: Domain, devices: Sequence[ConvertedDevice], state: HostState) -> Waiting | None:
    """What the domain waits for; None if it can start. Raises :class:`LauncherError` with all faults that waiting
    doesn't remedy."""
    faults = tuple(node_faults(domain, devices, state))
    lasting = [fault for fault in faults if not fault.may_pass]
    if lasting:
        message = "; ".join(fault.message for fault in lasting)
        raise LauncherError(lasting[0].reason, lasting[0].subject, message)
    return Waiting("; ".join(fault.message for fault in faults)) if faults else None


def node_faults(domain: Domain, devices: Sequence[ConvertedDevice], state: HostState) -> Iterator[NodeFault]:
    """Everything on the node that keeps the domain from starting, by device, then by memory and CPUs."""
    for device in devices:
        if isinstance(device.address, PciAddress):
            yield from _of_function(device, state)
        elif isinstance(device.address, MdevUuid):
            yield from _of_mdev(device, state)
        elif isinstance(device.address, UsbAddress):
            yield from _of_nodes(device, ((usb_node(device.address),),), state)
    if any(isinstance(device.address, PciAddress | MdevUuid) for device in devices):
        yield from _of_memlock(domain, state)
    yield from _of_cpus(domain, state)
    memory = domain.memory or 0
    if domain.hugepages and not domain.pages and state.free_hugepages < memory:  # pages: not of the default size
        message = (
            f"huge pages: {_mebibytes(state.free_hugepages)} of the node's default size are free, the guest has "
            f"{_mebibytes(memory)}; stop other users of huge pages, or raise vm.nr_hugepages"
        )
        yield NodeFault(TOO_FEW_HUGEPAGES, "spec.domain.memory.hugepages", message, may_pass=True)


def _of_function(device: ConvertedDevice, state: HostState) -> Iterator[NodeFault]:
    named = f"{device.device}: PCI function {device.address}"
    function = state.functions.get(device.address.identity)
    if function is None:
        message = f"{named} doesn't exist on this node; compare the address with lspci -D"
        yield NodeFault(NO_SUCH_FUNCTION, device.device, message, may_pass=False)
        return
    if not function.is_vfio and device.element.managed != "yes":
        bound = f"is bound to {function.driver}" if function.driver else "is bound to no driver"
        yield NodeFault(NOT_ON_VFIO, device.device, f"{named} {bound}; bind it to vfio-pci", may_pass=True)
    if not function.iommu_group:
        yield _no_group(device, named)
        return
    companions = sorted(function.companions.items())
    if spoiling := [f"{address} ({other.driver})" for address, other in companions if other.spoils_its_group]:
        others = f"shares IOMMU group {function.iommu_group} with {', '.join(spoiling)}"
        message = f"{named} {others}; bind all of the group to vfio-pci, or unbind what isn't passed through"
        yield NodeFault(GROUP_IN_USE, device.device, message, may_pass=True)
    if function.is_vfio:
        cdev = (f"/dev/vfio/devices/{function.cdev}",) if function.cdev else ()
        yield from _of_nodes(device, (group_nodes(function.iommu_group), cdev), state)


def _of_mdev(device: ConvertedDevice, state: HostState) -> Iterator[NodeFault]:
    named = f"{device.device}: mediated device {device.address}"
    group = state.mdevs.get(device.address.identity)
    if group is None:
        message = f"{named} doesn't exist on this node; the driver of its parent makes it"
        yield NodeFault(NO_SUCH_MDEV, device.device, message, may_pass=True)
    elif not group:
        yield _no_group(device, named)
    else:
        yield from _of_nodes(device, (group_nodes(group),), state)


def _no_group(device: ConvertedDevice, named: str) -> NodeFault:
    advice = "turn the IOMMU on in the firmware and on the kernel's command line (intel_iommu=on)"
    return NodeFault(NO_IOMMU_GROUP, device.device, f"{named} is in no IOMMU group; {advice}", may_pass=False)


def group_nodes(group: str) -> tuple[str, ...]:
    """The device nodes that a device of an IOMMU group is opened by."""
    return (VFIO_CONTAINER, f"/dev/vfio/{group}")


def usb_node(address: UsbAddress) -> str:
    """The device node of a USB device."""
    return f"/dev/bus/usb/{int(address.bus):03}/{int(address.device):03}"


def _of_nodes(device: ConvertedDevice, ways: Sequence[Sequence[str]], state: HostState) -> Iterator[NodeFault]:
    """The faults of the first way to open the device, unless one of the ways is usable as a whole."""
    ways = [way for way in ways if way]
    access = {node: state.device_nodes.get(node, NodeAccess.ABSENT) for way in ways for node in way}
    if any(all(access[node] is NodeAccess.USABLE for node in way) for way in ways):
        return
    for node in ways[0]:
        if access[node] is NodeAccess.ABSENT:
            message = f"{device.device}: the container has no {node}; its CDI device or device plugin must bring it"
            yield NodeFault(NO_DEVICE_NODE, device.device, message, may_pass=True)
        elif access[node] is NodeAccess.DENIED:
            message = f"{device.device}: {node} can't be read and written; give the launcher's user access to it"
            yield NodeFault(NODE_NOT_ACCESSIBLE, device.device, message, may_pass=False)


def _of_memlock(domain: Domain, state: HostState) -> Iterator[NodeFault]:
    needed = memlock_bytes(domain)
    if state.memlock is not None and state.memlock < needed:
        message = (
            f"the limit of locked memory is {_mebibytes(state.memlock)}, passed-through devices need "
            f"{_mebibytes(needed)}; raise the container runtime's LimitMEMLOCK, or allow CAP_SYS_RESOURCE"
        )
        yield NodeFault(MEMLOCK_TOO_LOW, "spec.domain.memory", message, may_pass=False)


def _of_cpus(domain: Domain, state: HostState) -> Iterator[NodeFault]:
    pinned = {cpu for pin in domain.vcpu_pins for cpu in parse_cpu_list(pin.cpuset)}
    pinned.update(parse_cpu_list(domain.emulator_cpus) if domain.emulator_cpus else ())
    if pinned and not state.cpus <= pinned:
        message = (
            f"the guest has {len(pinned)} CPUs to itself, but its pod may use {len(state.cpus)}, as others may, too; "
            "set the kubelet's cpuManagerPolicy to static, or take another node"
        )
        yield NodeFault(CPUS_NOT_EXCLUSIVE, "spec.domain.cpu.dedicatedCpuPlacement", message, may_pass=False)


def memlock_bytes(domain: Domain) -> int:
    """What libvirt lets a domain with VFIO devices lock: the guest's memory, and 1 GiB for the devices' own (K-8.8)."""
    return (domain.memory or 0) + GIBIBYTE


def _mebibytes(count: int) -> str:
    return f"{count / 1024**2:,.0f} MiB"
