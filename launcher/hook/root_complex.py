"""Devices on PCI bus 0 of the guest, where KubeVirt's own annotation puts all of them (K-7.24, K-11.20)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lxml import etree

from launcher.elements.hostdev import Hostdev, at_guest_address
from launcher.elements.page import element
from launcher.errors import UNPLACEABLE_DEVICE, LauncherError
from launcher.hook.domain_text import number, pci_source
from launcher.host_addresses.pci import HIGHEST_SLOT, PciAddress
from virt_dra.api.integration.pci_placement import ROOT_COMPLEX_ANNOTATION, is_on_root_complex
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

_KEPT_FREE: Final = frozenset((0x00, 0x01, 0x1B, 0x1F))
"""Slots that KubeVirt leaves to the root, VGA, sound and SATA."""


def place_on_root_complex(
    root: etree._Element, vmi: VirtualMachineInstance, left_out: Collection[etree._Element]
) -> list[str]:
    """Gives the PCI host devices without a guest address the next slots of bus 0, if the VMI's annotation asks for it:
    KubeVirt has done so with its own, so these are the hook's. Those ``left_out`` aren't placed. Returns a sentence for
    each. Raises :class:`LauncherError` where no slot is left."""
    if not is_on_root_complex(vmi.metadata.annotations):
        return []
    taken = _KEPT_FREE | {
        number(address.get("slot"))
        for address in root.iterfind("devices/*/address")
        if address.get("type") == "pci" and not number(address.get("domain", "0")) and number(address.get("bus")) == 0
    }
    free = iter([slot for slot in range(HIGHEST_SLOT + 1) if slot not in taken])
    changes = []
    for hostdev in root.iterfind("devices/hostdev"):
        source = pci_source(hostdev)
        if source is None or hostdev in left_out or hostdev.find("address") is not None:
            continue
        slot = next(free, None)
        if slot is None:
            message = f"{ROOT_COMPLEX_ANNOTATION}: no slot is left on the guest's PCI bus 0 for device {source}"
            raise LauncherError(UNPLACEABLE_DEVICE, f"metadata.annotations[{ROOT_COMPLEX_ANNOTATION}]", message)
        place = PciAddress("0000", "00", f"{slot:02x}", "0")
        hostdev.extend(element(at_guest_address(Hostdev("pci"), place)).findall("address"))
        changes.append(f"device {source}: placed at {place}")
    return changes
