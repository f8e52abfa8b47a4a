"""The annotation of a VMI (of a VM: of its template) that says how its passed-through devices are placed.

``virt-dra.io/pci-placement: numa`` groups them by guest NUMA cell, as KubeVirt does and as is the default;
``pcie-root`` also by the host's PCIe root, so that the guest sees which devices share one.
"""

from __future__ import annotations

from typing import Final

from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

PCI_PLACEMENT_ANNOTATION: Final = "virt-dra.io/pci-placement"
BY_NUMA_CELL: Final = "numa"
BY_PCIE_ROOT: Final = "pcie-root"


def pci_placement(vmi: VirtualMachineInstance) -> str:
    """:data:`BY_NUMA_CELL` or :data:`BY_PCIE_ROOT`. Raises ValueError for another value."""
    value = vmi.metadata.annotations.get(PCI_PLACEMENT_ANNOTATION, BY_NUMA_CELL)
    if value not in (BY_NUMA_CELL, BY_PCIE_ROOT):
        raise ValueError(f"{value!r} is not one of {BY_NUMA_CELL}, {BY_PCIE_ROOT}")
    return value
