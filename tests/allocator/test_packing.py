"""Dual prices against brute force, and shared devices filled by several requests against the plain search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import DEFAULT_EFFORT, Allocated, Effort, allocate
from virt_dra.allocator.pruning.bin_packing import Bin, PackingNeed, refuting_prices

NODE = build.node("n1")


def _packs(demands: Sequence[PackingNeed], bins: Sequence[Bin], sizes: dict[int, tuple[int, int]]) -> bool:
    """By trying: one unit after the other into every bin that has room."""
    if not demands:
        return True
    (kind, need), rest = demands[0][0], demands[1:]
    if len(demands[0]) > 1:
        return any(_packs([(option,), *rest], bins, sizes) for option in demands[0])
    if need == 0:
        return _packs(rest, bins, sizes)
    for number, bin_ in enumerate(bins):
        left = tuple(have - amount for have, amount in zip(bin_.left, sizes[kind], strict=True))
        if min(left) >= 0:
            fuller = [*bins[:number], Bin(left, bin_.sizes), *bins[number + 1 :]]
            if _packs([((kind, need - 1),), *rest], fuller, sizes):
                return True
    return False


def test_what_dual_prices_refute_does_not_fit() -> None:
    random = Random(1)
    refused, tries = 0, sample(400)
    for _ in range(tries):
        sizes = {kind: (random.randint(1, 5), random.randint(0, 5)) for kind in range(random.randint(1, 3))}
        kinds = tuple(sizes.items())
        bins = [Bin((random.randint(3, 8), random.randint(3, 8)), kinds) for _ in range(random.randint(1, 3))]
        demands: list[PackingNeed] = []
        for _ in range(random.randint(2, 5)):
            options = random.sample(sorted(sizes), random.randint(1, len(sizes)))
            demands.append(tuple((kind, random.choice((1, 1, 2))) for kind in options))
        if refuting_prices(Counter(demands), Counter(bins), lambda steps: None, DEFAULT_EFFORT) is not None:
            refused += 1
            assert not _packs(demands, bins, sizes)
    assert refused > tries / 8


def test_most_of_what_does_not_fit_is_refuted() -> None:
    """Two kinds of items, ten bins: where sums prove nothing, prices do."""
    missed = 0
    for first, second in product(range(0, 24, 3), repeat=2):
        kinds = ((0, (5, 1)), (1, (6, 2)))
        fits = second + (first + 1) // 2 <= 10
        demands: Counter[PackingNeed] = Counter({((0, 1),): first, ((1, 1),): second})
        prices = refuting_prices(+demands, Counter([Bin((10, 10), kinds)] * 10), lambda steps: None, DEFAULT_EFFORT)
        assert not (fits and prices)
        missed += not fits and prices is None
    assert missed <= 3


def test_shared_devices_are_filled_as_the_plain_search_fills_them() -> None:
    random = Random(2)
    outcomes: Counter[bool] = Counter()
    tries = sample(150)
    for _ in range(tries):
        devices = [
            {
                "name": f"d{i}",
                "allowMultipleAllocations": True,
                "capacity": {name: {"value": str(random.randint(3, 8))} for name in ("bw", "mem")},
            }
            for i in range(random.randint(1, 4))
        ]

        def wanted() -> build.Json:
            amounts = {name: str(random.randint(1, 4)) for name in ("bw", "mem")}
            return {"count": random.choice((1, 1, 2)), "capacity": {"requests": amounts}}

        requests = [
            {"name": f"r{i}", "first": [wanted(), wanted()]} if random.random() < 0.3 else {"name": f"r{i}", **wanted()}
            for i in range(random.randint(3, 6))
        ]
        claims = [build.claim({"name": f"c{i}", "requests": requests[i::2]}) for i in range(2)]
        given = {"slices": [{"node": "n1", "devices": devices}]}
        plain = allocate(build.snapshot(given), claims, NODE, explain=False, effort=Effort(patience=None))
        eager = Effort(patience=0, look_ahead=0, packing_interval=1)
        outcome = allocate(build.snapshot(given), claims, NODE, explain=False, effort=eager)
        assert isinstance(outcome, Allocated) == isinstance(plain, Allocated)
        if isinstance(outcome, Allocated) and isinstance(plain, Allocated):
            assert outcome.results == plain.results
        outcomes[isinstance(outcome, Allocated)] += 1
    assert min(outcomes.values()) > tries / 5
