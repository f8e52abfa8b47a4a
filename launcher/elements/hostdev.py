"""The ``<hostdev>`` element: a declaration of its attributes and children, in order (K-7.14 to K-7.17, K-7.21).

It is written in one of two dialects. :data:`KUBEVIRT` is what KubeVirt passes to libvirt, byte for byte.
:data:`LIBVIRT` is what libvirt's schema allows, which is stricter than libvirt's parser: that ignores unknown
attributes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from launcher.elements.page import Page
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress

HostAddress = PciAddress | MdevUuid | UsbAddress

ALIAS_PREFIX = "ua-"
"""The prefix that libvirt requires of user-defined aliases (K-14.2)."""
_ALIAS = re.compile(r"[A-Za-z0-9_-]+")
"""libvirt silently drops other aliases; its schema also accepts a dot, but the parser doesn't."""


@dataclass(frozen=True)
class Hostdev(Page):
    """A ``<hostdev>``. A field that is ``None`` is not written."""

    TAG: ClassVar[str] = "hostdev"

    type: Annotated[str, "@type"]
    managed: Annotated[str | None, "@managed"] = None
    mode: Annotated[str | None, "@mode"] = None
    model: Annotated[str | None, "@model"] = None
    display: Annotated[str | None, "@display"] = None
    ramfb: Annotated[str | None, "@ramfb"] = None
    iommufd: Annotated[str | None, "driver/@iommufd"] = None
    source_vendor: Annotated[str | None, "source/vendor/@id"] = None
    source_product: Annotated[str | None, "source/product/@id"] = None
    source_type: Annotated[str | None, "source/address/@type"] = None
    source_domain: Annotated[str | None, "source/address/@domain"] = None
    source_bus: Annotated[str | None, "source/address/@bus"] = None
    source_slot: Annotated[str | None, "source/address/@slot"] = None
    source_function: Annotated[str | None, "source/address/@function"] = None
    source_device: Annotated[str | None, "source/address/@device"] = None
    source_uuid: Annotated[str | None, "source/address/@uuid"] = None
    guest_type: Annotated[str | None, "address/@type"] = None
    guest_domain: Annotated[str | None, "address/@domain"] = None
    guest_bus: Annotated[str | None, "address/@bus"] = None
    guest_slot: Annotated[str | None, "address/@slot"] = None
    guest_function: Annotated[str | None, "address/@function"] = None
    guest_multifunction: Annotated[str | None, "address/@multifunction"] = None
    boot_order: Annotated[int | None, "boot/@order"] = None
    rom_bar: Annotated[str | None, "rom/@bar"] = None
    rom_file: Annotated[str | None, "rom/@file"] = None
    alias: Annotated[str | None, "alias/@name"] = None

    @property
    def is_mdev(self) -> bool:
        return self.type == "mdev"

    @property
    def takes_a_pcie_port(self) -> bool:
        """True for a PCI Express device whose guest address libvirt chooses."""
        return self.guest_type is None and (self.type == "pci" or self.model == "vfio-pci")

    def shown(self, ramfb: bool) -> Hostdev:
        """The same device with a display, and with a boot framebuffer if ``ramfb`` (K-7.18)."""
        return self.with_(display="on", ramfb="on" if ramfb else None)


def pci(address: PciAddress, alias: str) -> Hostdev:
    """The element of a PCI function, which libvirt leaves bound to its driver (K-7.14). ``alias``: without libvirt's
    prefix."""
    return Hostdev(
        type="pci", managed="no", source_type="pci", alias=ALIAS_PREFIX + alias,
        source_domain=f"0x{address.domain}", source_bus=f"0x{address.bus}",
        source_slot=f"0x{address.slot}", source_function=f"0x{address.function}",
    )  # fmt: skip


def mdev(uuid: MdevUuid, alias: str, model: str = "vfio-pci") -> Hostdev:
    """The element of a mediated device (K-7.15). ``model`` is ``vfio-pci`` or, on s390x, ``vfio-ap``."""
    return Hostdev(type="mdev", mode="subsystem", model=model, source_uuid=uuid.text, alias=ALIAS_PREFIX + alias)


def usb(address: UsbAddress, alias: str) -> Hostdev:
    """The element of a USB device (K-7.16)."""
    return Hostdev(
        type="usb", mode="subsystem", source_bus=address.bus, source_device=address.device, alias=ALIAS_PREFIX + alias
    )


def at_guest_address(device: Hostdev, address: PciAddress) -> Hostdev:
    """The same device with a fixed guest address (K-7.21)."""
    place = {f"guest_{part}": f"0x{getattr(address, part)}" for part in ("domain", "bus", "slot", "function")}
    return device.with_(guest_type="pci", **place)


def behind_port(device: Hostdev, index: int) -> Hostdev:
    """The same device behind the root port with that index, which libvirt takes for a bus (K-8.3)."""
    return device.with_(
        guest_type="pci", guest_domain="0x0000", guest_bus=str(index), guest_slot="0x00", guest_function="0x0"
    )


def placed_as(device: Hostdev, other: Hostdev) -> Hostdev:
    """The same device with the guest address of another, none if that has none."""
    parts = ("type", "domain", "bus", "slot", "function")
    return device.with_(**{f"guest_{part}": getattr(other, f"guest_{part}") for part in parts})


@dataclass(frozen=True)
class Dialect:
    """The form of the element for one reader: KubeVirt's tests or libvirt's schema."""

    name: str
    source_address_type: bool
    """``type="pci"`` on the source address: KubeVirt writes it; libvirt's schema (9.0) doesn't allow it there."""
    pci_display: bool
    """``display`` and ``ramfb`` of PCI devices: KubeVirt 1.9 writes them (K-7.19); libvirt 9.0 drops them, its schema
    refuses them."""
    any_alias: bool
    """Aliases with any character: libvirt silently drops those with characters outside of its set."""

    def converted(self, device: Hostdev) -> tuple[Hostdev, tuple[str, ...]]:
        """The element in this dialect, and a sentence for each attribute that was left out."""
        lost: list[str] = []
        if not self.source_address_type:
            device = device.with_(source_type=None)
        if not self.pci_display and not device.is_mdev and device.display is not None:
            reason = "libvirt's schema has them for mdevs only"
            lost.append(f"display and ramfb of a PCI device are left out of the domain: {reason}")
            device = device.with_(display=None, ramfb=None)
        if not self.any_alias and device.alias is not None and _ALIAS.fullmatch(device.alias) is None:
            reason = "libvirt takes letters, digits, '_' and '-' only"
            lost.append(f"alias {device.alias!r} is left out of the domain: {reason}")
            device = device.with_(alias=None)
        return device, tuple(lost)


KUBEVIRT = Dialect("KubeVirt", source_address_type=True, pci_display=True, any_alias=True)
LIBVIRT = Dialect("libvirt", source_address_type=False, pci_display=False, any_alias=False)
