"""Ranges of sizes and the arithmetic of estimates: unsigned 64-bit numbers that stop at the maximum, as upstream's."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MAXIMUM: Final = 2**64 - 1
_BEYOND: Final = 2.0**64


def add(left: int, right: int) -> int:
    return min(left + right, MAXIMUM)


def multiply(left: int, right: int) -> int:
    return min(left * right, MAXIMUM)


def scale(size: int, factor: float) -> int:
    """Size times factor, rounded up."""
    scaled = math.ceil(float(size) * factor) if float(size) * factor < _BEYOND else MAXIMUM
    return min(scaled, MAXIMUM)


def wrapped(number: int) -> int:
    """A number modulo 2**64, where upstream's arithmetic overflows."""
    return number & MAXIMUM


def whole(number: float) -> int:
    """A float as an unsigned number; where it doesn't fit, 2**63, as Go's conversion gives on amd64."""
    return int(number) if number < _BEYOND else 1 << 63


class Size(NamedTuple):
    """How many characters, bytes, elements or entries a value may have."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        return Size(add(self.least, other.least), add(self.most, other.most))

    def times(self, other: Size) -> Size:
        return Size(multiply(self.least, other.least), multiply(self.most, other.most))

    def union(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN: Final = Size(0, MAXIMUM)
ONE: Final = Size(1, 1)


class ContentSizes(NamedTuple):
    """The sizes of the elements of a list, or of the keys and values of a map."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: ContentSizes | None) -> ContentSizes | None:
        if other is None:
            return None
        return ContentSizes(self.is_list, self.key.union(other.key), self.value.union(other.value))


class ValuePath:
    """Where in a variable a value comes from: ``device``, ``attributes``, ``@values``.

    Like upstream's Go slices, extensions of one path share memory where there is room, so that a later one overwrites
    an earlier one: key and value of a range both get the value's path. Some of upstream's estimates depend on that.
    """

    __slots__ = ("_memory", "length")

    def __init__(self, memory: list[str], length: int) -> None:
        self._memory = memory
        self.length = length

    @classmethod
    def of_name(cls, name: str) -> ValuePath:
        return cls([name], 1)

    @classmethod
    def of_steps(cls, steps: list[str]) -> ValuePath:
        return cls(steps, len(steps))

    def extended(self, name: str) -> ValuePath:
        if self.length == len(self._memory):
            grown = self._memory[: self.length] + [""] * max(1, self.length)
            grown[self.length] = name
            return ValuePath(grown, self.length + 1)
        self._memory[self.length] = name
        return ValuePath(self._memory, self.length + 1)

    def steps(self) -> list[str]:
        return self._memory[: self.length]
