"""The published devices, and which of them selectors match. Nodes and devices in use are ignored; they are up to the
allocator.

Of every pool only the newest generation counts (K-5.9). An inventory is immutable; :meth:`DeviceInventory.changed`
makes another one that shares all unchanged slices, so that the cost of a change depends on the changed slice, not on
the number of slices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.pool_generations import newest_generation
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel.limits.sized_cache import SizedCache
from virt_dra.matching.evaluating import InProcess
from virt_dra.matching.published_slice import PoolKey, PublishedSlice, SliceDevice
from virt_dra.matching.slice_answers import (
    AnswerCache,
    CachedAnswers,
    SelectorDepths,
    SelectorEvaluator,
    SelectorQuestion,
    digest,
)
from webhooks.lint.device_set import DeviceSet

NEAREST: Final = 3
KEPT_DEVICES: Final = 250_000
"""Limit of the cache of matches, in devices; the facts about a set of devices take some 200 bytes for each."""
KEPT_DRIVERS: Final = 4096
"""Limit of the cache of matching drivers: entries, and drivers in them."""
_name: Final = attrgetter("name")


@dataclass(frozen=True)
class SelectorFault:
    """An error of the selector at position ``selector``. ``device``: on which its evaluation failed; None if it doesn't
    compile."""

    selector: int
    message: str
    device: SliceDevice | None = None


@dataclass(frozen=True)
class Match:
    """The devices that match a list of selectors, all of which must hold.

    ``passed[i]``: how many devices the first ``i`` selectors match. ``nearest``: some of the devices that match most
    selectors, if none matches all. ``incomplete``: not all devices were evaluated. ``unchecked``: the limit of ours
    that prevented the evaluation, "" if none.
    """

    devices: tuple[SliceDevice, ...] = ()
    passed: tuple[int, ...] = ()
    nearest: tuple[SliceDevice, ...] = ()
    fault: SelectorFault | None = None
    incomplete: bool = False
    unchecked: str = ""

    @cached_property
    def set(self) -> DeviceSet:
        return DeviceSet(self.devices)


@dataclass(frozen=True)
class MatchingDrivers:
    """The drivers with a device that matches, sorted. ``incomplete``: not all devices were evaluated, so others may
    have one."""

    names: tuple[str, ...] = ()
    incomplete: bool = False


@dataclass(frozen=True, eq=False)
class DeviceInventory:
    """All devices of a cluster, in the order of driver, pool and slice name. Made with :meth:`of` and
    :meth:`changed`."""

    _keys: Mapping[str, tuple[DriverKeys, ...]] = field(default_factory=dict, repr=False)
    _slices: PersistentMap[str, PublishedSlice] = field(default_factory=PersistentMap, repr=False)
    _pools: PersistentMap[PoolKey, tuple[PublishedSlice, ...]] = field(default_factory=PersistentMap, repr=False)
    """All slices of a pool, of any generation, by name."""
    _order: tuple[PoolKey, ...] = ()
    _answers: AnswerCache = field(default_factory=AnswerCache, repr=False)
    """Cached answers about slices, shared with the inventories from which this one was made."""
    _matches: SizedCache[tuple[bytes, int | None], Match] = field(
        default_factory=lambda: SizedCache(KEPT_DEVICES), repr=False
    )
    _drivers: SizedCache[bytes, MatchingDrivers] = field(default_factory=lambda: SizedCache(KEPT_DRIVERS), repr=False)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], keys: Iterable[DriverKeys] = ()) -> DeviceInventory:
        """``keys``: configured attribute keys of addresses (K-6.6). Slices are distinguished by name, those without one
        by position."""
        by_driver: dict[str, tuple[DriverKeys, ...]] = {}
        for each in keys:
            by_driver[each.driver] = (*by_driver.get(each.driver, ()), each)
        known: dict[str, PublishedSlice] = {}
        pools: dict[PoolKey, list[PublishedSlice]] = {}
        for number, raw in enumerate(slices):
            slice_ = PublishedSlice.of(raw, by_driver)
            # Two slices of one name, which files may have, count both (K-5.25).
            known[slice_.name if slice_.name and slice_.name not in known else f"{slice_.name}\0{number}"] = slice_
            pools.setdefault(slice_.pool, []).append(slice_)
        ordered = {pool: tuple(sorted(of_pool, key=_name)) for pool, of_pool in pools.items()}
        return cls(MappingProxyType(by_driver), PersistentMap(known), PersistentMap(ordered), tuple(sorted(ordered)))

    def changed(self, put: Iterable[ResourceSlice], gone: Collection[str] = ()) -> DeviceInventory:
        """The inventory after slices were added or replaced (by name), and the slices of the names ``gone`` were
        deleted."""
        added = [PublishedSlice.of(each, self._keys) for each in put]
        replaced = [slice_.name for slice_ in added if slice_.name in self._slices]
        pools: dict[PoolKey, tuple[PublishedSlice, ...]] = {}
        outdated: list[PublishedSlice] = []
        for name in dict.fromkeys((*(name for name in gone if name in self._slices), *replaced)):
            old = self._slices[name]
            outdated.append(old)
            pools[old.pool] = tuple(
                slice_ for slice_ in pools.get(old.pool, self._pools[old.pool]) if slice_ is not old
            )
        slices = {slice_.name: slice_ for slice_ in added}  # of two with one name the later counts
        for slice_ in slices.values():
            of_pool = pools.get(slice_.pool, self._pools.get(slice_.pool, ()))
            at = bisect_left(of_pool, slice_.name, key=_name)
            pools[slice_.pool] = (*of_pool[:at], slice_, *of_pool[at:])
        emptied = [pool for pool, of_pool in pools.items() if not of_pool]
        order = list(self._order)
        for pool, of_pool in pools.items():
            at = bisect_left(order, pool)
            known = at < len(order) and order[at] == pool
            if known and not of_pool:
                del order[at]
            elif of_pool and not known:
                order.insert(at, pool)
        self._answers.forget(outdated)
        return replace(
            self,
            _slices=self._slices.changed(slices, gone),
            _pools=self._pools.changed({pool: of_pool for pool, of_pool in pools.items() if of_pool}, emptied),
            _order=tuple(order),
            _matches=SizedCache(KEPT_DEVICES),
            _drivers=SizedCache(KEPT_DRIVERS),
        )

    def __len__(self) -> int:
        return sum(len(slice_.devices) for pool in self._order for slice_ in self._newest(pool))

    @property
    def devices(self) -> tuple[SliceDevice, ...]:
        return tuple(device for pool in self._order for slice_ in self._newest(pool) for device in slice_.devices)

    def get(self, driver: str, pool: str, device: str) -> SliceDevice | None:
        slices = (slice_ for slice_ in reversed(self._newest((driver, pool))) if device in slice_.by_name)
        return next((slice_.by_name[device] for slice_ in slices), None)

    def _newest(self, pool: PoolKey) -> tuple[PublishedSlice, ...]:
        """The slices of a pool's newest generation, by name."""
        of_pool = self._pools.get(pool, ())
        if len(of_pool) < 2:
            return of_pool
        return newest_generation(of_pool, lambda slice_: slice_.generation)[1]

    # --- selectors ---

    def matching(
        self, expressions: Sequence[str], limit: int | None = None, evaluator: SelectorEvaluator | None = None
    ) -> Match:
        """The devices that every selector matches, of the first ``limit``. ``evaluator`` evaluates what isn't cached;
        by default this process does, without limits. An error on one device is reported, and the other devices are
        evaluated all the same."""
        by = evaluator or InProcess()
        refused = by.refuses(expressions)
        if refused:
            return Match(incomplete=True, unchecked=refused)
        key = digest(expressions), limit
        kept = self._matches.get(key)
        if kept is not None:
            return kept
        known = self._answers.of("each", key[0])
        of_pool = self._first(limit)
        missing = [slice_ for slice_ in of_pool if slice_ not in known.of] if known.fault is None else []
        if known.fault is None and (missing or not known.valid):
            why = by.find(SelectorQuestion("each", tuple(expressions), missing), self._answers)
            if why:
                return Match(incomplete=True, unchecked=why)
            known = self._answers.of("each", key[0])
        if known.fault is not None:
            return Match(fault=SelectorFault(known.fault.selector, known.fault.message))
        found = self._joined(len(expressions), of_pool, known, limit)
        # The latest is kept even if it is larger than the cache.
        self._matches.put(key, found, min(1 + len(found.devices) + len(found.nearest), KEPT_DEVICES))
        return found

    def _first(self, limit: int | None) -> list[PublishedSlice]:
        """The slices with the first ``limit`` devices, and one device more if there is one."""
        of_pool: list[PublishedSlice] = []
        devices = 0
        for slice_ in self._newest_slices():
            if limit is not None and devices > limit:
                break
            of_pool.append(slice_)
            devices += len(slice_.devices)
        return of_pool

    def _joined(self, count: int, of_pool: Iterable[PublishedSlice], known: CachedAnswers, limit: int | None) -> Match:
        """The match that the slices' answers add up to. Every slice has one, for ``count`` selectors."""
        passed = [0] * (count + 1)
        matching: list[SliceDevice] = []
        by_depth: dict[int, list[SliceDevice]] = {}
        fault: SelectorFault | None = None
        tried = 0
        incomplete = False
        for slice_ in of_pool:
            answer = known.of[slice_]
            assert isinstance(answer, SelectorDepths)
            failed = answer.fault
            for number, (published, depth) in enumerate(zip(slice_.devices, answer.depths, strict=True)):
                if tried == limit:
                    incomplete = True
                    break
                tried += 1
                if failed is not None and failed.device == number:
                    fault = fault or SelectorFault(failed.selector, failed.message, published)
                passed[depth] += 1
                if depth == count:
                    matching.append(published)
                elif len(by_depth.setdefault(depth, [])) < NEAREST:
                    by_depth[depth].append(published)
        for depth in range(count, 0, -1):
            passed[depth - 1] += passed[depth]
        nearest = tuple(by_depth[max(by_depth)]) if by_depth and not matching else ()
        return Match(tuple(matching), tuple(passed), nearest, fault, incomplete)

    def stopped_at(self, expressions: Sequence[str], position: int, limit: int) -> tuple[SliceDevice, ...]:
        """At most ``limit`` devices that match all selectors before ``position``, not that one, as far as cached by
        :meth:`matching`."""
        known = self._answers.of("each", digest(expressions))
        found: list[SliceDevice] = []
        for slice_ in self._newest_slices():
            answer = known.of.get(slice_)
            if isinstance(answer, SelectorDepths):
                found += [each for each, depth in zip(slice_.devices, answer.depths, strict=True) if depth == position]
            if len(found) >= limit:
                return tuple(found[:limit])
        return tuple(found)

    def _newest_slices(self) -> Iterator[PublishedSlice]:
        for pool in self._order:
            yield from self._newest(pool)

    @property
    def slices(self) -> Iterable[PublishedSlice]:
        """All slices, of any generation."""
        return self._slices.values()

    def drivers(self, expressions: Sequence[str], evaluator: SelectorEvaluator | None = None) -> MatchingDrivers:
        """The drivers with a device that every selector matches. A driver's devices are evaluated until one matches,
        and only one of those that are equal for the selectors, so that it costs little. ``evaluator``: as for
        :meth:`matching`."""
        by = evaluator or InProcess()
        if by.refuses(expressions):
            return MatchingDrivers(incomplete=True)
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
            return MatchingDrivers(found, incomplete=True)
        self._drivers.put(key, MatchingDrivers(found), min(1 + len(found), KEPT_DRIVERS))
        return MatchingDrivers(found)

    def _served(self, known: CachedAnswers) -> tuple[tuple[str, ...], list[PublishedSlice]]:
        """The drivers with a device that is known to match; and of the other drivers, the slices without a cached
        answer."""
        found: list[str] = []
        missing: list[PublishedSlice] = []
        for driver, pools in groupby(self._order, key=lambda pool: pool[0]):
            of_pool = [slice_ for pool in pools for slice_ in self._newest(pool)]
            if any(known.of.get(slice_) for slice_ in of_pool):
                found.append(driver)
            else:
                missing += [slice_ for slice_ in of_pool if slice_ not in known.of]
        return tuple(found), missing
