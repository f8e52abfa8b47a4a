"""The nouns of the search: a device, a request, what was chosen, why something was refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from virt_dra.allocator.errors import Interrupt
from virt_dra.api import resource_v1
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass, DeviceToleration, ResourceClaim, ResourceSliceSpec

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
class Device:
    """One published device together with its slice. One object per device and slice version, shared by all nodes: identity compares."""

    id: DeviceId
    pool: PoolId
    published: resource_v1.Device
    slice_name: str
    slice: ResourceSliceSpec
    alike: int
    """Equal for devices that publish the same apart from their names and attributes, in slices and pools that say the same of them."""
    values: Mapping[str, int]
    """A number for each attribute's value, from 1, by the name that the slice uses: equal numbers mean equal values of equal types."""
    convertible: bool
    """Whether every attribute has a value that can be one; another is an error to every expression, needed or not (A-21.2)."""


class AttributeName:
    """Finds an attribute among those that a device publishes: by the exact qualified name (AC-17), else, in the driver's own domain, by
    the bare identifier (A-15.2)."""

    __slots__ = ("_bare", "_domain", "_qualified")

    def __init__(self, name: str) -> None:
        """``name``: qualified, ``domain/identifier``; another finds only what is published in the same words."""
        self._qualified = name
        domain, slash, self._bare = name.partition("/")
        self._domain = domain if slash else None

    def find(self, device: Device) -> resource_v1.DeviceAttribute | None:
        attributes = device.published.attributes
        found = attributes.get(self._qualified)
        return attributes.get(self._bare) if found is None and device.id.driver == self._domain else found

    def numbers(self, devices: Sequence[Device]) -> list[int]:
        """Of the values (see :class:`Device`); 0 where there is no such attribute."""
        qualified, bare, domain = self._qualified, self._bare, self._domain
        return [device.values.get(qualified) or (device.values.get(bare, 0) if device.id.driver == domain else 0) for device in devices]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """An exact request, or one alternative of ``firstAvailable``: the one shape that every feature sees.

    ``name`` is the request's own name, ``parent`` the name of the request with the alternatives (None for exact requests).
    """

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
    """How much it takes of a device, by capacity name as the claim has it."""
    derived: Mapping[str, str]
    """The attributes that the request derives: name -> expression (A-16.1)."""

    @property
    def full_name(self) -> str:
        """``request`` or ``request/subrequest``, as results name it (A-18.1)."""
        return self.name if self.parent is None else f"{self.parent}/{self.name}"


@dataclass(frozen=True, slots=True)
class Slots:
    """How many devices a request needs; for mode All also which ones, in which order (A-9)."""

    request: Request
    count: int
    fixed: tuple[Device, ...] | None = None


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
    device: Device


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a device can't serve a request. ``reason`` is a constant of the refusing feature, ``summary`` the words for a histogram
    over nodes, ``detail`` the facts (a value, a selector, a taint)."""

    reason: str
    summary: str
    device: DeviceId
    detail: str


class Refuses(Protocol):
    """What observers may ask of a feature that just refused. Called before anything else changes, so the state is as it was."""

    def explain(self, request: Request, device: Device) -> Rejection: ...


class Filter(Refuses, Protocol):
    """A test of a request and a published device, whatever is in use or chosen. Raises FatalError where it can't answer."""

    def admits(self, request: Request, device: Device) -> bool: ...


Kind = Hashable | None
"""What tells devices apart: devices of equal kind are interchangeable. None: the device can't be had, whatever else is chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Upcoming:
    """What the search has still to fill: the requests (every alternative), and the kind of a device to all of them together."""

    requests: tuple[Request, ...]
    kind: Callable[[Device], Kind]


class Label(NamedTuple):
    """Values that are only compared with other devices' values of the same ``space`` (e.g. one type of one attribute)."""

    space: Hashable
    values: tuple[Hashable, ...]
    """At least one, in an order that doesn't depend on hashing."""


class Check(Refuses, Protocol):
    """A test that remembers what was added. A refusing ``add`` has changed nothing; ``remove`` undoes the last ``add`` (A-10.5).

    ``add`` answers bool and not a :class:`Rejection` because nearly all answers are thrown away; ``explain`` has the reason.
    """

    def constrains(self, request: Request) -> bool:
        """Whether this is one of the claim's constraints, and covers the request: mode All reports its refusals (E18, AC-8)."""

    def kind(self, request: Request, device: Device) -> Kind:
        """Whatever of the device `add` looks at; None if it never takes the device for the request. Raises FatalError like `add`."""

    def fact(self, request: Request, device: Device) -> Hashable:
        """Whatever of the *published* device `add` looks at, apart from what is in use: on nodes whose devices have equal facts and are
        in equal use the search does the same. Never raises. Values of which only equality among a node's devices matters (attributes
        under a constraint) are given as :class:`Label`, so that nodes which differ in nothing but such values have equal facts."""

    def facts(self, request: Request, devices: Sequence[Device], interrupt: Interrupt | None = None) -> Sequence[Hashable]:
        """`fact` of each device. ``interrupt``: of this attempt, for expressions; the check may be another attempt's. It raises to end."""
        return [self.fact(request, device) for device in devices]

    def add(self, request: Request, device: Device) -> bool: ...

    def remove(self, request: Request, device: Device) -> None: ...

    def state(self, upcoming: Upcoming) -> Hashable:
        """Whatever of its memory can still influence an answer to the upcoming requests; equal states answer alike. None if nothing
        of the past matters; a state other than None never makes anything possible that None forbids. Devices count by their kind."""


class Availability(Filter, Check, Protocol):
    """The check that is also asked first, before any filter: whether the device is free. Its answer changes as devices are chosen."""


class Bound(Protocol):
    """A sum that can't be exceeded, however it is distributed: what tells that a search is in vain where no single request is to blame."""

    def concerns(self, device: Device) -> bool:
        """Whether the device has a part in the sum."""

    def lacks(self, wanted: Sequence[Sequence[tuple[Slots, Sequence[Device]]]]) -> bool:
        """Whether all of ``wanted`` together is surely more than there is, with nothing chosen yet.

        ``wanted``: per entry of a claim its alternatives, each with the devices that it could have alone."""


class Take(NamedTuple):
    """A device's part of something of which there is only so much."""

    of: Hashable
    """What is taken; amounts of it add up, wherever they are taken from."""
    at: Hashable
    """Which one it is taken from."""
    amount: int
    """Positive."""
    left: int
    """How much there is before this attempt takes anything."""


class Consumes(Protocol):
    """A check that refuses where something runs out. What it says lets the search see early that too little is left."""

    def takes(self, request: Request, device: Device) -> Sequence[Take]:
        """What an `add` surely uses up, whatever was added before. Asked where `kind` isn't None."""


class Agrees(Protocol):
    """A check whose devices must have something in common."""

    def labels(self, request: Request, device: Device) -> Collection[Hashable] | None:
        """Devices go together only if all of them share a label; None: any device goes with these. Asked where `kind` isn't None."""
