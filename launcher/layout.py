"""The layout of a VMI on its host: pinned vCPUs, NUMA cells, and the guest addresses of its devices (K-8)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.elements.domain import Controller
from launcher.errors import UNKNOWN_PLACEMENT, LauncherError
from launcher.guest_shape import has_pcie_root
from launcher.placement.host import HostTopology
from virt_dra.api.integration.dedicated_cpus import has_dedicated_cpus
from virt_dra.api.integration.paths import PCI_PLACEMENT_ANNOTATION
from virt_dra.api.integration.pci_placement import NO_CHOICE, PciPlacementChoice, pci_placement_choice
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

if TYPE_CHECKING:
    from launcher.placement.numa import GuestNuma


@dataclass(frozen=True)
class GuestLayout:
    """The devices with their guest addresses, the controllers that these need, and the guest's NUMA; None if its vCPUs
    aren't pinned, or the host isn't known."""

    devices: tuple[ConvertedDevice, ...]
    controllers: tuple[Controller, ...]
    numa: GuestNuma | None = None
    warnings: tuple[str, ...] = ()


def layout(
    inputs: ConversionInputs,
    devices: tuple[ConvertedDevice, ...],
    host: HostTopology | None,
    cpus: Collection[int] | None,
) -> GuestLayout:
    """The layout on a host; ``cpus``: those of the pod, by default all. Devices are placed in a guest with dedicated
    CPUs (K-8.1), and where the VMI asks for it (K-8.13). Without a host libvirt places them. Raises
    :class:`launcher.errors.LauncherError`."""
    vmi = inputs.vmi
    root = (Controller(0, "pcie-root"),) if has_pcie_root(vmi) else ()
    choice = _choice(vmi)
    if host is None:
        unknown = f"{PCI_PLACEMENT_ANNOTATION} has no effect: the host's topology isn't known"
        return GuestLayout(devices, root, warnings=(unknown,) if choice.by_numa_node else ())
    from launcher.host_layout import on_host  # here, since most VMIs need none of it

    return on_host(inputs, devices, root, host, cpus, choice)


def _choice(vmi: VirtualMachineInstance) -> PciPlacementChoice:
    return placement_choice(vmi.metadata.annotations.get(PCI_PLACEMENT_ANNOTATION, NO_CHOICE))


def placement_choice(value: str) -> PciPlacementChoice:
    """What the value of the annotation says. Raises :class:`launcher.errors.LauncherError`."""
    try:
        return pci_placement_choice(value)
    except ValueError as error:
        field = f"metadata.annotations[{PCI_PLACEMENT_ANNOTATION}]"
        raise LauncherError(UNKNOWN_PLACEMENT, field, f"{PCI_PLACEMENT_ANNOTATION}: {error}") from None


def uses_host(vmi: VirtualMachineInstance) -> bool:
    """True if the VMI's domain depends on its host's topology."""
    return has_dedicated_cpus(vmi) or _choice(vmi).by_numa_node
