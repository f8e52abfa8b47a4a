"""From an allocation result to the published device: driver, pool and name, in the pool's newest generation (K-5.9,
K-5.10). Whether devices may be allocated is decided by the allocator's stricter view of a pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.pool_generations import generation_of
from virt_dra.api.resource_v1 import Device, ResourceSlice


@dataclass(frozen=True)
class PublishedDevice:
    """A device and the slice that publishes it."""

    device: Device
    slice: ResourceSlice

    @property
    def node(self) -> str:
        """The only node that has the device, or "" if the slice doesn't name one."""
        return self.slice.spec.node_name or self.device.node_name or ""


class PublishedPool:
    """The slices of a pool, of which those of the highest generation count. An update costs as much as its slice."""

    def __init__(self, slices: Iterable[ResourceSlice] = ()) -> None:
        self._generations: defaultdict[int, _Generation] = defaultdict(_Generation)
        for slice_ in slices:
            self.put(slice_)

    def put(self, published: ResourceSlice) -> None:
        """Add a slice."""
        self._generations[generation_of(published)].put(published)

    def remove(self, published: ResourceSlice) -> None:
        """Remove a slice, given as it was put."""
        number = generation_of(published)
        generation = self._generations.get(number)
        if generation is not None:
            generation.remove(published)
            if not generation.slices:
                del self._generations[number]

    def __bool__(self) -> bool:
        return bool(self._generations)

    @property
    def generation(self) -> int:
        """The highest generation."""
        return max(self._generations)

    @property
    def size(self) -> int:
        """The slices of that generation."""
        return len(self._newest.slices)

    @property
    def announced(self) -> tuple[int, ...]:
        """The numbers of slices that the slices announce, ascending. One that announces none is ignored."""
        return tuple(sorted(self._newest.announced))

    @property
    def complete(self) -> bool:
        newest = self._newest
        return all(count == len(newest.slices) for count in newest.announced)

    def devices(self, name: str) -> tuple[PublishedDevice, ...]:
        """Every device of that name: one, unless it is not published (none) or the driver published it twice."""
        return self._newest.devices(name)

    @property
    def state(self) -> tuple[int, bool]:
        """The pool's generation, and whether it is complete: a change affects every user of the pool."""
        return (self.generation, self.complete) if self else (0, False)

    @property
    def _newest(self) -> _Generation:
        return self._generations[self.generation]


class _Generation:
    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.announced: Counter[int] = Counter()
        self._with: dict[str, tuple[str, ...]] = {}
        """Device -> the names of the slices that have it: mostly one."""

    def put(self, published: ResourceSlice) -> None:
        key = _key(published)
        # Files may have several slices of one name, or equal ones without a name.
        while key in self.slices and not published.metadata.resource_version:
            key += "'"
        self.slices[key] = published
        if published.spec.pool.given("resource_slice_count"):
            self.announced[published.spec.pool.resource_slice_count] += 1
        for device in published.spec.devices:
            names = self._with.get(device.name, ())
            self._with[device.name] = names if key in names else (*names, key)

    def remove(self, published: ResourceSlice) -> None:
        key = _key(published)
        if self.slices.pop(key, None) is None:
            return
        if published.spec.pool.given("resource_slice_count"):
            count = published.spec.pool.resource_slice_count
            self.announced[count] -= 1
            if not self.announced[count]:
                del self.announced[count]
        for device in published.spec.devices:
            left = tuple(name for name in self._with.pop(device.name, ()) if name != key)
            if left:
                self._with[device.name] = left

    def devices(self, name: str) -> tuple[PublishedDevice, ...]:
        slices = (self.slices[slice_name] for slice_name in sorted(self._with.get(name, ())))
        return tuple(
            PublishedDevice(device, slice_)
            for slice_ in slices
            for device in slice_.spec.devices
            if device.name == name
        )


def _key(published: ResourceSlice) -> str:
    return published.name or repr(published.to_wire())  # a file may have slices that the API server is to name


class Publications(Protocol):
    """A lookup of pools by driver and name."""

    def pool(self, driver: str, name: str) -> PublishedPool | None: ...


@dataclass(frozen=True)
class PublishedDevices:
    """All slices, by driver and pool. Built once, asked often. Implements :class:`Publications`."""

    pools: Mapping[tuple[str, str], PublishedPool]

    @classmethod
    def from_slices(cls, slices: Iterable[ResourceSlice]) -> PublishedDevices:
        """The pools of slices in any order; of several versions of one slice the newest counts."""
        by_pool: defaultdict[tuple[str, str], PublishedPool] = defaultdict(PublishedPool)
        for slice_ in newest(slices):
            by_pool[slice_.pool_key].put(slice_)
        return cls(dict(by_pool))

    def pool(self, driver: str, name: str) -> PublishedPool | None:
        return self.pools.get((driver, name))


def newest(objects: Iterable[ObjectT]) -> tuple[ObjectT, ...]:
    """Each object once, in its newest version: of one name the one with the highest resourceVersion. Different ones
    without a resourceVersion are all kept, in an order that doesn't depend on the input's."""
    by_name: dict[str, list[ObjectT]] = {}
    nameless: list[ObjectT] = []
    for obj in objects:
        (by_name.setdefault(obj.key, []) if obj.name else nameless).append(obj)
    kept: list[ObjectT] = []
    for same in by_name.values():
        kept += same if len(same) == 1 else _newest_of(same)
    return (*kept, *nameless)


def _newest_of(same: list[ObjectT]) -> list[ObjectT]:
    by_text = {repr(obj.to_wire()): obj for obj in same}
    ordered = sorted(by_text, key=lambda text: (_version(by_text[text]), text))
    unversioned = [by_text[text] for text in ordered if _version(by_text[text]) < 0]
    versioned = [by_text[text] for text in ordered if _version(by_text[text]) >= 0]
    return [*unversioned, *versioned[-1:]]


def _version(obj: TypedObject) -> int:
    """The resourceVersion as a number, or -1 if there is none that can be compared."""
    text = obj.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) < 40 else -1
