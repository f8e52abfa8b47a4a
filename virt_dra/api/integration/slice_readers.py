"""Which devices' addresses KubeVirt 1.6 and 1.7 read of ResourceSlices themselves, since they read no metadata files
(K-5.15 to K-5.17)."""

from __future__ import annotations

from typing import Final

from virt_dra.api.integration.attribute_keys import PCI_ADDRESS, STANDARD_DOMAIN
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0, KubeVirtVersion
from virt_dra.api.resource_v1 import Device

OLD_KEYS: Final = (f"{STANDARD_DOMAIN}/mDevUUID", f"{STANDARD_DOMAIN}/pcieRoot")
"""Attribute keys that KubeVirt 1.6 and 1.7 read. They read a PCI address from the key of the root complex, so a driver
would have to publish an address under that key."""


def reads_slices(version: KubeVirtVersion) -> bool:
    """True for releases that give a VM only devices whose address they read of ResourceSlices."""
    return V1_6_0 <= version < V1_8_0


def is_read(device: Device, node: str) -> bool:
    """True if these releases read the device's address. ``node``: which its slice names, "" if the slice is of several
    nodes; those they don't find. The name of a root complex isn't an address."""
    mdev, root = (device.attributes.get(key) for key in OLD_KEYS)
    if not node or device.node_name:
        return False
    return bool(mdev and mdev.string) or bool(root and PCI_ADDRESS.fullmatch(root.string or ""))


def where_read(version: KubeVirtVersion) -> str:
    """Where these releases look for a device's address: the end of a sentence."""
    return f"where KubeVirt {version} looks for it: {' or '.join(OLD_KEYS)} in a slice of one node"
