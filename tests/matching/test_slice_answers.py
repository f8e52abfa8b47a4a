"""What is kept of answers: its weight is that of what is there, however often answers are replaced and slices go."""

from __future__ import annotations

from devtools.webhooks.slow_selectors import cluster
from virt_dra.matching.slice_answers import AnswerCache, SelectorDepths, SliceFault

PARTS = tuple(cluster({}, devices=2, slices=3).inputs.inventory.slices)


def test_answers_that_are_replaced_or_dropped_weigh_nothing() -> None:
    kept = AnswerCache()
    key = b"k" * 20
    kept.put("each", key, PARTS[0], SelectorDepths(b"\1\1"))
    plain = kept.weight
    kept.put("each", key, PARTS[1], SelectorDepths(b"\0\1", SliceFault.truncated(0, "x" * 400, 0)))
    with_fault = kept.weight
    assert with_fault > plain + 400
    for _ in range(100):
        kept.put("each", key, PARTS[1], SelectorDepths(b"\0\1", SliceFault.truncated(0, "x" * 400, 0)))
        kept.put("each", key, PARTS[0], SelectorDepths(b"\0\0"))
    assert kept.weight == with_fault
    for _ in range(100):
        kept.forget(PARTS[1:])
        assert kept.weight == plain
        kept.put("each", key, PARTS[1], SelectorDepths(b"\0\1", SliceFault.truncated(0, "x" * 400, 0)))
    kept.put("each", key, PARTS[1], SelectorDepths(b"\1\1"))
    kept.forget(PARTS[1:])
    assert kept.weight == plain


def test_slices_go_from_a_full_cache() -> None:
    """Of 20 lists with the answers for three slices each; the limit holds two lists."""
    answer = SelectorDepths(b"\0\1", SliceFault.truncated(0, "x" * 400, 0))
    one = AnswerCache()
    for part in PARTS:
        one.put("each", b"k" * 20, part, answer)
    kept = AnswerCache(limit=2 * one.weight + 500)
    for number in range(20):
        for part in PARTS:
            kept.put("each", bytes([number]) * 20, part, answer)
    kept.of("any", b"a" * 20)
    assert kept.weight <= 2 * one.weight + 500
    kept.forget(PARTS)
    assert kept.weight < one.weight + 2_500
