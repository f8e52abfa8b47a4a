"""The annotations by which a VMI says how its passed-through devices are placed: KubeVirt's, and the values of ours
(K-8.13).

``none``: as KubeVirt does. ``numa-node``: by the NUMA node of the host, as KubeVirt does with its gate. ``pcie-root``:
by the host's PCIe root, too, so that the guest sees which devices share one. With ``,strict`` a device that can't be
placed on the guest cell of its node is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api.counting import cut_after


@dataclass(frozen=True)
class PciPlacementChoice:
    """What a value asks for; all False: nothing beyond what KubeVirt does."""

    by_numa_node: bool = False
    by_pcie_root: bool = False
    strict: bool = False


_SHOWN: Final = 70
"""The most characters of a wrong value in an error."""
NO_CHOICE: Final = "none"
PCI_PLACEMENT_CHOICES: Final[Mapping[str, PciPlacementChoice]] = {
    NO_CHOICE: PciPlacementChoice(),
    "numa-node": PciPlacementChoice(by_numa_node=True),
    "numa-node,strict": PciPlacementChoice(by_numa_node=True, strict=True),
    "pcie-root": PciPlacementChoice(by_numa_node=True, by_pcie_root=True),
    "pcie-root,strict": PciPlacementChoice(by_numa_node=True, by_pcie_root=True, strict=True),
}


ROOT_COMPLEX_ANNOTATION: Final = "kubevirt.io/placePCIDevicesOnRootComplex"
"""On VMIs, KubeVirt's own: ``true`` puts every PCI device on bus 0 of the guest (K-7.24)."""


def is_on_root_complex(annotations: Mapping[str, str]) -> bool:
    return annotations.get(ROOT_COMPLEX_ANNOTATION) == "true"


def pci_placement_choice(value: str) -> PciPlacementChoice:
    """The choice of a value; blanks don't count. Raises ValueError for another value."""
    choice = PCI_PLACEMENT_CHOICES.get(value.replace(" ", ""))
    if choice is None:
        raise ValueError(f"{cut_after(value, _SHOWN)!r} is not one of {'; '.join(PCI_PLACEMENT_CHOICES)}")
    return choice
