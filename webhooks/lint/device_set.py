"""Facts about a set of devices, computed once per set: the webhook needs them for the same devices in every review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from virt_dra.api.integration.attribute_keys import STANDARD_DOMAIN, Addresses, Need, Unusable, needed
from virt_dra.api.integration.slice_readers import is_read
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.matching.published_slice import SliceDevice
from webhooks.lint.fixes.address_keys import KeyReader, misspelt_keys, moved_keys
from webhooks.lint.fixes.repairs import KeyRepair

NATIVE_KEYS: Final = ("mdevUUID", f"{STANDARD_DOMAIN}/pciBusID")
"""Attribute keys that KubeVirt 1.8 and newer reads (K-7.9)."""
NETWORK_KEYS: Final = (f"{STANDARD_DOMAIN}/pciBusID",)
"""Attribute keys that KubeVirt reads for SR-IOV networks (K-7.21)."""


@dataclass(frozen=True, eq=False)
class DeviceSet:
    """The candidate devices of a request, in the inventory's order."""

    devices: tuple[SliceDevice, ...] = ()
    _repairs: dict[tuple[str, str], KeyRepair | None] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def union(cls, sets: Iterable[DeviceSet]) -> DeviceSet:
        """The union of sets; a single set is returned itself, with what it has cached."""
        given = list(dict.fromkeys(device_set for device_set in sets if device_set.devices))
        if len(given) == 1:
            return given[0]
        return cls(tuple(dict.fromkeys(device for device_set in given for device in device_set.devices)))

    def __len__(self) -> int:
        return len(self.devices)

    def share(self, count: int) -> str:
        """So many of the devices, in words."""
        return "every device" if count == len(self) else f"{count} of {len(self)} devices"

    @cached_property
    def drivers(self) -> tuple[str, ...]:
        return tuple(sorted({device.driver for device in self.devices}))

    @cached_property
    def nodes(self) -> frozenset[str]:
        """The nodes of the devices; "" for devices that aren't local to one node."""
        return frozenset(device.node for device in self.devices)

    @cached_property
    def without_address(self) -> tuple[tuple[SliceDevice, Unusable], ...]:
        """Each device without a usable address in its attributes (K-5.11), and why."""
        by_device = ((device, device.addresses) for device in self.devices)
        return tuple((device, why) for device, why in by_device if not isinstance(why, Addresses))

    @cached_property
    def _without_pci(self) -> tuple[tuple[SliceDevice, Unusable], ...]:
        by_device = ((device, needed("pci", device.addresses)) for device in self.devices)
        return tuple((device, why) for device, why in by_device if isinstance(why, Unusable))

    def without(self, needs: Need) -> tuple[tuple[SliceDevice, Unusable], ...]:
        """Each device that lacks the address that its entry in the VM needs, and why (K-5.11, K-5.32)."""
        if needs == "none":
            return ()
        return self._without_pci if needs == "pci" else self.without_address

    @cached_property
    def _with_address(self) -> tuple[SliceDevice, ...]:
        without = {device for device, _ in self.without_address}
        return tuple(device for device in self.devices if device not in without)

    @cached_property
    def not_native(self) -> tuple[SliceDevice, ...]:
        """Devices with an address under none of :data:`NATIVE_KEYS`."""
        return tuple(device for device in self._with_address if not _has(device, NATIVE_KEYS))

    @cached_property
    def not_for_networks(self) -> tuple[SliceDevice, ...]:
        """Devices with an address under none of :data:`NETWORK_KEYS`."""
        return tuple(device for device in self._with_address if not _has(device, NETWORK_KEYS))

    @cached_property
    def not_for_old(self) -> tuple[SliceDevice, ...]:
        """Devices with an address that KubeVirt 1.6 and 1.7 don't read."""
        return tuple(device for device in self._with_address if not is_read(device.device, device.node))

    def unread_by(self, reader: KeyReader) -> tuple[SliceDevice, ...]:
        """Devices with an address under no key that a reader reads."""
        if reader == "old":
            return self.not_for_old
        return self.not_for_networks if reader == "networks" else self.not_native

    def moving(self, reader: KeyReader) -> KeyRepair | None:
        """How the devices that a reader doesn't read would be read."""
        if ("move", reader) not in self._repairs:
            self._repairs["move", reader] = moved_keys(self.unread_by(reader), reader)
        return self._repairs["move", reader]

    def spelling(self, needs: Need, reader: KeyReader) -> KeyRepair | None:
        """How the devices without an address would have one."""
        if (needs, reader) not in self._repairs:
            self._repairs[needs, reader] = misspelt_keys((device for device, _ in self.without(needs)), reader)
        return self._repairs[needs, reader]

    @cached_property
    def products(self) -> Mapping[str, SliceDevice]:
        """The first device of each PCI vendor and product, as ``10DE:20B0`` (pciVendorSelector), of drivers that
        publish both."""
        by_product: dict[str, SliceDevice] = {}
        for device in self.devices:
            vendor = device.text("vendorID") or device.text("vendor")
            product = device.text("deviceID") or device.text("device")
            if vendor and product:
                key = ":".join(text.lower().removeprefix("0x").zfill(4).upper() for text in (vendor, product))
                by_product.setdefault(key, device)
        return by_product

    def of_types(self, driver: str, types: frozenset[str]) -> tuple[SliceDevice, ...]:
        """The devices of a driver whose attribute ``type`` is one of the given ones."""
        if driver not in self.drivers:
            return ()
        return tuple(device for device in self.devices if device.driver == driver and device.text("type") in types)


def _has(device: SliceDevice, keys: tuple[str, ...]) -> bool:
    return any(_filled(device.device.attributes.get(key)) for key in keys)


def _filled(attribute: DeviceAttribute | None) -> bool:
    return attribute is not None and bool(attribute.string)
