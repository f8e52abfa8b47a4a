"""The order of waiting tenants: what an evaluation of all finds, at a cost that doesn't grow with their number."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.sampling import sample
from virt_dra.fairness.order import EarliestStartFirst, Start, StartTimes
from virt_dra.fairness.use import REMEMBERED, Tenant, TenantUse, levels


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Queue:
    """Tenants that wait for turns of something there is one of."""

    def __init__(self) -> None:
        self.use = TenantUse(Clock(), 10.0)
        self.times = StartTimes(self.use)
        self.order = EarliestStartFirst(self.times.start)
        self.come = self.order.add

    def turn(self, seconds: float, *, stays: bool = False) -> Tenant:
        """Who has the next turn; ``stays``: and waits for another."""
        tenant = self.order.first()
        assert tenant is not None
        self.use.add(tenant, seconds)
        self.times.charge(tenant, seconds)
        if stays:
            self.order.charged(tenant)
        else:
            self.order.discard(tenant)
        return tenant


@pytest.mark.parametrize("seed", range(sample(20)))
def test_the_first_is_the_one_that_an_evaluation_of_all_finds(seed: int) -> None:
    chance, times = Random(seed), StartTimes(TenantUse(Clock(), 10.0))
    order, waiting, starts = EarliestStartFirst(times.start), set[Tenant](), dict[Tenant, Start]()
    for _ in range(1_000):
        tenant = tuple(chance.choice("abc") for _ in range(3))
        match chance.choice(("come", "come", "leave", "charge")):
            case "come":
                order.add(tenant)
                waiting.add(tenant)
            case "leave":
                order.discard(tenant)
                waiting.discard(tenant)
            case _:
                times.charge(tenant, chance.choice((0.0, 0.01, 1.0)))
                order.charged(tenant)
                for level in levels(tenant):
                    starts.pop(level, None)
        there = {level for other in waiting for level in levels(other)}
        starts = {level: starts[level] if level in starts else times.start(level) for level in there}
        first = order.first()
        assert (first is None) == (not waiting)
        if first is not None:
            assert order.starts(first) == [
                min(starts[other] for other in there if len(other) == len(level) and other[:-1] == level[:-1])
                for level in levels(first)
            ]


def test_newcomers_do_not_come_before_those_who_had_turns() -> None:
    queue = Queue()
    for _ in range(100):
        queue.come(("regular",))
        queue.turn(0.002)
        queue.times.restart()
    for number in range(60):
        queue.come((f"new-{number}",))
    queue.come(("regular",))
    assert queue.turn(0.002) == ("regular",)


def test_who_comes_rarely_waits_for_none_of_those_that_never_leave() -> None:
    queue = Queue()
    for number in range(60):
        queue.come((f"always-{number}",))
    queue.come(("rare",))
    for _ in range(61):
        queue.turn(0.002, stays=True)
    queue.order.discard(("rare",))
    for _ in range(200):
        queue.turn(0.002, stays=True)
    for _ in range(20):
        queue.come(("rare",))
        assert queue.turn(0.001) == ("rare",)
        for _ in range(60):
            assert queue.turn(0.002, stays=True) != ("rare",)


def test_what_a_turn_takes_is_shared_equally_by_those_that_wait() -> None:
    queue, used = Queue(), {"short": 0.0, "long": 0.0}
    for name in used:
        queue.come((name,))
    for _ in range(3_000):
        (name,) = queue.turn(seconds := 0.001 if queue.order.first() == ("short",) else 0.02, stays=True)
        used[name] += seconds
    assert used["short"] == pytest.approx(used["long"], abs=0.02)


def test_a_flood_of_names_is_forgotten() -> None:
    times = StartTimes(TenantUse(Clock(), 10.0))
    for number in range(2 * REMEMBERED):
        times.charge((f"account-{number}", "namespace"), 0.1)
    assert len(times) <= 2 * REMEMBERED
    times.restart()
    assert len(times) == 0


def test_the_next_costs_no_more_among_twenty_thousand_tenants() -> None:
    seconds = []
    for count in (100, 20_000):
        queue = Queue()
        for number in range(count):
            queue.come(("address", "account", f"namespace-{number}"))
        began = time.process_time()
        for _ in range(2_000):
            queue.turn(0.001, stays=True)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 5 * seconds[0]


def test_use_is_forgotten_by_halves() -> None:
    clock = Clock()
    use = TenantUse(clock, 10.0)
    use.add(("a", "b"), 4.0)
    clock.now = 20.0
    use.add(("a", "c"), 1.0)
    assert use.of(("a", "b")) == pytest.approx(1.0)
    assert use.of(("a",)) == pytest.approx(2.0)
    assert use.light_at(("a",), 0.5) == pytest.approx(40.0)
    for number in range(REMEMBERED):
        use.add((f"t{number}",), 0.0)
    assert use.of(("a",)) == 0.0
