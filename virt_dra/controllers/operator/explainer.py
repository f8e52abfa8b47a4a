"""A background task that explains why pods wait for a node, on a view of the cluster that many VMIs share.

Every reconcile of a VMI asks for an explanation and never waits: it gets one that was completed since, or queues the question. ``pending``
decides when a question is due and computes the answer, ``explaining_turns`` is the queue, ``examining`` runs the computation elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.operator.affected_vmis import ReadStore
from virt_dra.controllers.operator.explain_queue import SHARES, ExplainQueue, ExplainShares
from virt_dra.controllers.operator.explanation_worker import ExplanationFailed, ExplanationRequest, ExplanationWorker
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, due, sampling, waits_for_node

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stores:
    """The informers' stores that a view of the cluster is made of."""

    nodes: ReadStore[Node]
    claims: ReadStore[ResourceClaim]
    slices: ReadStore[ResourceSlice]
    classes: ReadStore[DeviceClass]
    rules: ReadStore[DeviceTaintRule]


class Again(Protocol):
    def __call__(self, key: str, seconds: float) -> None:
        """Requeue the VMI after so many seconds."""


@dataclass(frozen=True)
class _Asked:
    pod: Pod
    claims: Mapping[str, ResourceClaim]
    told: Condition | None


class Explainer:
    """Answers why pods wait: :meth:`told` is called by reconciles and never waits, :meth:`run` answers one question at a time."""

    def __init__(
        self,
        stores: Stores,
        now: Callable[[], datetime],
        again: Again,
        examiner: ExplanationWorker,
        limits: ExplainLimits = LIMITS,
        shares: ExplainShares = SHARES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock``: monotonic seconds, for limits on explaining; ``now``: the time for timestamps in objects."""
        self._stores, self._now, self._again, self._limits, self._clock = stores, now, again, limits, clock
        self._examiner = examiner
        self._turns = ExplainQueue(clock(), shares)
        self._questions: dict[str, _Asked] = {}
        self._answers: dict[str, Condition] = {}
        self._looked: dict[str, datetime] = {}
        self._too_slow: dict[str, int] = {}
        """How often in a row explaining a pod has exceeded its deadline."""
        self._asked = asyncio.Event()
        self._seen: float | None = None
        """When the examiner was last given a view."""

    def told(self, inputs: DeviceInputs, so_far: Condition | None) -> Condition | None:
        """The condition Allocatable of a VMI, if a new one is ready. Else None: it is queued once due, and the VMI is requeued then."""
        key, pod = inputs.vmi.key, inputs.pod
        if pod is None or not waits_for_node(pod):
            self.forget(key)
            return None
        answer = self._answers.pop(key, None)
        if answer is not None:
            return answer
        moment = due(pod, so_far, self._looked.get(key), inputs.now, self._limits, self._too_slow.get(key, 0), inputs.options.began)
        if moment > inputs.now:
            self._again(key, (moment - inputs.now).total_seconds())
            return None
        refused = self._turns.add(key)
        if refused is not None:
            self._questions.pop(refused, None)
            self._again(refused, self._limits.every.total_seconds() * _LATER)
        if refused != key:
            self._questions[key] = _Asked(pod, inputs.claims, so_far)
            self._asked.set()
        return None

    def forget(self, key: str) -> None:
        """Drop everything about a VMI that is gone, or whose pod waits no longer."""
        self._turns.discard(key)
        self._questions.pop(key, None)
        for known in (self._answers, self._looked, self._too_slow):
            known.pop(key, None)

    async def run(self) -> None:
        """Answer questions until cancelled."""
        try:
            while True:
                await self._next()
        finally:
            await self._examiner.close()

    async def _next(self) -> None:
        self._asked.clear()
        turn = self._turns.take(self._clock())
        if isinstance(turn, str):
            await self._explain(turn, self._questions.pop(turn))
            return
        if turn is None and not self._examiner.sees:
            await self._asked.wait()
            return
        # A new question may be allowed earlier (another namespace). And an idle view is dropped, since it takes much memory.
        idle = self._limits.age.total_seconds()
        try:
            async with asyncio.timeout(idle if turn is None else min(turn, idle)):
                await self._asked.wait()
        except TimeoutError:
            if turn is None:
                await self._examiner.close()

    async def _explain(self, key: str, asked: _Asked) -> None:
        try:
            await self._answer(key, asked)
        except ExplanationFailed as error:
            log.warning("why %s waits was not found out: %s", key, error, extra={"fields": {"vmi": key}})
            self._again(key, self._limits.every.total_seconds())
        except Exception:
            # A bug that one pod triggers must not end the task for all others.
            log.exception("why %s waits could not be found out", key, extra={"fields": {"vmi": key}})
            self._again(key, self._limits.every.total_seconds())

    async def _answer(self, key: str, asked: _Asked) -> None:
        now = self._looked[key] = self._now()
        await self._see(now)
        began = self._clock()
        try:
            answer = await self._examiner.answer(ExplanationRequest(asked.pod, asked.claims, asked.told, now))
        finally:
            self._turns.spend(key, self._clock() - began, self._clock())
        if key not in self._looked:
            return  # forgotten meanwhile
        if answer.too_slow:
            self._too_slow[key] = self._too_slow.get(key, 0) + 1
        else:
            self._too_slow.pop(key, None)
        if answer.condition is asked.told:
            self._again(key, self._limits.every.total_seconds())
        else:
            self._answers[key] = answer.condition
            self._again(key, 0.0)

    async def _see(self, now: datetime) -> None:
        """Give the examiner a new view of the cluster if its view is too old."""
        began = self._clock()
        if self._examiner.sees and self._seen is not None and began - self._seen <= self._limits.age.total_seconds():
            return
        stores = self._stores
        steps = sampling(
            stores.nodes.values(), stores.claims.values(), stores.slices.values(), stores.classes.values(), stores.rules.values(), now,
            limits=self._limits,
        )  # fmt: skip
        try:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    sample = end.value
                    break
                await asyncio.sleep(0)
            await self._examiner.see(sample)
        finally:
            self._turns.spend(None, self._clock() - began, self._clock())
        self._seen = self._clock()


_LATER = 5
"""Factor on the usual pause for a pod that the queue had no room for."""
