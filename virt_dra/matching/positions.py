"""Positions of slices, so that sets of tens of thousands of slices are integers with a bit for each (masks)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_FEWEST: Final = 8192
_FREE, _TAKEN, _RESTING, _FREED = range(4)
_NEXT_LAP: Final = bytes((_FREE, _TAKEN, _FREE, _RESTING)) + bytes(range(4, 256))


class Moment(NamedTuple):
    """The lap and the next position in it, at some time."""

    lap: int = 0
    next: int = 0


class SlicePositions:
    """Gives a position to each version of each slice. They ascend, lap after lap. One that was given back isn't given
    again before the lap after the next; and two moments say which may have been given between them, so that what is
    kept of slices needn't follow changes."""

    def __init__(self, size: int = _FEWEST) -> None:
        self._state = bytearray(size)
        self._next = 0
        self.lap = 0

    @property
    def now(self) -> Moment:
        return Moment(self.lap, self._next)

    def take(self) -> int:
        """A position for a slice that is new or has changed."""
        position = self._state.find(_FREE, self._next)
        if position < 0:
            size = len(self._state)
            self._state = self._state.translate(_NEXT_LAP)
            self.lap += 1
            if self._state.count(_FREE) < size // 4:  # a short lap would be over too soon
                self._state.extend(bytes(size))
            position = self._state.find(_FREE, 0 if len(self._state) == size else size)
        self._state[position] = _TAKEN
        self._next = position + 1
        return position

    def give_back(self, position: int) -> None:
        """Frees the position of a slice that was deleted or has changed."""
        self._state[position] = _FREED

    def unchanged(self, mask: int, since: Moment) -> int:
        """The part of a mask that certainly has the same slices as at a moment."""
        if since == self.now:
            return mask
        if since.lap == self.lap:
            return mask & ~((1 << self._next) - (1 << since.next))
        if since.lap + 1 == self.lap and self._next < since.next:
            return mask & ((1 << since.next) - (1 << self._next))
        return 0


def mask_of(positions: Iterable[int]) -> int:
    """The mask with a bit for each position."""
    bits = bytearray()
    for position in positions:
        byte = position >> 3
        if byte >= len(bits):
            bits.extend(bytes(byte + 1 - len(bits)))
        bits[byte] |= 1 << (position & 7)
    return int.from_bytes(bits, "little")


def positions_of(mask: int) -> list[int]:
    """The positions in a mask, ascending."""
    return [position for position, bit in enumerate(reversed(f"{mask:b}")) if bit == "1"]


def mask_bytes(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def mask_from(data: bytes) -> int:
    return int.from_bytes(data, "little")
