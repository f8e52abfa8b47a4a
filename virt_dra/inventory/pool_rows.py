"""Pools and drivers: how many devices there are, how many are free, and whether what is published is whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from virt_dra.allocator.model import PoolId
from virt_dra.allocator.pools import INCOMPLETE
from virt_dra.api.resource_v1 import DeviceClass, ResourceSlice
from virt_dra.cel.errors import Interrupted
from virt_dra.cel.limits.budget import Work
from virt_dra.inventory.device_rows import DeviceRow
from virt_dra.inventory.document_types import DriverRowJson, PoolRowJson
from virt_dra.inventory.fields import RowFields
from virt_dra.matching.evaluating import compiled, matching_slices
from virt_dra.matching.positions import mask_of
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import SliceFault
from virt_dra.matching.slice_table import SliceGroups, SlicesByPosition
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.devices import pools, slices_of_pools

COMPLETE: Final = "complete"
STALE: Final = "stale"
"""Slices of older generations are still there; they don't count."""
_WORK_FOR_A_CLASS: Final = 500_000.0
_WORK: Final = 5_000_000.0
"""Microseconds of evaluating the selectors of one class, and of all classes, on all drivers: users may write costly
ones."""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool. ``slices``: of the newest generation; ``announced``: how many there should be; ``stale``: slices of older
    ones."""

    resource: ClassVar = "pool"
    namespace: ClassVar = ""
    FIELDS: ClassVar[RowFields] = {
        "driver": lambda row: (row.id.driver,),
        "pool": lambda row: (row.id.pool,),
        "generation": lambda row: (row.generation,),
        "state": lambda row: (row.state, *((STALE,) if row.stale else ())),
        "node": lambda row: row.nodes,
        "devices": lambda row: (row.devices,),
        "free": lambda row: (row.free,),
    }

    id: PoolId
    generation: int
    slices: tuple[ResourceSlice, ...]
    announced: tuple[int, ...]
    stale: int
    state: str
    problem: str
    nodes: tuple[str, ...]
    devices: int
    free: int

    @property
    def name(self) -> str:
        return self.id.pool

    @property
    def names(self) -> tuple[str, ...]:
        return str(self.id), self.id.pool

    @property
    def identity(self) -> str:
        return str(self.id)

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        return [slice_.metadata.labels for slice_ in self.slices]

    def to_json(self) -> PoolRowJson:
        return {
            "driver": self.id.driver,
            "pool": self.id.pool,
            "generation": self.generation,
            "state": self.state,
            "problem": self.problem or None,
            "slices": len(self.slices),
            "announcedSlices": list(self.announced),
            "staleSlices": self.stale,
            "nodes": list(self.nodes),
            "devices": self.devices,
            "free": self.free,
        }


def pool_rows(model: ClusterModel, devices: Iterable[DeviceRow]) -> list[PoolRow]:
    """All pools, in order of driver and pool. ``devices``: the rows of all devices."""
    of_pool = _published_by_pool(devices)
    rows = []
    for pool, newest in pools(model).items():
        listed = of_pool.get(pool, [])
        state = (
            COMPLETE if newest.problem is None else "incomplete" if newest.problem.reason == INCOMPLETE else "invalid"
        )
        rows.append(
            PoolRow(
                pool, newest.generation, newest.slices, newest.announced,
                len(slices_of_pools(model)[pool]) - len(newest.slices), state,
                newest.problem.detail if newest.problem is not None else "", _nodes(listed, newest.slices), len(listed),
                sum(device.free for device in listed),
            )
        )  # fmt: skip
    return rows


def _published_by_pool(devices: Iterable[DeviceRow]) -> dict[PoolId, list[DeviceRow]]:
    by_pool: dict[PoolId, list[DeviceRow]] = defaultdict(list)
    for device in devices:
        if device.device is not None:
            by_pool[PoolId(device.id.driver, device.id.pool)].append(device)
    return by_pool


def _nodes(devices: Iterable[DeviceRow], slices: Iterable[ResourceSlice] = ()) -> tuple[str, ...]:
    named = {slice_.spec.node_name for slice_ in slices if slice_.spec.node_name}
    return tuple(sorted(named | {device.node for device in devices if device.node}))


@dataclass(frozen=True, slots=True)
class DriverRow:
    """A driver that publishes devices. ``classes``: the DeviceClasses that select any of them; ``undecided``: those
    that take too long."""

    resource: ClassVar = "driver"
    namespace: ClassVar = ""
    FIELDS: ClassVar[RowFields] = {
        "driver": lambda row: (row.name,),
        "node": lambda row: row.nodes,
        "class": lambda row: row.classes,
        "nodes": lambda row: (len(row.nodes),),
        "pools": lambda row: (row.pools,),
        "devices": lambda row: (row.devices,),
        "free": lambda row: (row.free,),
        "allocated": lambda row: (row.allocated,),
    }

    name: str
    nodes: tuple[str, ...]
    pools: int
    devices: int
    free: int
    allocated: int
    classes: tuple[str, ...]
    undecided: tuple[str, ...]
    labels: Sequence[Mapping[str, str]] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def identity(self) -> str:
        return self.name

    def to_json(self) -> DriverRowJson:
        return {
            "driver": self.name,
            "nodes": list(self.nodes),
            "pools": self.pools,
            "devices": self.devices,
            "free": self.free,
            "allocated": self.allocated,
            "deviceClasses": list(self.classes),
            "undecidedDeviceClasses": list(self.undecided),
        }


def driver_rows(model: ClusterModel, devices: Iterable[DeviceRow]) -> list[DriverRow]:
    """All drivers with a pool, by name. ``devices``: the rows of all devices."""
    of_driver: dict[str, list[DeviceRow]] = defaultdict(list)
    for device in devices:
        of_driver[device.id.driver].append(device)
    newest = pools(model)
    of_drivers: dict[str, list[PoolId]] = defaultdict(list)
    for pool in newest:
        of_drivers[pool.driver].append(pool)
    selecting, undecided = classes_by_driver(model)
    rows = []
    for driver, own in of_drivers.items():
        slices = [slice_ for pool in own for slice_ in newest[pool].slices]
        published = [device for device in of_driver[driver] if device.device is not None]
        rows.append(
            DriverRow(
                driver, _nodes(published, slices), len(own), len(published), sum(device.free for device in published),
                sum(device.held for device in of_driver[driver]), tuple(selecting.get(driver, ())), undecided,
                [slice_.metadata.labels for slice_ in slices],
            )
        )  # fmt: skip
    return rows


def classes_by_driver(model: ClusterModel) -> tuple[Mapping[str, list[str]], tuple[str, ...]]:
    """Driver -> the DeviceClasses whose selectors hold for any of its devices; and the classes that take too long to
    evaluate."""
    return selected_by(model.of(DeviceClass), [slice_ for newest in pools(model).values() for slice_ in newest.slices])


def selected_by(
    classes: Iterable[DeviceClass], slices: Iterable[ResourceSlice]
) -> tuple[Mapping[str, list[str]], tuple[str, ...]]:
    """The classes of each driver, as :func:`classes_by_driver`, for the devices of these slices."""
    classes = tuple(classes)
    published = (PublishedSlice.from_slice(slice_, {}, position) for position, slice_ in enumerate(slices))
    groups = SliceGroups(SlicesByPosition(published if classes else ()))
    by_driver: dict[str, list[str]] = defaultdict(list)
    undecided: list[str] = []
    left = _WORK
    for class_ in classes:
        work = Work(given := min(left, _WORK_FOR_A_CLASS))
        try:
            for driver in _selected(class_, groups, work):
                by_driver[driver].append(class_.name)
        except Interrupted:
            undecided.append(class_.name)
        left = max(0.0, left - given + (work.left or 0.0))
    return by_driver, tuple(undecided)


def _selected(class_: DeviceClass, groups: SliceGroups, work: Work) -> list[str]:
    """The drivers with a device that a class selects, sorted. Raises Interrupted when the selectors take too long."""
    expressions = tuple(selector.cel.expression for selector in class_.spec.selectors if selector.cel is not None)
    selectors = compiled(expressions, work)
    if isinstance(selectors, SliceFault):
        return []
    everywhere = mask_of(groups.table.slices)
    matching = sum(matched for _, matched in matching_slices(selectors, groups, everywhere, work))
    return sorted(groups.table.drivers(matching))
