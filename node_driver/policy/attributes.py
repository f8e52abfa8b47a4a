"""What is said of a device in a ResourceSlice: Kubernetes' standard attributes, and ours (D-40, D-59)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from node_driver.devices import DeviceKind
from node_driver.hardware.inventory import Hardware, MdevType, NumaNode, PciFunction
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceCapacity

STANDARD: Final = "resource.kubernetes.io"
TEXT_MAX: Final = 64
"""Bytes of an attribute's text."""
_FRAMEBUFFER: Final = re.compile(r"\bframebuffer=(\d{1,7})M\b")
_PROFILE_SIZE: Final = re.compile(r"-(\d{1,4})[A-Z]{1,4}$")
"""The end of a vGPU profile's name, GiB and series: ``NVIDIA L40S-8Q``."""

PublishedAttributes = dict[str, DeviceAttribute]


def function_attributes(
    function: PciFunction, others: Sequence[str], kind: DeviceKind, hardware: Hardware, *, lists: bool
) -> PublishedAttributes:
    """Of a device that is a PCI function. ``others``: the functions that are bound with it."""
    return {
        **_address(function, hardware, lists=lists),
        **_identity(function),
        "kind": text(kind.value),
        **({"iommuGroup": DeviceAttribute(int_value=function.iommu_group)} if function.iommu_group is not None else {}),
        **({"physicalFunction": text(function.physical_function)} if function.physical_function else {}),
        **({"vfIndex": DeviceAttribute(int_value=function.vf_index)} if function.vf_index is not None else {}),
        **({"driver": text(function.driver)} if function.driver else {}),
        **_several("resetMethods", function.reset_methods, lists=lists),
        **({"groupSize": DeviceAttribute(int_value=len(others) + 1)} if others else {}),
        **_several("groupMembers", others, lists=lists),
    }


def mdev_attributes(
    mdev_type: MdevType, parent: PciFunction | None, hardware: Hardware, *, lists: bool
) -> PublishedAttributes:
    """Of a mediated device. It has no pciBusID: that would be taken for a function to pass through (D-36)."""
    said: PublishedAttributes = {"kind": text(DeviceKind.MDEV.value), "mdevType": text(mdev_type.type_id)}
    for name, value in (("mdevTypeName", mdev_type.name), ("deviceAPI", mdev_type.device_api)):
        if value:
            said[name] = text(value)
    if parent is None:
        return said | {"parent": text(mdev_type.parent)}
    where = {name: value for name, value in _address(parent, hardware, lists=lists).items() if name != _BUS_ID}
    return where | _identity(parent) | said | {"parentPCIAddress": text(parent.address)}


def vgpu_attributes(
    function: PciFunction, profile_id: str, profile: str, hardware: Hardware, *, lists: bool
) -> PublishedAttributes:
    """Of a VF with a vGPU profile."""
    return {
        **function_attributes(function, (), DeviceKind.VGPU, hardware, lists=lists),
        "vgpuProfile": text(profile),
        "vgpuProfileID": text(profile_id),
    }


def memory_capacity(mebibytes: int) -> Mapping[str, DeviceCapacity]:
    """The memory of a partition of a card; nothing if it isn't known."""
    return {"memory": DeviceCapacity(value=Quantity(f"{mebibytes}Mi"))} if mebibytes else {}


def mdev_memory(mdev_type: MdevType) -> int:
    """MiB, as the description says; 0 if it doesn't."""
    match = _FRAMEBUFFER.search(mdev_type.description)
    return int(match[1]) if match else 0


def profile_memory(profile: str) -> int:
    """MiB, as the profile's name says; 0 if it doesn't.

    >>> profile_memory("NVIDIA L40S-8Q")
    8192
    """
    match = _PROFILE_SIZE.search(profile)
    return int(match[1]) * 1024 if match else 0


def text(value: str) -> DeviceAttribute:
    """A text, cut to what an attribute may have."""
    return DeviceAttribute(string=value.encode()[:TEXT_MAX].decode(errors="ignore"))


def numa_nodes(node: int, nodes: Mapping[int, NumaNode]) -> tuple[int, ...]:
    """The node, then those of its socket that are nearest by ACPI SLIT distance; those of which the socket isn't known
    count as being on it, as with Kubernetes' helper (KEP-6072)."""
    own = nodes.get(node, NumaNode())
    others = {number: distance for number, distance in enumerate(own.distances) if number != node}
    if node >= len(own.distances) or not others:
        return (node,)
    least = min(others.values())
    near = (
        number
        for number, distance in others.items()
        if distance == least and (own.socket is None or nodes.get(number, NumaNode()).socket in (None, own.socket))
    )
    return (node, *near)


_BUS_ID: Final = f"{STANDARD}/pciBusID"


def _address(function: PciFunction, hardware: Hardware, *, lists: bool) -> PublishedAttributes:
    said = {_BUS_ID: text(function.address)}
    if function.pcie_root:
        said[f"{STANDARD}/pcieRoot"] = text(function.pcie_root)
    if function.numa_node is not None:
        said[f"{STANDARD}/numaNode"] = (
            DeviceAttribute(ints=numa_nodes(function.numa_node, hardware.numa_nodes))
            if lists
            else DeviceAttribute(int_value=function.numa_node)
        )
    return said


def _identity(function: PciFunction) -> PublishedAttributes:
    ids = {
        "vendorID": function.vendor,
        "deviceID": function.device,
        "subsystemVendorID": function.subsystem_vendor,
        "subsystemDeviceID": function.subsystem_device,
        "class": function.class_code,
    }
    return {name: text(value) for name, value in ids.items() if value}


def _several(name: str, values: Sequence[str], *, lists: bool) -> PublishedAttributes:
    """A list where the cluster has them, else texts joined by commas; nothing where these are too long."""
    if not values:
        return {}
    if lists:
        return {name: DeviceAttribute(strings=tuple(values))}
    joined = ",".join(values)
    return {name: text(joined)} if len(joined.encode()) <= TEXT_MAX else {}
