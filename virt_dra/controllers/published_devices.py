"""From an allocation result to the published device: driver, pool and name, in the pool's newest generation (K-5.9, K-5.10).

This is the view of a reader who asks for one allocated device. The allocator has its own, stricter view of a pool, which
decides whether its devices may be handed out at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar, runtime_checkable

from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import Device, ResourceSlice

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type


@dataclass(frozen=True)
class Published:
    """A device and the slice that publishes it."""

    device: Device
    slice: ResourceSlice

    @property
    def node(self) -> str:
        """The only node that has the device, or "" if the slice doesn't name one."""
        return self.slice.spec.node_name or self.device.node_name or ""


Named = Mapping[str, tuple[Device, ...]]
"""A slice's devices by name: one each, unless the driver published it twice."""


def devices_by_name(published: ResourceSlice) -> Named:
    found: dict[str, tuple[Device, ...]] = {}
    for device in published.spec.devices:
        found[device.name] = (*found.get(device.name, ()), device)
    return found


@dataclass(frozen=True)
class Pool:
    """The slices of a pool's highest generation. ``named``: the devices of each, if they have been sorted already."""

    generation: int
    slices: tuple[ResourceSlice, ...]
    named: tuple[Named, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def announced(self) -> tuple[int, ...]:
        """The numbers of slices that the slices announce, ascending. A slice that announces none (in hand-made input) has no say."""
        return tuple(sorted({s.spec.pool.resource_slice_count for s in self.slices if s.spec.pool.given("resource_slice_count")}))

    @property
    def complete(self) -> bool:
        return all(count == len(self.slices) for count in self.announced)

    @cached_property
    def _named(self) -> tuple[Named, ...]:
        return tuple(map(devices_by_name, self.slices)) if self.named is None else self.named

    def devices(self, name: str) -> tuple[Published, ...]:
        """Every device of that name: one, unless it is not published (none) or the driver published it twice."""
        return tuple(Published(device, s) for s, named in zip(self.slices, self._named, strict=True) for device in named.get(name, ()))


@runtime_checkable
class Publications(Protocol):
    """Who can say what a pool publishes."""

    def pool(self, driver: str, name: str) -> Pool | None: ...


@dataclass(frozen=True)
class PublishedDevices:
    """All slices, by driver and pool. Built once, asked often. Implements :class:`Publications`."""

    pools: Mapping[tuple[str, str], Pool]

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice]) -> PublishedDevices:
        """From slices in any order; of several versions of one slice the newest counts."""
        by_pool: dict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
        for s in newest(slices):
            by_pool[s.spec.driver, s.spec.pool.name].append(s)
        return cls({key: pool_of(members) for key, members in by_pool.items()})

    def pool(self, driver: str, name: str) -> Pool | None:
        return self.pools.get((driver, name))


def pool_of(members: Sequence[ResourceSlice], named: Callable[[ResourceSlice], Named] | None = None) -> Pool:
    """The pool that these slices of one driver and pool make: one or more, each once. ``named``: whoever remembers sorted slices."""
    generation = max(s.spec.pool.generation for s in members)
    current = [s for s in members if s.spec.pool.generation == generation]
    ordered = tuple(sorted(current, key=lambda s: (s.name, "" if s.name else repr(s.to_wire()))))
    return Pool(generation, ordered, None if named is None else tuple(map(named, ordered)))


def newest(objects: Iterable[O]) -> tuple[O, ...]:
    """Each object once, in its newest version: of one name the one with the highest resourceVersion.

    Hand-made objects without a resourceVersion are all kept, but for equal ones: nothing tells which is newer. Those of one name
    come in an order that does not depend on the input's.
    """
    by_name: dict[str, list[O]] = {}
    nameless: list[O] = []
    for obj in objects:
        (by_name.setdefault(obj.key, []) if obj.name else nameless).append(obj)
    kept: list[O] = []
    for same in by_name.values():
        kept += same if len(same) == 1 else _newest_of(same)
    return (*kept, *nameless)


def _newest_of(same: list[O]) -> list[O]:
    by_text = {repr(obj.to_wire()): obj for obj in same}
    ordered = sorted(by_text, key=lambda text: (_version(by_text[text]), text))
    unversioned = [by_text[text] for text in ordered if _version(by_text[text]) < 0]
    versioned = [by_text[text] for text in ordered if _version(by_text[text]) >= 0]
    return [*unversioned, *versioned[-1:]]


def _version(obj: TypedObject) -> int:
    """The resourceVersion as a number, or -1 if there is none that can be compared."""
    text = obj.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) < 40 else -1
