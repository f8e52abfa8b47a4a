"""The child process that explains why pods wait: the operator's handle on it, and the program that runs in it.

It evaluates selectors that tenants write: however long they take, the operator's event loop isn't blocked, and code
that takes over the process finds no credentials in its memory. It reads lines (a letter and JSON) and writes lines of
JSON, of which only texts are used. It enforces its own deadline; if it doesn't respond in spite of that, the operator
kills it and starts another for the next request.
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
from typing import IO, Any, Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import Condition, format_time, parse_time
from virt_dra.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Wire
from virt_dra.controllers.operator.explanation_worker import (
    ExplanationFailed,
    ExplanationRequest,
    ExplanationResult,
    explained_within,
)
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, Sample, View, too_large, took_too_long, view_of

_GRACE: Final = 2.0
"""Seconds after its own deadline until it is killed."""
_START: Final = 60.0
"""Seconds for starting it and sending it a view; a machine may be busy."""
_REQUEST_BYTES: Final = 4 * 2**20
"""Largest request (a pod and its claims), in bytes."""
_RESPONSE_BYTES: Final = 2**16
"""Longest line of a response, in bytes."""
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
    """An ``ExplanationWorker`` that is a child process; it runs between :meth:`load_view` and :meth:`close`."""

    def __init__(self, limits: ExplainLimits = LIMITS) -> None:
        self._limits = limits
        self._process: asyncio.subprocess.Process | None = None
        self._has_view = False

    @property
    def has_view(self) -> bool:
        return self._has_view

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def load_view(self, sample: Sample) -> None:
        self._has_view = False
        process = self._process or await self._started()
        try:
            async with asyncio.timeout(_START):
                await _send(process, _lines_of_sample(sample))
                if await _response_of(process) != {"loaded": True}:
                    raise ExplanationFailed("the explaining process can't read the view of the cluster")
        except TimeoutError:
            await self.close()
            raise ExplanationFailed(
                f"the explaining process didn't load the view of the cluster within {_START:g} s"
            ) from None
        except BaseException:
            await self.close()
            raise
        self._has_view = True

    async def explain(self, request: ExplanationRequest) -> ExplanationResult:
        process = self._process
        if process is None or not self._has_view:
            raise ExplanationFailed("the explaining process has no view of the cluster yet")
        lines = tuple(_lines_of_request(request))
        if sum(map(len, lines)) > _REQUEST_BYTES:
            return ExplanationResult(too_large(request.pod, _REQUEST_BYTES, request.previous, request.now))
        try:
            async with asyncio.timeout(self._limits.seconds + _GRACE):
                await _send(process, iter(lines))
                found = await _response_of(process)
        except (TimeoutError, ExplanationFailed):
            # A process that ended ran out of memory, or worse, over this pod, which then backs off like pods that take
            # too long.
            await self.close()
            return ExplanationResult(
                took_too_long(request.pod, "", request.previous, request.now, self._limits), too_slow=True
            )
        except BaseException:
            await self.close()
            raise
        if (failed := found.get("failed")) is not None:
            raise ExplanationFailed(str(failed))
        condition = (
            request.previous
            if found.get("same") and request.previous is not None
            else Condition.from_wire(found.get("condition"))
        )
        return ExplanationResult(condition, bool(found.get("too_slow")))

    async def close(self) -> None:
        process, self._process, self._has_view = self._process, None, False
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        # Reap the process, even if this task is cancelled.
        await asyncio.shield(process.wait())

    async def _started(self) -> asyncio.subprocess.Process:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM, env=environment, limit=_RESPONSE_BYTES,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        return self._process


_PROGRAM: Final = (
    "import sys; sys.path = [each for each in sys.path if each]; from "
    "virt_dra.operator.explanation_process import main; main()"
)


async def _send(process: asyncio.subprocess.Process, lines: Iterator[bytes]) -> None:
    """Write lines to the process. Raises ExplanationFailed where it has ended."""
    to = process.stdin
    if to is None:
        raise AssertionError("stdin and stdout are pipes")
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
        raise ExplanationFailed("the explaining process has ended") from None


async def _response_of(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Read one answer. Raises ExplanationFailed where the process has ended or the line isn't a JSON object."""
    if process.stdout is None:
        raise AssertionError("stdin and stdout are pipes")
    try:
        line = await process.stdout.readline()
        found = json.loads(line) if line else None
    except ValueError:  # too long, or no JSON
        found = None
    if not isinstance(found, dict):
        raise ExplanationFailed("the explaining process has ended")
    return found


# --- the lines that are written to the process ---


def _lines_of_sample(sample: Sample) -> Iterator[bytes]:
    yield _line("V", json.dumps({"total": sample.total, "at": format_time(sample.at), "leftOut": sample.left_out}))
    for letter, objects in (("n", sample.nodes), ("s", sample.slices), ("c", sample.classes), ("r", sample.rules)):
        for each in objects:
            yield _line(letter, _bare(each))
    for allocation in sample.allocations:
        yield _line("a", _json(allocation.without("node_selector")))
    yield _line("E", "{}")


def _lines_of_request(request: ExplanationRequest) -> Iterator[bytes]:
    size = 0
    for letter, obj in (("p", request.pod), *(("m", claim) for claim in request.claims.values())):
        line = _line(letter, _bare(obj))
        yield line
        size += len(line)
        if size > _REQUEST_BYTES:
            return  # too large, which the caller checks
    previous = request.previous
    yield _line(
        "Q", json.dumps({"now": format_time(request.now), "previous": None if previous is None else previous.to_wire()})
    )


def _bare(obj: Any) -> str:
    """An object's JSON without the metadata that explaining doesn't read."""
    return _json(obj.with_(metadata=obj.metadata.without("annotations", "managed_fields", "finalizers")))


def _json(value: Wire) -> str:
    return value.model_dump_json(by_alias=True, exclude_unset=True)


def _line(letter: str, text: str) -> bytes:
    return f"{letter}{text}\n".encode()


# --- the program of the process ---


class Served:
    """The state of the process: the view of the cluster and the pod that it has read."""

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

    def handle(self, line: bytes) -> dict[str, Any] | None:
        """Handle one line; the response if it was the last line of a view or of a request, else None."""
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
                return {"loaded": True}
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
            parts["n"], head["total"], parts["s"], parts["c"], parts["r"], parts["a"], parse_time(head["at"]),
            head["leftOut"],
        )  # fmt: skip

    def _answer(self, given: dict[str, Any]) -> dict[str, Any]:
        if self._view is None or self._pod is None:
            return {"failed": "there is no view of the cluster"}
        previous = None if given["previous"] is None else Condition.from_wire(given["previous"])
        end = self._clock() + self._limits.seconds
        request = ExplanationRequest(self._pod, self._claims, previous, parse_time(given["now"]))
        answer = explained_within(request, self._view, self._limits, lambda: self._clock() >= end)
        same = answer.condition is previous
        return {"same": same, "condition": None if same else answer.condition.to_wire(), "too_slow": answer.too_slow}


def serve(requests: IO[bytes], responses: IO[bytes], served: Served) -> None:
    """Handle lines until end of file."""
    for line in requests:
        try:
            answer = served.handle(line.rstrip(b"\n"))
        except MemoryError:
            return  # the process ends, and is started again with empty memory
        except Exception as fault:  # noqa: BLE001 - sent to the operator, which logs it; a fault over one pod must not end the process
            answer = {"failed": f"{type(fault).__name__}: {fault}"[:1000]} if line[:1] in b"EQ" else None
        if answer is not None:
            responses.write(json.dumps(answer).encode() + b"\n")
            responses.flush()


def main() -> None:
    """Entry point of the process: low priority, a memory limit, no core dumps; Ctrl-C is left to the operator."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer, Served())
