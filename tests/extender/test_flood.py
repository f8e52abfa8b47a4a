"""Pods that cost the extender much: what they take is their namespace's, and others are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import Any

from tests.extender.objects import GPU_CLASS, claim, gpus, node, pod
from tests.extender.test_serving import NODES, extender
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.extender.advisor import Advisor
from virt_dra.extender.protocol import ExtenderArguments

PATTERNS = 190


def costly(number: int) -> str:
    """A selector of many patterns, none of which matches, that nobody has asked for before."""
    texts = (f"'(a{number}|b{index}+)*c{index}'" for index in range(PATTERNS))
    return " || ".join(f"device.driver.matches({text})" for text in texts)


def of_namespace(namespace: str, claims: int, number: int) -> tuple[Pod, list[ResourceClaim]]:
    names = [f"c{number}-{index}" for index in range(claims)]
    meta = {"namespace": namespace}
    made = [claim(name, selector=costly(number * claims + index)) for index, name in enumerate(names)]
    asking = pod(f"p{number}", *names)
    return (
        asking.with_(metadata=asking.metadata.with_(**meta)),
        [each.with_(metadata=each.metadata.with_(**meta)) for each in made],
    )


class SlowWorld:
    """An advisor whose clock goes on by a second whenever a time is asked for: everything is too slow."""

    def __init__(self) -> None:
        self.step, self._now = 0.0, 0.0
        self.advisor = Advisor("pack", DEFAULT, self, lambda: 0.5)
        for obj in (GPU_CLASS, *map(node, NODES), *[gpus(name, 8) for name in NODES]):
            self.advisor.put(obj)
        self.advisor.prepare()

    def __call__(self) -> float:
        self._now += self.step
        return self._now

    def asked(self, asking: Pod, claims: list[ResourceClaim]) -> str:
        for each in claims:
            self.advisor.put(each)
        advice, _ = self.advisor.prioritize(ExtenderArguments(asking, tuple(NODES)))
        return advice.verdict


def test_what_was_too_slow_is_not_tried_again_and_others_are_not_refused_for_it() -> None:
    world, (asking, claims) = SlowWorld(), of_namespace("attacker", 1, 1)
    world.step = 0.6
    assert world.asked(asking, claims) == "too slow"
    world.step = 0.0
    assert world.asked(asking, claims) == "too slow"
    world._now += 60
    assert world.asked(asking, claims) == "scored"
    assert world.asked(*of_namespace("other", 1, 1)) == "scored"


def test_a_namespace_that_has_used_its_share_gets_no_preference_for_what_costs_much() -> None:
    world, verdicts = SlowWorld(), []
    assert world.asked(*of_namespace("attacker", 1, 99)) == "scored"
    for number in range(8):
        world.step = 0.05
        verdicts.append(world.asked(*of_namespace("attacker", 1, number)))
    assert verdicts[-1] == "over its share"
    world.step = 0.0
    assert world.asked(*of_namespace("attacker", 1, 98)) == "over its share"
    assert world.asked(*of_namespace("attacker", 1, 99)) == "scored", "of this kind, scores are kept"
    assert world.asked(*of_namespace("other", 1, 97)) == "scored"
    world._now += 60
    assert world.asked(*of_namespace("attacker", 1, 98)) == "scored"


def test_a_request_takes_a_bounded_time_however_many_namespaces_cost_much() -> None:
    advisor = Advisor("pack", DEFAULT, time.process_time, lambda: 0.5)
    for obj in (
        GPU_CLASS,
        *[node(f"n{number}") for number in range(100)],
        *[gpus(f"n{number}", 8) for number in range(100)],
    ):
        advisor.put(obj)
    advisor.prepare()
    names = tuple(f"n{number}" for number in range(100))
    taken = []
    for number in range(60):
        asking, claims = of_namespace(f"tenant-{number % 20}", 4, number)
        for each in claims:
            advisor.put(each)
        began = time.process_time()
        advisor.prioritize(ExtenderArguments(asking, names))
        taken.append(time.process_time() - began)
    assert sum(taken) < 9
    assert sorted(taken[20:])[len(taken[20:]) // 2] < 0.1


async def test_unfinished_requests_do_not_silence_it() -> None:
    async with extender() as running:
        await running.ready()
        await running.cluster.create(claim("c"))
        writers = []
        for _ in range(40):
            _, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(b"POST /prioritize HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
            await writer.drain()
            writers.append(writer)
        async with asyncio.timeout(20):
            while await running.best("p", "c") not in NODES:
                await asyncio.sleep(0.05)
        for writer in writers:
            writer.close()


async def test_an_unfinished_request_ends() -> None:
    async with extender() as running:
        await running.ready()
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"POST /prioritize HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()


async def test_a_tenant_with_many_requests_at_once_waits_behind_others() -> None:
    """Others are next after the request that is being answered, not behind the ones that wait."""
    async with extender() as running:
        await running.ready()
        await running.cluster.create(claim("c"))
        numbers = count()

        async def attack() -> None:
            while True:
                asking, _ = of_namespace("attacker", 4, next(numbers))
                await running.post("prioritize", {"Pod": asking.to_wire(), "NodeNames": NODES})

        attacking = [asyncio.create_task(attack()) for _ in range(60)]
        await asyncio.sleep(0.5)
        answers: list[tuple[int, Any]] = []
        for number in range(20):
            body = {"Pod": pod(f"p{number}", "c").to_wire(), "NodeNames": NODES}
            answers.append(await running.post("prioritize", body))
        for task in attacking:
            task.cancel()
        await asyncio.wait(attacking)
    assert [status for status, _ in answers] == [200] * 20
