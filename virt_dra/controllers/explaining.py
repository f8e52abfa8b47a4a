"""Finds out why pods wait for a node, beside the loop: in a thread, on a view of the cluster that many VMIs share (``pending``).

The loop asks with every look at a VMI; what it gets is what was found out since, or nothing yet. Which question is due, and what the
answer is, ``pending`` decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.controllers.device_publication import Inputs
from virt_dra.controllers.pending import LIMITS, Limits, View, due, explain, view_of, waits_for_node
from virt_dra.controllers.watched import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stores:
    """What a view is made of."""

    nodes: Store[Node]
    claims: Store[ResourceClaim]
    slices: Store[ResourceSlice]
    classes: Store[DeviceClass]
    rules: Store[DeviceTaintRule]


class Again(Protocol):
    def __call__(self, key: str, seconds: float) -> None:
        """Look at the VMI again after so long."""


@dataclass(frozen=True)
class _Question:
    pod: Pod
    claims: Mapping[str, ResourceClaim]
    told: Condition | None


class Explainer:
    """:meth:`told` is asked by the loop and never waits; :meth:`run` finds out, one question at a time."""

    def __init__(self, stores: Stores, now: Callable[[], datetime], again: Again, limits: Limits = LIMITS) -> None:
        self._stores, self._now, self._again, self._limits = stores, now, again, limits
        self._questions: dict[str, _Question] = {}
        self._answers: dict[str, Condition] = {}
        self._looked: dict[str, datetime] = {}
        self._asked = asyncio.Event()
        self._view: View | None = None

    def told(self, inputs: Inputs, so_far: Condition | None) -> Condition | None:
        """The condition Allocatable of a VMI, if it was found out since the last time. Else None, and it will be when it is due."""
        key, pod = inputs.vmi.key, inputs.pod
        if pod is None or not waits_for_node(pod):
            self.forget(key)
            return None
        answer = self._answers.pop(key, None)
        if answer is not None:
            return answer
        moment = due(pod, so_far, self._looked.get(key), inputs.now, self._limits)
        if moment > inputs.now:
            self._again(key, (moment - inputs.now).total_seconds())
        else:
            self._questions[key] = _Question(pod, inputs.claims, so_far)
            self._asked.set()
        return None

    def forget(self, key: str) -> None:
        """The VMI is gone, or waits no longer."""
        for known in (self._questions, self._answers, self._looked):
            known.pop(key, None)

    async def run(self) -> None:
        """For ever."""
        while True:
            self._asked.clear()
            while self._questions:
                key = next(iter(self._questions))
                question = self._questions.pop(key)
                try:
                    await self._answer(key, question)
                except Exception:
                    # The program's fault over one pod must not end the explaining of all others.
                    log.exception("why %s waits could not be found out", key, extra={"fields": {"vmi": key}})
                    self._again(key, self._limits.every.total_seconds())
            try:
                async with asyncio.timeout(self._limits.age.total_seconds()):
                    await self._asked.wait()
            except TimeoutError:
                self._view = None  # too old for the next question; it holds as much as the stores
                await self._asked.wait()

    async def _answer(self, key: str, question: _Question) -> None:
        now = self._looked[key] = self._now()
        if self._view is None or now - self._view.at > self._limits.age:
            everything = (
                self._stores.nodes.values(), self._stores.claims.values(), self._stores.slices.values(), self._stores.classes.values(),
                self._stores.rules.values(), now,
            )  # fmt: skip
            self._view = await asyncio.to_thread(view_of, *everything, limits=self._limits)
        view = self._view
        found = await asyncio.to_thread(explain, question.pod, question.claims, view, question.told, now, limits=self._limits)
        if found is question.told or key not in self._looked:
            self._again(key, self._limits.every.total_seconds())
        else:
            self._answers[key] = found
            self._again(key, 0.0)
