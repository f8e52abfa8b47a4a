"""The ``<hostdev>`` element, declared: every attribute and child that is ever written, in order (K-7.14 to K-7.17, K-7.21).

Two converters write it. :data:`KUBEVIRT` is what KubeVirt hands to libvirt, byte for byte comparable with it. :data:`LIBVIRT` is
what libvirt's schema allows: the schema is stricter than libvirt's parser, which ignores what it does not know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from launcher.mdev import MdevUuid
from launcher.pci import PciAddress
from launcher.usb import UsbAddress
from launcher.xml import Page, Property

HostAddress = PciAddress | MdevUuid | UsbAddress

ALIAS_PREFIX = "ua-"
"""libvirt keeps only aliases of users that start like this (K-14.2)."""
_ALIAS = re.compile(r"[A-Za-z0-9_-]+")
"""Others libvirt silently drops; its schema takes a dot too, to no use."""


@dataclass(frozen=True)
class Hostdev(Page):
    """A ``<hostdev>``. A field that is ``None`` is not written."""

    TAG: ClassVar[str] = "hostdev"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("type", attribute="type"),
        Property("managed", attribute="managed"),
        Property("mode", attribute="mode"),
        Property("model", attribute="model"),
        Property("display", attribute="display"),
        Property("ramfb", attribute="ramfb"),
        Property("source_type", "source/address", "type"),
        Property("source_domain", "source/address", "domain"),
        Property("source_bus", "source/address", "bus"),
        Property("source_slot", "source/address", "slot"),
        Property("source_function", "source/address", "function"),
        Property("source_device", "source/address", "device"),
        Property("source_uuid", "source/address", "uuid"),
        Property("guest_type", "address", "type"),
        Property("guest_domain", "address", "domain"),
        Property("guest_bus", "address", "bus"),
        Property("guest_slot", "address", "slot"),
        Property("guest_function", "address", "function"),
        Property("boot_order", "boot", "order"),
        Property("alias", "alias", "name"),
    )

    type: str
    alias: str | None
    managed: str | None = None
    mode: str | None = None
    model: str | None = None
    display: str | None = None
    ramfb: str | None = None
    source_type: str | None = None
    source_domain: str | None = None
    source_bus: str | None = None
    source_slot: str | None = None
    source_function: str | None = None
    source_device: str | None = None
    source_uuid: str | None = None
    guest_type: str | None = None
    guest_domain: str | None = None
    guest_bus: str | None = None
    guest_slot: str | None = None
    guest_function: str | None = None
    boot_order: int | None = None

    @property
    def is_mdev(self) -> bool:
        return self.type == "mdev"

    @property
    def takes_a_pcie_port(self) -> bool:
        """Whether the guest sees it as a PCI Express device for which libvirt picks the place."""
        return self.guest_type is None and (self.type == "pci" or self.model == "vfio-pci")

    def shown(self, ramfb: bool) -> Hostdev:
        """The same device with a display, and with a boot framebuffer if asked (K-7.18)."""
        return replace(self, display="on", ramfb="on" if ramfb else None)


def pci(address: PciAddress, alias: str) -> Hostdev:
    """A PCI function, left bound as it is (K-7.14). ``alias`` comes without libvirt's prefix."""
    return Hostdev(
        type="pci",
        managed="no",
        source_type="pci",
        source_domain=f"0x{address.domain}",
        source_bus=f"0x{address.bus}",
        source_slot=f"0x{address.slot}",
        source_function=f"0x{address.function}",
        alias=ALIAS_PREFIX + alias,
    )


def mdev(uuid: MdevUuid, alias: str, model: str = "vfio-pci") -> Hostdev:
    """A mediated device (K-7.15). ``model`` is ``vfio-pci`` or, on s390x, ``vfio-ap``."""
    return Hostdev(type="mdev", mode="subsystem", model=model, source_uuid=uuid.text, alias=ALIAS_PREFIX + alias)


def usb(address: UsbAddress, alias: str) -> Hostdev:
    """A USB device (K-7.16)."""
    return Hostdev(type="usb", mode="subsystem", source_bus=address.bus, source_device=address.device, alias=ALIAS_PREFIX + alias)


def at_guest_address(device: Hostdev, address: PciAddress) -> Hostdev:
    """The same device at a fixed place in the guest (K-7.21)."""
    return replace(
        device,
        guest_type="pci",
        guest_domain=f"0x{address.domain}",
        guest_bus=f"0x{address.bus}",
        guest_slot=f"0x{address.slot}",
        guest_function=f"0x{address.function}",
    )


@dataclass(frozen=True)
class Dialect:
    """How an element is written for a reader. The differences are facts about that reader."""

    name: str
    source_address_type: bool
    """``type="pci"`` on the source address: KubeVirt writes it, libvirt's schema does not know it there (seen at 9.0)."""
    pci_display: bool
    """``display`` and ``ramfb`` on PCI devices: written by KubeVirt 1.9 (K-7.19); libvirt 9.0 drops them, its schema refuses them."""
    any_alias: bool
    """Aliases with any character: libvirt silently drops those outside its set, its schema refuses them."""

    def converted(self, device: Hostdev) -> tuple[Hostdev, tuple[str, ...]]:
        """The element for this reader, and one sentence for each thing that had to be left out."""
        lost: list[str] = []
        if not self.source_address_type:
            device = replace(device, source_type=None)
        if not self.pci_display and not device.is_mdev and device.display is not None:
            lost.append("display and ramfb of a PCI device are left out of the domain: libvirt's schema has them for mdevs only")
            device = replace(device, display=None, ramfb=None)
        if not self.any_alias and device.alias is not None and _ALIAS.fullmatch(device.alias) is None:
            lost.append(f"alias {device.alias!r} is left out of the domain: libvirt takes letters, digits, '_' and '-' only")
            device = replace(device, alias=None)
        return device, tuple(lost)


KUBEVIRT = Dialect("KubeVirt", source_address_type=True, pci_display=True, any_alias=True)
LIBVIRT = Dialect("libvirt", source_address_type=False, pci_display=False, any_alias=False)
