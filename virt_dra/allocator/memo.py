"""Bounded memoization."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(memo: dict[K, V], key: K, value: V, limit: int) -> V:
    """Store and return the value; the oldest entry is dropped where there are ``limit`` already."""
    if len(memo) >= limit:
        del memo[next(iter(memo))]
    memo[key] = value
    return value
