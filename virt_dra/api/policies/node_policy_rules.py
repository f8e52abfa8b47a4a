"""Validation of VirtDraNodePolicies: what their CRD's schema says, in the same words wherever they are read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from virt_dra.api.nearest import did_you_mean
from virt_dra.api.policies.node_policy_limits import (
    CLASS,
    COUNT_MAX,
    DRIVER,
    FORMS,
    ID,
    INDEX_MAX,
    MDEV_TYPE,
    NUMA_NODE_MAX,
    PARENT,
    PCI_ADDRESS,
    SANITIZING,
    SELECTORS_MAX,
    SETS_MAX,
    TYPES_MAX,
)
from virt_dra.api.policies.node_policy_v1alpha1 import (
    FunctionSelector,
    PolicyDeviceSet,
    PolicyMdevType,
    PolicyVgpuProfile,
    VirtDraNodePolicy,
)
from virt_dra.api.validation.field_errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from virt_dra.api.validation.formats import declared_label, required_by
from virt_dra.api.validation.node_selectors import label_selector

_ID_DETAIL: Final = "must be four hexadecimal digits, such as 10de"
_CLASS_DETAIL: Final = "must be 2, 4 or 6 hexadecimal digits, such as 0302"
_ADDRESS_DETAIL: Final = "must be a PCI address, such as 0000:41:00.0"
_PARENT_DETAIL: Final = (
    "must be a PCI address, such as 0000:41:00.0, or the name of another parent in /sys/class/mdev_bus"
)
_DRIVER_DETAIL: Final = "must be the name of a kernel driver, such as vfio-pci"
_TYPE_DETAIL: Final = "must be the id or the name of a type, such as nvidia-35"


def node_policy(policy: VirtDraNodePolicy) -> Errors:
    spec = policy.spec
    if spec.node_selector is not None:
        yield from label_selector(spec.node_selector, "spec.nodeSelector")
    path = "spec.deviceSets"
    if not spec.device_sets:
        yield required(path, "nothing is published without a set")
    if len(spec.device_sets) > SETS_MAX:
        yield too_many(path, len(spec.device_sets), SETS_MAX)
        return
    names: set[str] = set()
    for index, device_set in enumerate(spec.device_sets):
        yield from _device_set(device_set, f"{path}[{index}]")
        if device_set.name and device_set.name in names:
            yield duplicate(f"{path}[{index}].name", device_set.name)
        names.add(device_set.name)


def _device_set(device_set: PolicyDeviceSet, path: str) -> Errors:
    yield from required_by(declared_label, device_set.name, f"{path}.name")
    selectors = f"{path}.select"
    if not device_set.select:
        yield required(selectors, "an item without fields, {}, selects every function")
    if len(device_set.select) > SELECTORS_MAX:
        yield too_many(selectors, len(device_set.select), SELECTORS_MAX)
    else:
        for index, selector in enumerate(device_set.select):
            yield from _selector(selector, f"{selectors}[{index}]", parents=bool(device_set.mdev_types))
    yield from _one_of(device_set.iommu_groups, f"{path}.iommuGroups", FORMS)
    yield from _one_of(device_set.cards, f"{path}.cards", FORMS)
    if device_set.driver == "":
        yield invalid(f"{path}.driver", "", _DRIVER_DETAIL)
    yield from _pattern(device_set.driver, f"{path}.driver", DRIVER, _DRIVER_DETAIL)
    yield from _one_of(device_set.sanitize, f"{path}.sanitize", SANITIZING)
    if device_set.num_vfs is not None and not 0 <= device_set.num_vfs <= INDEX_MAX:
        yield invalid(f"{path}.numVFs", device_set.num_vfs, f"must be between 0 and {INDEX_MAX}")
    yield from _types(device_set.mdev_types, f"{path}.mdevTypes")
    yield from _types(device_set.vgpu_profiles, f"{path}.vgpuProfiles")
    yield from _combinations(device_set, path)


def _combinations(device_set: PolicyDeviceSet, path: str) -> Errors:
    for field, given in (("vgpuProfiles", bool(device_set.vgpu_profiles)), ("numVFs", device_set.num_vfs is not None)):
        if device_set.mdev_types and given:
            yield forbidden(f"{path}.{field}", "may not be specified together with mdevTypes; make two sets")
    divided = device_set.mdev_types or device_set.vgpu_profiles
    for field, value in (("driver", device_set.driver), ("cards", device_set.cards)):
        if divided and value is not None:
            yield forbidden(f"{path}.{field}", "may not be specified for mdevTypes and vgpuProfiles")
    if not divided and device_set.mixed_profiles is not None:
        yield forbidden(f"{path}.mixedProfiles", "may only be specified for mdevTypes and vgpuProfiles")


def _selector(selector: FunctionSelector, path: str, *, parents: bool) -> Errors:
    for field, value in (
        ("vendor", selector.vendor),
        ("device", selector.device),
        ("subsystemVendor", selector.subsystem_vendor),
        ("subsystemDevice", selector.subsystem_device),
    ):
        yield from _pattern(value, f"{path}.{field}", ID, _ID_DETAIL)
    yield from _pattern(selector.class_code, f"{path}.class", CLASS, _CLASS_DETAIL)
    pattern, detail = (PARENT, _PARENT_DETAIL) if parents else (PCI_ADDRESS, _ADDRESS_DETAIL)
    yield from _pattern(selector.address, f"{path}.address", pattern, detail)
    yield from _pattern(selector.physical_function, f"{path}.physicalFunction", PCI_ADDRESS, _ADDRESS_DETAIL)
    if selector.vf_indexes is not None:
        first, last = selector.vf_indexes.first, selector.vf_indexes.last
        if not 0 <= first <= INDEX_MAX:
            yield invalid(f"{path}.vfIndexes.first", first, f"must be between 0 and {INDEX_MAX}")
        if last is not None and not first <= last <= INDEX_MAX:
            yield invalid(f"{path}.vfIndexes.last", last, f"must be between first and {INDEX_MAX}")
    yield from _pattern(selector.driver, f"{path}.driver", DRIVER, _DRIVER_DETAIL)
    if selector.numa_node is not None and not 0 <= selector.numa_node <= NUMA_NODE_MAX:
        yield invalid(f"{path}.numaNode", selector.numa_node, f"must be between 0 and {NUMA_NODE_MAX}")


def _types(types: tuple[PolicyMdevType | PolicyVgpuProfile, ...], path: str) -> Errors:
    if len(types) > TYPES_MAX:
        yield too_many(path, len(types), TYPES_MAX)
        return
    names: set[str] = set()
    for index, item in enumerate(types):
        field, name = ("type", item.type) if isinstance(item, PolicyMdevType) else ("profile", item.profile)
        if name:
            yield from _pattern(name, f"{path}[{index}].{field}", MDEV_TYPE, _TYPE_DETAIL)
        else:
            yield required(f"{path}[{index}].{field}")
        if name and name in names:
            yield duplicate(f"{path}[{index}].{field}", name)
        names.add(name)
        if item.max is not None and not 1 <= item.max <= COUNT_MAX:
            yield invalid(f"{path}[{index}].max", item.max, f"must be between 1 and {COUNT_MAX}")


def _one_of(value: str | None, path: str, values: tuple[str, ...]) -> Errors:
    if value is not None and value not in values:
        error = not_supported(path, value, values)
        yield replace(error, detail=error.detail + did_you_mean(value, values))


def _pattern(value: str | None, path: str, pattern: str, detail: str) -> Errors:
    if value is not None and not re.fullmatch(pattern, value):
        yield invalid(path, value, detail)
