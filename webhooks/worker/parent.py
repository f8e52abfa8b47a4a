"""The server's side of the worker: starts and restarts the process, keeps its replica up to date, and sends questions
to its children."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from virt_dra.cel.limits.sized_cache import SizedCache
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import AnswerCache, SelectorQuestion, digest
from webhooks.worker.evaluation_queue import EvaluationQueue, QueueLimits, Turn, TurnRefused
from webhooks.worker.wire import (
    APPLIED,
    BEGIN,
    KILL,
    MAX_LINE,
    SLOW,
    BadAnswer,
    Command,
    gone_frame,
    put_frame,
    questions_line,
    read_answers,
)

_GRACE_SECONDS: Final = 0.05
"""How much later than the kernel's timer the server itself gives up on a child."""
KILLED: Final = 4096
KILLED_SECONDS: Final = 30.0
"""How many lists of selectors that took too long are remembered, and for how long they aren't evaluated again."""
_AHEAD: Final = 8
"""Frames with slices that may be sent but not yet applied, so that the worker gets to commands in between."""
_TURN_SECONDS: Final = 0.004
"""For encoding slices, before the event loop is yielded to others."""
_RESTART_SECONDS: Final = (0.0, 0.1, 0.5, 2.0, 5.0)
_FOLLOW_SECONDS: Final = 0.25
"""Between two comparisons of the slices with the replica. What a question needs and the replica lacks is sent before
the question."""
_ALIVE_SECONDS: Final = 10.0
"""How long a worker may take to apply the frames that were sent; one that takes longer is replaced."""
_CHARACTERS: Final = 8 * 1024 * 1024
"""Limit of the output of one child; lines are read one by one, and not kept."""

_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
"""Environment variables that the worker inherits from the server; all others are withheld."""

Asked = Sequence[tuple[SelectorQuestion, AnswerCache]]
"""Questions, each with the cache that its answers go into."""


@dataclass(frozen=True)
class WorkerLimits:
    """Time limits of one review. ``seconds``: for evaluating its selectors, waiting included; ``fast_seconds``: after
    which a child moves to a slow slot; ``work``: the budget of a :class:`virt_dra.cel.limits.budget.Work`."""

    seconds: float = 0.5
    fast_seconds: float = 0.05
    work: int | None = 200_000
    shares: QueueLimits = field(default_factory=QueueLimits)


_WHY: Final = {
    "answered": "",
    "killed": "evaluating them takes longer than the {milliseconds:g} ms that one review may take",
    "evicted": "evaluating them took longer than it may while other reviews wait; try again in some seconds",
    "stopped": "evaluating them is more work than one review may cause",
    "failed": "they could not be evaluated",
}


class WorkerObserver(Protocol):
    """Callbacks for metrics."""

    def asked(self, outcome: str, seconds: float) -> None:
        """The questions of one review are done: ``answered``, ``killed``, ``evicted``, ``refused``, ``stopped``,
        ``late`` or ``failed``."""

    def started(self) -> None:
        """A worker process was started: the first one, or one that replaces another that ended."""

    def state(self, fast: int, slow: int, waiting: int) -> None:
        """How many children run in fast and slow slots, and how many reviews wait for one."""


class _Lost(Exception):
    """The worker process is gone."""


class Worker:
    """Keeps one worker process running and has it evaluate selectors. Use it within :meth:`running`."""

    def __init__(
        self,
        slices: Callable[[], Iterable[PublishedSlice] | None],
        limits: WorkerLimits | None = None,
        *,
        observer: WorkerObserver | None = None,
        log: logging.Logger | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``slices``: gives the published slices as they are now; None until they have been listed."""
        self._slices, self._limits, self._observer, self._clock = slices, limits or WorkerLimits(), observer, clock
        self._log = log or logging.getLogger(__name__)
        self._turns = EvaluationQueue(self._limits.shares, clock)
        self._killed: SizedCache[tuple[str, bytes], float] = SizedCache(KILLED)
        # By namespace, so that nobody can have the selectors of others go unchecked by making them slow once.
        self._process: _Process | None = None
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
        return self._process.pid if self._process is not None else None

    # --- questions ------------------------------------------------------------------------------------------------

    async def answer(self, namespace: str, asked: Asked, seconds: float) -> str:
        """Fill the caches with answers within so many seconds, waiting included. Returns "" if all were answered, else
        why not."""
        began = self._clock()
        fresh = [(question, answers) for question, answers in asked if not self._took_too_long(namespace, question)]
        outcome, why = "answered", ""
        if fresh:
            outcome, why = await self._turn(namespace, fresh, began + seconds)
        if not why and len(fresh) < len(asked):
            outcome, why = "refused", "they took too long when they were evaluated a short while ago"
        if self._observer is not None:
            self._observer.asked(outcome, self._clock() - began)
        return why

    def _took_too_long(self, namespace: str, question: SelectorQuestion) -> bool:
        until = self._killed.get((namespace, digest(question.expressions)))
        return until is not None and until > self._clock()

    async def _turn(self, namespace: str, asked: Asked, until: float) -> tuple[str, str]:
        come = asyncio.Event()
        try:
            turn = self._turns.ask(namespace, come.set)
        except TurnRefused as refused:
            return "refused", str(refused)
        used = 0.0
        try:
            self._report_state()
            async with asyncio.timeout(until - self._clock()):
                await come.wait()
                process = self._process
                if process is None:
                    return "failed", "the process that evaluates selectors is being started; try again in some seconds"
                needed = [slice_ for question, _ in asked for slice_ in question.slices]
                while not process.has(needed):
                    await process.fill(needed)
            began = self._clock()
            try:
                return await self._child(process, turn, asked, until)
            finally:
                used = self._clock() - began
        except TimeoutError:
            return "late", "too many other reviews wait for their selectors to be evaluated; try again in some seconds"
        except (_Lost, OSError):
            return (
                "failed",
                "the process that evaluates selectors has ended, and is started again; try again in some seconds",
            )
        finally:
            self._turns.end(turn, used)
            self._report_state()

    async def _child(self, process: _Process, turn: Turn, asked: Asked, until: float) -> tuple[str, str]:
        self._next += 1
        turn.child = number = self._next
        questions = [question for question, _ in asked]
        line = questions_line(questions, process.numbers, self._limits.work)
        began = self._clock()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                process.command(Command(BEGIN, number, max(until - began, 0.001)), theirs)
            except OSError:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE)
        slower = asyncio.get_running_loop().call_later(self._limits.fast_seconds, self._slower, process, turn)
        open_questions = dict.fromkeys(range(len(asked)))
        outcome = "killed"
        try:
            async with asyncio.timeout(until - self._clock() + _GRACE_SECONDS):
                writer.write(line)
                writer.write_eof()
                outcome = await self._read_answers(reader, asked, open_questions)
        except (BadAnswer, ValueError) as error:
            self._log.error("a child of the worker wrote an invalid answer", extra={"fields": {"reason": str(error)}})
            outcome = "failed"
        except (TimeoutError, ConnectionError):
            pass  # killed before it had read the questions, or its end of the socket was not seen closing
        finally:
            slower.cancel()
            if turn.state == "evicted" and outcome == "killed":
                outcome = "evicted"
            if outcome not in ("answered", "stopped"):
                with suppress(OSError):
                    process.command(Command(KILL, number))
                long = self._clock() - began > self._limits.seconds / 2
                for position in list(open_questions)[: 1 if long else 0]:
                    self._killed.put(
                        (turn.namespace, digest(questions[position].expressions)), self._clock() + KILLED_SECONDS, 1
                    )
            writer.close()
        return outcome, _WHY[outcome].format(milliseconds=self._limits.seconds * 1000)

    async def _read_answers(self, reader: asyncio.StreamReader, asked: Asked, open_questions: dict[int, None]) -> str:
        """Read and store a child's answers until it ends; answered questions are removed. Raises BadAnswer; ValueError:
        too long a line."""
        questions = [question for question, _ in asked]
        written = 0
        while (line := await reader.readline()).endswith(b"\n"):  # a child may be killed in the middle of a line
            written += len(line)
            if written > _CHARACTERS:
                raise BadAnswer("more than all answers together can be")
            parsed = read_answers(line, questions)
            if parsed.question is None:
                return "stopped" if parsed.stopped else "answered"
            question, answers = asked[parsed.question]
            key = digest(question.expressions)
            for slice_, answer in parsed.answers:
                answers.put(question.kind, key, slice_, answer)
            if parsed.fault is not None:
                answers.put_fault(question.kind, key, parsed.fault)
            if parsed.valid:
                answers.put_valid(question.kind, key)
            if parsed.valid or parsed.fault is not None:
                open_questions.pop(parsed.question, None)
            await asyncio.sleep(0)  # many lines may be buffered: yield to other tasks
        return "killed"

    def _slower(self, process: _Process, turn: Turn) -> None:
        evicted = self._turns.slower(turn)
        with suppress(OSError):
            if evicted is not None:
                process.command(Command(KILL, evicted.child))
            if turn.state == "slow":
                process.command(Command(SLOW, turn.child))
            elif turn.state == "fast":  # nobody waits for its slot now
                asyncio.get_running_loop().call_later(self._limits.fast_seconds, self._slower, process, turn)
        self._report_state()

    def _report_state(self) -> None:
        if self._observer is not None:
            self._observer.state(self._turns.fast, self._turns.slow, self._turns.waiting)

    # --- the process ----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Start a worker and keep its replica filled; start another when it ends, with a backoff; for ever."""
        failures = 0
        while self._slices() is None:
            await asyncio.sleep(_FOLLOW_SECONDS)  # without slices there are no questions
        while True:
            await asyncio.sleep(_RESTART_SECONDS[min(failures, len(_RESTART_SECONDS) - 1)])
            began = self._clock()
            try:
                async with _Process.started() as process:
                    if self._observer is not None:
                        self._observer.started()
                    self._process = process
                    await self._follow(process)
            except (_Lost, OSError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
                self._log.error(
                    "the worker that evaluates selectors ended; starting another", extra={"fields": {"reason": reason}}
                )
            finally:
                self._process = None
            _reap_orphans()
            failures = failures + 1 if self._clock() - began < 60 else 1

    async def _follow(self, process: _Process) -> None:
        """Keep the worker's replica equal to the slices, and check that it is alive. Raises _Lost."""
        reported = not self.filled
        while True:
            slices = self._slices()
            if slices is not None:
                await process.replicate(slices)
                if self.filled and not reported:
                    self._log.info(
                        "selectors can be evaluated again", extra={"fields": {"slices": len(process.numbers)}}
                    )
                self.filled = reported = True
            await process.alive()
            _reap_orphans()
            await asyncio.sleep(_FOLLOW_SECONDS)


def _reap_orphans() -> None:
    """Wait for orphaned children of a killed worker: in a container the server is process 1, which inherits them as
    zombies."""
    with suppress(ChildProcessError):
        while os.getpid() == 1 and os.waitpid(-1, os.WNOHANG)[0]:
            pass


class _Process:
    """A running worker process. ``numbers``: of the slices in its replica, or on their way to it."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        control: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ):
        self._popen, self._control, self._reader, self._writer = popen, control, reader, writer
        self.numbers: dict[PublishedSlice, int] = {}
        self._frames: dict[PublishedSlice, int] = {}
        """The number of the frame that carried a slice."""
        self._last = 0
        self._sent = 0
        self._applied = 0
        self._progress = asyncio.Condition()
        self._reason: bytes | None = None

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[_Process]:
        """Start a worker process; it and all its children are killed when the context ends."""
        control, its_control = socket.socketpair()
        data, its_data = socket.socketpair()
        with control, its_control, its_data:
            control.setblocking(False)
            numbers = [str(each.fileno()) for each in (its_control, its_data)]
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{__package__}.process", *numbers],
                pass_fds=(its_control.fileno(), its_data.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # the server's stderr is a JSON log; a worker that fails writes the reason to its data socket
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
                | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},  # not the working directory
                start_new_session=True,  # a group that can be killed as one
            )
            its_control.close()
            its_data.close()
            reader, writer = await asyncio.open_connection(sock=data)
            made = cls(popen, control, reader, writer)
            reading = asyncio.create_task(made._read())
            try:
                yield made
            finally:
                writer.close()
                reading.cancel()
                with suppress(ProcessLookupError):
                    os.killpg(popen.pid, signal.SIGKILL)
                popen.wait()  # at once: it was killed

    @property
    def pid(self) -> int:
        return self._popen.pid

    def command(self, command: Command, file: socket.socket | None = None) -> None:
        """Send a command, with a socket that comes along. Raises OSError where the worker is gone, or doesn't read."""
        data = command.encoded()
        sent = socket.send_fds(self._control, [data], [file.fileno()]) if file is not None else self._control.send(data)
        if sent < len(data):
            self._writer.close()  # half a command was sent, so the next would be misread: give this worker up
            raise OSError("the worker does not read")

    async def replicate(self, slices: Iterable[PublishedSlice]) -> None:
        """Send slices that are new, and the numbers of those that are gone. Raises _Lost."""
        now = dict.fromkeys(slices)
        await self.fill(now)
        gone = [slice_ for slice_ in self.numbers if slice_ not in now]
        if gone:
            numbers = [self.numbers.pop(slice_) for slice_ in gone]
            for slice_ in gone:
                del self._frames[slice_]
            await self._send(gone_frame(numbers))

    async def fill(self, slices: Iterable[PublishedSlice]) -> None:
        """Send those of the slices that the worker lacks, and wait until it has applied all. Raises _Lost."""
        wanted = list(slices)
        while missing := [slice_ for slice_ in wanted if slice_ not in self.numbers]:
            began = time.perf_counter()
            for slice_ in missing:
                if slice_ in self.numbers:
                    continue  # another question needed it, too
                self._last += 1
                self.numbers[slice_] = self._last
                self._frames[slice_] = self._sent + 1
                await self._send(put_frame(self._last, slice_))
                if time.perf_counter() - began > _TURN_SECONDS:
                    await asyncio.sleep(0)
                    began = time.perf_counter()
        await self._until(max((self._frames.get(slice_, 0) for slice_ in wanted), default=0))

    def has(self, slices: Iterable[PublishedSlice]) -> bool:
        """Whether the worker has applied all of these slices."""
        return all(0 < self._frames.get(slice_, 0) <= self._applied for slice_ in slices)

    async def alive(self) -> None:
        """Return once the worker has answered an empty frame. Raises _Lost."""
        await self._send(gone_frame(()))
        await self._until(self._sent)

    async def _send(self, frame: bytes) -> None:
        self._sent += 1
        number = self._sent
        self._writer.write(frame)
        await self._until(number - _AHEAD)

    async def _until(self, frame: int) -> None:
        """Wait until the worker has applied the frame of this number. Raises _Lost, also if that takes too long."""
        if self._applied < frame:
            try:
                async with asyncio.timeout(_ALIVE_SECONDS), self._progress:
                    await self._progress.wait_for(lambda: self._reason is not None or self._applied >= frame)
            except TimeoutError:
                raise _Lost(f"it has not answered for {_ALIVE_SECONDS:g} s") from None
        if self._reason is not None:
            raise _Lost(self._reason.decode(errors="replace") or f"it ended with code {self._popen.poll()}")

    async def _read(self) -> None:
        rest = b""
        with suppress(OSError):  # as if it had closed its end
            while received := await self._reader.read(4096):
                self._applied += received.count(APPLIED)
                rest = (rest + received.replace(APPLIED, b""))[:500]
                async with self._progress:
                    self._progress.notify_all()
        self._reason = rest
        async with self._progress:
            self._progress.notify_all()
