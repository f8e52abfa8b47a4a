"""The four users of the sandbox, alike: each started with its own program or one that was taken over, and asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

import pytest

from devtools.webhooks.slow_selectors import HOSTILE, cluster
from tests.extender.objects import GPU_CLASS, claim, gpus, node, pod
from tests.test_explanation_process import SHORT, _question, _sample
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Namespace
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.controllers.operator.explanation_worker import ExplanationFailed
from virt_dra.extender import advising_process
from virt_dra.extender.advising_process import AdvisingProcess, AdvisorSettings, NoAdvice
from virt_dra.operator import explanation_process
from virt_dra.operator.explanation_process import ProcessExplanationWorker
from virt_dra.report_server import rendering
from virt_dra.report_server.following import Following, FollowSettings, Rendered
from virt_dra.report_server.messages import RENDERING_MESSAGES
from virt_dra.report_server.rendering import RenderingLimits, RenderingProcess
from virt_dra.sandbox.inside import Connection
from webhooks.server.reviewing import Collecting
from webhooks.worker import replica
from webhooks.worker.evaluation_queue import QueueLimits
from webhooks.worker.parent import Worker, WorkerLimits

Main = Callable[[Connection, Any], None]
NOT_YET: Final = "not yet"


@dataclass
class Starts:
    """Counts the processes that were started; the observer of every user."""

    count: int = 0

    def process_started(self) -> None:
        self.count += 1

    def asked(self, outcome: str, seconds: float) -> None: ...

    def state(self, fast: int, slow: int, waiting: int) -> None: ...

    def rendered(self, seconds: float) -> None: ...


class User(Protocol):
    """A running user. ``pid``: of its process; 0 for none."""

    starts: Starts

    @property
    def pid(self) -> int: ...

    async def problem(self, *, hostile: bool = False) -> str:
        """Has something evaluated. Returns "" if it was answered, else why not. ``hostile``: something that takes as
        long as it can."""


class _Explaining:
    def __init__(self) -> None:
        self.starts = Starts()
        self.worker = ProcessExplanationWorker(SHORT, self.starts)

    @property
    def pid(self) -> int:
        return self.worker.pid or 0

    async def problem(self, *, hostile: bool = False) -> str:
        try:
            if not self.worker.has_view:
                await self.worker.load_view(_sample())
            answer = await self.worker.explain(_question(HOSTILE["loops"] if hostile else "true"))
        except ExplanationFailed as error:
            return str(error)
        return answer.condition.message if answer.too_slow else ""


class _Advising:
    def __init__(self) -> None:
        self.starts = Starts()
        objects: list[TypedObject] = [
            GPU_CLASS, node("a"), gpus("a", 2), claim("good"), claim("bad", selector=HOSTILE["loops"]),
            Namespace.from_wire({"metadata": {"name": "vms"}}),
        ]  # fmt: skip
        self.process = AdvisingProcess(AdvisorSettings("pack", DEFAULT, 0.3), lambda: objects, self.starts)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def problem(self, *, hostile: bool = False) -> str:
        asked = pod("p", "bad" if hostile else "good").model_dump_json(by_alias=True, exclude_unset=True)
        body = f'{{"Pod": {asked}, "NodeNames": ["a"]}}'.encode()
        try:
            while (answer := await self.process.answer("prioritize", body, evaluate=True)).verdict == "unfinished":
                pass
        except NoAdvice as error:
            return str(error)
        return "" if answer.verdict == "scored" else answer.verdict


class _Reporting:
    def __init__(self, main: Main | None) -> None:
        self.starts = Starts()
        program = replace(rendering.PROGRAM, main=main or follow_embedded)
        limits = RenderingLimits(silence=2.0 if main else 10.0, longest=10.0)
        self.process = RenderingProcess(FollowSettings(_names), self.starts, limits=limits, program=program)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def problem(self, *, hostile: bool = False) -> str:
        stale = self.process.stale
        if stale is not None:
            return stale.why
        return "" if self.process.content is not None else NOT_YET


def _names(objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
    page = " ".join(obj.name for obj in objects).encode()
    return Rendered(str(time.monotonic_ns()), page, b"{}")


def follow_embedded(connection: Connection, settings: FollowSettings) -> None:
    """As the report's own program, on a cluster that needs no connection and changes four times a second."""

    async def follow() -> None:
        cluster = embedded_cluster()
        asyncio.get_running_loop().add_reader(connection, asyncio.current_task().cancel)  # type: ignore[union-attr]
        following = Following(cluster, settings, lambda message: connection.send(RENDERING_MESSAGES.encoded(message)))
        settings.pace.least = settings.pace.times = 0.0
        async with asyncio.TaskGroup() as group:
            group.create_task(following.run())
            for number in range(10_000):
                await cluster.create(node(f"n{number}"))
                await asyncio.sleep(0.25)

    asyncio.run(follow())


class _Matching:
    def __init__(self) -> None:
        self.starts = Starts()
        self.inventory = cluster({}).inputs.inventory
        limits = WorkerLimits(processor_seconds=0.3, work=None, shares=QueueLimits(burst=1000))
        self.worker = Worker(lambda: self.inventory.slices, limits, observer=self.starts)
        self._asked = 0

    @property
    def pid(self) -> int:
        return self.worker.pid or 0

    async def problem(self, *, hostile: bool = False) -> str:
        self._asked += 1
        collecting = Collecting()
        text = HOSTILE["loops"] if hostile else "true"
        self.inventory.matching([f"{text} && {self._asked} > 0"], None, collecting)
        unanswered = await self.worker.answer((f"n{self._asked}",), collecting.asked, 0.3)
        return "" if unanswered is None else unanswered.reason


@asynccontextmanager
async def explaining(main: Main | None, patch: pytest.MonkeyPatch) -> AsyncIterator[User]:
    _take_over(explanation_process, main, patch)
    patch.setattr(explanation_process, "_LOADING", 2.0 if main else 60.0)
    user = _Explaining()
    try:
        yield user
    finally:
        await user.worker.close()


@asynccontextmanager
async def advising(main: Main | None, patch: pytest.MonkeyPatch) -> AsyncIterator[User]:
    _take_over(advising_process, main, patch)
    patch.setattr(advising_process, "_GRACE", 1.0)
    patch.setattr(advising_process, "_PREPARING", 2.0 if main else 60.0)
    user = _Advising()
    keeping = asyncio.create_task(user.process.keep())
    try:
        yield user
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


@asynccontextmanager
async def reporting(main: Main | None, patch: pytest.MonkeyPatch) -> AsyncIterator[User]:
    user = _Reporting(main)
    async with user.process.running():
        yield user


@asynccontextmanager
async def matching(main: Main | None, patch: pytest.MonkeyPatch) -> AsyncIterator[User]:
    _take_over(replica, main, patch)
    if main is not None:
        patch.setattr(replica, "_ALIVE_SECONDS", 2.0)
    user = _Matching()
    async with user.worker.running():
        yield user


def _take_over(module: Any, main: Main | None, patch: pytest.MonkeyPatch) -> None:
    if main is not None:
        patch.setattr(module, "PROGRAM", replace(module.PROGRAM, main=main))


Started = Callable[[Main | None, pytest.MonkeyPatch], AbstractAsyncContextManager[User]]
USERS: Final[tuple[Started, ...]] = (matching, explaining, advising, reporting)
EVALUATING: Final = (matching, explaining, advising)
"""Those that are asked; the report renders what it follows."""


async def until_answered(user: User, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while await user.problem():
            await asyncio.sleep(0.05)
