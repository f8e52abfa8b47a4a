"""The published devices, and which of them selectors match. Nodes and devices in use are ignored; they are up to the
allocator.

Of every pool only the newest generation counts (K-5.9). An inventory is immutable; :meth:`DeviceInventory.changed`
makes another one that shares all unchanged slices, so that the cost of a change depends on the changed slice, not on
the number of slices. Nor does that of a question: which drivers have a device that matches is a few operations on masks
of slices, which devices match is asked of a limited number.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.pool_generations import newest_generation
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel.limits.sized_cache import SizedCache
from virt_dra.matching.evaluating import ImmediateEvaluator
from virt_dra.matching.positions import mask_of, positions_of
from virt_dra.matching.published_slice import PoolKey, PublishedSlice, SliceDevice
from virt_dra.matching.slice_answers import (
    AnswerCache,
    CachedAnswers,
    DepthsQuestion,
    DriversQuestion,
    SelectorEvaluator,
    digest,
)
from webhooks.lint.device_set import DeviceSet

NEAREST: Final = 3
KEPT_DEVICES: Final = 250_000
"""Limit of the cache of matches, in devices; the facts about a set of devices take some 200 bytes for each."""
_CHANGED: Final = "the devices have changed meanwhile"
_name: Final = attrgetter("name")
_generation: Final = attrgetter("generation")


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
    unknown: int = 0
    tried: int = 0

    @cached_property
    def set(self) -> DeviceSet:
        return DeviceSet(self.devices)


@dataclass(frozen=True)
class MatchingDrivers:
    """The drivers with a device that matches, sorted. ``incomplete``: not all devices were evaluated, so others may
    have one; ``unknown``: the number of slices that weren't."""

    names: tuple[str, ...] = ()
    incomplete: bool = False
    unknown: int = 0


@dataclass(frozen=True, eq=False)
class _FirstSlices:
    """The slices with the first devices, up to a limit, and the matches among them by list of selectors. ``whole``:
    there are no others."""

    slices: tuple[PublishedSlice, ...]
    whole: bool
    matches: SizedCache[bytes, Match] = field(default_factory=lambda: SizedCache(KEPT_DEVICES), repr=False)

    @cached_property
    def devices(self) -> int:
        return sum(len(slice_.devices) for slice_ in self.slices)


@dataclass(frozen=True, eq=False)
class DeviceInventory:
    """All devices of a cluster, in the order of driver, pool and slice name. Made with :meth:`from_slices` and
    :meth:`changed`.

    Of one inventory only one is made by :meth:`changed`, as the slices that are replaced give their positions back.
    """

    _keys: Mapping[str, tuple[DriverKeys, ...]] = field(default_factory=dict, repr=False)
    slices: PersistentMap[str, PublishedSlice] = field(default_factory=PersistentMap, repr=False)
    """All slices by name, of any generation."""
    _pools: PersistentMap[PoolKey, tuple[PublishedSlice, ...]] = field(default_factory=PersistentMap, repr=False)
    """All slices of a pool, of any generation, by name."""
    _order: tuple[PoolKey, ...] = ()
    _by_driver: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Of each driver the mask of its pools' newest slices."""
    _answers: AnswerCache = field(default_factory=AnswerCache, repr=False)
    """Cached answers about slices, shared with the inventories from which this one was made."""
    _lap: int = 0
    """The lap of positions in which it was made."""
    _firsts: dict[int | None, _FirstSlices] = field(default_factory=dict, repr=False)
    _former: Mapping[int | None, _FirstSlices] = field(default_factory=dict, repr=False)
    """By limit; and those of former inventories, of which matches are kept if the same slices are the first."""

    @classmethod
    def from_slices(cls, slices: Iterable[ResourceSlice], keys: Iterable[DriverKeys] = ()) -> DeviceInventory:
        """The inventory of slices. ``keys``: configured attribute keys of addresses (K-6.6). Slices are distinguished
        by name, those without one by position."""
        by_driver: dict[str, tuple[DriverKeys, ...]] = {}
        for of_driver in keys:
            by_driver[of_driver.driver] = (*by_driver.get(of_driver.driver, ()), of_driver)
        named: dict[str, ResourceSlice] = {}
        for number, slice_ in enumerate(slices):
            # Two slices of one name, which files may have, count both (K-5.25).
            named[slice_.name if slice_.name and slice_.name not in named else f"{slice_.name}\0{number}"] = slice_
        return cls(MappingProxyType(by_driver))._with(named)

    def changed(self, put: Iterable[ResourceSlice], gone: Collection[str] = ()) -> DeviceInventory:
        """The inventory after slices were added or replaced (by name), and the slices of the names ``gone`` were
        deleted."""
        return self._with({slice_.name: slice_ for slice_ in put}, gone)

    def _with(self, put: Mapping[str, ResourceSlice], gone: Collection[str] = ()) -> DeviceInventory:
        positions = self._answers.positions
        published = {
            name: PublishedSlice.from_slice(slice_, self._keys, positions.take()) for name, slice_ in put.items()
        }
        outdated = {self.slices[name] for name in (*gone, *put) if name in self.slices}
        added: dict[PoolKey, list[PublishedSlice]] = {slice_.pool: [] for slice_ in (*outdated, *published.values())}
        for slice_ in published.values():
            added[slice_.pool].append(slice_)
        pools: dict[PoolKey, tuple[PublishedSlice, ...]] = {}
        order: list[PoolKey] | None = None
        counted: defaultdict[str, list[int]] = defaultdict(list)
        counting: defaultdict[str, list[int]] = defaultdict(list)
        for pool, new in added.items():
            kept = [slice_ for slice_ in self._pools.get(pool, ()) if slice_ not in outdated]
            pools[pool] = tuple(sorted((*kept, *new), key=_name))
            counted[pool[0]] += (slice_.position for slice_ in self._newest(pool))
            counting[pool[0]] += (slice_.position for slice_ in _newest(pools[pool]))
            if pool not in self._pools or not pools[pool]:
                order = list(self._order) if order is None else order
                if pool not in self._pools:
                    insort(order, pool)
                else:
                    del order[bisect_left(order, pool)]
        masks = dict(self._by_driver)
        for driver in counted:
            masks[driver] = masks.get(driver, 0) & ~mask_of(counted[driver]) | mask_of(counting[driver])
        for slice_ in outdated:
            positions.give_back(slice_.position)
        return replace(
            self,
            slices=self.slices.changed(published, gone),
            _pools=self._pools.changed(
                {pool: slices for pool, slices in pools.items() if slices},
                [pool for pool, slices in pools.items() if not slices],
            ),
            _order=self._order if order is None else tuple(order),
            _by_driver={driver: mask for driver, mask in masks.items() if mask},
            _lap=positions.lap,
            _firsts={},
            _former={**self._former, **self._firsts},
        )

    def __len__(self) -> int:
        return sum(len(slice_.devices) for pool in self._order for slice_ in self._newest(pool))

    @property
    def devices(self) -> tuple[SliceDevice, ...]:
        return tuple(device for pool in self._order for slice_ in self._newest(pool) for device in slice_.devices)

    def devices_of(self, driver: str) -> Iterator[SliceDevice]:
        """The devices of a driver, in the same order."""
        return (device for slice_ in self._newest_slices() if slice_.pool[0] == driver for device in slice_.devices)

    def get(self, driver: str, pool: str, device: str) -> SliceDevice | None:
        slices = (slice_ for slice_ in reversed(self._newest((driver, pool))) if device in slice_.by_name)
        return next((slice_.by_name[device] for slice_ in slices), None)

    def _newest(self, pool: PoolKey) -> tuple[PublishedSlice, ...]:
        """The slices of a pool's newest generation, by name."""
        return _newest(self._pools.get(pool, ()))

    # --- selectors ---

    def matching(
        self, expressions: Sequence[str], limit: int | None = None, evaluator: SelectorEvaluator | None = None
    ) -> Match:
        """The devices that every selector matches, of the first ``limit``. ``evaluator`` evaluates what isn't cached;
        by default this process does, without limits. An error on one device is reported, and the other devices are
        evaluated all the same."""
        by = evaluator or ImmediateEvaluator()
        refusal = by.refuses(expressions)
        if refusal:
            return Match(incomplete=True, unchecked=refusal)
        key = digest(expressions)
        first = self._first(limit)
        match = first.matches.get(key)
        if match is not None:
            by.visits(1 + len(match.devices))
            return match
        by.visits(1 + len(first.slices))
        cached = self._cached(key)
        missing = () if cached.fault is not None else _without_depths(first, cached)
        if cached.fault is None and (missing or not cached.valid):
            if len(cached.depths) > 2 * len(first.slices):
                self._answers.keep_depths(key, [slice_.position for slice_ in first.slices])
            why = by.find(DepthsQuestion(tuple(expressions), missing), self._answers, self._at)
            cached = self._cached(key)
            missing = _without_depths(first, cached)
            if cached.fault is None and (missing or why):
                unknown = sum(len(slice_.devices) for slice_ in missing)
                return Match(incomplete=True, unchecked=why or _CHANGED, unknown=unknown, tried=first.devices)
        if cached.fault is not None:
            return Match(fault=SelectorFault(cached.fault.selector, cached.fault.message))
        by.visits(first.devices)
        match = self._joined(len(expressions), first, cached, limit)
        # The latest is kept even if it is larger than the cache.
        first.matches.put(key, match, min(1 + len(match.devices) + len(match.nearest), KEPT_DEVICES))
        return match

    def _cached(self, key: bytes) -> CachedAnswers:
        """The answers about a list of selectors: none where positions may have been given again since this inventory
        was made."""
        answers = self._answers
        return answers.of(key) if answers.positions.lap < self._lap + 2 else CachedAnswers(answers.positions.now)

    def _at(self, positions: int) -> list[PublishedSlice]:
        """The slices of a mask, in order."""
        wanted = frozenset(positions_of(positions))
        return [slice_ for slice_ in self._newest_slices() if slice_.position in wanted]

    def _first(self, limit: int | None) -> _FirstSlices:
        """The slices with the first ``limit`` devices, and one device more if there is one; as many slices at most."""
        first = self._firsts.get(limit)
        if first is None:
            slices: list[PublishedSlice] = []
            devices = 0
            whole = True
            for slice_ in self._newest_slices():
                if limit is not None and (devices > limit or len(slices) > limit):
                    whole = False
                    break
                slices.append(slice_)
                devices += len(slice_.devices)
            first = _FirstSlices(tuple(slices), whole)
            former = self._former.get(limit)
            if former is not None and (former.slices, former.whole) == (first.slices, first.whole):
                first = former
            self._firsts[limit] = first
        return first

    def _joined(self, count: int, first: _FirstSlices, answers: CachedAnswers, limit: int | None) -> Match:
        """The match that the slices' answers add up to. Every slice has one, for ``count`` selectors."""
        passed = [0] * (count + 1)
        matching: list[SliceDevice] = []
        by_depth: dict[int, list[SliceDevice]] = {}
        fault: SelectorFault | None = None
        tried = 0
        incomplete = not first.whole
        for slice_ in first.slices:
            answer = answers.depths[slice_.position]
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
        """The devices that match all selectors before ``position`` and not that one, ``limit`` at most, as far as
        cached by :meth:`matching`."""
        answers = self._cached(digest(expressions))
        stopped: list[SliceDevice] = []
        for slice_ in self._newest_slices():
            answer = answers.depths.get(slice_.position)
            if answer is not None:
                stopped += compress(slice_.devices, [depth == position for depth in answer.depths])
            if len(stopped) >= limit:
                break
        return tuple(stopped[:limit])

    def _newest_slices(self) -> Iterator[PublishedSlice]:
        for pool in self._order:
            yield from self._newest(pool)

    def drivers(self, expressions: Sequence[str], evaluator: SelectorEvaluator | None = None) -> MatchingDrivers:
        """The drivers with a device that every selector matches. A driver's devices are evaluated until one matches,
        and only one of those that are equal for the selectors, so that it costs little. ``evaluator``: as for
        :meth:`matching`."""
        by = evaluator or ImmediateEvaluator()
        if by.refuses(expressions):
            return MatchingDrivers(incomplete=True, unknown=sum(mask.bit_count() for mask in self._by_driver.values()))
        by.visits(1 + len(self._by_driver))
        key = digest(expressions)
        drivers, unknown = self._known(key)
        if unknown or (not (cached := self._cached(key)).valid and cached.fault is None):
            why = by.find(DriversQuestion(tuple(expressions), unknown), self._answers, self._at)
            drivers, unknown = self._known(key)
            return MatchingDrivers(drivers, bool(unknown or why), unknown.bit_count())
        return MatchingDrivers(drivers)

    def _known(self, key: bytes) -> tuple[tuple[str, ...], int]:
        """The drivers with a device that is known to match; and of the other drivers, the mask of the slices without an
        answer."""
        cached = self._cached(key)
        if cached.fault is not None:
            return (), 0
        unknown = 0
        drivers: list[str] = []
        for driver, slices in sorted(self._by_driver.items()):
            if cached.matching & slices:
                drivers.append(driver)
            else:
                unknown |= slices & ~cached.answered
        return tuple(drivers), unknown


def _newest(slices: tuple[PublishedSlice, ...]) -> tuple[PublishedSlice, ...]:
    """Of a pool's slices those of the newest generation, in the same order."""
    return slices if len(slices) < 2 else newest_generation(slices, _generation)[1]


def _without_depths(first: _FirstSlices, answers: CachedAnswers) -> tuple[PublishedSlice, ...]:
    return tuple(slice_ for slice_ in first.slices if slice_.position not in answers.depths)
