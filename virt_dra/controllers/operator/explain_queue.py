"""The queue of pods to explain: bounded, fair between namespaces, rate-limited by token buckets of CPU time. Pure.
Namespaces are served round-robin, and the share of a core that explaining uses is limited for each and for all
together: a namespace whose pods are expensive waits longer, others for at most the one pod in work."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ExplainShares:
    """Limits of the queue. ``all``, ``per_namespace``: the share of a core that all namespaces together, and each, may
    use in the long run; ``burst_…``: seconds at once. ``queued``, ``queued_per_namespace``: keys in the queue."""

    all: float = 0.1
    burst_all: float = 5.0
    per_namespace: float = 0.05
    burst_per_namespace: float = 1.0
    queued: int = 4096
    queued_per_namespace: int = 128


SHARES: Final = ExplainShares()


class Allowance:
    """A token bucket of seconds: holds ``burst``, refilled by ``share`` a second. Overdrawing it delays the next
    use."""

    __slots__ = ("_at", "_burst", "_left", "_share")

    def __init__(self, share: float, burst: float, now: float) -> None:
        self._share, self._burst = share, burst
        self._left, self._at = burst, now

    def wait(self, now: float) -> float:
        """Seconds until something may be spent; 0 for now."""
        return max(-self._level(now) / self._share, 0.0)

    def spend(self, seconds: float, now: float) -> None:
        self._left, self._at = self._level(now) - seconds, now

    def full(self, now: float) -> bool:
        """True if it is full, so that it can be dropped."""
        return self._level(now) >= self._burst

    def _level(self, now: float) -> float:
        return min(self._left + max(now - self._at, 0.0) * self._share, self._burst)


class ExplainQueue:
    """The keys (``namespace/name``) of VMIs to explain, by namespace in turns. Times are monotonic seconds."""

    def __init__(self, now: float, shares: ExplainShares = SHARES) -> None:
        self._shares = shares
        self._all = Allowance(shares.all, shares.burst_all, now)
        self._spent: dict[str, Allowance] = {}
        """The allowances of namespaces that are not full."""
        self._waiting: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        """Namespace -> its keys; the next namespace to serve comes first."""
        self._by_size: dict[int, dict[str, None]] = {}
        """The namespaces by how many keys they have: of thousands, the fullest is found without a look at each."""
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def add(self, key: str) -> str | None:
        """Queue a key, once. The key that was dropped for lack of room: this one, or the last of the fullest
        namespace."""
        namespace = _namespace(key)
        keys = self._waiting.get(namespace)
        if keys is not None and key in keys:
            return None
        if keys is not None and len(keys) >= self._shares.queued_per_namespace:
            return key
        dropped = None
        if self._number >= self._shares.queued:
            most = max(self._by_size)
            if most <= (0 if keys is None else len(keys)) + 1:
                return key
            fullest = next(iter(self._by_size[most]))
            dropped = next(reversed(self._waiting[fullest]))
            self.discard(dropped)
        keys = self._waiting.setdefault(namespace, OrderedDict())
        keys[key] = None
        self._resized(namespace, len(keys) - 1, len(keys))
        return dropped

    def discard(self, key: str) -> None:
        namespace = _namespace(key)
        keys = self._waiting.get(namespace)
        if keys is None or key not in keys:
            return
        del keys[key]
        self._resized(namespace, len(keys) + 1, len(keys))
        if not keys:
            del self._waiting[namespace]

    def _resized(self, namespace: str, before: int, after: int) -> None:
        self._number += after - before
        if before:
            del self._by_size[before][namespace]
            if not self._by_size[before]:
                del self._by_size[before]
        if after:
            self._by_size.setdefault(after, {})[namespace] = None

    def take(self, now: float) -> str | float | None:
        """Take the next key out of the queue, or return the seconds until one may be taken; None for an empty queue."""
        if not self._waiting:
            return None
        wait = self._all.wait(now)
        if wait > 0:
            return wait
        soonest = float("inf")
        for namespace, keys in self._waiting.items():
            spent = self._spent.get(namespace)
            wait = spent.wait(now) if spent is not None else 0.0
            if wait <= 0:
                key = next(iter(keys))
                self.discard(key)
                if namespace in self._waiting:
                    self._waiting.move_to_end(namespace)
                return key
            soonest = min(soonest, wait)
        return soonest

    def spend(self, key: str | None, seconds: float, now: float) -> None:
        """Charge seconds to the namespace of a key and to all; with None, for work for every namespace, to all only."""
        self._all.spend(seconds, now)
        if key is None:
            return
        namespace = _namespace(key)
        if namespace not in self._spent:
            self._spent = {name: spent for name, spent in self._spent.items() if not spent.full(now)}
            self._spent[namespace] = Allowance(self._shares.per_namespace, self._shares.burst_per_namespace, now)
        self._spent[namespace].spend(seconds, now)


def _namespace(key: str) -> str:
    return key.rpartition("/")[0]
