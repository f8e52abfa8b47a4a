"""The sandbox that explains why pods wait: the operator's handle on it, and the program that runs in it.

It evaluates selectors that tenants write: however long they take, the operator's event loop isn't blocked, and code
that takes over the process finds no credentials in its memory. It enforces its own deadline; if it doesn't respond in
spite of that, the operator kills it and starts another for the next request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import ObjectT
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.wire import Wire
from virt_dra.controllers.operator.explanation_worker import (
    ExplanationFailed,
    ExplanationRequest,
    ExplanationResult,
    aligned_within,
    explained_within,
)
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, Sample, View, too_large, took_too_long, view_of
from virt_dra.sandbox.confinement import Confinement
from virt_dra.sandbox.inside import Connection, serve
from virt_dra.sandbox.keeping import Pauses
from virt_dra.sandbox.messages import BadMessage, Messages, RequestFailed
from virt_dra.sandbox.process import SandboxLost, SandboxObserver, SandboxProcess, SandboxProgram, start
from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult

W = TypeVar("W", bound=Wire)
A = TypeVar("A", ExplanationResult, AlignmentResult)

_GRACE: Final = 2.0
"""Seconds after its own deadline until it is killed."""
_LOADING: Final = 60.0
"""Seconds for reading a view; a machine may be busy."""
_REQUEST_BYTES: Final = 4 * 2**20
"""Largest request (a pod and its claims), in bytes."""
_AT_ONCE: Final = 0.002
"""Seconds of writing objects to it before the event loop is yielded to others."""


@dataclass(frozen=True)
class SampleLines:
    """A :class:`~virt_dra.controllers.operator.pending.Sample` whose objects are JSON, one a line."""

    total: int
    at: datetime
    left_out: int
    nodes: bytes = b""
    slices: bytes = b""
    classes: bytes = b""
    rules: bytes = b""
    claims: bytes = b""


@dataclass(frozen=True)
class ViewLoaded:
    """Answer to a sample: it is the view that requests are explained by."""


_Request = SampleLines | ExplanationRequest | AlignmentRequest
_Answer = ViewLoaded | ExplanationResult | AlignmentResult
_REQUESTS: Final = Messages[_Request](
    {SampleLines: 2**28, ExplanationRequest: _REQUEST_BYTES, AlignmentRequest: _REQUEST_BYTES}, strict=False
)
_ANSWERS: Final = Messages[_Answer]({ViewLoaded: 64, ExplanationResult: 2**16, AlignmentResult: 2**16})


class ProcessExplanationWorker:
    """An ``ExplanationWorker`` in a sandbox, which runs between :meth:`load_view` and :meth:`close`."""

    def __init__(self, limits: ExplainLimits = LIMITS, observer: SandboxObserver | None = None) -> None:
        self._limits, self._observer = limits, observer
        self._process: SandboxProcess[_Request, _Answer] | None = None
        self._pauses = Pauses()
        self.has_view = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def load_view(self, sample: Sample) -> None:
        self.has_view = False
        try:
            if self._process is None:
                await asyncio.sleep(self._pauses.left)
                self._pauses.begin()
                self._process = await start(PROGRAM, self._limits, self._observer)
            await self._process.ask(await _lines_of(sample), ViewLoaded, _LOADING)
        except (SandboxLost, RequestFailed) as error:
            await self._lost()
            raise ExplanationFailed(str(error)) from None
        except BaseException:
            await self.close()
            raise
        self.has_view = True

    async def explain(self, request: ExplanationRequest) -> ExplanationResult:
        pod, previous, now = request.pod, request.previous, request.now
        bare = replace(request, pod=_bare(pod), claims={key: _bare(claim) for key, claim in request.claims.items()})
        try:
            answer = await self._asked(bare, ExplanationResult)
        except BadMessage:
            return ExplanationResult(too_large(pod, _REQUEST_BYTES, previous, now))
        except SandboxLost:
            # A process that ended ran out of memory, or was taken over, by this pod's selectors: it then backs off like
            # pods that take too long.
            return ExplanationResult(took_too_long(pod, "", previous, now, self._limits), too_slow=True)
        return replace(answer, condition=previous) if previous is not None and answer.condition == previous else answer

    async def align(self, request: AlignmentRequest) -> AlignmentResult:
        try:
            return await self._asked(request, AlignmentResult)
        except (BadMessage, SandboxLost):
            return AlignmentResult()  # too large to be judged, or it took too long: nothing is asked for

    async def _asked(self, request: _Request, kind: type[A]) -> A:
        """Raises ExplanationFailed, BadMessage for a request that is too large, SandboxLost."""
        if self._process is None or not self.has_view:
            raise ExplanationFailed("the process that explains has no view of the cluster yet")
        try:
            return await self._process.ask(request, kind, self._limits.seconds + _GRACE)
        except RequestFailed as error:
            raise ExplanationFailed(str(error)) from None
        except BadMessage:
            raise
        except SandboxLost:
            await self._lost()
            raise
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        process, self._process, self.has_view = self._process, None, False
        if process is not None:
            await process.close()

    async def _lost(self) -> None:
        self._pauses.end()
        await self.close()


async def _lines_of(sample: Sample) -> SampleLines:
    async def lines(objects: Iterable[Wire]) -> bytes:
        written, until = [], time.monotonic() + _AT_ONCE
        for obj in objects:
            written.append(_json(obj))
            if time.monotonic() >= until:
                await asyncio.sleep(0)
                until = time.monotonic() + _AT_ONCE
        return b"\n".join(written)

    return SampleLines(
        sample.total,
        sample.at,
        sample.left_out,
        nodes=await lines(map(_bare, sample.nodes)),
        slices=await lines(map(_bare, sample.slices)),
        classes=await lines(map(_bare, sample.classes)),
        rules=await lines(map(_bare, sample.rules)),
        claims=await lines(sample.claims),
    )


def _bare(obj: ObjectT) -> ObjectT:
    """An object without the metadata that explaining doesn't read."""
    return obj.with_(metadata=obj.metadata.without("annotations", "managed_fields", "finalizers"))


def _json(value: Wire) -> bytes:
    return value.model_dump_json(by_alias=True, exclude_unset=True).encode()


# --- in the process -----------------------------------------------------------------------------------------------


class Explaining:
    """The state of the process: the view of the cluster."""

    def __init__(self, limits: ExplainLimits = LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._view: View | None = None
        self._parsed: dict[tuple[type[Wire], bytes], Wire] = {}
        """The objects of the view, by their lines: most are the same in the next view."""

    def handle(self, request: _Request) -> _Answer:
        if isinstance(request, SampleLines):
            self._view = None
            self._view = view_of(self._sample(request))
            return ViewLoaded()
        view = self._view
        if view is None:
            raise RequestFailed("there is no view of the cluster")
        end = self._clock() + self._limits.seconds
        if isinstance(request, AlignmentRequest):
            result, self._view = aligned_within(request, view, self._limits, lambda: self._clock() >= end)
            return result
        return explained_within(request, view, self._limits, lambda: self._clock() >= end)

    def _sample(self, lines: SampleLines) -> Sample:
        parsed: dict[tuple[type[Wire], bytes], Wire] = {}

        def objects(kind: type[W], text: bytes) -> tuple[W, ...]:
            read: list[Any] = []
            for line in text.splitlines():
                obj = parsed[kind, line] = self._parsed.get((kind, line)) or kind.model_validate_json(line)
                read.append(obj)
            return tuple(read)

        sample = Sample(
            objects(Node, lines.nodes),
            lines.total,
            objects(ResourceSlice, lines.slices),
            objects(DeviceClass, lines.classes),
            objects(DeviceTaintRule, lines.rules),
            objects(ResourceClaim, lines.claims),
            lines.at,
            lines.left_out,
        )
        self._parsed = parsed
        return sample


def main(connection: Connection, limits: ExplainLimits) -> None:
    """Entry point of the process."""
    serve(connection, _REQUESTS, _ANSWERS, Explaining(limits).handle)


PROGRAM: Final = SandboxProgram(
    "the process that explains why pods wait", main, _REQUESTS, _ANSWERS, Confinement(memory=2**30)
)
