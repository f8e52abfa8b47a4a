"""The values that the search works on, and the protocols that features implement: filters, checks, bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from virt_dra.allocator.effort import Effort
from virt_dra.api import resource_v1
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass, DeviceToleration, ResourceClaim, ResourceSliceSpec
from virt_dra.cel import Work

RESULT_LIMIT = 32
"""Devices a claim may hold (A-6.4)."""


class PoolId(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """Identifies a device in a cluster; compared byte by byte (A-1.5)."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True, eq=False)
class PoolDevice:
    """One published device together with its slice. One object per device and slice version, shared by all nodes:
    identity compares."""

    id: DeviceId
    pool: PoolId
    published: resource_v1.Device
    slice: ResourceSliceSpec
    profile: int
    """Equal for devices that publish the same apart from names and attributes, in slices and pools that are equal
    otherwise."""
    columns: Mapping[str, int]
    """Attribute -> place in ``numbers``; one object for all devices of a driver with the same attributes."""
    numbers: tuple[int, ...]
    """A number for each attribute's value, from 1: equal numbers mean equal values of equal types."""
    convertible: bool
    """True if expressions can read every attribute: one that can't be read is an error to all of them, used or not
    (A-21.2)."""


class AttributeName:
    """Looks an attribute up: by the exact qualified name (AC-17), else, in the driver's own domain, by the bare
    identifier (A-15.2)."""

    __slots__ = ("_bare", "_domain", "_qualified")

    def __init__(self, name: str) -> None:
        """``name``: qualified, ``domain/identifier``; a name without a domain is only compared exactly."""
        self._qualified = name
        domain, slash, self._bare = name.partition("/")
        self._domain = domain if slash else None

    def find(self, device: PoolDevice) -> resource_v1.DeviceAttribute | None:
        attributes = device.published.attributes
        attribute = attributes.get(self._qualified)
        return attributes.get(self._bare) if attribute is None and device.id.driver == self._domain else attribute

    def numbers(self, devices: Sequence[PoolDevice]) -> list[int]:
        """The number of each device's value (`PoolDevice.numbers`); 0 where it has no such attribute."""
        qualified, bare, domain = self._qualified, self._bare, self._domain
        numbers: list[int] = []
        columns: Mapping[str, int] | None = None
        place: int | None = None
        for device in devices:
            if device.columns is not columns:
                columns = device.columns
                place = columns.get(qualified)
                if place is None and device.id.driver == domain:
                    place = columns.get(bare)
            numbers.append(0 if place is None else device.numbers[place])
        return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """An exact request, or one alternative of ``firstAvailable``: the one shape that every feature sees. ``name`` is
    the request's own name, ``parent`` the name of the request with the alternatives (None for exact requests)."""

    claim_index: int
    claim: ResourceClaim
    name: str
    parent: str | None
    device_class: DeviceClass
    selectors: tuple[str, ...]
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Quantity]
    """The amounts of a device's capacity that it takes, by the names in the claim."""
    derived: Mapping[str, str]
    """The attributes that the request derives: name -> expression (A-16.1)."""

    @property
    def full_name(self) -> str:
        """``request`` or ``request/subrequest``, as results name it (A-18.1)."""
        return self.name if self.parent is None else f"{self.parent}/{self.name}"


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of devices that a request needs; for mode All also the devices, in order (A-9)."""

    request: Request
    count: int
    fixed: tuple[PoolDevice, ...] | None = None


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One entry of ``spec.devices.requests``: its slots, or one set of slots per alternative in order of preference."""

    name: str
    alternatives: tuple[Slots, ...]
    prioritized: bool


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    claim: ResourceClaim
    requests: tuple[RequestPlan, ...]


class Choice(NamedTuple):
    """One device for one request."""

    request: Request
    device: PoolDevice


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a device can't serve a request. ``reason`` is a constant of the refusing feature, ``summary`` the text for a
    histogram over nodes, ``detail`` the facts (a value, a selector, a taint)."""

    reason: str
    summary: str
    device: DeviceId
    detail: str
    expression: str = ""
    """The CEL expression that is false, if it was one."""


class RejectingFeature(Protocol):
    """A feature that can explain its refusal, as observers see it."""

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        """Called right after the refusal, before anything else changes."""


class Filter(RejectingFeature, Protocol):
    """A constraint on a request and a published device, independent of what is in use or chosen."""

    reusable: bool = False
    """True if `admits` depends only on `PoolDevice.profile` and the node's declared features, so that its answer may be
    reused."""

    def admits(self, request: Request, device: PoolDevice) -> bool:
        """True if the device satisfies the constraint. Raises FatalError for broken input."""


SymmetryKey = Hashable | None
"""Equal for interchangeable devices; None for a device that can never be chosen, whatever else is."""


@dataclass(frozen=True, slots=True, eq=False)
class Upcoming:
    """The requests that are still to be filled (every alternative), and the symmetry of devices to all of them
    together."""

    requests: tuple[Request, ...]
    symmetry: Callable[[PoolDevice], SymmetryKey]


class Label(NamedTuple):
    """Values that are only compared with other devices' values of the same ``space`` (e.g. one type of one
    attribute)."""

    space: Hashable
    values: tuple[Hashable, ...]
    """At least one, in an order that doesn't depend on hashing."""


NOT_REUSABLE = object()
"""The reuse key of a device about which a check promises nothing: no outcome is reused."""


class Check(RejectingFeature, Protocol):
    """A constraint on the devices chosen together, with memory of them: for one claim, or for all claims of an attempt.
    A feature must supply ``add``, ``remove`` and ``explain``. The other methods let pruning and reuse save work; by
    default they save nothing. A feature with resources or labels may implement :class:`ResourceConsumer` or
    :class:`DeviceLabeler` too."""

    def add(self, request: Request, device: PoolDevice) -> bool:
        """Remember the device as chosen. False: refused, and nothing has changed (A-10.5); `explain` says why when
        asked."""

    def remove(self, request: Request, device: PoolDevice) -> None:
        """Undo the last successful `add`."""

    def constrains(self, request: Request) -> bool:
        """True if this is one of the claim's constraints, and covers the request: mode All reports its refusals (E18,
        AC-8)."""
        return False

    def symmetry_key(self, request: Request, device: PoolDevice) -> SymmetryKey:
        """Everything about the device that `add` depends on. Raises FatalError like `add`."""
        return device

    def state(self, upcoming: Upcoming) -> Hashable:
        """The part of the memory that can influence an answer to the upcoming requests: equal states give equal
        answers. Devices are named by their symmetry. None if nothing chosen matters: no other state admits more than
        that."""
        return object()

    def reuse_key(self, request: Request, device: PoolDevice) -> Hashable:
        """Everything about the *published* device that `add` depends on, apart from what is in use: for nodes with
        equal keys in equal use the search does the same. Never raises. Values of which only equality among a node's
        devices matters (attributes under a constraint) are given as :class:`Label`, so that nodes which differ in
        nothing but such values have equal keys."""
        return NOT_REUSABLE

    def reuse_keys(
        self, request: Request, devices: Sequence[PoolDevice], work: Work | None = None
    ) -> Sequence[Hashable]:
        """`reuse_key` of each device. ``work``: this attempt's, even if the check was made for another."""
        return [self.reuse_key(request, device) for device in devices]


class Availability(Filter, Check, Protocol):
    """The check that also runs first, before any filter: whether the device is free. Its answer changes as devices are
    chosen."""


class Bound(Protocol):
    """A relaxation of the whole problem that can refute it where no single request can't be satisfied."""

    def concerns(self, device: PoolDevice) -> bool:
        """True if the bound counts the device."""

    def exceeded(self, wanted: Sequence[Sequence[tuple[Slots, Sequence[PoolDevice]]]], effort: Effort) -> bool:
        """True if ``wanted`` provably needs more than there is, with nothing chosen yet. ``wanted``: per entry of a
        claim its alternatives, each with the devices that it could have alone."""


class Take(NamedTuple):
    """A device's part of a limited resource."""

    of: Hashable
    """The resource; amounts of it can be summed over all places."""
    at: Hashable
    """The place it is taken from."""
    amount: int
    """Positive."""
    left: int
    """The amount there before this attempt takes anything."""


class ResourceConsumer(Protocol):
    """A check that refuses a device when a resource is used up: pruning can bound it."""

    def takes(self, request: Request, device: PoolDevice) -> Sequence[Take]:
        """The resources that an `add` uses up in any case. Called only where `symmetry_key` isn't None."""


class DeviceLabeler(Protocol):
    """A check whose devices must have something in common: pruning can bound it."""

    def labels(self, request: Request, device: PoolDevice) -> Collection[Hashable] | None:
        """Devices go together only if all of them share a label; None: the device goes with any. Called only where
        `symmetry_key` isn't None."""
