"""What a set of devices has in common, asked once per set: the webhook asks it of the same devices in every review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from virt_dra.api.integration.attribute_keys import STANDARD_DOMAIN, Addresses, Need, Unusable, needed
from virt_dra.api.resource_v1 import DeviceAttribute
from webhooks.selectors.slice_device import SliceDevice, text_of

NATIVE_KEYS: Final = ("mdevUUID", f"{STANDARD_DOMAIN}/pciBusID")
"""K-7.9: what KubeVirt 1.8 and newer reads."""
NETWORK_KEYS: Final = (f"{STANDARD_DOMAIN}/pciBusID",)
"""K-7.21."""
OLD_KEYS: Final = (f"{STANDARD_DOMAIN}/mDevUUID", f"{STANDARD_DOMAIN}/pcieRoot")
"""K-5.16: what 1.6 and 1.7 take for a PCI address is the root complex, so a driver would have to publish an address under its name."""


@dataclass(frozen=True, eq=False)
class DeviceSet:
    """Devices that one use may get, in the inventory's order."""

    devices: tuple[SliceDevice, ...] = ()

    @classmethod
    def union(cls, sets: Iterable[DeviceSet]) -> DeviceSet:
        """The set itself where there is one, so that what it knows is kept."""
        given = list(dict.fromkeys(each for each in sets if each.devices))
        if len(given) == 1:
            return given[0]
        return cls(tuple(dict.fromkeys(device for each in given for device in each.devices)))

    def __len__(self) -> int:
        return len(self.devices)

    @cached_property
    def drivers(self) -> tuple[str, ...]:
        return tuple(sorted({device.driver for device in self.devices}))

    @cached_property
    def nodes(self) -> frozenset[str]:
        """The nodes that have the devices; "" for those that aren't one node's."""
        return frozenset(device.node for device in self.devices)

    @cached_property
    def without_address(self) -> tuple[tuple[SliceDevice, Unusable], ...]:
        """Each device whose attributes give no address (K-5.11), and why."""
        found = ((device, device.addresses) for device in self.devices)
        return tuple((device, why) for device, why in found if not isinstance(why, Addresses))

    @cached_property
    def _without_pci(self) -> tuple[tuple[SliceDevice, Unusable], ...]:
        found = ((device, needed("pci", device.addresses)) for device in self.devices)
        return tuple((device, why) for device, why in found if isinstance(why, Unusable))

    def without(self, needs: Need) -> tuple[tuple[SliceDevice, Unusable], ...]:
        """Each device that lacks the address that its user needs, and why (K-5.11, K-5.32)."""
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
        """Devices with an address under none of :data:`OLD_KEYS`; the name of a root complex is none."""
        mdev, root = OLD_KEYS

        def read(device: SliceDevice) -> bool:
            attribute = device.device.attributes.get(root)
            return _filled(device.device.attributes.get(mdev)) or (
                attribute is not None and _filled(attribute) and not (attribute.string or "").startswith("pci")
            )

        return tuple(device for device in self._with_address if not read(device))

    @cached_property
    def products(self) -> Mapping[str, SliceDevice]:
        """The first device of each ``10DE:20B0``, as pciVendorSelector has it, where drivers publish both numbers."""
        found: dict[str, SliceDevice] = {}
        for device in self.devices:
            vendor = text_of(device, "vendorID") or text_of(device, "vendor")
            product = text_of(device, "deviceID") or text_of(device, "device")
            if vendor and product:
                key = ":".join(text.lower().removeprefix("0x").zfill(4).upper() for text in (vendor, product))
                found.setdefault(key, device)
        return found

    def of_types(self, driver: str, types: frozenset[str]) -> tuple[SliceDevice, ...]:
        """The devices of a driver whose attribute ``type`` is one of the given ones."""
        if driver not in self.drivers:
            return ()
        return tuple(device for device in self.devices if device.driver == driver and text_of(device, "type") in types)


def _has(device: SliceDevice, keys: tuple[str, ...]) -> bool:
    return any(_filled(device.device.attributes.get(key)) for key in keys)


def _filled(attribute: DeviceAttribute | None) -> bool:
    return attribute is not None and bool(attribute.string)
