"""An LRU cache limited by the size of its values, since users choose the texts that they are made from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """An LRU cache with a limit on the total size. Thread-safe."""

    def __init__(self, limit: int, most: int | None = None) -> None:
        """``limit``: of the total size; ``most``: of the number of values."""
        self.limit = limit
        self._most = most
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()
        self.size = 0
        """Total size of the values."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """The value, if it is kept."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        with suppress(KeyError):  # another thread has dropped it meanwhile
            self._kept.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Store a value, unless it alone exceeds the limit."""
        if size > self.limit:
            return
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self.size -= before[1]
            self._kept[key] = value, size
            self.size += size
            while self.size > self.limit or (self._most is not None and len(self._kept) > self._most):
                _, (_, freed) = self._kept.popitem(last=False)
                self.size -= freed

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self.size = 0
