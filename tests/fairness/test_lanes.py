"""Lanes: who sends much makes nobody else wait for all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from virt_dra.fairness.lanes import FairLane, LaneLimits, TooManyWaiting
from virt_dra.fairness.use import Tenant


class Street:
    """A lane, with the order of the turns."""

    def __init__(self, limits: LaneLimits | None = None) -> None:
        self.lane, self.order = FairLane(limits), list[str]()

    async def drive(self, tenant: Tenant, name: str, seconds: float = 0.0) -> None:
        async with self.lane.turn(tenant):
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
            self.order.append(name)

    async def begun(self) -> None:
        while not self.order:
            await asyncio.sleep(0.001)


async def test_who_has_used_the_lane_least_is_next() -> None:
    street = Street()
    many = [asyncio.create_task(street.drive(("", "hostile"), f"h{n}", 0.02)) for n in range(10)]
    await street.begun()
    await asyncio.gather(*(street.drive(("", f"tenant-{n}"), f"t{n}") for n in range(3)))
    assert street.order.index("t2") <= 3 + 3, f"tenants wait for a turn that has begun, not for a queue: {street.order}"
    await asyncio.gather(*many)
    assert [name for name in street.order if name[0] == "h"] == [f"h{n}" for n in range(10)]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(lambda n: ("192.0.2.1", "alice", f"n{n}"), id="address"),
        pytest.param(lambda n: ("", "mallory", f"n{n}"), id="account"),
    ],
)
async def test_one_address_or_account_with_many_namespaces_counts_as_one(names: Callable[[int], Tenant]) -> None:
    street = Street()
    many = [asyncio.create_task(street.drive(names(n), f"h{n}", 0.02)) for n in range(30)]
    await street.begun()
    await street.drive(("192.0.2.2", "alice", "n"), "t")
    assert street.order.index("t") < 10, street.order
    for task in many:
        task.cancel()
    await asyncio.gather(*many, return_exceptions=True)


async def test_between_two_turns_the_loop_serves_others() -> None:
    street = Street()
    others = 0

    async def other() -> None:
        nonlocal others
        while len(street.order) < 10:
            others += 1
            await asyncio.sleep(0)

    await asyncio.gather(other(), *(street.drive(("n",), str(n)) for n in range(10)))
    assert others >= 10


async def test_heavy_tenants_get_half_of_the_lane_however_many_they_are() -> None:
    street = Street(LaneLimits(share=0.05))
    for n in range(20):
        street.lane.use.add((f"heavy-{n}",), 1.0)

    began = time.perf_counter()
    many = [asyncio.create_task(street.drive((f"heavy-{n}",), "h", 0.01)) for n in range(20)]
    overtaken = []
    while len(street.order) < 20:
        before = len(street.order)
        await street.drive(("light",), "l")
        overtaken.append(len(street.order) - before - 1)
        street.order.pop()
        await asyncio.sleep(0.003)
    assert time.perf_counter() - began > 0.35, "20 turns of 10 ms, each but the last followed by a rest"
    assert max(overtaken) <= 1, "light tenants don't rest: they wait for the turn that has begun"
    await asyncio.gather(*many)


async def test_of_one_tenant_so_many_wait_and_no_more() -> None:
    street = Street(LaneLimits(waiting=16))
    waiting = [asyncio.create_task(street.drive(("", "n"), str(n), 0.001)) for n in range(17)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaiting):
        await street.drive(("", "n"), "refused")
    await street.drive(("", "other"), "other")
    waiting[-1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert sorted(street.order, key=lambda name: name.zfill(9)) == [*map(str, range(16)), "other"], "who left has none"
    assert street.lane.waiting == 0


@pytest.mark.parametrize("leave", ["waiting", "in its turn"])
async def test_who_leaves_keeps_nobody_waiting(leave: str) -> None:
    street = Street()
    first = asyncio.create_task(street.drive(("a",), "a"))
    second = asyncio.create_task(street.drive(("b",), "b"))
    await asyncio.sleep(0)
    (second if leave == "waiting" else first).cancel()
    await asyncio.wait_for(street.drive(("c",), "c"), 5)
    await asyncio.gather(first, second, return_exceptions=True)
    assert street.order[-1] == "c"


async def test_a_fault_is_the_callers() -> None:
    street = Street()

    async def fails() -> None:
        async with street.lane.turn(("n",)):
            raise ValueError("no")

    ask: Callable[[], Awaitable[None]] = fails
    with pytest.raises(ValueError, match=r"^no$"):
        await ask()
    await street.drive(("n",), "next")
    assert street.order == ["next"]


async def test_the_next_turn_costs_no_more_however_many_tenants_wait() -> None:
    seconds = []
    for count in (50, 5_000):
        street = Street(LaneLimits(share=0.001, longest_rest=0.0))
        for n in range(0, count, 2):
            street.lane.use.add((f"t{n}",), 0.01)
        tasks = [asyncio.create_task(street.drive((f"t{n}",), str(n))) for n in range(count)]
        began = time.process_time()
        await asyncio.gather(*tasks)
        seconds.append((time.process_time() - began) / count)
        assert len(street.order) == count
    assert seconds[1] < 5 * seconds[0]


async def test_newcomers_with_many_reviews_each_do_not_come_before_a_regular_tenant() -> None:
    """A start of an attack: the attackers haven't used anything yet, the tenant has."""
    street = Street()
    for _ in range(20):
        await street.drive(("regular",), "before", 0.002)
    street.order.clear()
    many = [asyncio.create_task(street.drive((f"new-{n % 4}",), "h", 0.001)) for n in range(60)]
    await street.begun()
    await street.drive(("regular",), "t")
    assert street.order.index("t") <= 5, f"a turn of each: {street.order}"
    await asyncio.gather(*many)
