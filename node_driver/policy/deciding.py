"""What is published of a node's hardware: the sets of all policies in order, the first that names a device has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from node_driver.devices import ExcludedDevice, PassthroughDevice, PublishedSet
from node_driver.hardware.inventory import Hardware, PciFunction, VfCount
from node_driver.policy import exclusions
from node_driver.policy.exclusions import ExclusionReason
from node_driver.policy.functions import FunctionGroups, function_devices
from node_driver.policy.partitions import CardDevices, mdev_devices, vgpu_devices
from node_driver.policy.selecting import selected, why_nothing
from virt_dra.api.policies.node_policy_v1alpha1 import PolicyDeviceSet, VirtDraNodePolicy

_OF_TYPES: Final = frozenset({ExclusionReason.TYPE_NOT_OFFERED, ExclusionReason.TOO_MANY_TYPES})
"""Said of a card beside those of its types that are published."""
NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class NodeSet:
    """A set of a policy that is for the node. ``name``: ``policy/set``. ``lists``: whether list attributes are
    wanted."""

    name: str
    device_set: PolicyDeviceSet
    lists: bool


def published_set(
    hardware: Hardware, policies: Iterable[VirtDraNodePolicy], labels: Mapping[str, str] = NO_LABELS
) -> PublishedSet:
    """The devices that valid policies publish of a node with those labels, by address, and why all others aren't."""
    ordered = sorted(policies, key=lambda policy: policy.name)
    sets, excluded = _sets_of_node(ordered, labels)
    groups = FunctionGroups(hardware)
    devices: list[PassthroughDevice] = []
    counter_sets: dict[str, Mapping[str, int]] = {}
    taken: dict[str, str] = {}
    for node_set in sets:
        candidates = _candidates(node_set.device_set, hardware)
        free = [address for address in candidates if address not in taken]
        if not candidates:
            why = why_nothing(node_set.device_set.select, hardware)
            excluded.append(ExcludedDevice(node_set.name, ExclusionReason.NOTHING_SELECTED, why))
        elif not free:
            message = f"earlier sets publish all that it selects: {exclusions.listed(sorted(set(taken.values())))}"
            excluded.append(ExcludedDevice(node_set.name, ExclusionReason.ALREADY_PUBLISHED, message))
        for card in _set_devices(node_set, free, hardware, groups, dict(taken)):
            for device in card.devices:
                unit = (device.address,) if device.type_id else groups.unit(device.address, node_set.device_set)
                taken.update(dict.fromkeys(unit, node_set.name))
            devices += card.devices
            excluded += card.excluded
            counter_sets.update(card.counter_sets)
    unreadable = ExclusionReason.UNREADABLE
    excluded += [ExcludedDevice(device.subject, unreadable, device.message) for device in hardware.unreadable]
    excluded += _unnamed(hardware, devices, excluded)
    final = dict.fromkeys(item for item in excluded if item.subject not in taken or item.reason in _OF_TYPES)
    return PublishedSet(
        tuple(sorted(devices, key=lambda device: (device.address, device.name))),
        tuple(sorted(final, key=lambda exclusion: (exclusion.subject, exclusion.reason, exclusion.message))),
        counter_sets,
    )


def wanted_vfs(
    hardware: Hardware, policies: Iterable[VirtDraNodePolicy], labels: Mapping[str, str] = NO_LABELS
) -> Mapping[str, VfCount]:
    """PF -> the VFs that policies want it to have (D-48); the first set that selects it decides. PFs that the node
    needs, and those that can't have so many, are left as they are."""
    wanted: dict[str, VfCount] = {}
    for node_set in _sets_of_node(sorted(policies, key=lambda policy: policy.name), labels)[0]:
        device_set = node_set.device_set
        if device_set.num_vfs is None:
            continue
        count = VfCount(device_set.num_vfs, probed=bool(device_set.vgpu_profiles))
        for function in selected(device_set, hardware):
            if function.total_vfs and count.number <= function.total_vfs and function.address not in hardware.protected:
                wanted.setdefault(function.address, count)
    return wanted


def _sets_of_node(
    policies: Sequence[VirtDraNodePolicy], labels: Mapping[str, str]
) -> tuple[list[NodeSet], list[ExcludedDevice]]:
    sets, others = [], []
    for policy in policies:
        selector = policy.spec.node_selector
        if selector is None or selector.matches(labels):
            lists = bool(policy.spec.list_attributes)
            sets += [NodeSet(f"{policy.name}/{item.name}", item, lists) for item in policy.spec.device_sets]
        else:
            message = "its nodeSelector doesn't match this node's labels"
            others.append(ExcludedDevice(policy.name, ExclusionReason.OTHER_NODES, message))
    return sets, others


def _candidates(device_set: PolicyDeviceSet, hardware: Hardware) -> list[str]:
    """The functions that the set selects, by address; for mediated devices also other parents, by name."""
    addresses = [selector.address or "" for selector in device_set.select] if device_set.mdev_types else []
    parents = hardware.mdev_types.keys() & set(addresses)
    return sorted({*(function.address for function in selected(device_set, hardware)), *parents})


def _set_devices(
    node_set: NodeSet, candidates: Sequence[str], hardware: Hardware, groups: FunctionGroups, taken: Mapping[str, str]
) -> Iterator[CardDevices]:
    """What the set makes of each function or card."""
    device_set = node_set.device_set
    functions = [hardware.functions[address] for address in candidates if address in hardware.functions]
    if device_set.mdev_types or device_set.vgpu_profiles or device_set.num_vfs is not None:
        bridges = [function for function in functions if function.is_bridge]
        yield CardDevices(excluded=tuple(map(exclusions.bridge, bridges)))
        functions = [function for function in functions if not function.is_bridge]
    if device_set.mdev_types:
        for parent in candidates:
            if parent not in hardware.functions or not hardware.functions[parent].is_bridge:
                yield mdev_devices(device_set, parent, hardware, lists=node_set.lists)
        return
    if device_set.num_vfs is not None:
        for function in functions:
            yield CardDevices(excluded=tuple(_made_vfs(function, device_set.num_vfs, hardware)))
        functions = _with_vfs(functions, hardware, keep=False)
    if device_set.vgpu_profiles:
        for card, on_card in _vgpu_cards(functions, hardware, taken).items():
            if on_card:
                yield vgpu_devices(device_set, card, on_card, groups, lists=node_set.lists)
            else:
                cure = "make them by numVFs or by sriov-manage -e, or name the card without vgpuProfiles"
                message = f"it has no virtual functions that take vGPU profiles; {cure}"
                yield CardDevices(excluded=(ExcludedDevice(card, ExclusionReason.NOT_DIVISIBLE, message),))
        return
    for item in function_devices(device_set, functions, groups, taken, lists=node_set.lists):
        yield CardDevices(devices=(item,)) if isinstance(item, PassthroughDevice) else CardDevices(excluded=(item,))


def _made_vfs(function: PciFunction, number: int, hardware: Hardware) -> Iterator[ExcludedDevice]:
    """What is to be said of a PF that is to have VFs."""
    subject, reason = function.address, ExclusionReason.NO_VIRTUAL_FUNCTIONS
    if function.physical_function:
        yield ExcludedDevice(subject, reason, "it is a virtual function itself; name its PF for numVFs")
    elif number > function.total_vfs:
        most = f"it can have {function.total_vfs}" if function.total_vfs else "it has no SR-IOV"
        yield ExcludedDevice(subject, reason, f"it can't have {number} virtual functions: {most}; lower numVFs")
    elif function.address in hardware.protected and len(function.virtual_functions) != number:
        yield exclusions.protected(function, hardware.protected[function.address])
    elif len(function.virtual_functions) != number:
        has = len(function.virtual_functions)
        when = " when it starts and none is in use" if has else ""
        yield ExcludedDevice(subject, reason, f"it has {has} virtual functions; the driver makes {number}{when}")
    else:
        yield ExcludedDevice(subject, ExclusionReason.VFS_ENABLED, "its virtual functions are published in its place")


def _with_vfs(functions: Iterable[PciFunction], hardware: Hardware, *, keep: bool) -> list[PciFunction]:
    """The VFs of the functions, and with ``keep`` the functions themselves."""
    addresses = dict.fromkeys(
        address
        for function in functions
        for address in (*((function.address,) if keep else ()), *function.virtual_functions)
    )
    return [hardware.functions[address] for address in addresses if address in hardware.functions]


def _vgpu_cards(
    functions: Iterable[PciFunction], hardware: Hardware, taken: Mapping[str, str]
) -> Mapping[str, list[PciFunction]]:
    """Card -> those of its functions that take vGPU profiles, of the selected ones or the VFs of selected ones."""
    cards: dict[str, list[PciFunction]] = {}
    for function in _with_vfs(functions, hardware, keep=True):
        on_card = cards.setdefault(function.physical_function or function.address, [])
        if function.address in hardware.vgpus and function.address not in taken:
            on_card.append(function)
    return cards


def _unnamed(
    hardware: Hardware, devices: Iterable[PassthroughDevice], excluded: Iterable[ExcludedDevice]
) -> list[ExcludedDevice]:
    """The functions that no set selects, and that aren't given away with others either."""
    named = {exclusion.subject for exclusion in excluded}
    for device in devices:
        named |= {device.address, *device.members}
        if (function := hardware.functions.get(device.address)) is not None and device.type_id:
            named.add(function.physical_function)
    return [exclusions.not_selected(address) for address in sorted(hardware.functions) if address not in named]
