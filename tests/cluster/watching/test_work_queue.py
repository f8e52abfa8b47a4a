"""The queue of keys: each at most once, never by two at a time, again after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.cluster.port import Unavailable
from virt_dra.cluster.watching.work_queue import WorkQueue, WorkResult


async def run(test: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(60):
        await test()


async def test_a_key_waits_once_and_keys_keep_their_order() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        done: list[str] = []
        for key in "abacb":
            queue.add(key)
        assert len(queue) == 3

        async def work(key: str) -> None:
            done.append(key)
            if len(done) == 3:
                queue.close()

        await queue.run(work)
        assert done == ["a", "b", "c"]

    await run(test)


@pytest.mark.parametrize(
    ("error", "traced"), [(Unavailable("etcdserver: request timed out"), False), (KeyError("spec"), True)]
)
async def test_only_a_fault_of_the_program_leaves_a_trace(
    error: Exception, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """In an outage every VM's work fails, again and again."""

    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")

        async def work(key: str) -> None:
            if not queue.failures(key):
                raise error
            queue.close()

        await queue.run(work)

    await run(test)
    (record,) = caplog.records
    assert (record.exc_info is not None, record.levelname) == (traced, "ERROR" if traced else "WARNING")
    assert str(error) in caplog.text


async def test_a_key_that_is_added_while_it_is_worked_on_is_worked_on_again_afterwards() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        at_once: Counter[str] = Counter()
        done: list[str] = []

        async def work(key: str) -> None:
            at_once[key] += 1
            assert at_once[key] == 1
            if len(done) < 3:
                queue.add(key)
                queue.add(key)
            await asyncio.sleep(0.001)
            at_once[key] -= 1
            done.append(key)

        queue.add("a")
        workers = asyncio.create_task(queue.run(work, workers=4))
        await queue.idle()
        queue.close()
        await workers
        assert done == ["a"] * 4

    await run(test)


async def test_different_keys_are_worked_on_in_parallel() -> None:
    async def test() -> None:
        queue: WorkQueue[int] = WorkQueue()
        together = asyncio.Barrier(3)

        async def work(key: int) -> None:
            await together.wait()

        for key in range(3):
            queue.add(key)
        workers = asyncio.create_task(queue.run(work, workers=3))
        await queue.idle()
        queue.close()
        await workers

    await run(test)


async def test_of_two_delays_the_shorter_counts_and_work_ends_the_waiting() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        done: list[str] = []

        async def work(key: str) -> None:
            done.append(key)

        queue.add_after("a", 5)
        queue.add_after("a", 0.02)
        queue.add_after("a", 5)
        queue.add_after("b", 5)
        queue.add_after("c", 0)
        assert (len(queue), queue.delayed) == (1, 2)
        workers = asyncio.create_task(queue.run(work))
        async with asyncio.timeout(30):
            while len(done) < 2:
                await asyncio.sleep(0.005)
        assert (done, queue.delayed) == (["c", "a"], 1)
        queue.add("b")
        await queue.idle()
        assert (done, queue.delayed) == (["c", "a", "b"], 0)
        queue.close()
        await workers

    await run(test)


async def test_work_says_when_it_wants_the_key_again() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        times: list[float] = []

        async def work(key: str) -> float | None:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 2:
                queue.close()
            return 0.05

        queue.add("a")
        await queue.run(work)
        assert len(times) == 2
        assert times[1] - times[0] >= 0.05

    await run(test)


async def test_failures_wait_longer_each_time_and_are_logged_and_success_forgets_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue(first_delay=0.01, longest_delay=0.03, chance=lambda: 1.0)
        times: list[float] = []
        failures: list[int] = []

        async def work(key: str) -> None:
            times.append(asyncio.get_running_loop().time())
            failures.append(queue.failures(key))
            if len(times) < 5:
                raise ValueError("no luck")
            queue.close()

        queue.add("a")
        await queue.run(work)
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert all(pause >= least for pause, least in zip(pauses, (0.01, 0.02, 0.03, 0.03), strict=True))
        assert (failures, queue.failures("a")) == ([0, 1, 2, 3, 4], 0)

    with caplog.at_level(logging.ERROR):
        await run(test)
    assert [record.getMessage() for record in caplog.records][:2] == [
        "reconciling a failed (attempt 1); retrying in 0.010 s",
        "reconciling a failed (attempt 2); retrying in 0.020 s",
    ]
    assert all(record.exc_info for record in caplog.records)


async def test_closing_lets_work_end_and_drops_what_waits() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        done: list[str] = []
        begun = asyncio.Event()

        async def work(key: str) -> float:
            begun.set()
            await asyncio.sleep(0.01)
            done.append(key)
            return 1.0

        for key in "abc":
            queue.add(key)
        queue.add_after("d", 0.001)
        workers = asyncio.create_task(queue.run(work))
        await begun.wait()
        queue.close()
        queue.add("e")
        queue.add_after("e", 1)
        await workers
        assert (done, len(queue), queue.delayed, queue.in_work) == (["a"], 0, 0, 0)

    await run(test)


async def test_a_key_wakes_one_worker_however_many_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    async def callbacks(workers: int) -> int:
        """How often the event loop calls somebody for ten keys."""
        queue: WorkQueue[int] = WorkQueue()
        running = asyncio.create_task(queue.run(lambda key: asyncio.sleep(0), workers=workers))
        await asyncio.sleep(0.01)
        loop, calls = asyncio.get_running_loop(), count()
        with monkeypatch.context() as patch:
            scheduled = loop.call_soon
            patch.setattr(loop, "call_soon", lambda *given, **named: (next(calls), scheduled(*given, **named))[1])
            for key in range(10):
                queue.add(key)
                await queue.idle()
        queue.close()
        await running
        return next(calls)

    few = await callbacks(1)
    assert 0 < few == await callbacks(50)


async def test_workers_that_were_cancelled_take_no_key_from_later_ones() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()

        async def work(key: str) -> None:
            queue.close()

        first = asyncio.create_task(queue.run(work, workers=3))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(queue.run(work))
        await asyncio.sleep(0.01)
        queue.add("a")
        await second

    await run(test)


async def test_cancellation_reaches_the_work() -> None:
    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        cancelled: list[str] = []

        async def work(key: str) -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                cancelled.append(key)
                raise

        queue.add("a")
        workers = asyncio.create_task(queue.run(work))
        await asyncio.sleep(0.01)
        workers.cancel()
        with pytest.raises(asyncio.CancelledError):
            await workers
        assert cancelled == ["a"]

    await run(test)


class Recorded:
    def __init__(self) -> None:
        self.depths: list[tuple[int, int, int]] = []
        self.waited: list[float] = []
        self.outcomes: list[WorkResult] = []

    def depth(self, ready: int, delayed: int, in_work: int) -> None:
        self.depths.append((ready, delayed, in_work))

    def started(self, waited: float) -> None:
        self.waited.append(waited)

    def finished(self, seconds: float, outcome: WorkResult) -> None:
        assert seconds >= 0
        self.outcomes.append(outcome)


async def test_depth_latency_and_outcomes_are_observed() -> None:
    async def test() -> None:
        seen = Recorded()
        queue: WorkQueue[str] = WorkQueue(observer=seen, first_delay=5)

        async def work(key: str) -> float | None:
            if key == "fails":
                raise ValueError
            return 5 if key == "later" else None

        for key in ("fine", "fails", "later"):
            queue.add(key)
        await asyncio.sleep(0.01)
        workers = asyncio.create_task(queue.run(work))
        await queue.idle()
        assert seen.outcomes == ["done", "failed", "later"]
        assert all(waited >= 0.01 for waited in seen.waited)
        assert (seen.depths[0], max(seen.depths), seen.depths[-1]) == ((1, 0, 0), (3, 0, 0), (0, 2, 0))
        queue.close()
        await workers

    await run(test)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=30), st.integers(1, 3))
async def test_no_addition_is_lost(additions: list[tuple[str, int]], workers: int) -> None:
    """Whatever was added is worked on after it was added, however additions and work interleave, and never twice at a
    time."""

    async def test() -> None:
        queue: WorkQueue[str] = WorkQueue()
        clock = 0
        added: dict[str, int] = {}
        worked: dict[str, int] = {}
        busy: set[str] = set()

        async def work(key: str) -> None:
            nonlocal clock
            assert key not in busy
            busy.add(key)
            clock += 1
            worked[key] = clock
            for _ in range(clock % 3):
                await asyncio.sleep(0)
            busy.discard(key)

        task = asyncio.create_task(queue.run(work, workers=workers))
        for key, steps in additions:
            clock += 1
            added[key] = clock
            queue.add(key)
            for _ in range(steps):
                await asyncio.sleep(0)
        await queue.idle()
        queue.close()
        await task
        assert all(worked[key] > when for key, when in added.items())

    await run(test)
