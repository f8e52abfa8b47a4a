"""The published devices, and which of them selectors match. Nodes and devices in use are ignored; they are up to the
allocator.

Of every pool only the newest generation counts (K-5.9). An inventory is immutable; :meth:`DeviceInventory.changed`
makes another one that shares all unchanged slices, so that the cost of a change depends on the changed slice, not on
the number of slices.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.pool_generations import newest_generation
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cel.limits.sized_cache import SizedCache
from virt_dra.matching.evaluating import ImmediateEvaluator
from virt_dra.matching.published_slice import PoolKey, PublishedSlice, SliceDevice
from virt_dra.matching.slice_answers import (
    AnswerCache,
    CachedAnswers,
    QuestionKind,
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
        for of_driver in keys:
            by_driver[of_driver.driver] = (*by_driver.get(of_driver.driver, ()), of_driver)
        named: dict[str, PublishedSlice] = {}
        for number, slice_ in enumerate(slices):
            # Two slices of one name, which files may have, count both (K-5.25).
            name = slice_.name if slice_.name and slice_.name not in named else f"{slice_.name}\0{number}"
            named[name] = PublishedSlice.from_slice(slice_, by_driver)
        return cls(MappingProxyType(by_driver))._with(named)

    def changed(self, put: Iterable[ResourceSlice], gone: Collection[str] = ()) -> DeviceInventory:
        """The inventory after slices were added or replaced (by name), and the slices of the names ``gone`` were
        deleted."""
        return self._with({slice_.name: PublishedSlice.from_slice(slice_, self._keys) for slice_ in put}, gone)

    def _with(self, put: Mapping[str, PublishedSlice], gone: Collection[str] = ()) -> DeviceInventory:
        outdated = {self._slices[name] for name in (*gone, *put) if name in self._slices}
        added: dict[PoolKey, list[PublishedSlice]] = {slice_.pool: [] for slice_ in (*outdated, *put.values())}
        for slice_ in put.values():
            added[slice_.pool].append(slice_)
        pools: dict[PoolKey, tuple[PublishedSlice, ...]] = {}
        order = list(self._order)
        for pool, new in added.items():
            kept = [slice_ for slice_ in self._pools.get(pool, ()) if slice_ not in outdated]
            pools[pool] = tuple(sorted((*kept, *new), key=_name))
            if pool not in self._pools:
                insort(order, pool)
            elif not pools[pool]:
                del order[bisect_left(order, pool)]
        self._answers.forget(outdated)
        return replace(
            self,
            _slices=self._slices.changed(put, gone),
            _pools=self._pools.changed(
                {pool: slices for pool, slices in pools.items() if slices},
                [pool for pool, slices in pools.items() if not slices],
            ),
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
        slices = self._pools.get(pool, ())
        return slices if len(slices) < 2 else newest_generation(slices, _generation)[1]

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
        key = digest(expressions), limit
        match = self._matches.get(key)
        if match is not None:
            return match
        slices = self._first(limit)
        answers, why = self._ask(
            "each", key[0], expressions, lambda cached: [slice_ for slice_ in slices if slice_ not in cached.of], by
        )
        if why:
            return Match(incomplete=True, unchecked=why)
        if answers.fault is not None:
            return Match(fault=SelectorFault(answers.fault.selector, answers.fault.message))
        match = self._joined(len(expressions), slices, answers, limit)
        # The latest is kept even if it is larger than the cache.
        self._matches.put(key, match, min(1 + len(match.devices) + len(match.nearest), KEPT_DEVICES))
        return match

    def _ask(
        self,
        kind: QuestionKind,
        key: bytes,
        expressions: Sequence[str],
        missing: Callable[[CachedAnswers], list[PublishedSlice]],
        evaluator: SelectorEvaluator,
    ) -> tuple[CachedAnswers, str]:
        """The answers, after the slices without one were evaluated; and why they couldn't be, "" if they could."""
        cached = self._answers.of(kind, key)
        slices = missing(cached) if cached.fault is None else []
        if cached.fault is not None or (cached.valid and not slices):
            return cached, ""
        why = evaluator.find(SelectorQuestion(kind, tuple(expressions), slices), self._answers)
        return self._answers.of(kind, key), why

    def _first(self, limit: int | None) -> list[PublishedSlice]:
        """The slices with the first ``limit`` devices, and one device more if there is one."""
        slices: list[PublishedSlice] = []
        devices = 0
        for slice_ in self._newest_slices():
            if limit is not None and devices > limit:
                break
            slices.append(slice_)
            devices += len(slice_.devices)
        return slices

    def _joined(self, count: int, slices: Iterable[PublishedSlice], answers: CachedAnswers, limit: int | None) -> Match:
        """The match that the slices' answers add up to. Every slice has one, for ``count`` selectors."""
        passed = [0] * (count + 1)
        matching: list[SliceDevice] = []
        by_depth: dict[int, list[SliceDevice]] = {}
        fault: SelectorFault | None = None
        tried = 0
        incomplete = False
        for slice_ in slices:
            answer = answers.of[slice_]
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
        answers = self._answers.of("each", digest(expressions))
        stopped: list[SliceDevice] = []
        for slice_ in self._newest_slices():
            answer = answers.of.get(slice_)
            if isinstance(answer, SelectorDepths):
                stopped += compress(slice_.devices, [depth == position for depth in answer.depths])
            if len(stopped) >= limit:
                break
        return tuple(stopped[:limit])

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
        by = evaluator or ImmediateEvaluator()
        if by.refuses(expressions):
            return MatchingDrivers(incomplete=True)
        key = digest(expressions)
        matching = self._drivers.get(key)
        if matching is not None:
            return matching
        answers, why = self._ask("any", key, expressions, lambda cached: self._served(cached)[1], by)
        if answers.fault is not None:
            return MatchingDrivers()
        drivers, _ = self._served(answers)
        matching = MatchingDrivers(drivers, incomplete=bool(why))
        if not why:
            self._drivers.put(key, matching, min(1 + len(drivers), KEPT_DRIVERS))
        return matching

    def _served(self, answers: CachedAnswers) -> tuple[tuple[str, ...], list[PublishedSlice]]:
        """The drivers with a device that is known to match; and of the other drivers, the slices without a cached
        answer."""
        drivers: list[str] = []
        missing: list[PublishedSlice] = []
        for driver, pools in groupby(self._order, key=lambda pool: pool[0]):
            slices = [slice_ for pool in pools for slice_ in self._newest(pool)]
            if any(answers.of.get(slice_) for slice_ in slices):
                drivers.append(driver)
            else:
                missing += [slice_ for slice_ in slices if slice_ not in answers.of]
        return tuple(drivers), missing
