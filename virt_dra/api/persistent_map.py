"""A persistent (immutable) mapping: changing it makes a new one, which shares nearly all of its memory with the old
one.

Entries lie in about √n dictionaries ("buckets"), by hash. A change copies one bucket and the tuple of buckets, so it
costs O(√n) copied pointers: 2 µs at 1,000 entries, 2.5 µs at 10,000, 3 µs at 100,000
(docs/decisions/0015-supply-chain.md compares libraries). Reading is one dictionary's lookup, iterating runs at the
speed of dictionaries. Keys are texts and tuples of texts that tenants may choose: their hashes are salted per process,
so an attacker can't choose keys that all fall into one bucket.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Final, Self, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", covariant=True)
W = TypeVar("W")
D = TypeVar("D")

_FILL: Final = 4
"""Buckets are doubled when there are this many times more entries than the square of their number."""


class PersistentMap(Mapping[K, V]):
    """An immutable mapping; :meth:`set`, :meth:`without`, :meth:`changed` derive others. Hashable if its values are."""

    __slots__ = ("_buckets", "_mask", "_size")

    _buckets: tuple[dict[K, V], ...]
    _mask: int
    _size: int

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        given: dict[K, V] = dict(entries)
        self._size = len(given)
        self._buckets = _spread(given, _number_for(len(given)))
        self._mask = len(self._buckets) - 1

    # --- reading ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & self._mask][key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...
    def get(self, key: K, default: object = None, /) -> object:
        return self._buckets[hash(key) & self._mask].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & self._mask]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._buckets)

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, PersistentMap) and self._mask == other._mask:
            return self._buckets == other._buckets  # tuples and dictionaries compare what they share by identity first
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

    # --- deriving ---------------------------------------------------------------------------------------------------

    def set(self, key: K, value: W) -> PersistentMap[K, V | W]:
        """A map with this value for the key, whether it had one or not."""
        return self.changed({key: value})

    def without(self, *keys: K) -> PersistentMap[K, V]:
        """A map without these keys; itself if it has none of them."""
        return self.changed({}, keys)

    def changed(self, put: Mapping[K, W], gone: Iterable[K] = ()) -> PersistentMap[K, V | W]:
        """A map without the keys ``gone``, which may be missing, then with ``put``. Copies a bucket once at most."""
        mask, size = self._mask, self._size
        copies: dict[int, dict[K, V | W]] = {}
        for key in gone:
            at = hash(key) & mask
            bucket: Mapping[K, V | W] = copies.get(at, self._buckets[at])
            if key in bucket:
                if at not in copies:
                    copies[at] = {**bucket}
                del copies[at][key]
                size -= 1
        for key, value in put.items():
            at = hash(key) & mask
            if at not in copies:
                copies[at] = {**self._buckets[at]}
            before = len(copies[at])
            copies[at][key] = value
            size += len(copies[at]) - before
        return self._with(copies, size) if copies else self

    def differences(self, former: PersistentMap[K, V]) -> tuple[list[V], list[V]]:
        """The values that this map has and ``former`` hasn't under the same key, and the reverse, by identity. Costs
        what differs where one was derived from the other: buckets that they share are skipped."""
        if self._mask == former._mask:
            pairs = [
                (ours, theirs)
                for ours, theirs in zip(self._buckets, former._buckets, strict=True)
                if ours is not theirs
            ]
        else:
            pairs = [(dict(self.items()), dict(former.items()))]
        return (
            [value for ours, theirs in pairs for key, value in ours.items() if theirs.get(key) is not value],
            [value for ours, theirs in pairs for key, value in theirs.items() if ours.get(key) is not value],
        )

    def _with(self, copies: Mapping[int, dict[K, V | W]], size: int) -> PersistentMap[K, V | W]:
        buckets: list[dict[K, V | W]] = [*self._buckets]  # type: ignore[list-item] # a dictionary that nobody changes any more may be seen as wider
        for at, bucket in copies.items():
            buckets[at] = bucket
        made: PersistentMap[K, V | W] = PersistentMap.__new__(PersistentMap)
        made._size = size
        number = _number_for(size)
        # Hysteresis: halved only once a quarter is left, so that a size that swings around a bound doesn't copy
        # everything each time.
        fits = len(buckets) == number or number < len(buckets) <= 2 * number
        made._buckets = (
            tuple(buckets) if fits else _spread(dict(chain.from_iterable(bucket.items() for bucket in buckets)), number)
        )
        made._mask = len(made._buckets) - 1
        return made

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[type[PersistentMap[K, V]], tuple[dict[K, V]]]:
        return PersistentMap, (dict(self),)  # hashes differ in another process


class _Items(ItemsView[K, V]):
    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(bucket.items() for bucket in self._mapping._buckets)  # type: ignore[attr-defined] # is a PersistentMap


class _Values(ValuesView[V]):
    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(bucket.values() for bucket in self._mapping._buckets)  # type: ignore[attr-defined] # is a PersistentMap


def _number_for(size: int) -> int:
    """The least power of two of buckets for a size."""
    number = 1
    while number * number * _FILL < size:
        number *= 2
    return number


def _spread(entries: dict[K, W], number: int) -> tuple[dict[K, W], ...]:
    if number == 1:
        return (entries,)
    buckets: tuple[dict[K, W], ...] = tuple({} for _ in range(number))
    mask = number - 1
    for key, value in entries.items():
        buckets[hash(key) & mask][key] = value
    return buckets
