"""The loop of the pool status controller: answers requests, tries some again, deletes old ones (C-12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.index_keys import pools_of
from virt_dra.controllers.loops.pool_status.pools import COMPLETE, has_incomplete, pool_request_status

log = logging.getLogger(__name__)

RETRIES: Final = 5
"""Attempts after which a request is left alone, until it changes or the controller restarts."""
FIRST_DELAY: Final = 0.005
CLEAN_UP_PERIOD: Final = 600.0
FINISHED_FOR: Final = timedelta(hours=1)
WAITING_FOR: Final = timedelta(hours=24)
FAILED: Final = "Failed"
_METRICS = "resourcepoolstatusrequest_controller_"
_SLICE_INDEX = "pool of pool status"
_CLAIM_INDEX = "pools of pool status"


class PoolStatusRequests:
    """The loop of the pool status controller. One worker, as upstream."""

    def __init__(self, context: LoopContext) -> None:
        self._cluster, self._clock, self._metrics = context.cluster, context.clock, context.metrics
        self._with_rules = context.gates.device_taint_rules
        informers = context.informers
        self._requests = informers.of(ResourcePoolStatusRequest)
        self._slices, self._claims = informers.of(ResourceSlice), informers.of(ResourceClaim)
        self._rules = informers.of(DeviceTaintRule)
        self._slices.store.add_index(_SLICE_INDEX, pools_of)
        self._claims.store.add_index(_CLAIM_INDEX, _pools_used_by)
        self._queue: WorkQueue[str] = WorkQueue(chance=context.chance)
        self._attempts: dict[str, int] = {}

    async def run(self) -> None:
        """Answer and clean up until cancelled."""
        self._requests.on_change(self._request_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._answer), name="pool status requests")
            group.create_task(self._clean_up(), name="expired pool status requests")

    def _request_changed(self, old: ResourcePoolStatusRequest | None, new: ResourcePoolStatusRequest | None) -> None:
        """Queues a request without a status; others are done (C-12.1)."""
        if new is not None and new.status is None:
            self._queue.add(new.name)

    async def _answer(self, name: str) -> float | None:
        """Answers a request once. Returns the seconds after which to try again (C-12.4)."""
        request = self._requests.store.get(name)
        if request is None or request.status is not None:
            self._attempts.pop(name, None)
            return None
        began = self._clock()
        driver = request.spec.driver
        wanted = (driver, request.spec.pool_name or None)
        slices = self._slices.store.by_index(_SLICE_INDEX, wanted)
        claims = self._claims.store.by_index(_CLAIM_INDEX, wanted)
        rules = self._rules.store.values() if self._with_rules else ()
        status = pool_request_status(request, slices, claims, rules, self._clock())
        if has_incomplete(status):
            return self._retry(name, "incomplete pools detected, requeueing")
        failure = ""
        try:
            await self._cluster.update_status(request.with_(status=status))
        except ApiError as error:
            failure = f"failed to update status for request {name}: {error}"
            self._metrics.count(f"{_METRICS}request_processing_errors_total", driver_name=driver)
        self._metrics.count(f"{_METRICS}requests_processed_total", driver_name=driver)
        seconds = (self._clock() - began).total_seconds()
        self._metrics.observe(f"{_METRICS}request_processing_duration_seconds", seconds, driver_name=driver)
        if failure:
            return self._retry(name, failure)
        self._attempts.pop(name, None)
        return None

    def _retry(self, name: str, why: str) -> float | None:
        attempt = self._attempts.get(name, 0)
        if attempt >= RETRIES:
            log.warning("pool status request %s is left without an answer after %d retries: %s", name, RETRIES, why)
            self._attempts.pop(name, None)
            return None
        self._attempts[name] = attempt + 1
        return FIRST_DELAY * 2.0**attempt

    async def _clean_up(self) -> None:
        """Deletes expired requests, at once and every ten minutes (C-12.9)."""
        while True:
            for request in sorted(self._requests.store.values(), key=lambda pending: pending.name):
                if is_expired(request, self._clock()):
                    await self._delete(request)
            await asyncio.sleep(CLEAN_UP_PERIOD)

    async def _delete(self, request: ResourcePoolStatusRequest) -> None:
        try:
            await self._cluster.delete(ResourcePoolStatusRequest, request.name, uid=request.metadata.uid)
        except NotFound:
            return
        except ApiError as error:
            log.warning("expired pool status request %s not deleted: %s", request.name, error)


def is_expired(request: ResourcePoolStatusRequest, now: datetime) -> bool:
    """Whether a request is to be deleted: an hour after its answer, a day after it was made without one (C-12.9)."""
    since = request.metadata.creation_timestamp
    lifetime = WAITING_FOR
    if request.status is not None:
        lifetime = FINISHED_FOR
        ended = [condition for condition in request.status.conditions if condition.type in (COMPLETE, FAILED)]
        since = ended[0].last_transition_time if ended else since
    try:
        return since is not None and now - parse_time(since) > lifetime
    except ValueError:  # of the year 0, say, which Go knows and Python doesn't
        return False


def _pools_used_by(claim: ResourceClaim) -> Iterator[tuple[str, str | None]]:
    """The keys by which a claim is found: the drivers of its devices, and driver and pool of each."""
    yield from {key: None for of in claim.results for key in ((of.driver, None), (of.driver, of.pool))}
