"""Matching demands and units: the same verdict as trying every distribution."""

from __future__ import annotations

from itertools import combinations

from hypothesis import example, given
from hypothesis import strategies as st

from virt_dra.allocator.pruning.matching import satisfiable


def _by_trying(demands: list[tuple[int, int]], free: int) -> bool:
    if not demands:
        return True
    (need, units), *others = demands
    bits = [1 << i for i in range(8) if units & free & 1 << i]
    return any(_by_trying(others, free & ~sum(chosen)) for chosen in combinations(bits, need))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 63)), max_size=5))
@example([(1, 0b011), (1, 0b001), (1, 0b110), (1, 0b100)])
def test_satisfiable_if_some_distribution_is(demands: list[tuple[int, int]]) -> None:
    assert satisfiable(demands) is _by_trying(demands, 63)


def test_a_unit_moves_along_a_chain_of_demands() -> None:
    chain = [(1, 0b11 << i) for i in range(200)]
    assert satisfiable([*chain, (1, 1)])
    assert not satisfiable([*chain, (1, 1), (1, 1 << 200)])
