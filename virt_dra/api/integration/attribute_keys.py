"""The attributes of a published device that have its address: the keys, in order of preference, and how a value is read
(K-6).

The keys are data: the standard ones, the driver's own, those of :data:`DRIVERS`, then configured ones. A key without a
domain means ``<driver>/<key>`` (K-6.1). Keys are case-sensitive (K-6.6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.api.wire import Json

NO_ADDRESS = "NoAddress"
"""No attribute that can carry an address has a usable value (K-5.11, K-5.22)."""
CONFLICTING_ATTRIBUTES = "ConflictingAttributes"
"""An address key is published bare and with the driver's domain, with different values (K-6.1)."""

PCI_ADDRESS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
"""What the launcher accepts as a PCI address (K-7.4)."""
MDEV_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

STANDARD_DOMAIN = "resource.kubernetes.io"

_OWN = "<driver>/"
MDEV_KEYS = (f"{STANDARD_DOMAIN}/mdevUUID", f"{_OWN}mdevUUID", f"{STANDARD_DOMAIN}/mDevUUID", f"{_OWN}mDevUUID")
"""Keys of mdev UUIDs, best first (K-6.3). Plain ``uuid`` is a product's identity and never an mdev."""
PCI_KEYS = (f"{STANDARD_DOMAIN}/pciBusID", f"{_OWN}pciBusID", f"{_OWN}pciAddress", f"{STANDARD_DOMAIN}/pciAddress")
"""Keys of PCI addresses, best first (K-6.4). ``pcieRoot`` names the root complex and never the device."""

NEVER_PCI = frozenset({"pcieroot", "pfpciaddress", "parentpciaddress"})
NEVER_MDEV = frozenset({"uuid", "parentuuid"})
"""Identifiers (lower-case) of attributes that look like an address of the device and are another's (K-6.7)."""


class InvalidKeys(ValueError):
    """Configured keys that can't be used. The message starts with the path inside the configuration."""


@dataclass(frozen=True)
class DriverKeys:
    """Further attribute keys that carry addresses of one driver's devices. Bare keys are the driver's own."""

    driver: str
    pci: tuple[str, ...] = ()
    mdev: tuple[str, ...] = ()


DRIVERS: Mapping[str, DriverKeys] = {
    keys.driver: keys
    for keys in (
        DriverKeys("gpu.amd.com", pci=("pciAddr",)),
        DriverKeys("sriovnetwork.k8snetworkplumbingwg.io", pci=("k8s.cni.cncf.io/deviceID",)),
    )
}
"""The vendor keys of K-6.7's table. Drivers that need no more than the standard and own keys are not listed."""


@dataclass(frozen=True)
class Addresses:
    """The addresses of one device; an mdev wins over the PCI address, its parent's (K-6.5). None is set where none is
    needed (K-5.32).

    ``ignored``: why a parent's address that is published beside an mdev was left out, or "".
    """

    pci: str | None = None
    mdev: str | None = None
    ignored: str = ""

    @property
    def given(self) -> bool:
        """True if there is any address."""
        return self.pci is not None or self.mdev is not None

    @property
    def identity(self) -> str:
        """The key by which devices are equal: the mdev UUID, else the PCI address, case folded."""
        return f"mdev {self.mdev.lower()}" if self.mdev is not None else f"PCI {(self.pci or '').lower()}"


@dataclass(frozen=True)
class Unusable:
    """A device without an address: one of the reasons of this module, and a message with what was found."""

    reason: str
    message: str


Need = Literal["any", "pci", "none"]
"""The address a device needs: of either kind; a PCI address (SR-IOV, K-7.21); none (a binding plugin finds it)."""


def needed(needs: Need, published: Addresses | Unusable) -> Addresses | Unusable:
    """The published addresses reduced to what the device needs (K-5.32)."""
    if needs == "none":
        return Addresses() if isinstance(published, Unusable) else published
    if needs == "any" or isinstance(published, Unusable):
        return published
    if published.pci is None:
        fault = published.ignored or "only an mdev UUID is published"
        return Unusable(NO_ADDRESS, f"{fault}; an SR-IOV interface needs the PCI address of its function")
    return Addresses(pci=published.pci)


def read_keys(raw: object, path: str) -> tuple[DriverKeys, ...]:
    """The keys of a list of ``{driver, pci: [keys], mdev: [keys]}`` (K-6.6). Raises :class:`InvalidKeys`."""
    if not isinstance(raw, list):
        raise InvalidKeys(f"{path}: must be a list of objects {{driver, pci: [keys], mdev: [keys]}}")
    return tuple(_read_driver(entry, f"{path}[{position}]") for position, entry in enumerate(raw))


def _read_driver(raw: object, path: str) -> DriverKeys:
    if not isinstance(raw, dict):
        raise InvalidKeys(f"{path}: must be an object with driver, and pci or mdev")
    unknown = sorted(set(raw) - {"driver", "pci", "mdev"})
    if unknown:
        raise InvalidKeys(f"{path}.{unknown[0]}: is unknown; an entry has driver, pci and mdev")
    driver = raw.get("driver")
    if not isinstance(driver, str) or not driver:
        raise InvalidKeys(f"{path}.driver: must be the name of a DRA driver, such as gpu.example.com")
    pci, mdev = _read_list(raw, "pci", path, NEVER_PCI), _read_list(raw, "mdev", path, NEVER_MDEV)
    return DriverKeys(driver, pci, mdev)


def _read_list(raw: Json, member: str, path: str, never: frozenset[str]) -> tuple[str, ...]:
    keys = raw.get(member)
    if keys is None:
        return ()
    if not isinstance(keys, list):
        raise InvalidKeys(f"{path}.{member}: must be a list of attribute keys")
    for position, key in enumerate(keys):
        if not isinstance(key, str) or not key:
            raise InvalidKeys(
                f"{path}.{member}[{position}]: must be an attribute key, such as "
                "vendorAddress or example.com/vendorAddress"
            )
        if key.rpartition("/")[2].lower() in never:
            raise InvalidKeys(
                f"{path}.{member}[{position}]: {key} is never an address of the device itself; name the key that has it"
            )
    return tuple(keys)


def pci_keys(driver: str, extra: Iterable[DriverKeys] = ()) -> tuple[str, ...]:
    """The qualified keys of a driver's PCI addresses, best first (K-6.4)."""
    vendor = DRIVERS.get(driver, DriverKeys(driver)).pci
    return _ordered(driver, PCI_KEYS, vendor, *(keys.pci for keys in extra if keys.driver == driver))


def mdev_keys(driver: str, extra: Iterable[DriverKeys] = ()) -> tuple[str, ...]:
    """The qualified keys of a driver's mdev UUIDs, best first (K-6.3)."""
    vendor = DRIVERS.get(driver, DriverKeys(driver)).mdev
    return _ordered(driver, MDEV_KEYS, vendor, *(keys.mdev for keys in extra if keys.driver == driver))


_KeyPair = tuple[str, str]
"""A qualified key, and how the driver may publish it bare; the same for keys of other domains."""


@lru_cache(maxsize=256)
def _keys(driver: str, extra: tuple[DriverKeys, ...]) -> tuple[tuple[_KeyPair, ...], tuple[_KeyPair, ...]]:
    """The keys of mdev UUIDs and of PCI addresses, best first: made once, since a driver has thousands of devices."""
    own = f"{driver}/"
    of_mdev, of_pci = (
        [(key, key.removeprefix(own)) for key in keys] for keys in (mdev_keys(driver, extra), pci_keys(driver, extra))
    )
    return tuple(of_mdev), tuple(of_pci)


def _ordered(driver: str, *groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_qualified(driver, key.removeprefix(_OWN)) for group in groups for key in group))


def _qualified(driver: str, key: str) -> str:
    return key if "/" in key else f"{driver}/{key}"


def addresses(
    driver: str, attributes: Mapping[str, DeviceAttribute], extra: Iterable[DriverKeys] = ()
) -> Addresses | Unusable:
    """The addresses among a device's attributes, as published, or why there are none (K-5.11, K-6.1 to K-6.5).

    A key of a wrong type or with an empty value is passed over. A value that is not an address is reported: the driver
    meant it, so another key must not stand in for it (K-5.22). Only a malformed PCI address beside a good mdev is left
    out.
    """
    of_mdev, of_pci = _keys(driver, tuple(extra))
    mdevs, pcis = _published(of_mdev, attributes), _published(of_pci, attributes)
    for key, bare_key in (*mdevs, *pcis):
        own, bare = attributes.get(key), attributes.get(bare_key)
        if own is not None and bare is not None and own is not bare and own.to_wire() != bare.to_wire():
            return Unusable(
                CONFLICTING_ATTRIBUTES,
                f"attributes {bare_key} ({_show(bare)}) and {key} ({_show(own)}) mean "
                "the same key and differ; the driver must publish one",
            )
    mdev = _first(attributes, mdevs)
    if mdev is not None and not MDEV_UUID.fullmatch(mdev.text):
        return Unusable(
            NO_ADDRESS,
            f"attribute {mdev.key} is {mdev.text!r}, which is no mdev UUID; the driver must publish one like {_UUID}",
        )
    pci = _first(attributes, pcis)
    fault = ""
    if pci is not None and not PCI_ADDRESS.fullmatch(pci.text):
        fault = f"attribute {pci.key} is {pci.text!r}, which is no PCI address like 0000:01:00.0"
        pci = None
    if mdev is not None:
        return Addresses(pci.text if pci else None, mdev.text, ignored=fault)
    if fault:
        return Unusable(
            NO_ADDRESS, f"{fault}; the driver must publish domain, bus, slot and function in hex, without blanks"
        )
    if pci is not None:
        return Addresses(pci=pci.text)
    return Unusable(NO_ADDRESS, _nothing_found(attributes, (*of_mdev, *of_pci)))


def published_keys(
    driver: str, attributes: Mapping[str, DeviceAttribute], extra: Iterable[DriverKeys] = ()
) -> tuple[str | None, str | None]:
    """The keys, as published, of a device's PCI address and of its mdev UUID, usable or not; None without one."""
    of_mdev, of_pci = _keys(driver, tuple(extra))
    pci, mdev = (_first(attributes, pairs) for pairs in (of_pci, of_mdev))
    return pci.key if pci else None, mdev.key if mdev else None


_UUID = "12345678-9abc-def0-1234-56789abcdef0"


def _published(pairs: Iterable[_KeyPair], attributes: Mapping[str, DeviceAttribute]) -> list[_KeyPair]:
    return [(key, bare) for key, bare in pairs if key in attributes or bare in attributes]


class _PublishedText(NamedTuple):
    """A key, as published, and its text."""

    key: str
    text: str


def _first(attributes: Mapping[str, DeviceAttribute], pairs: Iterable[_KeyPair]) -> _PublishedText | None:
    """The first text that isn't empty (K-6.2)."""
    for pair in pairs:
        for published in pair:
            text = _text(attributes.get(published))
            if text:
                return _PublishedText(published, text)
    return None


def _text(attribute: DeviceAttribute | None) -> str:
    if attribute is None:
        return ""
    if attribute.string is not None:
        return attribute.string
    if attribute.strings is not None and len(attribute.strings) == 1:
        return attribute.strings[0]
    return ""


def _nothing_found(attributes: Mapping[str, DeviceAttribute], pairs: Iterable[_KeyPair]) -> str:
    passed_over = [
        f"{published} ({_show(attributes[published])}) is passed over, it must be one non-empty text"
        for pair in pairs
        for published in dict.fromkeys(pair)
        if published in attributes
    ]
    present = f"attributes present: {', '.join(sorted(attributes))}" if attributes else "it has no attributes"
    advice = f"the driver must publish {PCI_KEYS[0]} or {MDEV_KEYS[0]}, or its own key must be configured"
    return "; ".join(("none of the attributes is a usable address", *passed_over, present, advice))


def _show(attribute: DeviceAttribute) -> str:
    return ", ".join(f"{kind} {value!r}" for kind, value in attribute.to_wire().items()) or "no value"
