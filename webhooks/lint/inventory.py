"""The published devices, and which of them selectors match. No node and no claim in use is looked at: that is the allocator's matter.

Of every pool only the newest generation counts (K-5.9). An inventory never changes: :meth:`Inventory.changed` makes another one, which
shares with it all that stayed as it was, so that a changed slice costs what this slice holds, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Final

from virt_dra.api.attribute_keys import DriverKeys
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel import CompileError, Interrupted, Selector, compile_selector
from virt_dra.cel.reads import together
from webhooks.lint.device_set import DeviceSet
from webhooks.lint.parts import Fault, Part, Pool, Work, ask
from webhooks.lint.published import Published, seen_by

__all__ = ["Drivers", "Fault", "Inventory", "Match", "Work"]

KEPT_ANSWERS: Final = 512
"""Lists of selectors whose answers are kept: texts come from users, so their number must have an end."""
NEAREST: Final = 3
_PER_COMPILED_CHARACTER: Final = 5
"""Microseconds (measured)."""
_PER_COMPARISON: Final = 2
"""Microseconds (measured): to look whether a device differs, for selectors, from one that was asked."""


@dataclass(frozen=True)
class Match:
    """What a list of selectors, all of which must hold, says of the devices.

    ``passed[i]``: how many devices the first ``i`` selectors leave. ``nearest``: some that pass as many as any device does, and then
    fail. ``cut``: not all devices were tried.
    """

    devices: tuple[Published, ...] = ()
    passed: tuple[int, ...] = ()
    nearest: tuple[Published, ...] = ()
    fault: Fault | None = None
    cut: bool = False

    @cached_property
    def set(self) -> DeviceSet:
        return DeviceSet(self.devices)


@dataclass(frozen=True)
class Drivers:
    """The drivers of which some device matches, sorted. ``cut``: of other drivers it isn't known, as not all devices were tried."""

    names: tuple[str, ...] = ()
    cut: bool = False


@dataclass(frozen=True, eq=False)
class Inventory:
    """All devices of a cluster, in the order of driver, pool and slice name. Make it with :meth:`of`, and of one with :meth:`changed`."""

    _keys: Mapping[str, tuple[DriverKeys, ...]] = field(default_factory=dict, repr=False)
    _slices: PersistentMap[str, Part] = field(default_factory=PersistentMap, repr=False)
    _pools: PersistentMap[Pool, tuple[Part, ...]] = field(default_factory=PersistentMap, repr=False)
    """All parts of a pool, of whatever generation, by name."""
    _order: tuple[Pool, ...] = ()
    _answers: dict[tuple[tuple[str, ...], int | None], Match] = field(default_factory=dict, repr=False)
    _drivers: dict[tuple[str, ...], Drivers] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], keys: Iterable[DriverKeys] = ()) -> Inventory:
        """``keys``: configured attribute keys of addresses (K-6.6). Slices are told apart by their names, those without one by position."""
        by_driver: dict[str, tuple[DriverKeys, ...]] = {}
        for each in keys:
            by_driver[each.driver] = (*by_driver.get(each.driver, ()), each)
        known: dict[str, Part] = {}
        pools: dict[Pool, list[Part]] = {}
        for number, raw in enumerate(slices):
            part = Part.of(raw, by_driver)
            # Two of one name, as files may have, are two slices (K-5.25).
            known[part.name if part.name and part.name not in known else f"{part.name}\0{number}"] = part
            pools.setdefault(part.pool, []).append(part)
        ordered = {pool: tuple(sorted(parts, key=_name)) for pool, parts in pools.items()}
        return cls(MappingProxyType(by_driver), PersistentMap(known), PersistentMap(ordered), tuple(sorted(ordered)))

    def changed(self, put: Iterable[ResourceSlice], gone: Collection[str] = ()) -> Inventory:
        """After slices have been added or replaced, told by their names, and the slices of some names have gone."""
        added = [Part.of(each, self._keys) for each in put]
        replaced = [part.name for part in added if part.name in self._slices]
        pools: dict[Pool, tuple[Part, ...]] = {}
        for name in dict.fromkeys((*(name for name in gone if name in self._slices), *replaced)):
            old = self._slices[name]
            pools[old.pool] = tuple(part for part in pools.get(old.pool, self._pools[old.pool]) if part is not old)
        slices = {part.name: part for part in added}  # of two of one name the later stays
        for part in slices.values():
            parts = pools.get(part.pool, self._pools.get(part.pool, ()))
            at = bisect_left(parts, part.name, key=_name)
            pools[part.pool] = (*parts[:at], part, *parts[at:])
        emptied = [pool for pool, parts in pools.items() if not parts]
        order = list(self._order)
        for pool, parts in pools.items():
            at = bisect_left(order, pool)
            known = at < len(order) and order[at] == pool
            if known and not parts:
                del order[at]
            elif parts and not known:
                order.insert(at, pool)
        return replace(
            self,
            _slices=self._slices.changed(slices, gone),
            _pools=self._pools.changed({pool: parts for pool, parts in pools.items() if parts}, emptied),
            _order=tuple(order),
            _answers={},
            _drivers={},
        )

    def __len__(self) -> int:
        return sum(len(part.devices) for pool in self._order for part in self._newest(pool))

    @property
    def slices(self) -> Collection[str]:
        """The names of all slices."""
        return self._slices.keys()

    @property
    def devices(self) -> tuple[Published, ...]:
        return tuple(device for pool in self._order for part in self._newest(pool) for device in part.devices)

    def get(self, driver: str, pool: str, device: str) -> Published | None:
        found = (part.by_name.get((driver, pool, device)) for part in reversed(self._newest((driver, pool))))
        return next((each for each in found if each is not None), None)

    def _newest(self, pool: Pool) -> tuple[Part, ...]:
        """The slices of a pool's newest generation, by name."""
        parts = self._pools.get(pool, ())
        if len(parts) < 2:
            return parts
        newest = max(part.generation for part in parts)
        return tuple(part for part in parts if part.generation == newest)

    # --- selectors ---

    def matching(self, expressions: Sequence[str], limit: int | None = None, work: Work | None = None) -> Match:
        """The devices that every selector matches; nothing but ``cut`` where the work was not enough.

        A fault on one device is told, and the others are tried all the same.
        """
        key = (tuple(expressions), limit)
        kept = self._answers.get(key)
        if kept is not None:
            return kept
        try:
            found = self._tried(key[0], limit, work or Work())
        except Interrupted:
            return Match(cut=True)
        if len(self._answers) >= KEPT_ANSWERS:
            self._answers.clear()
        self._answers[key] = found
        return found

    def _tried(self, expressions: tuple[str, ...], limit: int | None, work: Work) -> Match:
        """Raises Interrupted where the work is not enough."""
        selectors = _compiled(expressions, work)
        if isinstance(selectors, Fault):
            return Match(fault=selectors)
        passed = [0] * (len(selectors) + 1)
        matching: list[Published] = []
        stopped: dict[int, list[Published]] = {}
        fault: Fault | None = None
        tried = 0
        for part in self._parts():
            answers = part.answers(expressions, selectors, work)
            for published, answer in zip(part.devices, answers, strict=True):
                if tried == limit:
                    nearest = tuple(stopped[max(stopped)]) if stopped and not matching else ()
                    return Match(tuple(matching), tuple(passed), nearest, fault, cut=True)
                tried += 1
                if isinstance(answer, Fault):
                    fault = fault or answer
                    answer = answer.selector
                for depth in range(answer + 1):
                    passed[depth] += 1
                if answer == len(selectors):
                    matching.append(published)
                elif len(stopped.setdefault(answer, [])) < NEAREST:
                    stopped[answer].append(published)
        nearest = tuple(stopped[max(stopped)]) if stopped and not matching else ()
        return Match(tuple(matching), tuple(passed), nearest, fault)

    def stopped_at(self, expressions: Sequence[str], position: int, limit: int) -> tuple[Published, ...]:
        """At most ``limit`` devices that all selectors before one match, and that one doesn't."""
        found: list[Published] = []
        try:
            selectors = _compiled(expressions, Work())
            if isinstance(selectors, Fault):
                return ()
            for part in self._parts():
                answers = part.answers(tuple(expressions), selectors, Work())
                found += [each for each, answer in zip(part.devices, answers, strict=True) if answer == position]
                if len(found) >= limit:
                    return tuple(found[:limit])
        except Interrupted:
            return ()
        return tuple(found)

    def _parts(self) -> Iterator[Part]:
        for pool in self._order:
            yield from self._newest(pool)

    def drivers(self, expressions: Sequence[str], work: Work | None = None) -> Drivers:
        """Which drivers have a device that every selector matches. Of each driver devices are tried until one does, and of devices that are
        the same for the selectors only one: so it costs little however many there are."""
        key = tuple(expressions)
        kept = self._drivers.get(key)
        if kept is not None:
            return kept
        budget = work or Work()
        found: list[str] = []
        try:
            selectors = _compiled(key, budget)
            if isinstance(selectors, Fault):
                return Drivers()
            for driver, pools in groupby(self._order, key=lambda pool: pool[0]):
                devices = (device for pool in pools for part in self._newest(pool) for device in part.devices)
                if _any_matches(devices, selectors, budget):
                    found.append(driver)
        except Interrupted:
            return Drivers(tuple(found), cut=True)
        if len(self._drivers) >= KEPT_ANSWERS:
            self._drivers.clear()
        self._drivers[key] = Drivers(tuple(found))
        return self._drivers[key]


def _name(part: Part) -> str:
    return part.name


def _compiled(expressions: Iterable[str], work: Work) -> list[Selector] | Fault:
    """Raises Interrupted where the work is not enough."""
    selectors: list[Selector] = []
    for position, text in enumerate(expressions):
        if work.spent(_PER_COMPILED_CHARACTER * len(text)):
            raise Interrupted
        try:
            selectors.append(compile_selector(text))
        except CompileError as error:
            return Fault(position, error.message)
    return selectors


def _any_matches(devices: Iterable[Published], selectors: Sequence[Selector], work: Work) -> bool:
    """Raises Interrupted where the work is not enough."""
    reads = together([selector.reads for selector in selectors])
    tried: set[object] = set()
    for device in devices:
        if reads is not None:
            if work.spent(_PER_COMPARISON):
                raise Interrupted
            seen = seen_by(reads, device)
            if seen in tried:
                continue
            if not isinstance(device.input, str):  # on one that can't be converted every selector fails, whatever it reads
                tried.add(seen)
        if ask(device, selectors, work) == len(selectors):
            return True
    return False
