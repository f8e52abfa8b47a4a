"""Whole PCI functions as devices: the unit is the IOMMU group, and the card where a policy says so (D-43)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from node_driver.devices import DeviceKind, ExcludedDevice, PassthroughDevice, Sanitizing
from node_driver.hardware.inventory import DEFAULT_VFIO_DRIVER, Hardware, PciFunction
from node_driver.policy import exclusions
from node_driver.policy.attributes import function_attributes
from virt_dra.api.policies.node_policy_v1alpha1 import TOGETHER, PolicyDeviceSet


class FunctionGroups:
    """Which functions of a node go together. Bridges belong to none: they keep their driver."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware

    @cached_property
    def by_group(self) -> Mapping[int, tuple[str, ...]]:
        groups: dict[int, list[str]] = {}
        for address, function in sorted(self.hardware.functions.items()):
            if function.iommu_group is not None and not function.is_bridge:
                groups.setdefault(function.iommu_group, []).append(address)
        return {group: tuple(members) for group, members in groups.items()}

    @cached_property
    def by_slot(self) -> Mapping[str, tuple[str, ...]]:
        """VFs are left out: they aren't functions of the card that their addresses suggest."""
        slots: dict[str, list[str]] = {}
        for address, function in sorted(self.hardware.functions.items()):
            if not function.physical_function and not function.is_bridge:
                slots.setdefault(function.slot, []).append(address)
        return {slot: tuple(members) for slot, members in slots.items()}

    @cached_property
    def unreadable(self) -> Mapping[int, str]:
        """Group -> a device in it that can't be read."""
        devices = self.hardware.unreadable
        return {device.iommu_group: device.subject for device in devices if device.iommu_group is not None}

    def closure(self, address: str, *, groups: bool, cards: bool) -> tuple[str, ...]:
        """The function with all that is in its group or on its card, and in their groups and on their cards."""
        pending, reached = [address], {address}
        while pending:
            function = self.hardware.functions[pending.pop()]
            neighbours: set[str] = set()
            if groups and function.iommu_group is not None:
                neighbours.update(self.by_group[function.iommu_group])
            if cards and not function.physical_function:
                neighbours.update(self.by_slot[function.slot])
            pending += sorted(neighbours - reached)
            reached |= neighbours
        return tuple(sorted(reached))

    def unit(self, address: str, device_set: PolicyDeviceSet) -> tuple[str, ...]:
        """The functions that are one device by the set."""
        groups = device_set.iommu_groups in (None, TOGETHER)
        return self.closure(address, groups=groups, cards=device_set.cards == TOGETHER)

    def members(self, address: str, device_set: PolicyDeviceSet) -> tuple[str, ...]:
        """The functions that have to be bound for that device: always whole groups."""
        return self.closure(address, groups=True, cards=device_set.cards == TOGETHER)

    def exclusive_names(self, members: tuple[str, ...]) -> tuple[str, ...]:
        """One for each group of the members. The group's first function names it: its number changes over reboots."""
        groups = {self.hardware.functions[member].iommu_group for member in members}
        return tuple(sorted(f"iommu-group-of-{self.by_group[group][0]}" for group in groups if group is not None))


def function_devices(
    device_set: PolicyDeviceSet,
    functions: list[PciFunction],
    groups: FunctionGroups,
    taken: Mapping[str, str],
    *,
    lists: bool,
) -> Iterator[PassthroughDevice | ExcludedDevice]:
    """The devices that a set makes of the functions that it selects, and those that can't be. ``taken``: address ->
    the earlier set that publishes it."""
    seen: set[tuple[str, ...]] = set()
    for function in functions:
        if function.address in taken:
            continue
        if function.is_bridge:
            yield exclusions.bridge(function)
            continue
        unit = groups.unit(function.address, device_set)
        members = groups.members(function.address, device_set)
        excluded = _exclusion(function, unit, members, groups, taken)
        if excluded is not None:
            yield excluded
        elif unit not in seen:
            seen.add(unit)
            yield _device(device_set, function, members, groups, lists=lists)


def _exclusion(
    function: PciFunction,
    unit: tuple[str, ...],
    members: tuple[str, ...],
    groups: FunctionGroups,
    taken: Mapping[str, str],
) -> ExcludedDevice | None:
    address, hardware = function.address, groups.hardware
    if address in hardware.protected:
        return exclusions.protected(function, hardware.protected[address])
    if function.virtual_functions:
        return exclusions.vfs_enabled(function)
    if function.iommu_group is None:
        return exclusions.no_iommu_group(function, hardware)
    if address in hardware.vgpus:
        cure = "publish it by vgpuProfiles: vfio-pci can't have it"
        return exclusions.divided(address, "its own driver gives it to VMs, with a vGPU profile", cure)
    mdevs = [mdev.uuid for mdev in hardware.mdevs.values() if mdev.parent == address]
    if mdevs:
        return exclusions.divided(address, f"mediated devices exist on it ({exclusions.listed(mdevs)})", "remove them")
    for member in members:
        if (why := _obstacle(hardware.functions[member], hardware)) and member != address:
            group = function.iommu_group if hardware.functions[member].iommu_group == function.iommu_group else None
            return exclusions.group_shared(address, group, member, why)
    for group in {hardware.functions[member].iommu_group for member in members}:
        if group is not None and group in groups.unreadable:
            return exclusions.group_shared(address, group, groups.unreadable[group], "can't be read")
    for member in unit:
        if member in taken:
            return exclusions.already_published(address, member, taken[member])
    return None


def _obstacle(member: PciFunction, hardware: Hardware) -> str:
    """Why a function can't be bound together with others, "" if nothing speaks against it."""
    if member.address in hardware.protected:
        return hardware.protected[member.address]
    if member.virtual_functions:
        return "has virtual functions enabled"
    if member.address in hardware.vgpus:
        return "is given to VMs by its own driver"
    if member.iommu_group is None:
        return "has no IOMMU group"
    return "has mediated devices" if any(mdev.parent == member.address for mdev in hardware.mdevs.values()) else ""


def _device(
    device_set: PolicyDeviceSet, function: PciFunction, members: tuple[str, ...], groups: FunctionGroups, *, lists: bool
) -> PassthroughDevice:
    kind, hardware = DeviceKind.SRIOV if function.physical_function else DeviceKind.VFIO, groups.hardware
    others = tuple(member for member in members if member != function.address)
    return PassthroughDevice(
        name=device_name("pci", function.address),
        kind=kind,
        address=function.address,
        members=members,
        target_driver=device_set.driver or _variant(members, hardware),
        exclusive=groups.exclusive_names(members),
        sanitizing=Sanitizing(device_set.sanitize or Sanitizing.RESET),
        attributes=function_attributes(function, others, kind, hardware, lists=lists),
    )


def device_name(*parts: str) -> str:
    """A DNS label of texts that have no more than separators to replace (D-41).

    >>> device_name("pci", "0000:41:00.1")
    'pci-0000-41-00-1'
    """
    return "-".join(parts).replace(":", "-").replace(".", "-")


def _variant(members: tuple[str, ...], hardware: Hardware) -> str:
    """The driver that all members have by the kernel's table; a group has one (D-64)."""
    drivers = {hardware.vfio_driver(hardware.functions[member]) for member in members}
    return drivers.pop() if len(drivers) == 1 else DEFAULT_VFIO_DRIVER
