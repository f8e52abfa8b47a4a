"""Weighings against brute force, and shared devices filled by several requests against the plain search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random
from unittest.mock import patch

from devtools.allocator import build
from virt_dra.allocator import Allocated, allocate
from virt_dra.allocator.pruning.bin_packing import Bin, Demand, refusing

NODE = build.node("n1")


def _packs(demands: Sequence[Demand], bins: Sequence[Bin], sizes: dict[int, tuple[int, int]]) -> bool:
    """By trying: one unit after the other into every bin that has room."""
    if not demands:
        return True
    (kind, need), rest = demands[0][0], demands[1:]
    if len(demands[0]) > 1:
        return any(_packs([(option,), *rest], bins, sizes) for option in demands[0])
    if need == 0:
        return _packs(rest, bins, sizes)
    for number, each in enumerate(bins):
        left = tuple(have - amount for have, amount in zip(each.left, sizes[kind], strict=True))
        if min(left) >= 0:
            fuller = [*bins[:number], Bin(left, each.kinds), *bins[number + 1 :]]
            if _packs([((kind, need - 1),), *rest], fuller, sizes):
                return True
    return False


def test_what_a_weighing_refuses_does_not_fit() -> None:
    random = Random(1)
    refused = 0
    for _ in range(400):
        sizes = {kind: (random.randint(1, 5), random.randint(0, 5)) for kind in range(random.randint(1, 3))}
        kinds = tuple(sizes.items())
        bins = [Bin((random.randint(3, 8), random.randint(3, 8)), kinds) for _ in range(random.randint(1, 3))]
        demands: list[Demand] = []
        for _ in range(random.randint(2, 5)):
            options = random.sample(sorted(sizes), random.randint(1, len(sizes)))
            demands.append(tuple((kind, random.choice((1, 1, 2))) for kind in options))
        if refusing(Counter(demands), Counter(bins), lambda steps: None) is not None:
            refused += 1
            assert not _packs(demands, bins, sizes)
    assert refused > 50


def test_most_of_what_does_not_fit_is_refused() -> None:
    """Two kinds of items, ten bins: where the sums say nothing, weighing does."""
    missed = 0
    for first, second in product(range(0, 24, 3), repeat=2):
        kinds = ((0, (5, 1)), (1, (6, 2)))
        fits = second + (first + 1) // 2 <= 10
        demands: Counter[Demand] = Counter({((0, 1),): first, ((1, 1),): second})
        found = refusing(+demands, Counter([Bin((10, 10), kinds)] * 10), lambda steps: None)
        assert not (fits and found)
        missed += not fits and found is None
    assert missed <= 3


def test_shared_devices_are_filled_as_the_plain_search_fills_them() -> None:
    random = Random(2)
    outcomes: Counter[bool] = Counter()
    for _ in range(150):
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
        with patch("virt_dra.allocator.search._PATIENCE", 10**9):
            plain = allocate(build.snapshot(given), claims, NODE, explain=False)
        with (
            patch("virt_dra.allocator.search._PATIENCE", 0),
            patch("virt_dra.allocator.pruning.pruner._LOOK_AHEAD", 0),
            patch("virt_dra.allocator.pruning.lower_bounds._WEIGHED", 1),
        ):
            found = allocate(build.snapshot(given), claims, NODE, explain=False)
        assert isinstance(found, Allocated) == isinstance(plain, Allocated)
        if isinstance(found, Allocated) and isinstance(plain, Allocated):
            assert found.results == plain.results
        outcomes[isinstance(found, Allocated)] += 1
    assert min(outcomes.values()) > 30
