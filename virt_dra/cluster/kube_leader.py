"""One of several processes leads: it holds a Lease and renews it.

The decision (take, renew, wait) is the ``kubernetes`` package's; what its loop would do around it isn't used, since it could leave two
leaders. In its version 37:

* a request that hangs or fails without an HTTP answer is no failed renewal: it blocks for minutes or ends the loop with an exception, and
  the work goes on. Here every attempt has its time, failures of any kind are failures, and the work is stopped when the lease couldn't be
  renewed for ``renew_deadline`` seconds *counted from the beginning of the last renewal that succeeded*, which is before anybody else
  may take it.
* the work is cancelled but not waited for, its end isn't noticed and its exception is lost.
* whether a lease of somebody else has run out is told by the wall clock, so that a clock that is set forward takes a lease that is alive.
  Here a second look, by a clock that can't be set, must agree.
* times are written in local time but marked as UTC, and one in a million can't be read by the server (no microseconds).
* a lease isn't given back at the end, so that the next leader waits for it to run out; transitions aren't counted.
* all candidates try at the same moments.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import aiohttp
from kubernetes.aio.client import ApiException, V1LeaseSpec
from kubernetes.aio.config import ConfigException
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

from virt_dra.cluster.kube import KubeCluster
from virt_dra.cluster.port import ApiError

log = logging.getLogger(__name__)

LEASE = "coordination.k8s.io/v1"


class LeadershipLost(Exception):
    """The lease could not be renewed, or somebody took it. The work was cancelled; the process had better start anew."""


@dataclass(frozen=True)
class LeaseTiming:
    """In seconds, each smaller than the one before, as kube-scheduler's; ``duration - renew_deadline`` is what the work has to stop."""

    duration: int = 15
    """After so long without a renewal others may take the lease."""
    renew_deadline: int = 10
    """After so long without a renewal the leader stops."""
    retry: int = 2
    """Between two attempts (up to a fifth more, by chance)."""


async def lead(
    cluster: KubeCluster, name: str, namespace: str, identity: str, run: Callable[[], Awaitable[None]], *,
    timing: LeaseTiming = LeaseTiming(), leading: Callable[[bool], None] | None = None,
) -> None:  # fmt: skip
    """Waits for the lease, then does ``run`` while it is ours. Returns when ``run`` does, and raises what it raises; the lease is then free
    for the next at once, as it is after a cancellation (which cancels ``run`` and waits for its end).

    Raises :class:`LeadershipLost`; ValueError for timing that makes no sense. ``identity`` must be another in every process.
    ``leading`` is told when we begin and end to lead.
    """
    candidate = _Candidate(cluster, name, namespace, identity, timing)
    renewed = await candidate.acquired()
    log.info("%s leads by lease %s/%s", identity, namespace, name)
    if leading is not None:
        leading(True)
    work = asyncio.ensure_future(run())
    try:
        await candidate.hold(work, renewed)
    finally:
        work.cancel()
        # What doesn't end now would go on beside the next leader.
        await asyncio.wait({work}, timeout=timing.duration - timing.renew_deadline)
        if leading is not None:
            leading(False)
        if work.done():
            await candidate.release()
        else:
            log.critical("%s no longer leads, but its work goes on: end this process", identity)
    if not work.cancelled():
        work.result()


class _Candidate:
    def __init__(self, cluster: KubeCluster, name: str, namespace: str, identity: str, timing: LeaseTiming) -> None:
        self._cluster, self._identity, self._timing = cluster, identity, timing
        self._lock = _Lock(cluster, name, namespace, identity, timing)
        self._election = LeaderElection(
            Config(
                lock=self._lock, lease_duration=timing.duration, renew_deadline=timing.renew_deadline, retry_period=timing.retry,
                onstarted_leading=_nothing, onstopped_leading=_nothing,
            )
        )  # fmt: skip

    async def acquired(self) -> float:
        """When (by the loop's clock) the attempt began that took the lease."""
        while True:
            began = asyncio.get_running_loop().time()
            if await self._attempt(began + self._timing.renew_deadline):
                return began
            await asyncio.sleep(self._pause())

    async def hold(self, work: asyncio.Future[None], renewed: float) -> None:
        """Until the work is done. Raises :class:`LeadershipLost`."""
        loop = asyncio.get_running_loop()
        while True:
            deadline = renewed + self._timing.renew_deadline
            await asyncio.wait({work}, timeout=min(self._pause(), max(deadline - loop.time(), 0)))
            if work.done():
                return
            began = loop.time()
            if began < deadline and await self._attempt(deadline):
                renewed = began
            elif (holder := self._lock.holder) not in ("", self._identity):
                raise LeadershipLost(f"{holder} has taken the lease {self._lock.name}")
            elif loop.time() >= deadline:
                raise LeadershipLost(f"the lease {self._lock.name} could not be renewed for {self._timing.renew_deadline} s")

    async def release(self) -> None:
        """Failures are only told: the lease runs out by itself."""
        try:
            async with asyncio.timeout(self._timing.retry):
                lease = await self._cluster.get_raw(LEASE, "Lease", self._lock.name, self._lock.namespace)
                if lease["spec"].get("holderIdentity") != self._identity:
                    return
                free = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _micro_time(datetime.now(UTC))}
                based = {"resourceVersion": lease["metadata"]["resourceVersion"]}
                await self._cluster.patch_raw(
                    LEASE, "Lease", self._lock.name, self._lock.namespace, merge={"metadata": based, "spec": free}
                )
        except (ApiError, TimeoutError) as error:
            log.warning("the lease %s/%s could not be given back: %s", self._lock.namespace, self._lock.name, error)

    async def _attempt(self, deadline: float) -> bool:
        """One attempt to take or renew; a failure of any kind is False."""
        loop = asyncio.get_running_loop()
        try:
            # Two attempts fit into a deadline, so that one request that hangs doesn't cost the lease.
            async with asyncio.timeout_at(min(deadline, loop.time() + self._timing.renew_deadline / 2)):
                return await self._election.try_acquire_or_renew()
        except TimeoutError:
            log.warning("an attempt to renew the lease %s took too long", self._lock.name)
            return False

    def _pause(self) -> float:
        return self._timing.retry * (1 + 0.2 * random.random())


class _Lock(LeaseLock):
    """The package's, with failures told as it understands them, and its times mended."""

    def __init__(self, cluster: KubeCluster, name: str, namespace: str, identity: str, timing: LeaseTiming) -> None:
        super().__init__(name, namespace, identity, cluster.transport.client)
        self._duration = timing.duration
        self._seen: Any = None
        self._seen_at = 0.0
        self.holder = ""
        """As last read."""

    async def get(self, name: str, namespace: str) -> tuple[bool, LeaderElectionRecord] | tuple[bool, Exception] | tuple[bool, None]:
        try:
            lease = await self.api_instance.read_namespaced_lease(name, namespace)
        except ApiException as error:
            return False, error
        except (aiohttp.ClientError, OSError, ConfigException) as error:
            return False, ApiException(status=0, reason=str(error) or type(error).__name__)
        self.lease_reference = lease
        spec = lease.spec or V1LeaseSpec()
        seen = (spec.holder_identity, spec.renew_time, spec.acquire_time)
        if seen != self._seen:
            self._seen, self._seen_at = seen, asyncio.get_running_loop().time()
        self.holder = spec.holder_identity or ""
        return True, self.election_record(lease)

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        try:
            return await super().create(name, namespace, election_record)
        except (aiohttp.ClientError, OSError, ConfigException) as error:
            log.warning("the lease %s/%s could not be created: %s", namespace, name, error)
            return False

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        alive = asyncio.get_running_loop().time() - self._seen_at < self._duration
        if self.lease_reference is None or (self.holder not in ("", self.identity) and alive):
            return False
        self.lease_reference.spec = self.update_lease(updated_record, self.lease_reference.spec)
        try:
            await self.api_instance.replace_namespaced_lease(name=name, namespace=namespace, body=self.lease_reference)
        except ApiException as error:
            if error.status != 409:  # somebody else was faster, as happens
                log.warning("the lease %s/%s could not be updated: %s", namespace, name, error.reason)
            return False
        except (aiohttp.ClientError, OSError, ConfigException) as error:
            log.warning("the lease %s/%s could not be updated: %s", namespace, name, error)
            return False
        self.holder = self.identity
        return True

    def update_lease(self, leader_election_record: LeaderElectionRecord, current_spec: V1LeaseSpec | None = None) -> V1LeaseSpec:
        spec: Any = current_spec or V1LeaseSpec()  # any, since times are texts here: the package would leave out microseconds of 0
        renewal = spec.holder_identity == self.identity and spec.acquire_time is not None
        now = datetime.now(UTC)
        spec.acquire_time = _micro_time(spec.acquire_time if renewal else now)
        spec.renew_time = _micro_time(now)
        spec.holder_identity = self.identity
        spec.lease_duration_seconds = self._duration
        if not renewal:
            spec.lease_transitions = (spec.lease_transitions or 0) + (0 if current_spec is None else 1)
        return cast("V1LeaseSpec", spec)


async def _nothing() -> None:
    """What the package's own loop would run, which we don't."""


def _micro_time(moment: datetime) -> str:
    """As metav1.MicroTime is read: always six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
