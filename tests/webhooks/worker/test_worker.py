"""The worker process: it finds what this process finds, and survives whatever is asked of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devtools.webhooks.slow_selectors import DRIVER, HOSTILE, cluster
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.matching.evaluating import TOO_MUCH_WORK, ImmediateEvaluator
from virt_dra.matching.slice_answers import DepthsQuestion, SelectorEvaluator
from webhooks.lint import DeviceInventory
from webhooks.server.reviewing import Collecting
from webhooks.worker.evaluation_queue import QueueLimits
from webhooks.worker.parent import Asked, Worker, WorkerLimits
from webhooks.worker.process import NICE, SLOW_NICE, WORKER_NICE

pytestmark = pytest.mark.slow

PLENTY = WorkerLimits(processor_seconds=20, fast_seconds=20, work=None, shares=QueueLimits(burst=1000))
"""So that a machine that is busy with something else makes no difference."""
MODEL = f'device.attributes["{DRIVER}"].model'


def inventory() -> DeviceInventory:
    return cluster({}).inputs.inventory


@dataclass
class Observed:
    outcomes: list[str] = field(default_factory=list)
    starts: int = 0
    most: int = 0

    def asked(self, outcome: str, seconds: float) -> None:
        self.outcomes.append(outcome)

    def process_started(self) -> None:
        self.starts += 1

    def state(self, fast: int, slow: int, waiting: int) -> None:
        self.most = max(self.most, fast + slow)


@asynccontextmanager
async def working(
    devices: Callable[[], DeviceInventory], limits: WorkerLimits = PLENTY
) -> AsyncIterator[tuple[Worker, Observed]]:
    observed = Observed()
    worker = Worker(lambda: devices().slices, limits, observer=observed)
    async with worker.running():
        await until(lambda: worker.filled)
        yield worker, observed


async def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def files_open(pid: str) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def run(
    test: Callable[[Worker, Observed, DeviceInventory], Awaitable[None]], limits: WorkerLimits = PLENTY
) -> None:
    devices = inventory()
    async with working(lambda: devices, limits) as (worker, observed):
        await test(worker, observed, devices)


def seen(
    inventory: DeviceInventory, expressions: Sequence[str], limit: int | None, evaluator: SelectorEvaluator
) -> Any:
    match, drivers = inventory.matching(expressions, limit, evaluator), inventory.drivers(expressions, evaluator)
    fault = match.fault and (match.fault.selector, match.fault.message, str(match.fault.device))
    return (
        [str(device) for device in match.devices],
        match.passed,
        [str(device) for device in match.nearest],
        fault,
        match.incomplete,
        match.unchecked,
        drivers,
    )


async def reason(worker: Worker, namespace: str, asked: Asked, seconds: float) -> str:
    """Why not all is answered; "" if it is."""
    unanswered = await worker.answer((namespace,), asked, seconds)
    return "" if unanswered is None else unanswered.reason


async def found(
    worker: Worker, inventory: DeviceInventory, expressions: Sequence[str], limit: int | None, namespace: str = "n"
) -> Any:
    """What is seen once the worker was asked."""
    collecting = Collecting()
    seen(inventory, expressions, limit, collecting)
    why = await reason(worker, namespace, collecting.asked, 20) if collecting.asked else ""
    return seen(inventory, expressions, limit, Collecting(why or "still open"))


QUESTIONS: list[list[str]] = [
    [],
    ["true"],
    ["false"],
    [f'{MODEL} == "m1"'],
    [f'device.driver == "{DRIVER}"', f'{MODEL} == "m1"', f'device.attributes["{DRIVER}"].index > 3'],
    [f'{MODEL} == "m1"', f'device.attributes["{DRIVER}"].missing == 1'],
    [f'device.attributes["{DRIVER}"].index == 5 ? device.attributes["{DRIVER}"].missing == 1 : true'],
    [f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("16Gi"))'],
    [f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("5.3.0"))'],
    ["true", "this is no CEL"],
    ["device.nothing == 1"],
    ["1 + 1"],
    ['"\\ud800" == "x"'],
    ['device.driver == "nobody"'],
    ["true"] * 64,
    ["true"] * 300,
]


@pytest.mark.parametrize("limit", [None, 10])
async def test_it_finds_what_this_process_finds(limit: int | None) -> None:
    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        for number, expressions in enumerate(QUESTIONS):
            assert await found(worker, devices, expressions, limit, f"n{number}") == seen(
                inventory(), expressions, limit, ImmediateEvaluator()
            ), expressions

    await run(test)


async def test_a_changed_slice_is_asked_alone_and_seen_by_the_worker() -> None:
    devices = inventory()
    async with working(lambda: devices) as (worker, _):
        await found(worker, devices, [f'{MODEL} == "m1"'], None)
        raw = {
            "driver": DRIVER,
            "pool": {"name": "node-1", "generation": 2},
            "devices": [{"name": "d", "attributes": {"model": {"string": "m1"}}}],
        }
        new = ResourceSlice.from_wire({"metadata": {"name": "s1"}, "spec": raw})
        devices = devices.changed([new], ["s2"])
        collecting = Collecting()
        devices.matching([f'{MODEL} == "m1"'], None, collecting)
        questions = [question for question, _ in collecting.asked]
        assert [
            [part.name for part in question.slices] for question in questions if isinstance(question, DepthsQuestion)
        ] == [["s1"]]
        assert len((await found(worker, devices, [f'{MODEL} == "m1"'], None))[0]) == 3 + 1 + 3
        devices = devices.changed(
            [ResourceSlice.from_wire({"metadata": {"name": "s9"}, "spec": {**raw, "driver": "new"}})]
        )
        assert (await found(worker, devices, ['device.driver == "new"'], None))[0] == ["d (driver new, pool node-1)"]


@pytest.mark.parametrize("name", sorted(HOSTILE))
async def test_what_takes_too_long_ends_in_time_and_is_not_tried_again_at_once(name: str) -> None:
    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        # 20 times, so that it takes too long even where the engine has been made faster
        expressions = [f"{HOSTILE[name]} && {n} < 100" if n else HOSTILE[name] for n in range(20)]
        asked = [[expression] for expression in expressions]
        began = time.monotonic()
        reasons = []
        for selectors in asked:
            collecting = Collecting()
            devices.matching(selectors, None, collecting)
            if time.monotonic() - began > 0.5:
                break
            reasons.append(await reason(worker, "n", collecting.asked, 10))
        assert time.monotonic() - began < 15, (
            "1 s, and what a loaded machine takes to start a child; without an end it would be minutes"
        )
        # The engine ends what it foresees to be too much work before its time is up.
        assert all(why in ("", TOO_MUCH_WORK) or "than the 500 ms of a processor" in why for why in reasons)
        assert await found(worker, devices, ["true"], None, "another") == seen(
            inventory(), ["true"], None, ImmediateEvaluator()
        )

    await run(test, WorkerLimits(work=None, fast_seconds=20))


async def test_a_killed_selector_is_not_tried_again_at_once_in_its_namespace() -> None:
    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        collecting = Collecting()
        devices.matching([HOSTILE["loops"]], None, collecting)
        assert "takes longer" in await reason(worker, "n", collecting.asked, 10)
        assert "a short while ago" in await reason(worker, "n", collecting.asked, 10)
        assert observed.outcomes == ["killed", "refused"]
        # Others may use the same selectors: whoever made them slow once must not have them go unchecked everywhere.
        assert "takes longer" in await reason(worker, "m", collecting.asked, 10)

    await run(test, WorkerLimits(work=None, fast_seconds=20))


async def test_work_has_an_end_before_time_has() -> None:
    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        assert (await found(worker, devices, [HOSTILE["loops"]], None))[
            5
        ] == "evaluating them is more work than one review may cause"
        assert observed.outcomes == ["stopped"]

    await run(test, WorkerLimits(processor_seconds=20, fast_seconds=20, work=10_000))


async def test_memory_has_an_end() -> None:
    doubled = "".join(f"cel.bind(x{n}, x{n - 1} + x{n - 1}, " for n in range(1, 26))
    greedy = f"cel.bind(x0, [1,2,3,4,5,6,7,8], {doubled} x25.size() > 0{')' * 26}"

    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        collecting = Collecting()
        devices.matching([greedy], None, collecting)
        assert worker.pid is not None
        await worker.answer(("n",), collecting.asked, 5)
        assert (await found(worker, devices, ["true"], None, "m"))[0]

    await run(test, WorkerLimits(processor_seconds=5, fast_seconds=20, work=None))


async def test_a_killed_worker_is_replaced_and_filled_again() -> None:
    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        before = worker.pid
        assert before is not None
        waiting = asyncio.create_task(found(worker, devices, [HOSTILE["loops"]], None))
        await asyncio.sleep(0.2)
        os.kill(before, signal.SIGKILL)
        assert "is started again" in (await waiting)[5] or "takes longer" in (await waiting)[5]
        await until(lambda: observed.starts == 2 and worker.pid not in (None, before))
        expressions = [f'{MODEL} == "m2"']
        for _ in range(200):
            if (answer := await found(worker, devices, expressions, None, "m"))[5] == "":
                break
            await asyncio.sleep(0.05)
        assert answer == seen(inventory(), expressions, None, ImmediateEvaluator())

    await run(test)


async def test_a_worker_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        monkeypatch.setattr(
            "webhooks.worker.replica._ALIVE_SECONDS", 0.5
        )  # not before: a loaded machine takes longer to start one
        before = worker.pid
        assert before is not None
        os.kill(before, signal.SIGSTOP)
        await until(lambda: worker.pid not in (None, before))
        assert observed.starts >= 2

    await run(test)


async def test_nothing_is_left_of_it() -> None:
    """Neither children, nor what they were connected by, after many questions, kills and an end in the middle of
    one."""

    async def test() -> None:
        devices = inventory()
        others = children(os.getpid())  # such as a control plane of other tests
        limits = WorkerLimits(processor_seconds=0.1, work=None, shares=QueueLimits(burst=1000))
        async with working(lambda: devices, limits) as (
            worker,
            observed,
        ):
            await found(worker, devices, ["true"], None)
            files = files_open("self")
            for number in range(30):
                collecting = Collecting()
                devices.matching([f"{HOSTILE['loops']} && {number} < 100"], None, collecting)
                await asyncio.gather(*(worker.answer((f"n{number}-{n}",), collecting.asked, 0.1) for n in range(6)))
            assert observed.most > 1
            assert worker.pid is not None
            await until(lambda: files_open("self") <= files)
            await until(lambda: children(worker.pid) == [])
            worker_pid = worker.pid
            last = asyncio.create_task(worker.answer(("last",), collecting.asked, 5))
            await asyncio.sleep(0.05)
        last.cancel()
        await until(lambda: not Path(f"/proc/{worker_pid}").exists())
        assert children(os.getpid()) == others

    def children(pid: int | None) -> list[str]:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()

    await test()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a process that is not dumpable")
async def test_children_may_do_little() -> None:
    """As the kernel says, while one runs."""

    async def test(worker: Worker, observed: Observed, devices: DeviceInventory) -> None:
        running = asyncio.create_task(found(worker, devices, [HOSTILE["loops"]], None))
        directory = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
        await until(lambda: bool(directory.read_text().split()))
        await asyncio.sleep(0.1)
        (child,) = directory.read_text().split()
        limits = Path(f"/proc/{child}/limits").read_text()
        assert [line.split()[-3:-1] for line in limits.splitlines() if line.startswith("Max core")] == [["0", "0"]]
        (space,) = [line.split()[3] for line in limits.splitlines() if line.startswith("Max address space")]
        assert int(space) < 1 << 30
        own, slow = os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, int(child))
        assert slow == min(own + WORKER_NICE + SLOW_NICE, 19)
        assert Path(f"/proc/{child}/oom_score_adj").read_text() == "1000\n"
        assert files_open(child) == 4, "three that go nowhere, and its own socket"
        assert not [
            name for name in Path(f"/proc/{child}/environ").read_text().split("\0") if name.startswith("KUBERNETES")
        ]
        running.cancel()

    await run(test, WorkerLimits(processor_seconds=5, work=None, fast_seconds=0.02))


def test_the_event_loop_gets_most_of_a_processor_that_all_share() -> None:
    """By the weights of Linux' fair scheduler: a step of niceness is a fourth more."""
    queue = QueueLimits()

    def weight(nice: int) -> float:
        return 1 / 1.25 ** min(nice, 19)

    fast = queue.fast * weight(WORKER_NICE + NICE)
    slow = queue.slow * weight(WORKER_NICE + SLOW_NICE)
    assert weight(WORKER_NICE) + fast + slow < weight(0)
