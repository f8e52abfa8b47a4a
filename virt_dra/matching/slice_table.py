"""Slices with what selectors read of them in columns: finding equal ones touches no device."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from virt_dra.cel import Work
from virt_dra.cel.errors import Stopped
from virt_dra.cel.reads import Reads
from virt_dra.matching.positions import mask_of, positions_of
from virt_dra.matching.published_slice import ALWAYS, PublishedSlice, attribute_column, capacity_column

MOST_COLUMNS: Final = 1000
"""Attributes and capacities that have a column; a slice with others is equal to no other."""
_PER_SLICES: Final = 8
"""Slices that are grouped, or groups that are gone through, in a microsecond (measured)."""
_ALONE: Final = 1 << 63
"""Beyond the digests: of slices that are equal to no other."""


class SlicesByPosition:
    """Slices by position; columns are made when groups are asked for."""

    def __init__(self, slices: Iterable[PublishedSlice] = ()) -> None:
        self.slices: dict[int, PublishedSlice] = {}
        self._drivers: dict[str, int] = {}
        for slice_ in slices:
            self.put(slice_)

    def put(self, slice_: PublishedSlice) -> None:
        """Add a slice, in place of one that had its position."""
        self.drop(slice_.position)
        self.slices[slice_.position] = slice_
        driver = slice_.pool[0]
        self._drivers[driver] = self._drivers.get(driver, 0) | 1 << slice_.position

    def drop(self, position: int) -> None:
        slice_ = self.slices.pop(position, None)
        if slice_ is not None:
            self._drivers[slice_.pool[0]] &= ~(1 << position)

    def drivers(self, positions: int) -> dict[str, int]:
        """The drivers of the slices of a mask, each with its part of the mask."""
        parts = {driver: slices & positions for driver, slices in self._drivers.items()}
        return {driver: part for driver, part in parts.items() if part}

    def groups(self, positions: int, names: tuple[str, ...] | None) -> list[list[int]]:
        """The positions of a mask, those together that are equal in these columns."""
        at = positions_of(positions)
        if names is None:
            return [[position] for position in at]
        by_key: defaultdict[object, list[int]] = defaultdict(list)
        for position, key in zip(at, self._keys(at, names), strict=True):
            by_key[key].append(position)
        return list(by_key.values())

    def _keys(self, at: Sequence[int], names: tuple[str, ...]) -> Iterator[object]:
        keys: dict[object, object] = {}
        for position in at:
            slice_ = self.slices[position]
            same = slice_.pool[0], slice_.device_ids
            key = keys.get(same)
            if key is None:
                key = keys[same] = tuple(map(slice_.column, names))
            yield key


class SliceTable(SlicesByPosition):
    """Slices whose columns are made when they are put there, for processes that are forked later. A column has a number
    for each slice (:attr:`PublishedSlice.columns`), 0 where none of its devices has the attribute or capacity."""

    def __init__(self, slices: Iterable[PublishedSlice] = ()) -> None:
        self._columns: dict[str, array[int]] = {}
        super().__init__(slices)

    def put(self, slice_: PublishedSlice) -> None:
        super().put(slice_)
        columns = slice_.columns
        numbers = {name: number for name, number in columns.items() if self._has_column(name)}
        if len(numbers) < len(columns):
            numbers[ALWAYS] = _ALONE | slice_.position
        for name, number in numbers.items():
            column = self._columns.setdefault(name, array("Q"))
            if len(column) <= slice_.position:
                column.extend([0] * (slice_.position + 1 - len(column)))
            column[slice_.position] = number

    def _has_column(self, name: str) -> bool:
        return name in self._columns or len(self._columns) < MOST_COLUMNS

    def drop(self, position: int) -> None:
        if position in self.slices:
            for column in self._columns.values():
                if position < len(column):
                    column[position] = 0
        super().drop(position)

    def _keys(self, at: Sequence[int], names: tuple[str, ...]) -> Iterator[object]:
        columns = [self._columns.get(name, array("Q")) for name in names]
        end = at[-1] + 1 if at else 0
        whole = [column if len(column) >= end else column + array("Q", [0] * (end - len(column))) for column in columns]
        return zip(*(map(column.__getitem__, at) for column in whole), strict=True)


def columns_of(reads: Reads | None) -> tuple[str, ...] | None:
    """The names of the columns on which selectors depend; None if it isn't known what they read."""
    if reads is None:
        return None
    attributes = (attribute_column(*name) for name in sorted(reads.attributes))
    return (ALWAYS, *attributes, *(capacity_column(*name) for name in sorted(reads.capacity)))


@dataclass(frozen=True, eq=False)
class SliceGroup:
    """Slices of a driver that are equal in what selectors read: what holds for ``first`` holds for all."""

    first: PublishedSlice
    at: list[int]

    @property
    def positions(self) -> int:
        return 1 << self.at[0] if len(self.at) == 1 else self._mask

    @cached_property
    def _mask(self) -> int:
        return mask_of(self.at)


class SliceGroups:
    """The groups of a table's slices, kept so that lists of selectors that read the same share them."""

    def __init__(self, table: SlicesByPosition) -> None:
        self.table = table
        self._groups: dict[tuple[int, tuple[str, ...] | None], list[SliceGroup]] = {}

    def of(self, positions: int, reads: Reads | None, work: Work) -> Iterator[SliceGroup]:
        """The groups of a driver's slices. ``reads``: of the selectors. Raises Interrupted."""
        names = columns_of(reads)
        groups = self._groups.get((positions, names))
        if groups is None:
            _spend(work, positions.bit_count())
            slices = self.table.slices
            groups = [SliceGroup(slices[at[0]], at) for at in self.table.groups(positions, names)]
            self._groups[positions, names] = groups
        _spend(work, len(groups))
        yield from groups


def _spend(work: Work, slices: int) -> None:
    if work.spent(slices / _PER_SLICES):
        raise Stopped
