"""What would be published of a node, and why the rest wouldn't, as a document. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from node_driver.devices import DeviceKind, PublishedSet, Sanitizing
from node_driver.policy.exclusions import ExclusionReason
from node_driver.slices import PoolOwner, plan_slices, slice_contents
from virt_dra.api.wire import Json


class PlannedDeviceJson(TypedDict):
    """What would be done for a device in the slices."""

    name: str
    """In the slices."""
    kind: DeviceKind
    address: str
    """The PCI function that a VM gets, or the parent of a mediated device."""
    members: list[str]
    """The functions that are bound together; none for parts of cards."""
    driver: str
    """What they are bound to; for vGPUs the driver that they stay with."""
    sanitize: Sanitizing
    type: NotRequired[str]
    """The type of the mediated device, or the id of the vGPU profile."""


class ExcludedDeviceJson(TypedDict):
    """What isn't published, and why."""

    subject: str
    """A PCI address, another device, or a policy's set as policy/set."""
    reason: ExclusionReason
    message: str
    """What is the matter, and what to do."""


class NodeDevicePlanJson(TypedDict):
    """What a driver would publish of a node."""

    driver: str
    """The name of the DRA driver."""
    node: str
    """The node, and the pool of its devices."""
    resourceSlices: list[Json]
    """ResourceSlices (resource.k8s.io/v1) as they would be written: slices of counter sets, then of devices."""
    devices: list[PlannedDeviceJson]
    excluded: list[ExcludedDeviceJson]
    virtualFunctions: dict[str, int]
    """PCI address of a physical function -> the number of virtual functions that the driver would give it."""


def plan_document(
    published: PublishedSet, virtual_functions: Mapping[str, int], owner: PoolOwner
) -> NodeDevicePlanJson:
    """``virtual_functions``: PF -> how many VFs it would get."""
    slices = plan_slices(slice_contents(published, {}), (), owner).creates
    devices: list[PlannedDeviceJson] = []
    for device in published.devices:
        devices.append(
            {
                "name": device.name,
                "kind": device.kind,
                "address": device.address,
                "members": list(device.members),
                "driver": device.target_driver,
                "sanitize": device.sanitizing,
            }
        )
        if device.type_id:
            devices[-1]["type"] = device.type_id
    return {
        "driver": owner.driver,
        "node": owner.node,
        "resourceSlices": [slices[index].to_wire() for index in sorted(slices)],
        "devices": devices,
        "excluded": [
            {"subject": excluded.subject, "reason": ExclusionReason(excluded.reason), "message": excluded.message}
            for excluded in published.excluded
        ],
        "virtualFunctions": dict(virtual_functions),
    }
