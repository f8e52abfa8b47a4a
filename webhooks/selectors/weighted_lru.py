"""An LRU cache limited by the total weight of its values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WeightedLru(Generic[K, V]):
    """An LRU cache whose values have weights of at most ``limit`` in all; the newest value is kept even if it is
    heavier. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        with self._lock:
            replaced = self._kept.pop(key, None)
            self._weight += weight - (replaced[1] if replaced is not None else 0)
            self._kept[key] = value, weight
            while self._weight > self._limit and len(self._kept) > 1:
                _, (_, least) = self._kept.popitem(last=False)
                self._weight -= least
