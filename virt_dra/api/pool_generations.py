"""The newest generation of a resource pool, the only one whose slices count (A-5.1, K-5.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from virt_dra.api.resource_v1 import ResourceSlice

T = TypeVar("T")


def generation_of(published: ResourceSlice) -> int:
    return published.spec.pool.generation


def newest_generation(members: Iterable[T], generation: Callable[[T], int]) -> tuple[int, tuple[T, ...]]:
    """The highest generation among the members of a pool (at least one), and those that have it, in their order."""
    numbered = [(generation(member), member) for member in members]
    newest = max(number for number, _ in numbered)
    return newest, tuple(member for number, member in numbered if number == newest)
