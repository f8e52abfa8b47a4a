"""Whether demands surely don't fit into bins of several dimensions, each demand into as many bins as it needs.

For any weights of the kinds of items: if the demands weigh more than the heaviest contents that the bins can have, they don't fit. The
weights are found by trial, as prices are: what the heaviest contents hold too little of becomes heavier. A weighing that refuses is exact
whatever it comes from, and often refuses what is asked next, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import NamedTuple

_ROUNDS = 40
"""Weighings that are tried."""
_CONTENTS = 100
"""Contents of a bin that are looked at; beyond it the bin is taken to hold the most that its dimensions allow one by one."""
_CONTENTS_A_STEP = 5
_UNIT = 10_000
"""The first weight of the average kind: weights are integers, so that sums are exact."""

Kinds = tuple[tuple[int, tuple[int, ...]], ...]
"""Kinds of items that a bin may hold, each with what one takes of each dimension, something of at least one."""

Demand = tuple[tuple[int, int], ...]
"""One of these: a kind, and how many bins have to take one."""

Weights = Mapping[int, int]


class Bin(NamedTuple):
    left: tuple[int, ...]
    """Of each dimension."""
    kinds: Kinds


class Weighing:
    """One assignment of weights, with the heaviest contents of the bins met so far."""

    def __init__(self, weights: Weights, wanted: Mapping[int, int], spend: Callable[[int], None]) -> None:
        """``wanted``: per kind, the most that all demands together want. ``spend``: told of the work, in steps of a search."""
        self._spend = spend
        self._weights = weights
        self._wanted = wanted
        self._known: dict[Bin, tuple[int, Mapping[int, int]]] = {}

    def refuses(self, demands: Mapping[Demand, int], bins: Mapping[Bin, int]) -> bool:
        """Both with how many there are of each. No kind is wanted more often than the weighing knows of."""
        weight = sum(count * self._lightest(demand)[0] for demand, count in demands.items())
        for each, count in bins.items():
            weight -= count * self.heaviest(each)[0]
        return weight > 0

    def missing(self, demands: Mapping[Demand, int], bins: Mapping[Bin, int]) -> dict[int, float]:
        """Per kind, by which part too few (or, below 0, too many) of it are in the heaviest contents."""
        wanted: dict[int, int] = dict.fromkeys(self._weights, 0)
        held: dict[int, int] = dict.fromkeys(self._weights, 0)
        for demand, count in demands.items():
            _, kind, need = self._lightest(demand)
            wanted[kind] += need * count
        for each, count in bins.items():
            for kind, several in self.heaviest(each)[1].items():
                held[kind] += several * count
        return {kind: (wanted[kind] - held[kind]) / max(wanted[kind] + held[kind], 1) for kind in wanted}

    def _lightest(self, demand: Demand) -> tuple[int, int, int]:
        return min((need * self._weights.get(kind, 0), kind, need) for kind, need in demand)

    def heaviest(self, each: Bin) -> tuple[int, Mapping[int, int]]:
        """What the heaviest contents weigh at most, and contents that come near it."""
        known = self._known.get(each)
        if known is None:
            known = self._known[each] = self._fill(each)
        return known

    def _fill(self, each: Bin) -> tuple[int, Mapping[int, int]]:
        items = [
            (self._weights[kind], kind, amounts)
            for kind, amounts in each.kinds
            if self._weights.get(kind) and all(amount <= left for amount, left in zip(amounts, each.left, strict=True))
        ]
        items.sort(key=lambda item: -item[0] / sum(item[2]))
        density = _densities(items, len(each.left))
        best = 0
        contents: tuple[tuple[int, int], ...] = ()
        looked_at = 0
        stack: list[tuple[int, int, tuple[int, ...], tuple[tuple[int, int], ...]]] = [(0, 0, each.left, ())]
        while stack:
            number, weight, left, held = stack.pop()
            if weight > best:
                best, contents = weight, held
            if number == len(items) or weight + _most(density[number], left) <= best:
                continue
            looked_at += 1
            if looked_at > _CONTENTS:
                self._spend(looked_at // _CONTENTS_A_STEP)
                return _most(density[0], each.left), dict(contents)
            one, kind, amounts = items[number]
            most = min(rest // amount for rest, amount in zip(left, amounts, strict=True) if amount)
            for several in range(min(most, self._wanted.get(kind, 0)) + 1):
                rest = tuple([have - several * amount for have, amount in zip(left, amounts, strict=True)])
                stack.append((number + 1, weight + several * one, rest, (*held, (kind, several)) if several else held))
        self._spend(1 + looked_at // _CONTENTS_A_STEP)
        return best, dict(contents)


def _densities(items: Sequence[tuple[int, int, tuple[int, ...]]], dimensions: int) -> list[list[tuple[int, int] | None]]:
    """Per item, the largest weight per amount from it on, by dimension, as a fraction; None where one takes nothing."""
    found: list[list[tuple[int, int] | None]] = []
    last: list[tuple[int, int] | None] = [(0, 1)] * dimensions
    for weight, _, amounts in reversed(items):
        now: list[tuple[int, int] | None] = []
        for amount, before in zip(amounts, last, strict=True):
            if before is None or amount == 0:
                now.append(None)
            else:
                now.append((weight, amount) if weight * before[1] > before[0] * amount else before)
        last = now
        found.append(now)
    return found[::-1] or [last]


def _most(densities: Sequence[tuple[int, int] | None], left: Sequence[int]) -> int:
    """The most that can be had by any one dimension. No item takes nothing of all, but the densities may come from several."""
    bounds = [have * each[0] // each[1] for have, each in zip(left, densities, strict=True) if each is not None]
    return min(bounds) if bounds else sum(left) * _UNIT**3


def refusing(demands: Mapping[Demand, int], bins: Mapping[Bin, int], spend: Callable[[int], None]) -> Weighing | None:
    """A weighing that proves that the demands don't fit; None if none was found, which proves nothing."""
    wanted: dict[int, int] = {}
    for demand, count in demands.items():
        for kind, need in demand:
            wanted[kind] = wanted.get(kind, 0) + need * count
    logs: dict[int, float] = dict.fromkeys(wanted, 0.0)
    for round_ in range(_ROUNDS):
        weighing = Weighing({kind: max(1, round(_UNIT * exp(log))) for kind, log in logs.items()}, wanted, spend)
        if weighing.refuses(demands, bins):
            return weighing
        missing = weighing.missing(demands, bins)
        if not any(missing.values()):
            return None
        pace = 1.0 / (1 + round_ / 4)
        logs = {kind: min(max(log + pace * missing[kind], -6.0), 6.0) for kind, log in logs.items()}
    return None
