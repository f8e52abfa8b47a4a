"""The NoExecute taints that drivers publish, of the highest generation of each pool (C-11.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from virt_dra.api.pool_generations import generation_of
from virt_dra.api.resource_v1 import DeviceTaint, ResourceSlice
from virt_dra.model.evicting.causes import NO_EXECUTE, CausedTaint, TaintCause, TaintedDevice

_Tainted = dict[str, tuple[tuple[int, DeviceTaint], ...]]
"""Device -> its NoExecute taints with their indexes."""


class PublishedTaints:
    """The taints of published devices. A change costs what the slice has, but for a new generation."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], _Pool] = {}

    def change(self, old: ResourceSlice | None, new: ResourceSlice | None) -> set[TaintedDevice]:
        """Replace a slice (None: absent) by another of its name; the devices whose taints are different now."""
        changed: set[TaintedDevice] = set()
        for pool in {published.pool_key for published in (old, new) if published is not None}:
            tracked = self._pools.setdefault(pool, _Pool())
            changed |= {(*pool, device) for device in tracked.change(_in(pool, old), _in(pool, new))}
            if tracked.is_empty:
                del self._pools[pool]
        return changed

    def taints_of(self, device: TaintedDevice) -> Iterator[CausedTaint]:
        """The taints of a device; none if it isn't published."""
        driver, pool, name = device
        tracked = self._pools.get((driver, pool))
        for index, taint in tracked.taints(name) if tracked is not None else ():
            yield TaintCause(published=True, device=device, index=index), taint

    def is_current(self, published: ResourceSlice) -> bool:
        """Whether a slice is of its pool's highest generation."""
        pool = self._pools.get(published.pool_key)
        return pool is not None and pool.newest == generation_of(published)


class _Pool:
    def __init__(self) -> None:
        self._slices: dict[str, tuple[int, _Tainted]] = {}
        self._generations: Counter[int] = Counter()
        self._carriers: dict[str, set[str]] = {}
        """Device -> the slices that taint it; several only in a faulty pool."""

    @property
    def is_empty(self) -> bool:
        return not self._slices

    @property
    def newest(self) -> int | None:
        return max(self._generations, default=None)

    def taints(self, device: str) -> tuple[tuple[int, DeviceTaint], ...]:
        newest = self.newest
        for name in sorted(self._carriers.get(device, ())):
            generation, tainted = self._slices[name]
            if generation == newest:
                return tainted[device]
        return ()

    def change(self, old: ResourceSlice | None, new: ResourceSlice | None) -> set[str]:
        suspects = {device for published in (old, new) if published is not None for device in _tainted(published)}
        if self._changes_generation(old, new):
            suspects |= self._carriers.keys()
        before = {device: self.taints(device) for device in suspects}
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)
        return {device for device, taints in before.items() if taints != self.taints(device)}

    def _changes_generation(self, old: ResourceSlice | None, new: ResourceSlice | None) -> bool:
        generations = self._generations.copy()
        if old is not None:
            generations[generation_of(old)] -= 1
        if new is not None:
            generations[generation_of(new)] += 1
        return max(+generations, default=None) != self.newest

    def _add(self, published: ResourceSlice) -> None:
        tainted = _tainted(published)
        self._slices[published.name] = generation_of(published), tainted
        self._generations[generation_of(published)] += 1
        for device in tainted:
            self._carriers.setdefault(device, set()).add(published.name)

    def _remove(self, published: ResourceSlice) -> None:
        generation, tainted = self._slices.pop(published.name)
        self._generations[generation] -= 1
        if not self._generations[generation]:
            del self._generations[generation]
        for device in tainted:
            carriers = self._carriers[device]
            carriers.discard(published.name)
            if not carriers:
                del self._carriers[device]


def _in(pool: tuple[str, str], published: ResourceSlice | None) -> ResourceSlice | None:
    return published if published is not None and published.pool_key == pool else None


def _tainted(published: ResourceSlice) -> _Tainted:
    tainted: _Tainted = {}
    for device in published.spec.devices:
        taints = tuple((index, taint) for index, taint in enumerate(device.taints) if taint.effect == NO_EXECUTE)
        if taints:
            tainted[device.name] = taints
    return tainted
