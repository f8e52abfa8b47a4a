"""The sandbox in which the advisor runs: the extender's handle on it, and the program that runs in it.

It evaluates selectors that tenants write. However long they take, the extender goes on answering that it has no
preference; and code that takes over the process finds no credentials in its memory.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Final, Literal, NoReturn

from pydantic import Field

from virt_dra.allocator import Features
from virt_dra.api.meta import TypedObject
from virt_dra.extender.advisor import Advisor
from virt_dra.extender.protocol import ExtenderRequestError, filter_answer, prioritize_answer, read_arguments
from virt_dra.model.kinds import READ
from virt_dra.sandbox.confinement import Confinement
from virt_dra.sandbox.inside import Connection, serve
from virt_dra.sandbox.keeping import Pauses, keep
from virt_dra.sandbox.messages import BadMessage, Messages, RequestFailed
from virt_dra.sandbox.process import SandboxLost, SandboxObserver, SandboxProcess, SandboxProgram, running

Verb = Literal["filter", "prioritize"]
ObjectChange = tuple[tuple[str, str], bytes]
"""Kind and key of an object, and its JSON; empty if it is gone."""

_BY_NAME: Final = {kind.KIND: kind for kind in READ["extender"].all}
_GRACE: Final = 5.0
"""Seconds after its own limit, in which it may be reading objects, until it is killed."""
_PREPARING: Final = 60.0
"""Seconds that taking changes into account may take: 5,000 nodes need two, a crowded machine more."""
_FLUSH_SECONDS: Final = 0.1
"""How long changes may wait while kube-scheduler sends no requests."""
_BATCH: Final = 500
"""Changes that are sent at once."""


log = logging.getLogger("virt_dra.extender")


class NoAdvice(Exception):
    """There is no answer now: the process has ended, or took too long. The text says which."""


@dataclass(frozen=True)
class AdvisorSettings:
    """The settings of the advisor. ``policy``: the default; ``seconds``: limit of one answer; ``turn``: of one turn of
    evaluating, after which others' pods are answered."""

    policy: str
    features: Features
    seconds: float = 1.0
    turn: float = 0.01


@dataclass(frozen=True)
class Changes:
    """Objects that are new, have changed or are gone. ``keys``: kind and key of each; ``objects``: their JSON, one a
    line, which is empty for one that is gone."""

    keys: tuple[tuple[str, str], ...]
    objects: bytes = b""


@dataclass(frozen=True)
class Prepare:
    """Take all changes into account, so that the next answer is quick."""


@dataclass(frozen=True)
class Advise:
    """A request of kube-scheduler. ``evaluate``: whether selectors may be evaluated, for a turn; otherwise only scores
    that are kept are given."""

    verb: Verb
    evaluate: bool
    body: bytes = b""


@dataclass(frozen=True)
class AdvisorPrepared:
    """Answer to :class:`Prepare`."""


@dataclass(frozen=True)
class Answer:
    """What kube-scheduler gets. ``status``: 200, or 400 for a request that isn't one of its; ``verdict``, ``policy``:
    for metrics."""

    status: Literal[200, 400]
    verdict: Annotated[str, Field(max_length=64)]
    policy: Annotated[str, Field(max_length=64)] = ""
    body: bytes = b""


AdvisorRequest = Changes | Prepare | Advise
_REQUESTS: Final = Messages[AdvisorRequest]({Changes: 2**30, Prepare: 64, Advise: 2**27})
_ANSWERS: Final = Messages[AdvisorPrepared | Answer]({AdvisorPrepared: 64, Answer: 2**27})


_Process = SandboxProcess[AdvisorRequest, AdvisorPrepared | Answer]


class AdvisingProcess:
    """The handle. ``everything``: all objects, for a process that begins anew."""

    def __init__(
        self,
        settings: AdvisorSettings,
        everything: Callable[[], Iterable[TypedObject]],
        observer: SandboxObserver | None = None,
    ) -> None:
        self._settings, self._everything, self._observer = settings, everything, observer
        self._process: _Process | None = None
        self._changes: list[ObjectChange] = []
        self.ready = False
        """True once the process knows everything."""

    @property
    def pid(self) -> int:
        """0 while there is none."""
        return 0 if self._process is None else self._process.pid

    async def keep(self) -> None:
        """Keep a process that knows all objects, for ever."""
        await keep(partial(running, PROGRAM, self._settings, self._observer), self._follow, Pauses())

    async def _follow(self, process: _Process) -> NoReturn:
        self._process = process
        self._changes.clear()
        try:
            # A change that comes meanwhile is sent behind this, and may be sent twice.
            objects = iter(tuple(self._everything()))
            while batch := list(map(_change, islice(objects, _BATCH))):
                await self._send(process, batch)
            while True:
                await self._flush(process)
                await process.ask(Prepare(), AdvisorPrepared, self._settings.seconds + _GRACE + _PREPARING)
                if not self.ready:
                    log.info("ready", extra={"fields": {"pid": process.pid}})
                self.ready = True
                await asyncio.sleep(_FLUSH_SECONDS)
        finally:
            self._process, self.ready = None, False

    def put(self, obj: TypedObject) -> None:
        """An object is there, or has changed."""
        if self._process is not None:  # otherwise it is sent with everything
            self._changes.append(_change(obj))

    def remove(self, obj: TypedObject) -> None:
        if self._process is not None:
            self._changes.append((_key(obj), b""))

    async def answer(self, verb: Verb, body: bytes, *, evaluate: bool) -> Answer:
        """The answer by all changes until now; its verdict is ``unfinished`` where it needs a (further) turn of
        evaluating. Raises NoAdvice."""
        process = self._process
        if process is None or not self.ready:
            raise NoAdvice("the advising process is being started")
        try:
            await self._flush(process)
            return await process.ask(Advise(verb, evaluate, body), Answer, self._settings.seconds + _GRACE)
        except (SandboxLost, RequestFailed, BadMessage) as error:
            raise NoAdvice(str(error)) from None

    async def _flush(self, process: _Process) -> None:
        changes, self._changes = self._changes, []
        if changes:
            await self._send(process, changes)

    async def _send(self, process: _Process, changes: Sequence[ObjectChange]) -> None:
        keys, objects = zip(*changes, strict=True)
        await process.send(Changes(keys, b"\n".join(objects)), _PREPARING)


def _change(obj: TypedObject) -> ObjectChange:
    return _key(obj), obj.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _key(obj: TypedObject) -> tuple[str, str]:
    return obj.KIND, obj.key if obj.NAMESPACED else obj.name


# --- in the process -----------------------------------------------------------------------------------------------


class Advising:
    """The state of the process: the advisor."""

    def __init__(self, settings: AdvisorSettings) -> None:
        self._turn = settings.turn
        self._is_prepared = False
        self._advisor = Advisor(
            settings.policy, settings.features, time.monotonic, random.random, settings.seconds, time.process_time
        )

    def handle(self, request: AdvisorRequest) -> AdvisorPrepared | Answer | None:
        match request:
            case Changes():
                for (kind, key), text in zip(request.keys, request.objects.split(b"\n"), strict=True):
                    if text:
                        self._advisor.put(_BY_NAME[kind].model_validate_json(text))
                    else:
                        self._advisor.remove(_BY_NAME[kind], key)
                return None
            case Prepare():
                self._advisor.prepare()
                if not self._is_prepared:
                    # What is held at the beginning is mostly held for ever: on 5,000 nodes a full collection of it
                    # kept one answer waiting for 0.7 s.
                    gc.collect()
                    gc.freeze()
                    self._is_prepared = True
                return AdvisorPrepared()
            case Advise(verb, evaluate, body):
                return self._advice(verb, body, self._turn if evaluate else 0.0)

    def _advice(self, verb: Verb, body: bytes, turn: float) -> Answer:
        try:
            asked = read_arguments(body)
        except ExtenderRequestError as error:
            return Answer(400, "not understood", body=str(error).encode())
        if verb == "filter":
            advice, refused = self._advisor.filter(asked, turn)
            return Answer(200, advice.verdict, advice.policy, filter_answer(asked, refused))
        advice, priorities = self._advisor.prioritize(asked, turn)
        return Answer(200, advice.verdict, advice.policy, prioritize_answer(priorities))


def main(connection: Connection, settings: AdvisorSettings) -> None:
    """Entry point of the process."""
    serve(connection, _REQUESTS, _ANSWERS, Advising(settings).handle)


PROGRAM: Final = SandboxProgram(
    "the advising process", main, _REQUESTS, _ANSWERS, Confinement(memory=4 * 2**30, nice=0)
)
