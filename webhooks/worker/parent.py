"""The server's side of the worker: keeps a process running and its replica up to date, and sends questions to its
children."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, NoReturn, Protocol

from virt_dra.api.persistent_map import PersistentMap
from virt_dra.fairness.use import Tenant, TooSlow
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import AnswerCache, DriversQuestion, SelectorQuestion, digest
from virt_dra.sandbox.keeping import Pauses, keep
from virt_dra.sandbox.messages import BadMessage, RequestFailed
from virt_dra.sandbox.process import Channel, SandboxLost, SandboxObserver
from webhooks.worker.evaluation_queue import EvaluationQueue, QueueLimits, Turn, TurnRefused
from webhooks.worker.replica import Replica
from webhooks.worker.wire import (
    CHILD_MESSAGES,
    QUESTIONS,
    ChildDone,
    ChildMessage,
    Command,
    QuestionDone,
    Questions,
    SliceDepths,
    WrittenQuestion,
    checked_depths,
    checked_fault,
    checked_masks,
)

_GRACE_SECONDS: Final = 0.05
"""How much later than the kernel's timer the server itself gives up on a child."""
_LONGEST_PAUSE: Final = 5.0
"""Between two workers: meanwhile no selectors are checked."""
_FOLLOW_SECONDS: Final = 0.25
"""Between two comparisons of the slices with the replica. What has changed is also sent before a question."""
_MOST_MESSAGES: Final = 100_000
"""Messages of one child; they aren't kept."""

Asked = Sequence[tuple[SelectorQuestion, AnswerCache]]
"""Questions, each with the cache that its answers go into."""


@dataclass(frozen=True)
class WorkerLimits:
    """Limits of evaluating selectors. ``processor_seconds``: of one child; ``seconds``: of a review by the clock,
    waiting included, which suffices where other programs leave a child a quarter of a processor; ``fast_seconds``:
    after which a child moves to a slow slot; ``work``: the budget of a :class:`virt_dra.cel.limits.budget.Work`."""

    processor_seconds: float = 0.5
    seconds: float = 2.0
    fast_seconds: float = 0.05
    work: int | None = 200_000
    shares: QueueLimits = field(default_factory=QueueLimits)


@dataclass(frozen=True)
class Unanswered:
    """Questions aren't answered, or not all. ``reason``: for the user who wrote the selectors."""

    outcome: Literal["killed", "evicted", "stopped", "failed", "refused", "late"]
    reason: str


_KILLED: Final = "evaluating them takes longer than the {:g} ms of a processor that it may take"
_EVICTED: Final = Unanswered(
    "evicted", "evaluating them took longer than it may while other reviews wait; try again in some seconds"
)
_STOPPED: Final = Unanswered("stopped", "evaluating them is more work than one review may cause")
_FAILED: Final = Unanswered("failed", "they could not be evaluated")
_STARTING: Final = Unanswered(
    "failed", "the process that evaluates selectors is being started; try again in some seconds"
)
_ENDED: Final = Unanswered(
    "failed", "the process that evaluates selectors has ended, and is started again; try again in some seconds"
)
_LATE: Final = Unanswered(
    "late", "too many other reviews wait for their selectors to be evaluated; try again in some seconds"
)
_BUSY: Final = Unanswered("late", "the machine was too busy to evaluate them in time; try again in some seconds")
_TOOK_TOO_LONG: Final = Unanswered("refused", "they took too long when they were evaluated a short while ago")


class WorkerObserver(SandboxObserver, Protocol):
    """Callbacks for metrics."""

    def asked(self, outcome: str, seconds: float) -> None:
        """The questions of one review are done: ``answered``, or an outcome of :class:`Unanswered`."""

    def state(self, fast: int, slow: int, waiting: int) -> None:
        """How many children run in fast and slow slots, and how many reviews wait for one."""


class Worker:
    """Keeps one worker process running and has it evaluate selectors. Use it within :meth:`running`."""

    def __init__(
        self,
        slices: Callable[[], PersistentMap[str, PublishedSlice] | None],
        limits: WorkerLimits | None = None,
        *,
        observer: WorkerObserver | None = None,
        log: logging.Logger | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``slices``: returns the published slices by name as they are now; None until they have been listed."""
        self._slices, self._limits, self._observer, self._clock = slices, limits or WorkerLimits(), observer, clock
        self._log = log or logging.getLogger(__name__)
        self._turns = EvaluationQueue(self._limits.shares, clock)
        self._killed = TooSlow(clock)
        self._replica: Replica | None = None
        self._next = 0
        self.filled = False
        """True once a worker's replica was complete for the first time."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps a worker process as long as the body runs."""
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping

    @property
    def pid(self) -> int | None:
        return self._replica.pid if self._replica is not None else None

    # --- questions ------------------------------------------------------------------------------------------------

    async def answer(self, tenant: Tenant, asked: Asked, seconds: float) -> Unanswered | None:
        """Fill the caches with answers within so many seconds, waiting included. Returns why not all were answered."""
        began = self._clock()
        fresh = [pair for pair in asked if not self._killed.has(tenant, digest(pair[0].expressions))]
        unanswered = await self._turn(tenant, fresh, began + seconds) if fresh else None
        if unanswered is None and len(fresh) < len(asked):
            unanswered = _TOOK_TOO_LONG
        if self._observer is not None:
            self._observer.asked("answered" if unanswered is None else unanswered.outcome, self._clock() - began)
        return unanswered

    async def _turn(self, tenant: Tenant, asked: Asked, until: float) -> Unanswered | None:
        come = asyncio.Event()
        try:
            turn = self._turns.ask(tenant, come.set)
        except TurnRefused as refused:
            return Unanswered("refused", str(refused))
        began: float | None = None
        try:
            self._report_state()
            async with asyncio.timeout(until - self._clock()):
                await come.wait()
                replica, slices = self._replica, self._slices()
                if replica is None or replica.slices is None or slices is None:
                    return _STARTING
                await replica.replicate(slices)
            # What lets a VM be checked comes first, and what another review has had answered meanwhile isn't asked.
            asked = [(question, answers) for question, answers in asked if answers.still_open(question)]
            asked.sort(key=lambda question: isinstance(question[0], DriversQuestion))
            if not asked:
                return None
            began = self._clock()
            return await self._child(replica, turn, asked, until)
        except TimeoutError:
            return _LATE
        except (SandboxLost, OSError):
            return _ENDED
        finally:
            # What a child says is limited by what it can have used: it isn't trusted.
            used = 0.0 if began is None else max(0.0, min(self._clock() - began, turn.used))
            self._turns.end(turn, used)
            self._report_state()

    async def _child(self, replica: Replica, turn: Turn, asked: Asked, until: float) -> Unanswered | None:
        self._next += 1
        turn.child = number = self._next
        written = tuple(WrittenQuestion.from_question(question) for question, _ in asked)
        questions = Questions(written, self._limits.work)
        turn.heard = self._clock()
        turn.used = most = self._limits.processor_seconds
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                replica.command(Command("begin", number, most, max(until - turn.heard, 0.001)), theirs)
            except OSError:
                ours.close()
                raise
        channel = await Channel.opened(ours, QUESTIONS, CHILD_MESSAGES)
        slower = asyncio.get_running_loop().call_later(self._limits.fast_seconds, self._slower, replica, turn)
        open_questions = dict.fromkeys(range(len(asked)))
        unanswered: Unanswered | None = Unanswered("killed", _KILLED.format(most * 1000))
        try:
            async with asyncio.timeout(until - self._clock() + _GRACE_SECONDS):
                await channel.send(channel.encoded(questions))
                unanswered = await self._read_answers(channel, turn, asked, open_questions)
        except (BadMessage, RequestFailed) as error:
            self._log.error("a child of the worker sent an invalid answer", extra={"fields": {"reason": str(error)}})
            unanswered = _FAILED
        except (TimeoutError, EOFError, ConnectionError):
            pass  # killed, maybe before it had read the questions
        finally:
            slower.cancel()
            if unanswered is not None and unanswered.outcome == "killed" and turn.state == "evicted":
                unanswered = _EVICTED
            elif unanswered is not None and unanswered.outcome == "killed" and self._clock() >= until:
                unanswered = _BUSY
            if unanswered not in (None, _STOPPED):
                with suppress(OSError):
                    replica.command(Command("kill", number))
                long = unanswered is not _BUSY and self._clock() - turn.heard > most / 2
                for position in list(open_questions)[: 1 if long else 0]:
                    self._killed.add(turn.tenant, digest(asked[position][0].expressions))
            channel.close()
        return unanswered

    async def _read_answers(
        self, channel: Channel[Questions, ChildMessage], turn: Turn, asked: Asked, open_questions: dict[int, None]
    ) -> Unanswered | None:
        """Read and store a child's answers until it ends; answered questions are removed. Raises BadMessage, EOFError
        where it is killed."""
        for _ in range(_MOST_MESSAGES):
            message = await channel.receive()
            turn.heard = self._clock()
            if isinstance(message, ChildDone):
                turn.used = message.processor_seconds
                return _STOPPED if message.stopped else None
            if not 0 <= message.question < len(asked):
                raise BadMessage("no such question")
            question, answers = asked[message.question]
            key = digest(question.expressions)
            if isinstance(message, QuestionDone):
                if message.fault is not None:
                    answers.put_fault(key, checked_fault(message.fault))
                else:
                    answers.put_valid(key)
                open_questions.pop(message.question, None)
            else:
                if isinstance(message, SliceDepths):
                    answers.put_depths(key, checked_depths(message, question))
                else:
                    answers.put_matching(key, *checked_masks(message, question))
                await asyncio.sleep(0)  # many messages may be buffered: yield to other tasks
        raise BadMessage("more than all answers together can be")

    def _slower(self, replica: Replica, turn: Turn) -> None:
        evicted = self._turns.slower(turn)
        with suppress(OSError):
            if evicted is not None:
                replica.command(Command("kill", evicted.child))
            if turn.state == "slow":
                replica.command(Command("slow", turn.child))
            elif turn.state == "fast":  # its slot isn't waited for
                asyncio.get_running_loop().call_later(self._limits.fast_seconds, self._slower, replica, turn)
        self._report_state()

    def _report_state(self) -> None:
        if self._observer is not None:
            self._observer.state(self._turns.fast, self._turns.slow, self._turns.waiting)

    # --- the process ----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while self._slices() is None:
            await asyncio.sleep(_FOLLOW_SECONDS)  # without slices there are no questions
        await keep(partial(Replica.started, self._observer), self._follow, Pauses(_LONGEST_PAUSE))

    async def _follow(self, replica: Replica) -> NoReturn:
        """Keep the worker's replica equal to the slices, and check that it is alive. Raises SandboxLost."""
        self._replica = replica
        reported = not self.filled
        try:
            while True:
                slices = self._slices()
                if slices is not None:
                    await replica.replicate(slices)
                    if self.filled and not reported:
                        self._log.info("selectors can be evaluated again", extra={"fields": {"slices": len(slices)}})
                    self.filled = reported = True
                await replica.alive()
                _reap_orphans()
                await asyncio.sleep(_FOLLOW_SECONDS)
        finally:
            self._replica = None


def _reap_orphans() -> None:
    """Wait for orphaned children of a killed worker: in a container the server is process 1, which inherits them as
    zombies."""
    with suppress(ChildProcessError):
        while os.getpid() == 1 and os.waitpid(-1, os.WNOHANG)[0]:
            pass
