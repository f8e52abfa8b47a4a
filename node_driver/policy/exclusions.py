"""Why a device isn't published, and what to do about it: the reasons, and their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from node_driver.devices import ExcludedDevice
from node_driver.hardware.inventory import Hardware, PciFunction


class ExclusionReason(StrEnum):
    NOT_SELECTED = "NotSelected"
    """No policy names it (D-39)."""
    BRIDGE = "Bridge"
    """Bridges keep their driver (D-43)."""
    PROTECTED = "Protected"
    """The node needs it (D-39)."""
    GROUP_SHARED = "GroupShared"
    """Its IOMMU group has a function that can't be given away with it (D-43)."""
    VFS_ENABLED = "VirtualFunctionsEnabled"
    """A PF isn't given out beside its VFs (D-48)."""
    NO_IOMMU_GROUP = "NoIommuGroup"
    """Nothing isolates it from the rest of the machine (D-45)."""
    UNREADABLE = "Unreadable"
    """Its entry in sysfs is malformed."""
    DIVIDED = "Divided"
    """Mediated devices or vGPU profiles exist on it, or it can only be had as such (D-61, D-65)."""
    ALREADY_PUBLISHED = "AlreadyPublished"
    """An earlier set publishes a part of it."""
    NOT_DIVISIBLE = "NotDivisible"
    """It offers no mediated devices or vGPU profiles."""
    TYPE_NOT_OFFERED = "TypeNotOffered"
    """The card doesn't have that type or profile, or can't make one."""
    TOO_MANY_TYPES = "TooManyTypes"
    """Kubernetes' 32 counters don't suffice to keep the card's types apart."""
    NO_VIRTUAL_FUNCTIONS = "NoVirtualFunctions"
    """Its VFs aren't made (yet), or it can't have so many (D-48)."""
    NOTHING_SELECTED = "NothingSelected"
    """A policy's set that selects no device of the node."""
    OTHER_NODES = "OtherNodes"
    """A policy for other nodes."""


def bridge(function: PciFunction) -> ExcludedDevice:
    message = "it is a bridge, which keeps its driver; name what is behind it"
    return ExcludedDevice(function.address, ExclusionReason.BRIDGE, message)


def protected(function: PciFunction, why: str) -> ExcludedDevice:
    message = f"it {why}; let the node do without it first, and it is published by itself"
    return ExcludedDevice(function.address, ExclusionReason.PROTECTED, message)


def group_shared(address: str, group: int | None, other: str, why: str) -> ExcludedDevice:
    where = f"its IOMMU group {group}" if group is not None else "its card"
    cure = "put one of them into another slot (of a root port with ACS)"
    return ExcludedDevice(address, ExclusionReason.GROUP_SHARED, f"{where} is shared with {other}, which {why}; {cure}")


def vfs_enabled(function: PciFunction) -> ExcludedDevice:
    number = len(function.virtual_functions)
    message = f"it has {number} virtual functions enabled; name those, or set sriov_numvfs to 0"
    return ExcludedDevice(function.address, ExclusionReason.VFS_ENABLED, message)


def no_iommu_group(function: PciFunction, hardware: Hardware) -> ExcludedDevice:
    if any(other.iommu_group is not None for other in hardware.functions.values()):
        message = "it has no IOMMU group, though others have; it isn't behind the IOMMU, and can't be passed through"
    else:
        message = "the node has no IOMMU groups; turn on VT-d or AMD-Vi in the firmware, and boot with intel_iommu=on"
    return ExcludedDevice(function.address, ExclusionReason.NO_IOMMU_GROUP, message)


def divided(address: str, problem: str, cure: str) -> ExcludedDevice:
    return ExcludedDevice(address, ExclusionReason.DIVIDED, f"{problem}; {cure}")


def already_published(address: str, other: str, device_set: str) -> ExcludedDevice:
    subject = "it" if other == address else f"{other}, which goes with it,"
    message = f"{subject} is published by the set {device_set} already; the policies' names give the order of sets"
    return ExcludedDevice(address, ExclusionReason.ALREADY_PUBLISHED, message)


def not_selected(address: str) -> ExcludedDevice:
    return ExcludedDevice(address, ExclusionReason.NOT_SELECTED, "no policy names it")


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few, comma-separated."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
