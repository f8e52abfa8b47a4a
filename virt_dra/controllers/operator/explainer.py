"""The background task that explains why pods wait for a node. A reconcile asks for an explanation and never waits: it
gets the latest one, or queues a request and is requeued when the explanation is ready."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import Condition
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.profiles.asking import RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.operator.affected_vmis import ReadStore
from virt_dra.controllers.operator.explain_queue import SHARES, Allowance, ExplainQueue, ExplainShares
from virt_dra.controllers.operator.explanation_worker import (
    ExplanationFailed,
    ExplanationRequest,
    ExplanationResult,
    ExplanationWorker,
)
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, due, sampling, waits_for_node
from virt_dra.controllers.operator.profile_fit import PROFILE_INVALID, ProfileFit, fit_in, profile_key, question
from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stores:
    """The informers' stores that a view of the cluster is made of."""

    nodes: ReadStore[Node]
    claims: ReadStore[ResourceClaim]
    slices: ReadStore[ResourceSlice]
    classes: ReadStore[DeviceClass]
    rules: ReadStore[DeviceTaintRule]


SpendSeconds = Callable[[float, float], None]
"""Charges seconds, which were spent at a time."""


class Requeue(Protocol):
    def __call__(self, key: str, seconds: float) -> None:
        """Requeue the VMI after so many seconds."""


@dataclass(frozen=True)
class _Pending:
    pod: Pod
    claims: Mapping[str, ResourceClaim]
    previous: Condition | None


_AskedAlignment = tuple[str, int, tuple[PreferredAlignment, ...]]
"""Whose pod it is about, which attempt, and what is preferred."""


def _asked(request: AlignmentRequest) -> _AskedAlignment:
    return request.pod.metadata.uid, request.attempt, request.preferences


class Explainer:
    """Explains why pods wait: :meth:`condition_for`, for reconciles, never waits; :meth:`run` explains one pod at a
    time."""

    def __init__(
        self,
        stores: Stores,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        requeue: Requeue,
        worker: ExplanationWorker,
        limits: ExplainLimits = LIMITS,
        shares: ExplainShares = SHARES,
    ) -> None:
        """``now``: the time for timestamps in objects; ``monotonic``: seconds, for limits."""
        self._stores, self._now, self._requeue, self._limits, self._clock = stores, now, requeue, limits, monotonic
        self._worker = worker
        self._queue = ExplainQueue(monotonic(), shares)
        self._requests: dict[str, _Pending] = {}
        self._profiles: OrderedDict[str, DeviceProfile] = OrderedDict()
        """Profiles to ask about. Pods come first, and are charged for nothing that is done for profiles."""
        self._for_profiles = Allowance(shares.per_namespace, shares.burst_per_namespace, monotonic())
        self._fits: dict[str, tuple[int | None, ProfileFit]] = {}
        """Of profiles, with the generation that was asked about."""
        self._explained: dict[str, Condition] = {}
        self._attempted: dict[str, datetime] = {}
        self._too_slow: dict[str, int] = {}
        """How often in a row explaining a pod has exceeded its deadline."""
        self._alignments: dict[str, AlignmentRequest] = {}
        self._aligned: dict[str, tuple[_AskedAlignment, AlignmentResult]] = {}
        self._aligning: tuple[str, _AskedAlignment] | None = None
        """The request that is being answered."""
        self._queued = asyncio.Event()
        self._viewed_at: float | None = None
        """When the worker was last given a view."""

    def condition_for(self, inputs: DeviceInputs, previous: Condition | None) -> Condition | None:
        """The new condition Allocatable of a VMI if one is ready; else None, and a request is queued once it is due."""
        key, pod = inputs.vmi.key, inputs.pod
        if pod is None or not waits_for_node(pod):
            self._forget_waiting(key)
            return None
        answer = self._explained.pop(key, None)
        if answer is not None:
            return answer
        moment = due(
            pod,
            previous,
            self._attempted.get(key),
            inputs.now,
            self._limits,
            self._too_slow.get(key, 0),
            inputs.options.count_from,
        )
        if moment > inputs.now:
            self._requeue(key, (moment - inputs.now).total_seconds())
            return None
        refused = self._queue.add(key)
        if refused is not None:
            self._drop(refused)
        if refused != key:
            self._requests[key] = _Pending(pod, inputs.claims, previous)
            self._queued.set()
        return None

    def alignment_for(self, key: str, request: AlignmentRequest) -> AlignmentResult | None:
        """The alignments that the claims of a VMI (``namespace/name``) are to ask for, if they are chosen already; else
        None, and the request is queued: its claims wait for it."""
        asked, answer = self._aligned.get(key, (None, None))
        if answer is not None and asked == _asked(request):
            return answer
        if self._aligning == (key, _asked(request)):
            return None
        self._alignments[key] = request
        refused = self._queue.add(f"{key}{_ALIGNING}")
        if refused is not None:
            self._drop(refused)
        self._queued.set()
        return None

    def fit_of(self, profile: DeviceProfile) -> ProfileFit | None:
        """The fit of a profile, if it was computed since it was asked for; else None, and the profile is requeued once
        it is."""
        key = profile_key(profile.name)
        version, answer = self._fits.pop(key, (None, None))
        if answer is None or version != profile.metadata.generation:
            self._profiles[key] = profile
            self._queued.set()
            return None
        return answer

    def forget(self, key: str) -> None:
        """Drops what is remembered about a VMI or profile that was deleted."""
        self._forget_waiting(key)
        self._profiles.pop(key, None)
        self._fits.pop(key, None)
        self._queue.discard(f"{key}{_ALIGNING}")
        self._alignments.pop(key, None)
        self._aligned.pop(key, None)
        if self._aligning is not None and self._aligning[0] == key:
            self._aligning = None

    def _forget_waiting(self, key: str) -> None:
        """Drops what is remembered about the VMI's pod, which stopped waiting."""
        self._queue.discard(key)
        self._requests.pop(key, None)
        for by_key in (self._explained, self._attempted, self._too_slow):
            by_key.pop(key, None)

    def _drop(self, refused: str) -> None:
        """Drops a key that the queue has no room for: an explanation comes later, alignments aren't asked for."""
        key = refused.removesuffix(_ALIGNING)
        if key != refused:
            self._aligned[key] = _asked(self._alignments.pop(key)), AlignmentResult()
            self._requeue(key, 0.0)
        else:
            self._requests.pop(key, None)
            self._requeue(key, self._limits.every.total_seconds() * _LATER)

    async def run(self) -> None:
        """Explain one queued pod after the other until cancelled."""
        try:
            while True:
                await self._next()
        finally:
            await self._worker.close()

    async def _next(self) -> None:
        self._queued.clear()
        now = self._clock()
        turn = self._queue.take(now)
        if isinstance(turn, str):
            key = turn.removesuffix(_ALIGNING)
            if key != turn:
                await self._align(key, self._alignments.pop(key))
            else:
                await self._guarded(key, self._answer(key, self._requests.pop(key)))
            return
        pause = self._for_profiles.wait(now) if self._profiles else None
        if pause == 0:
            key, profile = self._profiles.popitem(last=False)
            await self._guarded(key, self._answer_profile(key, profile))
            return
        waits = [seconds for seconds in (turn, pause) if seconds is not None]
        if not waits and not self._worker.has_view:
            await self._queued.wait()
            return
        # A request of another namespace may be allowed earlier. An idle view is dropped, as it takes much memory.
        idle = self._limits.age.total_seconds()
        try:
            async with asyncio.timeout(min([*waits, idle])):
                await self._queued.wait()
        except TimeoutError:
            if turn is None and (pause is None or pause > idle):
                await self._worker.close()

    async def _guarded(self, key: str, answering: Awaitable[None]) -> None:
        try:
            await answering
        except ExplanationFailed as error:
            log.warning("explaining %s failed: %s", key, error, extra={"fields": {"key": key}})
            self._requeue(key, self._limits.every.total_seconds())
        except Exception:
            # A bug that one pod or profile triggers must not end the task for all others.
            log.exception("explaining %s failed", key, extra={"fields": {"key": key}})
            self._requeue(key, self._limits.every.total_seconds())

    async def _align(self, key: str, request: AlignmentRequest) -> None:
        """Chooses the alignments of a VMI; none without an answer: what is preferred keeps no VM from its claims."""
        result = AlignmentResult()
        self._aligning = key, _asked(request)
        try:
            await self._refresh_view(self._now(), partial(self._queue.spend, None))
            began = self._clock()
            try:
                result = await self._worker.align(request)
            finally:
                self._queue.spend(key, self._clock() - began, self._clock())
        except ExplanationFailed as error:
            log.warning("choosing alignments of %s failed: %s", key, error, extra={"fields": {"vmi": key}})
        except Exception:
            log.exception("choosing alignments of %s failed", key, extra={"fields": {"vmi": key}})
        finally:
            asked, self._aligning = self._aligning, None
        if asked is not None:  # else the VMI was deleted meanwhile
            self._aligned[key] = asked[1], result
            self._requeue(key, 0.0)

    async def _answer_profile(self, key: str, profile: DeviceProfile) -> None:
        now = self._attempted[key] = self._now()
        try:
            pod, claim = question(profile)
            request = ExplanationRequest(pod, {claim.key: claim}, None, now, count=True)
            fit = fit_in(await self._answered(request, self._for_profiles.spend), len(self._stores.nodes.values()))
        except RefusedLineError as error:
            fit = ProfileFit(None, PROFILE_INVALID, str(error))
        if key in self._attempted:
            self._fits[key] = profile.metadata.generation, fit
            self._requeue(key, 0.0)

    async def _answered(
        self, request: ExplanationRequest, spend: SpendSeconds, spend_for_view: SpendSeconds | None = None
    ) -> ExplanationResult:
        """The worker's answer. ``spend``: charges for it, and for a view without ``spend_for_view``."""
        await self._refresh_view(request.now, spend_for_view or spend)
        began = self._clock()
        try:
            return await self._worker.explain(request)
        finally:
            spend(self._clock() - began, self._clock())

    async def _answer(self, key: str, request: _Pending) -> None:
        now = self._attempted[key] = self._now()
        answer = await self._answered(
            ExplanationRequest(request.pod, request.claims, request.previous, now),
            partial(self._queue.spend, key),
            partial(self._queue.spend, None),
        )
        if key not in self._attempted:
            return  # the VMI was deleted, or its pod stopped waiting
        if answer.too_slow:
            self._too_slow[key] = self._too_slow.get(key, 0) + 1
        else:
            self._too_slow.pop(key, None)
        if answer.condition is request.previous:
            self._requeue(key, self._limits.every.total_seconds())
        else:
            self._explained[key] = answer.condition
            self._requeue(key, 0.0)

    async def _refresh_view(self, now: datetime, spend: SpendSeconds) -> None:
        """Give the worker a new view of the cluster if its view is missing or stale."""
        began = self._clock()
        if (
            self._worker.has_view
            and self._viewed_at is not None
            and began - self._viewed_at <= self._limits.age.total_seconds()
        ):
            return
        stores = self._stores
        steps = sampling(
            stores.nodes.values(), stores.claims.values(), stores.slices.values(), stores.classes.values(),
            stores.rules.values(), now, limits=self._limits,
        )  # fmt: skip
        try:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    sample = end.value
                    break
                await asyncio.sleep(0)
            await self._worker.load_view(sample)
        finally:
            spend(self._clock() - began, self._clock())
        self._viewed_at = self._clock()


_ALIGNING = " aligning"
"""Ends the key of a request for alignments; no name has a blank."""
_LATER = 5
"""Factor on the usual pause for a pod that the queue had no room for."""
