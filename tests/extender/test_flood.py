"""Pods that cost the extender much: what they take is their namespace's, and others are answered meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from itertools import count
from typing import Any

import pytest

from tests.extender.objects import GPU_CLASS, claim, gpus, node, pod
from tests.extender.test_serving import NODES, extender
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.extender.advising_process import AdvisingProcess, Answer, Verb
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
        [obj.with_(metadata=obj.metadata.with_(**meta)) for obj in made],
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
        for asked_claim in claims:
            self.advisor.put(asked_claim)
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


@pytest.mark.slow
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
        for asked_claim in claims:
            advisor.put(asked_claim)
        began = time.process_time()
        advisor.prioritize(ExtenderArguments(asking, names))
        taken.append(time.process_time() - began)
    assert sum(taken) < 9
    assert sorted(taken[20:])[len(taken[20:]) // 2] < 0.1


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
def test_an_evaluation_goes_on_in_the_next_turn_where_it_ended(verb: str) -> None:
    """Each turn ends after some nodes, whose scores are kept."""
    names = [f"n{number}" for number in range(200)]
    clock = itertools.count()
    advisor = Advisor("pack", DEFAULT, lambda: 0.001 * next(clock), lambda: 0.5)
    for obj in (GPU_CLASS, *map(node, names), *[gpus(name, number % 8 + 1) for number, name in enumerate(names)]):
        advisor.put(obj)
    advisor.prepare()
    asking, (wanted,) = of_namespace("tenant", 1, 1)
    advisor.put(wanted.with_(spec=claim("c", 2).spec))
    asked = ExtenderArguments(asking, tuple(names))
    ask = advisor.prioritize if verb == "prioritize" else advisor.filter
    assert ask(asked, 0.0)[0].verdict == "unfinished"
    verdicts = [ask(asked, 0.005)[0].verdict]
    while verdicts[-1] == "unfinished":
        verdicts.append(ask(asked, 0.005)[0].verdict)
    assert 20 < len(verdicts) < 60, "200 nodes, of which a turn reaches some"
    assert verdicts[-1] == "scored"
    assert ask(asked, 0.0)[0].verdict == "scored", "from now on it needs no turn"


def test_an_evaluation_ends_after_its_time_however_many_turns_it_had() -> None:
    world, (asking, claims) = SlowWorld(), of_namespace("attacker", 1, 1)
    world.advisor.put(*claims)
    world.step = 0.06
    verdicts = []
    while "too slow" not in verdicts:
        verdicts.append(world.advisor.prioritize(ExtenderArguments(asking, tuple(NODES)), 0.01)[0].verdict)
    assert verdicts[:-1] == ["unfinished"] * (len(verdicts) - 1)
    assert 2 < len(verdicts) < 12


def test_scores_are_kept_however_many_others_are_evaluated() -> None:
    world = SlowWorld()
    assert world.asked(*of_namespace("tenant", 1, 1)) == "scored"
    world.step = 0.001
    for number in range(2, 202):
        asking, claims = of_namespace(f"tenant-{number}", 1, number)
        world.advisor.put(*claims)
        advice, _ = world.advisor.prioritize(ExtenderArguments(asking, tuple(NODES)), 0.001)
        assert advice.verdict in ("unfinished", "over its share")
    asking, _ = of_namespace("tenant", 1, 1)
    advice, _ = world.advisor.prioritize(ExtenderArguments(asking, tuple(NODES)), 0.0)
    assert advice.verdict == "scored"


class Log:
    """What the process is asked, and by which pods."""

    def __init__(self, process: AdvisingProcess) -> None:
        self._process, self.begun = process, list[str]()
        self._answer, process.answer = process.answer, self.answer  # type: ignore[method-assign]  # it is watched

    async def answer(self, verb: Verb, body: bytes, *, evaluate: bool) -> Answer:
        self.begun.append(json.loads(body)["Pod"]["metadata"]["name"])
        return await self._answer(verb, body, evaluate=evaluate)


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [20, 60])
async def test_floods_from_many_namespaces_keep_a_tenant_waiting_for_one_turn(namespaces: int) -> None:
    """Each namespace has pods whose selectors nobody evaluated yet; the tenant's scores are kept."""
    async with extender() as running:
        await running.ready()
        await running.cluster.create(claim("c"))
        async with asyncio.timeout(20):
            while await running.best("p", "c") not in NODES:
                await asyncio.sleep(0.05)
        flood = [of_namespace(f"tenant-{number}", 4, number) for number in range(namespaces)]
        for wanted in itertools.chain.from_iterable(claims for _, claims in flood):
            await running.cluster.create(wanted)
        log = Log(running.followed.process)

        async def attack(asking: Pod) -> None:
            while True:
                await running.post("prioritize", {"Pod": asking.to_wire(), "NodeNames": NODES})

        attacking = [asyncio.create_task(attack(asking)) for asking, _ in flood]
        await asyncio.sleep(0.2)
        waits = []
        for number in range(30):
            before = len(log.begun)
            assert await running.best(f"own-{number}", "c") in NODES
            waits.append(log.begun.index(f"own-{number}") - before)
            await asyncio.sleep(0.02)
        for task in attacking:
            task.cancel()
        await asyncio.wait(attacking)
        assert len(log.begun) > 60, "the flood is answered, too"
    # What is asked while the request itself is on its way comes before it, too.
    assert sorted(waits)[len(waits) // 2] <= 3
    assert sorted(waits)[-3] <= 8


async def test_a_request_that_kube_scheduler_no_longer_waits_for_is_not_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("virt_dra.extender.server._ANSWER_SECONDS", 0.0)
    async with extender() as running:
        await running.ready()
        await running.cluster.create(claim("c"))
        async with asyncio.timeout(20):
            while (answer := await running.post("prioritize", {"Pod": pod("p", "c").to_wire(), "NodeNames": NODES}))[
                0
            ] == 200:
                await asyncio.sleep(0.05)  # it doesn't know the claim yet
    assert answer == (503, "the selectors of other pods were evaluated first")


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


@pytest.mark.slow
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
