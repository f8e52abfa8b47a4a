"""What is kept of answers: it is true of the slices that there are, and weighs what it takes."""

from __future__ import annotations

from devtools.webhooks.slow_selectors import cluster
from virt_dra.matching.positions import SlicePositions, mask_of
from virt_dra.matching.slice_answers import AnswerCache, SelectorDepths, SliceFault

SLICES = tuple(cluster({}, devices=2, slices=3).inputs.inventory.slices.values())
PLAIN = SelectorDepths(b"\1\1")
FAULTY = SelectorDepths(b"\0\1", SliceFault.truncated(0, "x" * 400, 0))
KEY = b"k" * 20


def positions() -> SlicePositions:
    """As the slices have them."""
    taken = SlicePositions()
    assert [taken.take() for _ in SLICES] == [slice_.position for slice_ in SLICES] == [0, 1, 2]
    return taken


def test_answers_that_are_replaced_or_void_weigh_nothing() -> None:
    taken = positions()
    kept = AnswerCache(taken)
    kept.put_depths(KEY, [(SLICES[0], PLAIN)])
    plain = kept.weight
    kept.put_depths(KEY, [(SLICES[1], FAULTY)])
    with_fault = kept.weight
    assert with_fault > plain + 400
    for _ in range(100):
        kept.put_depths(KEY, [(SLICES[1], FAULTY), (SLICES[0], PLAIN)])
    assert kept.weight == with_fault
    kept.keep_depths(KEY, [0])
    assert (kept.weight, kept.of(KEY).depths) == (plain, {0: PLAIN})


def test_a_change_leaves_the_answers_about_other_slices() -> None:
    taken = positions()
    kept = AnswerCache(taken)
    kept.put_matching(KEY, 0b111, 0b010)
    taken.give_back(1)
    assert taken.take() == 3, "not one that a review may still know as another slice"
    kept.put_matching(KEY, 0b1000, 0)
    assert (kept.of(KEY).answered, kept.of(KEY).matching) == (0b1111, 0b010)


def test_a_position_that_is_given_again_has_no_answer() -> None:
    taken = SlicePositions(8)
    kept = AnswerCache(taken)
    given = [taken.take() for _ in range(3)]
    kept.put_depths(KEY, [(slice_, PLAIN) for slice_ in SLICES])
    for lap in range(4):
        while taken.lap == lap:
            kept.put_matching(KEY, mask_of(given), 0)
            taken.give_back(given.pop(0))
            given.append(taken.take())
            entry = kept.of(KEY)
            assert not entry.answered >> given[-1] & 1
            assert given[-1] not in entry.depths
    assert len(set(given)) == 3


def test_a_full_cache_drops_what_was_used_least_recently() -> None:
    cache = AnswerCache()
    cache.put_depths(KEY, [(slice_, FAULTY) for slice_ in SLICES])
    kept = AnswerCache(limit=2 * cache.weight + 500)
    for number in range(20):
        kept.put_depths(bytes([number]) * 20, [(slice_, FAULTY) for slice_ in SLICES])
    assert kept.weight <= 2 * cache.weight + 500
    assert len(kept.of(bytes([19]) * 20).depths) == 3
    assert not kept.of(bytes([0]) * 20).depths


def test_masks_of_tens_of_thousands_of_slices_weigh_bits() -> None:
    kept = AnswerCache()
    kept.put_matching(KEY, (1 << 20_000) - 1, 0)
    assert kept.weight < 5_000
