"""The published devices, and which of them selectors match. No node and no claim in use is looked at: that is the allocator's matter.

Of every pool only the newest generation counts (K-5.9). An inventory is immutable; :meth:`DeviceInventory.changed` makes another one, which
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

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.pool_generations import newest_generation
from virt_dra.api.resource_v1 import ResourceSlice
from webhooks.lint.device_set import DeviceSet
from webhooks.selectors.answers import AnswerCache, CachedAnswers, SelectorDepths, SelectorEvaluator, SelectorQuestion, digest
from webhooks.selectors.evaluating import InProcess
from webhooks.selectors.published_slice import PoolKey, PublishedSlice, SelectorFault, Work
from webhooks.selectors.slice_device import SliceDevice
from webhooks.selectors.weighted_lru import WeightedLru

__all__ = ["DeviceInventory", "Match", "MatchingDrivers", "SelectorFault", "Work"]

NEAREST: Final = 3
KEPT_DEVICES: Final = 250_000
"""Devices in all the matches that an inventory keeps: what a set of devices has in common takes some 200 bytes for each."""
KEPT_DRIVERS: Final = 4096
"""Answers about drivers that an inventory keeps, and drivers in them."""


@dataclass(frozen=True)
class Match:
    """What a list of selectors, all of which must hold, says of the devices.

    ``passed[i]``: how many devices the first ``i`` selectors leave. ``nearest``: some that pass as many as any device does, and then
    fail. ``cut``: not all devices were tried. ``unchecked``: set if no answer was found within a limit of virt-dra's own; why.
    """

    devices: tuple[SliceDevice, ...] = ()
    passed: tuple[int, ...] = ()
    nearest: tuple[SliceDevice, ...] = ()
    fault: SelectorFault | None = None
    cut: bool = False
    unchecked: str = ""

    @cached_property
    def set(self) -> DeviceSet:
        return DeviceSet(self.devices)


@dataclass(frozen=True)
class MatchingDrivers:
    """The drivers of which some device matches, sorted. ``cut``: of other drivers it isn't known, as not all devices were tried."""

    names: tuple[str, ...] = ()
    cut: bool = False


@dataclass(frozen=True, eq=False)
class DeviceInventory:
    """All devices of a cluster, in the order of driver, pool and slice name. Make it with :meth:`of`, and of one with :meth:`changed`."""

    _keys: Mapping[str, tuple[DriverKeys, ...]] = field(default_factory=dict, repr=False)
    _slices: PersistentMap[str, PublishedSlice] = field(default_factory=PersistentMap, repr=False)
    _pools: PersistentMap[PoolKey, tuple[PublishedSlice, ...]] = field(default_factory=PersistentMap, repr=False)
    """All parts of a pool, of whatever generation, by name."""
    _order: tuple[PoolKey, ...] = ()
    _answers: AnswerCache = field(default_factory=AnswerCache, repr=False)
    """Of slices, shared with the inventories that this one was made of."""
    _matches: WeightedLru[tuple[bytes, int | None], Match] = field(default_factory=lambda: WeightedLru(KEPT_DEVICES), repr=False)
    _drivers: WeightedLru[bytes, MatchingDrivers] = field(default_factory=lambda: WeightedLru(KEPT_DRIVERS), repr=False)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], keys: Iterable[DriverKeys] = ()) -> DeviceInventory:
        """``keys``: configured attribute keys of addresses (K-6.6). Slices are told apart by their names, those without one by position."""
        by_driver: dict[str, tuple[DriverKeys, ...]] = {}
        for each in keys:
            by_driver[each.driver] = (*by_driver.get(each.driver, ()), each)
        known: dict[str, PublishedSlice] = {}
        pools: dict[PoolKey, list[PublishedSlice]] = {}
        for number, raw in enumerate(slices):
            part = PublishedSlice.of(raw, by_driver)
            # Two of one name, as files may have, are two slices (K-5.25).
            known[part.name if part.name and part.name not in known else f"{part.name}\0{number}"] = part
            pools.setdefault(part.pool, []).append(part)
        ordered = {pool: tuple(sorted(parts, key=_name)) for pool, parts in pools.items()}
        return cls(MappingProxyType(by_driver), PersistentMap(known), PersistentMap(ordered), tuple(sorted(ordered)))

    def changed(self, put: Iterable[ResourceSlice], gone: Collection[str] = ()) -> DeviceInventory:
        """After slices have been added or replaced, told by their names, and the slices of some names have gone."""
        added = [PublishedSlice.of(each, self._keys) for each in put]
        replaced = [part.name for part in added if part.name in self._slices]
        pools: dict[PoolKey, tuple[PublishedSlice, ...]] = {}
        outdated: list[PublishedSlice] = []
        for name in dict.fromkeys((*(name for name in gone if name in self._slices), *replaced)):
            old = self._slices[name]
            outdated.append(old)
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
        self._answers.forget(outdated)
        return replace(
            self,
            _slices=self._slices.changed(slices, gone),
            _pools=self._pools.changed({pool: parts for pool, parts in pools.items() if parts}, emptied),
            _order=tuple(order),
            _matches=WeightedLru(KEPT_DEVICES),
            _drivers=WeightedLru(KEPT_DRIVERS),
        )

    def __len__(self) -> int:
        return sum(len(part.devices) for pool in self._order for part in self._newest(pool))

    @property
    def slices(self) -> Collection[str]:
        """The names of all slices."""
        return self._slices.keys()

    @property
    def devices(self) -> tuple[SliceDevice, ...]:
        return tuple(device for pool in self._order for part in self._newest(pool) for device in part.devices)

    def get(self, driver: str, pool: str, device: str) -> SliceDevice | None:
        found = (part.by_name.get((driver, pool, device)) for part in reversed(self._newest((driver, pool))))
        return next((each for each in found if each is not None), None)

    def _newest(self, pool: PoolKey) -> tuple[PublishedSlice, ...]:
        """The slices of a pool's newest generation, by name."""
        parts = self._pools.get(pool, ())
        if len(parts) < 2:
            return parts
        return newest_generation(parts, lambda part: part.generation)[1]

    # --- selectors ---

    def matching(self, expressions: Sequence[str], limit: int | None = None, evaluator: SelectorEvaluator | None = None) -> Match:
        """The devices that every selector matches, of the first ``limit``. ``evaluator`` finds what isn't known yet; without one this
        process does, without limits. A fault on one device is reported, and the others are tried all the same."""
        by = evaluator or InProcess()
        refused = by.refuses(expressions)
        if refused:
            return Match(cut=True, unchecked=refused)
        key = digest(expressions), limit
        kept = self._matches.get(key)
        if kept is not None:
            return kept
        known = self._answers.of("each", key[0])
        parts = self._first(limit)
        missing = [part for part in parts if part not in known.of] if known.fault is None else []
        if known.fault is None and (missing or not known.valid):
            why = by.find(SelectorQuestion("each", tuple(expressions), missing), self._answers)
            if why:
                return Match(cut=True, unchecked=why)
            known = self._answers.of("each", key[0])
        if known.fault is not None:
            return Match(fault=SelectorFault(known.fault.selector, known.fault.message))
        found = self._joined(len(expressions), parts, known, limit)
        self._matches.put(key, found, 1 + len(found.devices) + len(found.nearest))
        return found

    def _first(self, limit: int | None) -> list[PublishedSlice]:
        """The slices that have the first devices, and one device more if there is one."""
        parts: list[PublishedSlice] = []
        devices = 0
        for part in self._parts():
            if limit is not None and devices > limit:
                break
            parts.append(part)
            devices += len(part.devices)
        return parts

    def _joined(self, count: int, parts: Iterable[PublishedSlice], known: CachedAnswers, limit: int | None) -> Match:
        """What the slices' answers say together. Every slice has one, of ``count`` selectors."""
        passed = [0] * (count + 1)
        matching: list[SliceDevice] = []
        stopped: dict[int, list[SliceDevice]] = {}
        fault: SelectorFault | None = None
        tried = 0
        cut = False
        for part in parts:
            answer = known.of[part]
            assert isinstance(answer, SelectorDepths)
            failed = answer.fault
            for number, (published, depth) in enumerate(zip(part.devices, answer.depths, strict=True)):
                if tried == limit:
                    cut = True
                    break
                tried += 1
                if failed is not None and failed.device == number:
                    fault = fault or SelectorFault(failed.selector, failed.message, published)
                passed[depth] += 1
                if depth == count:
                    matching.append(published)
                elif len(stopped.setdefault(depth, [])) < NEAREST:
                    stopped[depth].append(published)
        for depth in range(count, 0, -1):
            passed[depth - 1] += passed[depth]
        nearest = tuple(stopped[max(stopped)]) if stopped and not matching else ()
        return Match(tuple(matching), tuple(passed), nearest, fault, cut)

    def stopped_at(self, expressions: Sequence[str], position: int, limit: int) -> tuple[SliceDevice, ...]:
        """At most ``limit`` devices that all selectors before one match, and that one doesn't, as far as :meth:`matching` found out."""
        known = self._answers.of("each", digest(expressions))
        found: list[SliceDevice] = []
        for part in self._parts():
            answer = known.of.get(part)
            if isinstance(answer, SelectorDepths):
                found += [each for each, depth in zip(part.devices, answer.depths, strict=True) if depth == position]
            if len(found) >= limit:
                return tuple(found[:limit])
        return tuple(found)

    def _parts(self) -> Iterator[PublishedSlice]:
        for pool in self._order:
            yield from self._newest(pool)

    @property
    def parts(self) -> Iterable[PublishedSlice]:
        """All slices, of whatever generation."""
        return self._slices.values()

    def drivers(self, expressions: Sequence[str], evaluator: SelectorEvaluator | None = None) -> MatchingDrivers:
        """Which drivers have a device that every selector matches. Of each driver devices are tried until one does, and of devices that are
        the same for the selectors only one: so it costs little however many there are. ``evaluator``: as for :meth:`matching`."""
        by = evaluator or InProcess()
        if by.refuses(expressions):
            return MatchingDrivers(cut=True)
        key = digest(expressions)
        kept = self._drivers.get(key)
        if kept is not None:
            return kept
        known = self._answers.of("any", key)
        found, missing = self._served(known)
        why = ""
        if known.fault is None and (missing or not known.valid):
            why = by.find(SelectorQuestion("any", tuple(expressions), missing), self._answers)
            known = self._answers.of("any", key)
            found, _ = self._served(known)
        if known.fault is not None:
            return MatchingDrivers()
        if why:
            return MatchingDrivers(found, cut=True)
        self._drivers.put(key, MatchingDrivers(found), 1 + len(found))
        return MatchingDrivers(found)

    def _served(self, known: CachedAnswers) -> tuple[tuple[str, ...], list[PublishedSlice]]:
        """The drivers of which a device is known to match; of the others, the slices of which nothing is known."""
        found: list[str] = []
        missing: list[PublishedSlice] = []
        for driver, pools in groupby(self._order, key=lambda pool: pool[0]):
            parts = [part for pool in pools for part in self._newest(pool)]
            if any(known.of.get(part) for part in parts):
                found.append(driver)
            else:
                missing += [part for part in parts if part not in known.of]
        return tuple(found), missing


def _name(part: PublishedSlice) -> str:
    return part.name
