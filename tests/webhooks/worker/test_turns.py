"""Whose selectors are evaluated next: by a clock of the test's own, without processes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from virt_dra.fairness.use import REMEMBERED
from webhooks.worker.evaluation_queue import EvaluationQueue, QueueLimits, Turn, TurnRefused


@dataclass
class Office:
    """Turns, with a clock, and who got one in which order."""

    shares: QueueLimits = field(
        default_factory=lambda: QueueLimits(fast=2, slow=1, waiting=3, all_waiting=6, burst=2.0, half_life=7.0)
    )
    now: float = 0.0
    given: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turns = EvaluationQueue(self.shares, lambda: self.now)

    def ask(self, namespace: str) -> Turn:
        return self.turns.ask((namespace,), lambda: self.given.append(namespace))


def test_a_namespace_has_one_turn_at_a_time() -> None:
    office = Office()
    first = office.ask("a")
    office.ask("a")
    office.ask("b")
    assert office.given == ["a", "b"]
    office.turns.end(first)
    assert office.given == ["a", "b", "a"]


def test_who_has_used_least_is_next_however_many_others_wait() -> None:
    office = Office()
    running = [office.ask("a"), office.ask("b")]
    for turn in running:
        office.turns.end(turn, 0.5)
    running = [office.ask("a"), office.ask("b")]
    office.ask("b")
    office.ask("a")
    office.ask("quiet")
    office.turns.end(running[0], 0.5)
    assert office.given[4:] == ["quiet"]


def test_who_is_not_done_soon_goes_on_in_a_slow_place() -> None:
    office = Office()
    first, two = office.ask("a"), office.ask("b")
    office.ask("c")
    assert office.given == ["a", "b"]
    assert office.turns.slower(first) is None
    assert (first.state, office.given) == ("slow", ["a", "b", "c"])
    assert office.turns.slower(two) is None
    assert two.state == "fast", "all slow places are taken, but nobody waits"
    assert (office.turns.fast, office.turns.slow) == (2, 1)
    office.turns.end(two)
    office.turns.end(first)
    assert (office.turns.fast, office.turns.slow) == (1, 0)


def test_who_has_run_longest_ends_where_others_wait() -> None:
    office = Office()
    first, two = office.ask("a"), office.ask("b")
    office.turns.slower(first)
    office.ask("c"), office.ask("d")
    assert office.turns.slower(two) is first
    assert (first.state, two.state, office.given) == ("evicted", "slow", ["a", "b", "c", "d"])
    office.turns.end(first, 0.5)
    assert (office.turns.fast, office.turns.slow, office.turns.left(("a",))) == (2, 1, 1.5)


def test_an_allowance_is_used_up_and_comes_back() -> None:
    office = Office()
    office.turns.end(office.ask("a"), 2.5)
    with pytest.raises(TurnRefused, match="used up its share"):
        office.ask("a")
    office.ask("b")
    office.now = 3.0  # of 2.5 s a quarter is forgotten
    office.turns.end(office.ask("a"))
    office.now = 100.0
    assert office.turns.left(("a",)) == pytest.approx(2.0, abs=0.001)


def test_who_gives_up_waiting_leaves_nothing() -> None:
    office = Office()
    office.ask("a"), office.ask("b")
    waiting = office.ask("c")
    office.turns.end(waiting, 1.0)
    assert office.turns.waiting == 0
    assert office.turns.left(("c",)) == 2.0, "it used nothing"


def test_those_who_wait_are_limited_by_namespace_and_in_all() -> None:
    office = Office()
    for _ in range(4):
        office.ask("a")
    with pytest.raises(TurnRefused, match="too many other reviews"):
        office.ask("a")
    office.ask("b")
    for namespace in "cde":
        office.ask(namespace)
    with pytest.raises(TurnRefused, match="too many other reviews"):
        office.ask("f")


def test_what_is_remembered_of_namespaces_has_an_end() -> None:
    office = Office()
    for number in range(REMEMBERED + 10):
        office.turns.end(office.ask(f"n{number}"), 0.1)
    assert office.turns.left(("n0",)) == 2.0, "forgotten, as if it had used nothing"
    assert office.turns.left((f"n{REMEMBERED}",)) == pytest.approx(1.9)
    assert len(office.turns.use) == REMEMBERED
