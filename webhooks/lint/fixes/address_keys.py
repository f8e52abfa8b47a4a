"""The names that attribute keys of a device must have, so that its address is found (K-6, K-7.9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from virt_dra.api.integration.attribute_keys import (
    MDEV_UUID,
    NEVER_MDEV,
    NEVER_PCI,
    PCI_ADDRESS,
    STANDARD_DOMAIN,
    published_keys,
)
from virt_dra.api.kubevirt_versions import V1_8_0, KubeVirtVersion
from virt_dra.matching.published_slice import SliceDevice
from webhooks.lint.fixes.repairs import KeyRepair

KeyReader = Literal["devices", "networks", "old"]
"""Who reads addresses: KubeVirt 1.8 and newer for devices, for SR-IOV networks, or KubeVirt 1.6 and 1.7."""
AddressKind = Literal["pci", "mdev"]

_PCI_KEY: Final = f"{STANDARD_DOMAIN}/pciBusID"
_MDEV_KEYS: Final = {"devices": "mdevUUID", "old": f"{STANDARD_DOMAIN}/mDevUUID"}
_SPELLINGS: Final[dict[str, AddressKind]] = {"pcibusid": "pci", "pciaddress": "pci", "mdevuuid": "mdev"}
_SHORT: Final[dict[str, AddressKind]] = {**_SPELLINGS, "pciaddr": "pci", "busid": "pci"}
"""Identifiers, folded, that mean an address if they are spelt exactly so."""


def reader_of(version: KubeVirtVersion, kind: str) -> KeyReader:
    """The reader of a use's addresses. ``kind``: of a use, such as networks."""
    if version < V1_8_0:
        return "old"
    return "networks" if kind == "networks" else "devices"


def moved_keys(devices: Iterable[SliceDevice], reader: KeyReader) -> KeyRepair | None:
    """The repair of devices that have an address under a key that this reader doesn't read; None if one of them can't
    be repaired."""
    renames = []
    for device in devices:
        pci, mdev = published_keys(device.driver, device.device.attributes, device.keys)
        kind: AddressKind = "mdev" if mdev is not None and reader != "networks" else "pci"
        written, wanted = (mdev if kind == "mdev" else pci), _wanted(kind, reader)
        if written is None or wanted is None or wanted in device.device.attributes:
            return None
        renames.append((device.name, written, wanted))
    return KeyRepair(tuple(renames)) if renames else None


def misspelt_keys(devices: Iterable[SliceDevice], reader: KeyReader) -> KeyRepair | None:
    """The repair of devices without an address whose attributes have one under a key that is nearly right: in another
    case, in a wrong domain, or with one letter wrong. None if it isn't clear for one of them."""
    renames = []
    for device in devices:
        misspelt = list(_misspelt(device, reader))
        if len(misspelt) != 1 or any(published_keys(device.driver, device.device.attributes, device.keys)):
            return None
        written, wanted = misspelt[0]
        if wanted in device.device.attributes:
            return None
        renames.append((device.name, written, wanted))
    return KeyRepair(tuple(renames)) if renames else None


def _wanted(kind: AddressKind, reader: KeyReader) -> str | None:
    """The key under which a reader looks for an address; None if it has none. KubeVirt 1.6 and 1.7 read PCI addresses
    only where no driver publishes them."""
    if kind == "mdev":
        return _MDEV_KEYS.get(reader)
    return None if reader == "old" else _PCI_KEY


def _misspelt(device: SliceDevice, reader: KeyReader) -> Iterator[tuple[str, str]]:
    for key, attribute in device.device.attributes.items():
        kind = _meant(key.rpartition("/")[2])
        pattern = MDEV_UUID if kind == "mdev" else PCI_ADDRESS
        if kind is None or attribute.string is None or not pattern.fullmatch(attribute.string):
            continue
        wanted = _wanted(kind, reader) or (_PCI_KEY if kind == "pci" and reader == "old" else None)
        if wanted is not None:
            yield key, wanted


def _meant(identifier: str) -> AddressKind | None:
    """The kind of address that an attribute's identifier names, perhaps with a mistake.

    >>> [_meant(name) for name in ("pciBusId", "pci_bus_id", "pciBudID", "pcieRoot", "parentPciAddress", "uuid")]
    ['pci', 'pci', 'pci', None, None, None]
    """
    folded = identifier.lower().replace("_", "")
    if folded in NEVER_PCI | NEVER_MDEV:
        return None
    if folded in _SHORT:
        return _SHORT[folded]
    return next((kind for spelling, kind in _SPELLINGS.items() if _one_apart(folded, spelling)), None)


def _one_apart(given: str, spelling: str) -> bool:
    """True if one letter is wrong, missing, too many or swapped with the next one."""
    head = 0
    while head < min(len(given), len(spelling)) and given[head] == spelling[head]:
        head += 1
    given, spelling = given[head:], spelling[head:]
    return (
        given[1:] == spelling[1:]
        or given == spelling[1:]
        or given[1:] == spelling
        or (given[:2] == spelling[1::-1] and given[2:] == spelling[2:])
    )
