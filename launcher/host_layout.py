"""A VMI's layout on a host whose topology is known: its vCPUs are pinned, its NUMA cells made, its devices placed.

Rules: K-8.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.elements.domain import Controller
from launcher.elements.hostdev import behind_port
from launcher.errors import invalid_domain
from launcher.guest_shape import cpu_shape, memory_of
from launcher.host_addresses.pci import PciAddress
from launcher.layout import GuestLayout
from launcher.placement.guest import GuestTopology
from launcher.placement.host import HostTopology
from launcher.placement.numa import GuestNuma, NumaCell, mirrored_cells
from launcher.placement.pinning import pin
from launcher.placement.placing import FunctionToPlace, TakenNumbers, kubevirt_rule, place
from virt_dra.api.integration.dedicated_cpus import emulator_threads, has_dedicated_cpus
from virt_dra.api.integration.pci_placement import PciPlacementChoice
from virt_dra.api.kubevirt_v1 import CPU, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import V1_8_0, V1_9_0
from virt_dra.api.quantity import Quantity

_MEMFD = "kubevirt.io/memfd"


def on_host(
    inputs: ConversionInputs,
    devices: tuple[ConvertedDevice, ...],
    root: tuple[Controller, ...],
    host: HostTopology,
    cpus: Collection[int] | None,
    choice: PciPlacementChoice,
) -> GuestLayout:
    """The layout. ``root``: the guest's PCIe root, if its machine has one. Raises
    :class:`launcher.errors.LauncherError`."""
    vmi = inputs.vmi
    numa = _numa(vmi, host, cpus)
    if not root or not (choice.by_numa_node or (numa is not None and inputs.version >= V1_8_0)):
        return GuestLayout(devices, root, numa)
    strict = choice.strict or (numa is not None and _mirrors_host(vmi) and inputs.version >= V1_9_0)
    functions = [
        FunctionToPlace(str(position), device.address, has_guest_address=device.element.guest_type is not None)
        for position, device in enumerate(devices)
        if isinstance(device.address, PciAddress)
    ]
    rule = kubevirt_rule(inputs.version, strict=strict, by_pcie_root=choice.by_pcie_root)
    guest = numa.topology if numa is not None else GuestTopology()
    placement = place(functions, guest, host, rule, TakenNumbers(frozenset({0})))
    placed = list(devices)
    for key, port in placement.ports.items():
        device = devices[int(key)]
        placed[int(key)] = replace(device, element=behind_port(device.element, port))
    return GuestLayout(tuple(placed), (*root, *placement.controllers), numa, placement.warnings)


def _mirrors_host(vmi: VirtualMachineInstance) -> bool:
    numa = (vmi.spec.domain.cpu or CPU()).numa
    return numa is not None and numa.guest_mapping_passthrough is not None


def _numa(vmi: VirtualMachineInstance, host: HostTopology, cpus: Collection[int] | None) -> GuestNuma | None:
    """The NUMA of a guest with dedicated CPUs. One that doesn't mirror the host's has a single cell where its memory is
    a file of huge pages, which libvirt demands of it."""
    if not has_dedicated_cpus(vmi):
        return None
    shape, memory, page_size = cpu_shape(vmi), memory_of(vmi), _page_size(vmi)
    if cpus is None:
        cpus = [cpu for numbers in host.nodes.values() for cpu in numbers]
    emulator = emulator_threads(vmi, shape.vcpus)
    pinning = pin(shape, host, cpus, one_node_per_core=_mirrors_host(vmi), emulator_threads=emulator)
    memory_is_file = page_size is not None and vmi.metadata.annotations.get(_MEMFD) != "false"
    cells: tuple[NumaCell, ...] = ()
    if _mirrors_host(vmi):
        cells = mirrored_cells(pinning.vcpus, host, memory, page_size)
    elif memory_is_file:
        cells = (NumaCell(0, tuple(range(shape.vcpus)), memory),)
    return GuestNuma(pinning, cells, page_size, memory_is_file)


def _page_size(vmi: VirtualMachineInstance) -> int | None:
    """The size of its huge pages in bytes; None without."""
    memory = vmi.spec.domain.memory
    if memory is None or memory.hugepages is None:
        return None
    text = memory.hugepages.get("pageSize")
    try:
        size = Quantity(text).value() if isinstance(text, str) else 0
    except ValueError:
        size = 0
    if size < 1:
        raise invalid_domain("spec.domain.memory.hugepages.pageSize", f"{text!r} is no size; write for example 2Mi")
    return size
