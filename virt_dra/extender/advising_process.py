"""The process in which the advisor runs: the extender's handle on it, and the functions that are called in it.

It evaluates selectors that tenants write. However long they take, the extender goes on answering that it has no
preference; and code that takes over the process finds no credentials in its memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final, Literal, TypeVar

from virt_dra.allocator import Features
from virt_dra.api.meta import TypedObject
from virt_dra.extender.advisor import Advisor
from virt_dra.extender.protocol import ExtenderRequestError, filter_answer, prioritize_answer, read_arguments
from virt_dra.model.kinds import READ

T = TypeVar("T")

Verb = Literal["filter", "prioritize"]
ObjectChange = tuple[str, str, bytes | None]
"""Kind and key of an object, and its JSON; None if it is gone."""

_BY_NAME: Final = {kind.KIND: kind for kind in READ["extender"].all}
_GRACE: Final = 5.0
"""Seconds after its own limit, in which it may be reading objects, until it is killed."""
_PREPARING: Final = 60.0
"""Seconds that taking changes into account may take: 5,000 nodes need two, a crowded machine more."""
_BATCH: Final = 500
"""Changes that are sent at once."""

log = logging.getLogger("virt_dra.extender")


class NoAdvice(Exception):
    """There is no answer now: the process has ended, or took too long. The text says which."""


@dataclass(frozen=True)
class AdvisorSettings:
    """``policy``: the default; ``seconds``: limit of one answer; ``memory``: of the process's address space, in
    bytes."""

    policy: str
    features: Features
    seconds: float = 1.0
    memory: int = 4 * 2**30


@dataclass(frozen=True)
class Answer:
    """What kube-scheduler gets. ``status``: 200, or 400 for a request that isn't one of its."""

    status: int
    body: bytes
    verdict: str = ""
    policy: str = ""


class AdvisingProcess:
    """The handle. ``everything``: all objects, for a process that begins anew."""

    def __init__(self, settings: AdvisorSettings, everything: Callable[[], Iterable[TypedObject]]) -> None:
        self._settings = settings
        self._everything = everything
        self._pool: ProcessPoolExecutor | None = None
        self._pid = 0
        self._changes: list[ObjectChange] = []
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int:
        """0 before it was started."""
        return self._pid

    async def start(self) -> None:
        """Start it, and send it everything. Raises NoAdvice."""
        async with self._starting:
            if self._pool is not None:
                return
            pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, (self._settings,))
            self._changes.clear()
            try:
                self._pid = await asyncio.wrap_future(pool.submit(os.getpid))
                batch: list[ObjectChange] = []
                # A change that comes meanwhile is sent behind this, and may be sent twice.
                for obj in tuple(self._everything()):
                    batch.append(_change(obj))
                    if len(batch) == _BATCH:
                        await asyncio.wrap_future(pool.submit(_apply, batch))
                        batch = []
                await asyncio.wrap_future(pool.submit(_take, batch))
            except BrokenProcessPool:
                pool.shutdown(wait=False, cancel_futures=True)
                raise NoAdvice("the advising process ended while it read the cluster") from None
            self._pool = pool

    def put(self, obj: TypedObject) -> None:
        """An object is there, or has changed."""
        self._changes.append(_change(obj))

    def remove(self, obj: TypedObject) -> None:
        self._changes.append((obj.KIND, _key(obj), None))

    async def flush(self) -> None:
        """Send the changes until now, while nothing is asked. Raises NoAdvice."""
        pool = await self._running()
        changes, self._changes = self._changes, []
        await self._called(pool, lambda: pool.submit(_take, changes), _PREPARING)

    async def answer(self, verb: Verb, body: bytes) -> Answer:
        """The answer by all changes until now. Raises NoAdvice."""
        pool = await self._running()
        changes, self._changes = self._changes, []
        return await self._called(pool, lambda: pool.submit(_answer, verb, body, changes))

    async def close(self) -> None:
        self._end()

    async def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            await self.start()
        if self._pool is None:
            raise AssertionError("started above")
        return self._pool

    async def _called(self, pool: ProcessPoolExecutor, submit: Callable[[], Future[T]], more: float = 0.0) -> T:
        try:
            async with asyncio.timeout(self._settings.seconds + _GRACE + more):
                return await asyncio.wrap_future(submit())
        except TimeoutError:
            problem = "the advising process took too long, and was killed"
        except BrokenProcessPool:
            problem = "the advising process has ended"
        if self._pool is pool:
            self._end()
        log.warning(problem, extra={"fields": {}})
        raise NoAdvice(problem)

    def _end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        pool.shutdown(wait=False, cancel_futures=True)


def _change(obj: TypedObject) -> ObjectChange:
    return obj.KIND, _key(obj), obj.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _key(obj: TypedObject) -> str:
    return obj.key if obj.NAMESPACED else obj.name


# --- in the process -----------------------------------------------------------------------------------------------

_advisors: Final[list[Advisor]] = []
"""The one advisor of the process, once it has begun."""


def _begin(settings: AdvisorSettings) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the extender ends it
    resource.setrlimit(resource.RLIMIT_AS, (settings.memory, settings.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _advisors[:] = [Advisor(settings.policy, settings.features, time.monotonic, random.random, settings.seconds)]


def _take(changes: list[ObjectChange]) -> None:
    _apply(changes)
    _advisors[0].prepare()


def _apply(changes: list[ObjectChange]) -> None:
    (advisor,) = _advisors
    for kind, key, text in changes:
        if text is None:
            advisor.remove(_BY_NAME[kind], key)
        else:
            advisor.put(_BY_NAME[kind].model_validate_json(text))


def _answer(verb: Verb, body: bytes, changes: list[ObjectChange]) -> Answer:
    _apply(changes)
    (advisor,) = _advisors
    try:
        asked = read_arguments(body)
    except ExtenderRequestError as error:
        return Answer(400, str(error).encode(), "not understood")
    if verb == "filter":
        advice, refused = advisor.filter(asked)
        return Answer(200, filter_answer(asked, refused), advice.verdict, advice.policy)
    advice, found = advisor.prioritize(asked)
    return Answer(200, prioritize_answer(found), advice.verdict, advice.policy)
