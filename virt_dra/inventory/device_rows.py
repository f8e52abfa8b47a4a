"""Devices: what drivers publish in the newest generation of their pools, and who holds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.pools import NewestSlices
from virt_dra.api.integration.attribute_keys import Addresses, DriverKeys, addresses
from virt_dra.api.resource_v1 import Device, DeviceAttribute, DeviceTaint, ResourceClaim, ResourceSlice
from virt_dra.inventory.document_types import DeviceRowJson
from virt_dra.inventory.fields import RowFields
from virt_dra.inventory.health import unhealthy_devices
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.devices import pools
from virt_dra.model.usage import DeviceHolder, holders

FREE: Final = "free"
"""Unallocated, and available to claims."""
UNKNOWN: Final = "unknown"
"""In place of free where not all claims could be read."""
ALLOCATED: Final = "allocated"
SHARED: Final = "shared"
"""Some claims hold shares of it; there may be room for more."""
BLOCKED: Final = "blocked"
"""Nobody holds it, but partitions of the same hardware that are held leave too little of a counter."""
TAINTED: Final = "tainted"
"""It has a taint NoSchedule or NoExecute."""
UNHEALTHY: Final = "unhealthy"
UNAVAILABLE: Final = "unavailable"
"""Its pool is incomplete or invalid, so its devices can't be allocated."""
UNPUBLISHED: Final = "unpublished"
"""It is allocated, but not among what its driver publishes."""

ALL_NODES: Final = "(all)"
BY_SELECTOR: Final = "(selector)"
"""In place of a node, for devices of several nodes."""
_MODELS: Final = ("productName", "model", "modelName", "deviceName", "product", "type")
"""Identifiers of attributes that name a model, best first."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device. ``states``: the first one is the most important. ``node``: also :data:`ALL_NODES` or
    :data:`BY_SELECTOR`."""

    resource: ClassVar = "device"
    namespace: ClassVar = ""
    FIELDS: ClassVar[RowFields] = {
        "driver": lambda row: (row.id.driver,),
        "pool": lambda row: (row.id.pool,),
        "device": lambda row: (row.id.device,),
        "node": lambda row: (row.node,),
        "model": lambda row: (row.model,),
        "address": lambda row: (row.address,),
        "state": lambda row: row.states,
        "namespace": lambda row: tuple(holder.namespace for holder in row.holders),
        "vm": lambda row: tuple(holder.vm for holder in row.holders if holder.vm),
        "claim": lambda row: tuple(holder.claim.name for holder in row.holders),
        "since": lambda row: tuple(holder.since for holder in row.holders),
    }

    id: DeviceId
    node: str
    model: str
    address: str
    states: tuple[str, ...]
    holders: tuple[DeviceHolder, ...]
    taints: tuple[DeviceTaint, ...]
    health: str | None
    slice: ResourceSlice | None
    device: Device | None
    problem: str

    @property
    def name(self) -> str:
        return self.id.device

    @property
    def names(self) -> tuple[str, ...]:
        driver, pool, device = self.id
        return f"{driver}/{pool}/{device}", f"{pool}/{device}", device

    @property
    def identity(self) -> str:
        return str(self.id)

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        return (self.slice.metadata.labels,) if self.slice is not None else ()

    @property
    def free(self) -> bool:
        """True if a claim can get it."""
        return self.states[0] == FREE

    @property
    def sound(self) -> bool:
        """False for a device that no claim should get as it is: tainted, unhealthy, not available or not published."""
        return not {TAINTED, UNHEALTHY, UNAVAILABLE, UNPUBLISHED}.intersection(self.states)

    @property
    def held(self) -> bool:
        """True if a claim has it or a share of it."""
        return self.states[0] in (ALLOCATED, SHARED)

    def to_json(self) -> DeviceRowJson:
        return {
            "driver": self.id.driver,
            "pool": self.id.pool,
            "device": self.id.device,
            "node": self.node or None,
            "model": self.model or None,
            "address": self.address or None,
            "states": list(self.states),
            "heldBy": [holder.to_json() for holder in self.holders],
            "taints": [taint.to_wire() for taint in self.taints],
            "health": self.health,
            "problem": self.problem or None,
        }


def device_rows(model: ClusterModel, keys: tuple[DriverKeys, ...] = ()) -> list[DeviceRow]:
    """All devices, in order of driver and pool and as published; then those that are held and not published.

    ``keys``: attributes that are addresses, besides the well-known ones.
    """
    held, unhealthy, published = dict(holders(model)), unhealthy_devices(model), _PublishedTexts(keys)
    rows: list[DeviceRow] = []
    for pool, newest in pools(model).items():
        rows += _of_pool(pool, newest, held, model, published)
    if not model.knows(ResourceSlice):
        return rows
    rows += (
        DeviceRow(id, "", "", "", (ALLOCATED, UNPUBLISHED), holding, (), unhealthy.get(id), None, None, "")
        for id, holding in sorted(held.items())
    )
    return rows


class _PublishedTexts:
    """Model and address of devices that outlive it: many slices share those that are equal
    (`virt_dra.api.reading.interning`)."""

    def __init__(self, keys: tuple[DriverKeys, ...]) -> None:
        self._keys = keys
        self._known: dict[tuple[str, int], tuple[str, str]] = {}

    def of(self, driver: str, device: Device) -> tuple[str, str]:
        described = self._known.get((driver, id(device)))
        if described is None:
            resolved = addresses(driver, device.attributes, self._keys)
            address = (resolved.mdev or resolved.pci or "") if isinstance(resolved, Addresses) else ""
            described = self._known[driver, id(device)] = model_of(device), address
        return described


def _of_pool(
    pool: PoolId,
    newest: NewestSlices,
    held: dict[DeviceId, tuple[DeviceHolder, ...]],
    model: ClusterModel,
    published: _PublishedTexts,
) -> Iterator[DeviceRow]:
    """Takes the holders of the pool's devices out of ``held``."""
    driver, unhealthy, every_claim = pool.driver, unhealthy_devices(model), model.knows_all(ResourceClaim)
    problem = newest.problem.detail if newest.problem is not None else ""
    listed = [(device, slice_) for slice_ in newest.slices for device in slice_.spec.devices]
    held_here = {
        device.name: held.pop(id) for device, _ in listed if (id := DeviceId(driver, pool.pool, device.name)) in held
    }
    left = _left_of_counters(newest.slices, held_here)
    for device, slice_ in listed:
        id, holding = DeviceId(driver, pool.pool, device.name), held_here.get(device.name, ())
        product, address = published.of(driver, device)
        health = unhealthy.get(id) if unhealthy else None
        states = _states(device, holding, health, problem, left) or ((FREE,) if every_claim else (UNKNOWN,))
        node = node_of(device, slice_)
        yield DeviceRow(id, node, product, address, states, holding, device.taints, health, slice_, device, problem)


def _states(
    device: Device,
    holding: tuple[DeviceHolder, ...],
    health: str | None,
    problem: str,
    left: Mapping[tuple[str, str], Fraction],
) -> tuple[str, ...]:
    using = [holder for holder in holding if not holder.admin]
    states: tuple[str, ...] = ()
    if using:
        states = (SHARED,) if all(holder.share for holder in using) else (ALLOCATED,)
    if health is not None:
        states += (UNHEALTHY,)
    if device.taints and any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints):
        states += (TAINTED,)
    if problem:
        states += (UNAVAILABLE,)
    if not using and device.consumes_counters and _exceeds(device, left):
        states += (BLOCKED,)
    return states


def _left_of_counters(
    slices: Iterable[ResourceSlice], held: Mapping[str, tuple[DeviceHolder, ...]]
) -> dict[tuple[str, str], Fraction]:
    """What held devices leave of each counter of a pool, by counter set and counter."""
    slices = tuple(slices)
    left = {
        (counters.name, name): counter.value.as_fraction()
        for slice_ in slices
        for counters in slice_.spec.shared_counters
        for name, counter in counters.counters.items()
    }
    if not left:
        return left
    for device in (device for slice_ in slices for device in slice_.spec.devices):
        if any(not holder.admin for holder in held.get(device.name, ())):
            for key, amount in _consumption(device):
                left[key] = left.get(key, Fraction(0)) - amount
    return left


def _consumption(device: Device) -> Iterator[tuple[tuple[str, str], Fraction]]:
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            yield (consumption.counter_set, name), counter.value.as_fraction()


def _exceeds(device: Device, left: Mapping[tuple[str, str], Fraction]) -> bool:
    wanted: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for key, amount in _consumption(device):
        wanted[key] += amount
    return any(amount > left.get(key, Fraction(0)) for key, amount in wanted.items())


def node_of(device: Device, slice_: ResourceSlice) -> str:
    """The node that has the device, :data:`ALL_NODES` or :data:`BY_SELECTOR`."""
    spec = slice_.spec
    if spec.node_name:
        return spec.node_name
    if spec.per_device_node_selection and device.node_name:
        return device.node_name
    everywhere = device.all_nodes if spec.per_device_node_selection else spec.all_nodes
    return ALL_NODES if everywhere else BY_SELECTOR


def model_of(device: Device) -> str:
    """The model by the device's attributes, "" if none of them names one."""
    attributes = device.attributes
    for identifier in _MODELS:
        attribute = attributes.get(identifier) or next(
            (value for name, value in attributes.items() if name.endswith(f"/{identifier}")), None
        )
        if attribute is not None and attribute.string:
            return attribute.string
    return ""


def attribute_text(attribute: DeviceAttribute) -> str:
    """An attribute's value for people."""
    values = [value if isinstance(value, list) else [value] for value in attribute.to_wire().values()]
    return ", ".join(str(part).lower() if isinstance(part, bool) else str(part) for value in values for part in value)
