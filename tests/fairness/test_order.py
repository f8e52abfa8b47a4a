"""The order of waiting tenants: what an evaluation of all finds, at a cost that doesn't grow with their number."""

from __future__ import annotations

import time
from random import Random

import pytest

from virt_dra.fairness.order import LeastUsedFirst
from virt_dra.fairness.use import REMEMBERED, Tenant, TenantUse, levels


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def use_at_each_level(use: TenantUse, tenant: Tenant) -> list[float]:
    return [use.of(level) for level in levels(tenant)]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_is_the_one_that_an_evaluation_of_all_finds(seed: int) -> None:
    chance, clock = Random(seed), Clock()
    use = TenantUse(clock, 10.0)
    order, waiting = LeastUsedFirst(use), set[Tenant]()
    for _ in range(1_000):
        clock.now += chance.choice((0.0, 0.1, 5.0))
        tenant = tuple(chance.choice("abc") for _ in range(3))
        match chance.choice(("come", "come", "leave", "charge")):
            case "come":
                order.add(tenant)
                waiting.add(tenant)
            case "leave":
                order.discard(tenant)
                waiting.discard(tenant)
            case _:
                use.add(tenant, chance.choice((0.0, 0.01, 1.0)))
                order.charged(tenant)
        first = order.first()
        assert (first is None) == (not waiting)
        if first is not None:
            assert first in waiting
            least = min(use_at_each_level(use, tenant) for tenant in waiting)
            assert use_at_each_level(use, first) == pytest.approx(least)


def test_the_next_costs_no_more_among_twenty_thousand_tenants() -> None:
    seconds = []
    for count in (100, 20_000):
        use = TenantUse(time.monotonic, 10.0)
        order = LeastUsedFirst(use)
        for number in range(count):
            order.add(("address", "account", f"namespace-{number}"))
        began = time.process_time()
        for _ in range(2_000):
            tenant = order.first()
            assert tenant is not None
            use.add(tenant, 0.001)
            order.discard(tenant)
            order.add(tenant)
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
