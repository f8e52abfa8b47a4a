"""A proof by dual prices that needs don't fit into bins of several dimensions.

Give each kind of item a price. No packing is worth more than the most valuable filling of every bin (a knapsack problem
each), so if the needs are worth more, they don't fit. This is the weak duality of the Lagrangian relaxation; the prices
are improved by multiplicative updates in place of subgradient steps (Held and Karp 1971): an item that the best
fillings hold too few of becomes dearer. Prices are integers, so a refutation is exact wherever the prices come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import NamedTuple

from virt_dra.allocator.effort import Effort

_FILLINGS_A_STEP = 5
_UNIT = 10_000
"""The price that all items begin with: large, so that rounding to integers matters little."""

ItemSizes = tuple[tuple[int, tuple[int, ...]], ...]
"""The items that a bin may hold, each with what one takes in each dimension, something in at least one."""

PackingNeed = tuple[tuple[int, int], ...]
"""Alternatives, of which one is needed: an item, and the number of bins that have to hold one each."""


class Bin(NamedTuple):
    left: tuple[int, ...]
    """In each dimension."""
    sizes: ItemSizes


class _PricedItem(NamedTuple):
    price: int
    item: int
    amounts: tuple[int, ...]


class DualPrices:
    """Prices of items, with the most valuable fillings of the bins met so far."""

    def __init__(
        self, prices: Mapping[int, int], wanted: Mapping[int, int], spend: Callable[[int], None], fillings: int
    ) -> None:
        """``wanted``: per item, the most that all needs together want. ``spend`` is charged in steps of the search.
        ``fillings``: limit of the knapsack search for one bin."""
        self._prices = prices
        self._wanted = wanted
        self._spend = spend
        self._limit = fillings
        self._best: dict[Bin, tuple[int, Mapping[int, int]]] = {}

    def refute(self, needs: Mapping[PackingNeed, int], bins: Mapping[Bin, int]) -> bool:
        """True if the needs are worth more than the bins can hold; both with how many there are of each. No item may be
        wanted more often than in ``wanted``."""
        excess = 0
        for need, count in needs.items():
            price, _, _ = self._cheapest(need)
            excess += count * price
        for bin_, count in bins.items():
            value, _ = self._filling(bin_)
            excess -= count * value
        return excess > 0

    def shortage(self, needs: Mapping[PackingNeed, int], bins: Mapping[Bin, int]) -> dict[int, float]:
        """Per item, the share by which the best fillings hold too few of it (below 0: too many)."""
        wanted: dict[int, int] = dict.fromkeys(self._prices, 0)
        held: dict[int, int] = dict.fromkeys(self._prices, 0)
        for need, count in needs.items():
            _, item, several = self._cheapest(need)
            wanted[item] += several * count
        for bin_, count in bins.items():
            for item, several in self._filling(bin_)[1].items():
                held[item] += several * count
        return {item: (wanted[item] - held[item]) / max(wanted[item] + held[item], 1) for item in wanted}

    def _cheapest(self, need: PackingNeed) -> tuple[int, int, int]:
        """The price of the cheapest alternative, its item, and the number of bins."""
        return min((several * self._prices.get(item, 0), item, several) for item, several in need)

    def _filling(self, bin_: Bin) -> tuple[int, Mapping[int, int]]:
        """The most that a filling of the bin can be worth, and one that is worth so much, or nearly."""
        filling = self._best.get(bin_)
        if filling is None:
            filling = self._best[bin_] = self._fill(bin_)
        return filling

    def _fill(self, bin_: Bin) -> tuple[int, Mapping[int, int]]:
        """Branch and bound, bounded by the fractional knapsack of each dimension; that bound itself if the limit is
        passed."""
        items = [
            _PricedItem(self._prices[item], item, amounts)
            for item, amounts in bin_.sizes
            if self._prices.get(item) and all(amount <= left for amount, left in zip(amounts, bin_.left, strict=True))
        ]
        items.sort(key=lambda item: -item.price / sum(item.amounts))
        density = _densities(items, len(bin_.left))
        best = 0
        filling: tuple[tuple[int, int], ...] = ()
        visited = 0
        stack: list[tuple[int, int, tuple[int, ...], tuple[tuple[int, int], ...]]] = [(0, 0, bin_.left, ())]
        while stack:
            number, value, left, held = stack.pop()
            if value > best:
                best, filling = value, held
            if number == len(items) or value + _fractional(density[number], left) <= best:
                continue
            visited += 1
            if visited > self._limit:
                self._spend(visited // _FILLINGS_A_STEP)
                return _fractional(density[0], bin_.left), dict(filling)
            price, item, amounts = items[number]
            most = min(rest // amount for rest, amount in zip(left, amounts, strict=True) if amount)
            for several in range(min(most, self._wanted.get(item, 0)) + 1):
                rest = tuple([have - several * amount for have, amount in zip(left, amounts, strict=True)])
                stack.append((number + 1, value + several * price, rest, (*held, (item, several)) if several else held))
        self._spend(1 + visited // _FILLINGS_A_STEP)
        return best, dict(filling)


def _densities(items: Sequence[_PricedItem], dimensions: int) -> list[list[tuple[int, int] | None]]:
    """Per item and dimension, the highest price per amount among the items from it on, as a fraction; None if one takes
    nothing."""
    densities: list[list[tuple[int, int] | None]] = []
    last: list[tuple[int, int] | None] = [(0, 1)] * dimensions
    for price, _, amounts in reversed(items):
        now: list[tuple[int, int] | None] = []
        for amount, before in zip(amounts, last, strict=True):
            if before is None or amount == 0:
                now.append(None)
            else:
                now.append((price, amount) if price * before[1] > before[0] * amount else before)
        last = now
        densities.append(now)
    return densities[::-1] or [last]


def _fractional(densities: Sequence[tuple[int, int] | None], left: Sequence[int]) -> int:
    """The value of the fractional knapsack of the tightest dimension; no bound but a huge one if each dimension has an
    item that takes nothing of it."""
    bounds = [
        have * density[0] // density[1] for have, density in zip(left, densities, strict=True) if density is not None
    ]
    return min(bounds) if bounds else sum(left) * _UNIT**3


def refuting_prices(
    needs: Mapping[PackingNeed, int], bins: Mapping[Bin, int], spend: Callable[[int], None], effort: Effort
) -> DualPrices | None:
    """Prices that prove that the needs don't fit; None if none were found, which proves nothing."""
    wanted: dict[int, int] = {}
    for need, count in needs.items():
        for item, several in need:
            wanted[item] = wanted.get(item, 0) + several * count
    logs: dict[int, float] = dict.fromkeys(wanted, 0.0)
    for round_ in range(effort.price_rounds):
        prices = DualPrices(
            {item: max(1, round(_UNIT * exp(log))) for item, log in logs.items()}, wanted, spend, effort.bin_fillings
        )
        if prices.refute(needs, bins):
            return prices
        shortage = prices.shortage(needs, bins)
        if not any(shortage.values()):
            return None
        pace = 1.0 / (1 + round_ / 4)
        logs = {item: min(max(log + pace * shortage[item], -6.0), 6.0) for item, log in logs.items()}
    return None
