"""The types of rows, details and topology as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from virt_dra.allocator.model import DeviceId
from virt_dra.api.wire import Json
from virt_dra.model.unknown import UnknownFactJson
from virt_dra.model.usage import ClaimUserJson, DeviceHolderJson


class DeviceIdJson(TypedDict):
    """What names a device in a cluster."""

    driver: str
    pool: str
    device: str


def device_id_json(id: DeviceId) -> DeviceIdJson:
    return {"driver": id.driver, "pool": id.pool, "device": id.device}


# --- rows ----------------------------------------------------------------------------------------------------------


class VmDeviceJson(TypedDict):
    """A device entry or network of a VM."""

    name: str
    kind: str
    address: str | None
    claim: str | None
    request: str | None
    device: DeviceIdJson | None
    resolved: bool
    reason: str | None
    """What is in the way or wrong."""
    message: str | None


class VmRowJson(TypedDict):
    """A VM, with what is known of its devices."""

    namespace: str
    name: str
    kind: str
    """Of the object that is known of it: VirtualMachine, VirtualMachineInstance, Pod or ResourceClaim."""
    phase: str | None
    node: str | None
    pod: str | None
    devices: list[VmDeviceJson]
    ready: str
    reason: str | None
    """Why it isn't ready."""
    message: str | None
    created: str | None
    """RFC 3339"""


ClaimUsersJson = TypedDict("ClaimUsersJson", {"for": list[ClaimUserJson]})


class ClaimRowJson(ClaimUsersJson):
    """A ResourceClaim, and what it is for."""

    namespace: str
    name: str
    state: str
    devices: list[DeviceIdJson]
    node: str | None
    classes: list[str]
    since: str | None
    """RFC 3339"""


class DeviceRowJson(DeviceIdJson):
    """A device, and who has it."""

    node: str | None
    """Also (all) or (selector), for devices of several nodes."""
    model: str | None
    address: str | None
    states: list[str]
    """The first is the most important."""
    heldBy: list[DeviceHolderJson]
    taints: list[Json]
    """DeviceTaints of resource.k8s.io/v1."""
    health: str | None
    problem: str | None


class PoolRowJson(TypedDict):
    """A pool of devices."""

    driver: str
    pool: str
    generation: int
    state: str
    problem: str | None
    slices: int
    announcedSlices: list[int]
    staleSlices: int
    nodes: list[str]
    devices: int
    free: int


class DriverRowJson(TypedDict):
    """A driver with a pool."""

    driver: str
    nodes: list[str]
    pools: int
    devices: int
    free: int
    allocated: int
    deviceClasses: list[str]
    undecidedDeviceClasses: list[str]
    """Those of which it isn't known whether they select a device of it."""


# --- topology ------------------------------------------------------------------------------------------------------


class DeviceVerdictJson(TypedDict):
    """What an answer says of a device."""

    word: str
    why: str | None


class PlacedDeviceJson(DeviceRowJson):
    """A device, with what an answer that is laid over it says."""

    verdict: DeviceVerdictJson | None


class DeviceGroupJson(TypedDict):
    """Devices below one PCIe root."""

    numa: str | None
    pcieRoot: str | None
    devices: list[PlacedDeviceJson]


class NodeFoldJson(TypedDict):
    """Nodes that have the same devices; these are the first one's."""

    nodes: list[str]
    free: int
    groups: list[DeviceGroupJson]


class TopologyJson(TypedDict):
    """Where a cluster's devices are, and who has them."""

    unknown: list[UnknownFactJson]
    folds: list[NodeFoldJson]


# --- details -------------------------------------------------------------------------------------------------------


class ConditionJson(TypedDict):
    """A condition of an object."""

    type: str
    status: str
    reason: str | None
    message: str | None
    since: str | None


class EventJson(TypedDict):
    """An event about an object."""

    type: str
    reason: str
    object: str
    count: int
    last: str | None
    message: str


class RemarksJson(TypedDict):
    """What others say of an object."""

    lint: list[str]
    events: list[EventJson]


class DetailedVmDeviceJson(TypedDict):
    """A device entry of a VM, with its device."""

    name: str
    kind: str
    claim: str | None
    request: str | None
    driver: str | None
    pool: str | None
    device: str | None
    node: str | None
    model: str | None
    address: str | None
    states: list[str]
    taints: list[str]
    health: str | None
    reason: str | None
    message: str | None


class VmPodJson(TypedDict):
    """A launcher pod."""

    name: str
    phase: str | None
    node: str | None
    created: str | None
    conditions: list[str]


_ClaimTextJson = TypedDict("_ClaimTextJson", {"for": str | None})


class ClaimLineJson(_ClaimTextJson):
    """A claim of a VM."""

    name: str
    state: str
    since: str | None
    node: str | None
    devices: str | None


class VmDetailsJson(RemarksJson):
    """Everything that is known of a VM."""

    kind: Literal["vm"]
    namespace: str
    name: str
    object: str
    """The kind of the object that is known of it."""
    phase: str | None
    node: str | None
    ready: str
    reason: str | None
    message: str | None
    created: str | None
    labels: Mapping[str, str]
    devices: list[DetailedVmDeviceJson]
    claims: list[ClaimLineJson]
    pods: list[VmPodJson]
    conditions: list[ConditionJson]


_RequestClassJson = TypedDict("_RequestClassJson", {"class": str})


class ClaimRequestJson(_RequestClassJson):
    """What a claim asks for."""

    name: str
    """Of an alternative request/alternative."""
    mode: str
    count: int | None
    selectors: list[str]
    tolerations: list[Json]
    """DeviceTolerations of resource.k8s.io/v1."""
    capacity: Mapping[str, str]
    adminAccess: bool


class AllocatedDeviceJson(DeviceIdJson):
    """A device of a claim."""

    request: str
    published: bool | None
    """null where slices couldn't be read."""
    share: str | None
    consumed: Mapping[str, str]
    adminAccess: bool
    conditions: list[ConditionJson]


class ClaimDetailsJson(RemarksJson, ClaimUsersJson):
    """Everything that is known of a claim."""

    kind: Literal["claim"]
    namespace: str
    name: str
    state: str
    created: str | None
    allocated: str | None
    node: str | None
    owners: list[str]
    labels: Mapping[str, str]
    requests: list[ClaimRequestJson]
    constraints: list[Json]
    """DeviceConstraints of resource.k8s.io/v1."""
    devices: list[AllocatedDeviceJson]


class SelectingClassesJson(TypedDict):
    """The DeviceClasses that select a device."""

    deviceClasses: list[str]
    undecidedDeviceClasses: list[str]


class DeviceDetailsJson(RemarksJson, SelectingClassesJson):
    """Everything that is known of a device."""

    kind: Literal["device"]
    driver: str
    pool: str
    name: str
    node: str | None
    model: str | None
    address: str | None
    states: list[str]
    health: str | None
    problem: str | None
    slice: str | None
    generation: int | None
    heldBy: list[DeviceHolderJson]
    taints: list[Json]
    """DeviceTaints of resource.k8s.io/v1."""
    attributes: Mapping[str, str]
    capacity: Mapping[str, str]
    consumesCounters: list[Mapping[str, str]]
    """counterSet, and an amount of each counter."""
    shareable: bool | None
    bindingConditions: list[str]


class DeviceLineJson(TypedDict):
    """A device in a line."""

    device: str
    node: str | None
    model: str | None
    address: str | None
    state: str
    heldBy: str | None
    since: str | None


class SliceLineJson(TypedDict):
    """A slice of a pool."""

    name: str
    generation: int
    counts: bool
    """False for an older generation's."""
    devices: int
    created: str | None


class PoolDetailsJson(RemarksJson):
    """Everything that is known of a pool."""

    kind: Literal["pool"]
    driver: str
    name: str
    generation: int
    state: str
    problem: str | None
    announcedSlices: list[int]
    nodes: list[str]
    free: int
    slices: list[SliceLineJson]
    counters: list[Mapping[str, str]]
    """counterSet, and an amount of each counter."""
    devices: list[DeviceLineJson]


class ClassLineJson(TypedDict):
    """A DeviceClass that selects devices of a driver."""

    name: str
    extendedResource: str | None
    selectors: str | None


class PoolLineJson(TypedDict):
    """A pool of a driver."""

    name: str
    generation: int
    state: str
    nodes: str | None
    devices: int
    free: int


class HeldDeviceLineJson(DeviceLineJson):
    """A device in use."""

    pool: str


class DriverDetailsJson(RemarksJson):
    """Everything that is known of a driver."""

    kind: Literal["driver"]
    name: str
    nodes: list[str]
    devices: int
    free: int
    allocated: int
    undecidedDeviceClasses: list[str]
    deviceClasses: list[ClassLineJson]
    pools: list[PoolLineJson]
    held: list[HeldDeviceLineJson]


RowDetailsJson = VmDetailsJson | ClaimDetailsJson | DeviceDetailsJson | PoolDetailsJson | DriverDetailsJson


class RowDetailsListJson(TypedDict):
    """Everything that is known of what was asked for."""

    items: list[RowDetailsJson]
