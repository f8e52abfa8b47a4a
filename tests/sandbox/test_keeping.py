"""When a sandbox is started again."""

from __future__ import annotations

from virt_dra.sandbox.keeping import Pauses


def test_pauses_grow_while_processes_end_soon_and_begin_anew_after_one_that_lasted() -> None:
    now = 100.0
    pauses = Pauses(longest=5.0, clock=lambda: now, chance=lambda: 1.0)
    taken = []
    for lasts in (1.0, 1.0, 1.0, 1.0, 1.0, 60.0, 1.0):
        assert pauses.left == 0.0
        pauses.begin()
        now += lasts
        pauses.end()
        taken.append(round(pauses.left, 3))
        now += pauses.left
    assert taken == [0.1, 0.4, 1.6, 5.0, 5.0, 0.1, 0.4]


def test_half_of_a_pause_is_by_chance() -> None:
    pauses = Pauses(clock=lambda: 0.0, chance=lambda: 0.0)
    pauses.begin()
    pauses.end()
    assert pauses.left == 0.05
