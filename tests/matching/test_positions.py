"""Positions of slices against a plain account of what was given when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virt_dra.matching.positions import SlicePositions, mask_bytes, mask_from, mask_of, positions_of


@given(st.lists(st.one_of(st.just(None), st.integers(0, 30)), max_size=200))
def test_what_may_have_been_given_again_is_never_called_unchanged(steps: list[int | None]) -> None:
    """Each step takes a position, or gives back one of those that are taken."""
    positions = SlicePositions(8)
    taken: list[int] = []
    holders: dict[int, int] = {}
    moments = [(positions.now, dict(holders))]
    freed: dict[int, int] = {}
    for number, step in enumerate(steps):
        if step is None or not taken:
            position = positions.take()
            assert position not in taken
            assert positions.lap >= freed.get(position, -2) + 2, "a whole lap lies between"
            taken.append(position)
            holders[position] = number
        else:
            position = taken.pop(step % len(taken))
            positions.give_back(position)
            freed[position] = positions.lap
        moments.append((positions.now, dict(holders)))
        for moment, before in moments:
            same = mask_of(position for position in before if holders.get(position) == before[position])
            everything = mask_of(before)
            assert positions.unchanged(everything, moment) & ~same == 0


def test_what_is_kept_is_most_of_what_has_not_changed() -> None:
    positions = SlicePositions(64)
    for _ in range(10):
        positions.take()
    moment, mask = positions.now, (1 << 10) - 1
    for _ in range(5):
        positions.take()
    assert positions.unchanged(mask, moment) == mask


def test_positions_are_few_however_often_slices_change() -> None:
    positions = SlicePositions(8)
    taken = [positions.take() for _ in range(100)]
    for _ in range(10_000):
        positions.give_back(taken.pop(0))
        taken.append(positions.take())
    assert max(taken) < 1024


@given(st.sets(st.integers(0, 5000)))
def test_a_mask_is_its_positions(positions: set[int]) -> None:
    assert positions_of(mask_of(positions)) == sorted(positions)
    assert mask_from(mask_bytes(mask_of(positions))) == mask_of(positions)
