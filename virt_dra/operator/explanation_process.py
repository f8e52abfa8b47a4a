"""The child process that explains why the operator's pods wait (``controllers/examining``): the parent's handle, and what runs in it.

It evaluates selectors that tenants write: however long these take, the operator's event loop isn't blocked, and code that takes the process
over finds no credentials in its memory. It reads lines (a letter and JSON) and answers with lines of JSON, of which only texts are used. It
enforces its own deadline; where it doesn't answer in spite of that, the parent kills it and starts another for the next question.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import IO, Any, Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import Condition, format_time, parse_time
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Wire
from virt_dra.controllers.operator.explanation_worker import ExplanationFailed, ExplanationRequest, ExplanationResult, answered
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, Sample, View, too_large, took_too_long, view_of

_GRACE: Final = 2.0
"""Seconds after its own deadline at which it is killed."""
_START: Final = 60.0
"""Seconds for starting it and sending it a view; a machine may be busy."""
_QUESTION: Final = 4 * 2**20
"""Largest question (a pod and its claims), in bytes."""
_ANSWER: Final = 2**16
"""Longest line of an answer, in bytes."""
_AT_ONCE: Final = 0.002
"""Seconds of writing objects to it before the event loop is yielded to others."""
_MEMORY: Final = 2**30
"""Limit of its address space in bytes; it needs a fifth."""
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""Environment variables that it inherits; all others are withheld."""

_SAMPLE: Final[Mapping[str, type[Wire]]] = {
    "n": Node, "s": ResourceSlice, "c": DeviceClass, "r": DeviceTaintRule, "a": AllocationResult,
}  # fmt: skip


class ProcessExplanationWorker:
    """An ``ExplanationWorker`` that is a child process; it runs between :meth:`see` and :meth:`close`."""

    def __init__(self, limits: ExplainLimits = LIMITS) -> None:
        self._limits = limits
        self._process: asyncio.subprocess.Process | None = None
        self._sees = False

    @property
    def sees(self) -> bool:
        return self._sees

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def see(self, sample: Sample) -> None:
        self._sees = False
        process = self._process or await self._begun()
        try:
            async with asyncio.timeout(_START):
                await _fed(process, _lines_of(sample))
                if await _answer_of(process) != {"seen": True}:
                    raise ExplanationFailed("the process that explains can't read what it is to look at")
        except TimeoutError:
            await self.close()
            raise ExplanationFailed(f"the process that explains didn't come to see the cluster within {_START:g} s") from None
        except (OSError, ExplanationFailed):
            await self.close()
            raise
        except BaseException:
            await self.close()
            raise
        self._sees = True

    async def answer(self, question: ExplanationRequest) -> ExplanationResult:
        process = self._process
        if process is None or not self._sees:
            raise ExplanationFailed("the process that explains sees nothing yet")
        lines = tuple(_lines_about(question))
        if sum(map(len, lines)) > _QUESTION:
            return ExplanationResult(too_large(question.pod, _QUESTION, question.told, question.now))
        try:
            async with asyncio.timeout(self._limits.seconds + _GRACE):
                await _fed(process, iter(lines))
                found = await _answer_of(process)
        except TimeoutError:
            await self.close()
            return ExplanationResult(took_too_long(question.pod, "", question.told, question.now, self._limits), too_slow=True)
        except ExplanationFailed:
            # It ran out of memory, or worse, over this pod: which then waits as those do that take too long.
            await self.close()
            return ExplanationResult(took_too_long(question.pod, "", question.told, question.now, self._limits), too_slow=True)
        except BaseException:
            await self.close()
            raise
        if (failed := found.get("failed")) is not None:
            raise ExplanationFailed(str(failed))
        condition = question.told if found.get("same") and question.told is not None else _condition_of(found.get("condition"))
        return ExplanationResult(condition, bool(found.get("too_slow")))

    async def close(self) -> None:
        process, self._process, self._sees = self._process, None, False
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        # Waited for, so that it doesn't stay a zombie; shielded, since that must happen even where this is cancelled.
        await asyncio.shield(process.wait())

    async def _begun(self) -> asyncio.subprocess.Process:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, env=environment, limit=_ANSWER,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        return self._process


_PROGRAM: Final = (
    "import sys; sys.path = [each for each in sys.path if each]; from virt_dra.operator.explanation_process import main; main()"
)


async def _fed(process: asyncio.subprocess.Process, lines: Iterator[bytes]) -> None:
    """Write lines to the process. Raises ExaminerFailed where it has ended."""
    to = process.stdin
    if to is None:
        raise AssertionError("it has a pipe")
    clock, until = time.monotonic, time.monotonic() + _AT_ONCE
    try:
        for line in lines:
            to.write(line)
            if clock() >= until:
                await to.drain()
                await asyncio.sleep(0)
                until = clock() + _AT_ONCE
        await to.drain()
    except (BrokenPipeError, ConnectionResetError):
        raise ExplanationFailed("the process that explains has ended") from None


async def _answer_of(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Read one answer. Raises ExaminerFailed where the process has ended or the line isn't a JSON object."""
    if process.stdout is None:
        raise AssertionError("it has a pipe")
    try:
        line = await process.stdout.readline()
        found = json.loads(line) if line else None
    except ValueError:  # too long, or no JSON
        found = None
    if not isinstance(found, dict):
        raise ExplanationFailed("the process that explains has ended")
    return found


def _condition_of(raw: object) -> Condition:
    """Parse a condition. Raises WireError for anything else."""
    return Condition.from_wire(raw)


# --- what is written to it ---


def _lines_of(sample: Sample) -> Iterator[bytes]:
    yield _line("V", json.dumps({"total": sample.total, "at": format_time(sample.at), "leftOut": sample.left_out}))
    for node in sample.nodes:
        yield _line("n", _bare(node))
    for each in sample.slices:
        yield _line("s", _bare(each))
    for device_class in sample.classes:
        yield _line("c", _bare(device_class))
    for rule in sample.rules:
        yield _line("r", _bare(rule))
    for allocation in sample.allocations:
        yield _line("a", _json(allocation.without("node_selector")))
    yield _line("E", "{}")


def _lines_about(question: ExplanationRequest) -> Iterator[bytes]:
    size = 0
    for letter, obj in (("p", question.pod), *(("m", claim) for claim in question.claims.values())):
        line = _line(letter, _bare(obj))
        yield line
        size += len(line)
        if size > _QUESTION:
            return  # the caller sees that it is too large
    told = question.told
    yield _line("Q", json.dumps({"now": format_time(question.now), "told": None if told is None else told.to_wire()}))


def _bare(obj: Any) -> str:
    """An object's JSON without the metadata that explaining doesn't read."""
    return _json(obj.with_(metadata=obj.metadata.without("annotations", "managed_fields", "finalizers")))


def _json(value: Wire) -> str:
    return value.model_dump_json(by_alias=True, exclude_unset=True)


def _line(letter: str, text: str) -> bytes:
    return f"{letter}{text}\n".encode()


# --- what runs in it ---


class Seen:
    """The state of the process: the view of the cluster and the pod that it has read so far."""

    def __init__(self, limits: ExplainLimits = LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._view: View | None = None
        self._head: dict[str, Any] = {}
        self._parts: dict[str, list[Any]] = {}
        self._read: dict[bytes, Wire] = {}
        """Parsed objects of the last view, by the line they were parsed from: most are the same in the next view."""
        self._reading: dict[bytes, Wire] = {}
        self._pod: Pod | None = None
        self._claims: dict[str, ResourceClaim] = {}

    def hear(self, line: bytes) -> dict[str, Any] | None:
        """Handle one line; returns the answer where it was the last line of a view or of a question."""
        letter = line[:1].decode()
        if letter in _SAMPLE:
            obj = self._read.get(line) or _SAMPLE[letter].from_wire(json.loads(line[1:]))
            self._reading[line] = obj
            self._parts.setdefault(letter, []).append(obj)
            return None
        given = json.loads(line[1:])
        match letter:
            case "V":
                self._view, self._head, self._parts, self._reading = None, given, {}, {}
            case "E":
                self._read = self._reading
                self._view = view_of(self._sample())
                self._parts = {}
                return {"seen": True}
            case "p":
                self._pod, self._claims = Pod.from_wire(given), {}
            case "m":
                claim = ResourceClaim.from_wire(given)
                self._claims[claim.key] = claim
            case "Q":
                return self._answer(given)
        return None

    def _sample(self) -> Sample:
        parts = {letter: tuple(self._parts.get(letter, ())) for letter in _SAMPLE}
        head = self._head
        return Sample(
            parts["n"], head["total"], parts["s"], parts["c"], parts["r"], parts["a"], _time(head["at"]), head["leftOut"],
        )  # fmt: skip

    def _answer(self, given: dict[str, Any]) -> dict[str, Any]:
        if self._view is None or self._pod is None:
            return {"failed": "nothing was seen"}
        told = None if given["told"] is None else Condition.from_wire(given["told"])
        end = self._clock() + self._limits.seconds
        question = ExplanationRequest(self._pod, self._claims, told, _time(given["now"]))
        answer = answered(question, self._view, self._limits, lambda: self._clock() >= end)
        same = answer.condition is told
        return {"same": same, "condition": None if same else answer.condition.to_wire(), "too_slow": answer.too_slow}


def _time(text: str) -> datetime:
    return parse_time(text)


def serve(asked: IO[bytes], answers: IO[bytes], seen: Seen) -> None:
    """Answer questions until end of file."""
    for line in asked:
        try:
            answer = seen.hear(line.rstrip(b"\n"))
        except MemoryError:
            return  # the process ends, and is started again with empty memory
        except Exception as fault:  # noqa: BLE001 - sent to the operator, which logs it; a fault over one pod must not end the process
            answer = {"failed": f"{type(fault).__name__}: {fault}"[:1000]} if line[:1] in b"EQ" else None
        if answer is not None:
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


def main() -> None:
    """Entry point of the process: low priority, a memory limit, no core dumps; Ctrl-C is left to the operator."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer, Seen())
