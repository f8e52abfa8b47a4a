"""One of several processes leads: it holds a Lease and renews it. (Why not kubernetes.aio.leaderelection: it creates no
Lease, could leave two leaders, times others' leases by the wall clock, and gives none back.)

Why there are never two: others may take a Lease ``duration`` seconds after they saw its last renewal, by a clock that
can't be set; we stop ``renew_deadline`` seconds after the *beginning* of the last renewal that succeeded, which is
before anybody can have seen it. A process that stood still and wakes up later than that sends no write: the transport
asks before each. What it had sent before is bounded by resourceVersions.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.kube.raw import RawObjects
from virt_dra.cluster.kube.transport import Transport
from virt_dra.cluster.port import AlreadyExists, ApiError, Conflict, NotFound
from virt_dra.cluster.watching.backoff import backoff

log = logging.getLogger(__name__)

LEASE = "coordination.k8s.io/v1"
_SILENT = "no answer in time"


class LeadershipLost(Exception):
    """The lease could not be renewed, or another process acquired it. The work was cancelled; restart the process."""


@dataclass(frozen=True)
class LeaseTiming:
    """Seconds, as kube-scheduler's; ``duration - renew_deadline`` is what the work has to stop. Raises ValueError."""

    duration: int = 15
    """After so long without a renewal others may take the lease. Whole seconds, as a Lease has them."""
    renew_deadline: float = 10
    """After so long without a renewal the leader stops."""
    retry: float = 2
    """Between two attempts (up to a fifth more, by chance)."""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > 1.2 * self.retry > 0:
            raise ValueError(
                f"a lease's duration ({self.duration} s) must be longer than its renew deadline ({self.renew_deadline} "
                f"s), and that longer than 1.2 times the pause between attempts ({self.retry} s)"
            )


async def lead(
    cluster: KubeCluster, name: str, namespace: str, identity: str, run: Callable[[], Awaitable[None]], *,
    timing: LeaseTiming = LeaseTiming(), leading: Callable[[bool], None] | None = None,
) -> None:  # fmt: skip
    """Waits for the lease, then does ``run`` while it is ours. Returns when ``run`` does, and raises what it raises;
    the lease is then free at once, as after a cancellation (which cancels ``run`` and waits for it). Raises
    :class:`LeadershipLost`.

    ``identity`` must be another in every process. ``leading`` is called with True and False when leadership begins and
    ends. The Lease has a rate limit of its own. From now on ``cluster`` writes only while the Lease is ours
    (:class:`~virt_dra.cluster.kube.transport.NotWriting`).
    """
    candidate = _Candidate(cluster, name, namespace, identity, timing)
    cluster.transport.may_write = candidate.holds
    try:
        renewed = await candidate.acquired()
    except asyncio.CancelledError:
        await candidate.disown()
        raise
    log.info("%s leads: it holds the lease %s/%s", identity, namespace, name)
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


def may_take(spec: Mapping[str, Any], identity: str, unchanged: float, duration: float) -> bool:
    """Whether a Lease may be taken or renewed, seen unchanged for so many seconds: it is free, ours, or ran out by what
    its holder promised (``duration`` where it promised nothing)."""
    holder = spec.get("holderIdentity") or ""
    promised = spec.get("leaseDurationSeconds")
    return holder in ("", identity) or unchanged >= (
        promised if isinstance(promised, int) and promised > 0 else duration
    )


def taken(spec: Mapping[str, Any], identity: str, duration: int, now: datetime) -> Json:
    """The Lease's spec when we take or renew it at a time. Fields we don't know stay."""
    ours = spec.get("holderIdentity") == identity
    return {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": duration,
        "renewTime": _micro_time(now),
        "acquireTime": spec.get("acquireTime") if ours and spec.get("acquireTime") else _micro_time(now),
        "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if ours else 1),
    }


class _Candidate:
    def __init__(self, cluster: KubeCluster, name: str, namespace: str, identity: str, timing: LeaseTiming) -> None:
        used = cluster.transport
        # Two attempts fit into a deadline, so that one request that hangs doesn't cost the lease.
        limits = ClientLimits(
            qps=0, timeout=timing.renew_deadline / 2, connect_timeout=timing.renew_deadline / 2, attempts=1
        )
        self._objects = RawObjects(Transport(used.connections, limits, used.observer, clock=used.clock))
        self._clock = used.clock
        """The API server's time, for who reads the Lease: nobody here decides by it."""
        self._name, self._namespace, self._identity, self._timing = name, namespace, identity, timing
        self._lease: Json | None = None
        """The Lease as last read or written."""
        self._seen_version = ""
        self._seen_at = 0.0
        self._ours_until = 0.0
        """By the loop's clock."""
        self._lasts_until = 0.0
        """From then on others may take the Lease that is still in our name."""

    def holds(self) -> bool:
        """Whether the lease is ours for certain at this moment."""
        return asyncio.get_running_loop().time() < self._ours_until

    async def acquired(self) -> float:
        """The time (by the loop's clock) at which the successful attempt to take the lease began."""
        while True:
            began = asyncio.get_running_loop().time()
            deadline = began + self._timing.renew_deadline
            if await self._attempt(deadline):
                self._ours_until, self._lasts_until = deadline, began + self._timing.duration
                return began
            await asyncio.sleep(self._pause())

    async def hold(self, work: asyncio.Future[None], renewed: float) -> None:
        """Renew the lease until the work is done. Raises :class:`LeadershipLost`."""
        loop = asyncio.get_running_loop()
        while True:
            deadline = renewed + self._timing.renew_deadline
            await asyncio.wait({work}, timeout=min(self._pause(), max(deadline - loop.time(), 0)))
            if work.done():
                return
            began = loop.time()
            if began < deadline and await self._attempt(deadline):
                renewed = began
                self._ours_until = began + self._timing.renew_deadline
                self._lasts_until = began + self._timing.duration
            elif self._holder() not in ("", self._identity):
                raise LeadershipLost(f"{self._holder()} has taken the lease {self._namespace}/{self._name}")
            elif loop.time() >= deadline:
                why = f"could not be renewed for {self._timing.renew_deadline:g} s"
                raise LeadershipLost(f"the lease {self._namespace}/{self._name} {why}")

    async def release(self) -> None:
        """Release the Lease if it is still ours, trying again for as long as it would last otherwise: an API server
        under load refuses or loses what it does a moment later. A failure is only logged."""
        await self._given_back(self._lasts_until)

    async def disown(self) -> None:
        """Release the Lease that a cancelled attempt may have acquired."""
        self._lease = None
        await self._given_back(asyncio.get_running_loop().time() + self._timing.retry)

    async def _given_back(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._ours_until = 0.0
        attempt = 0
        while True:
            attempt += 1
            try:
                async with asyncio.timeout_at(deadline):
                    await self._freed()
                return
            except NotFound:
                return
            except (ApiError, TimeoutError) as error:
                # The answer may be lost and the Lease be free already, so it is read again.
                self._lease = None
                asked_for = error.retry_after if isinstance(error, ApiError) else None
                pause = max(asked_for or 0.0, backoff(attempt, random.random(), first=0.1, longest=1.0))
                if loop.time() + pause < deadline:
                    await asyncio.sleep(pause)
                    continue
                log.warning(
                    "the lease %s/%s could not be given back: %s", self._namespace, self._name, str(error) or _SILENT
                )
                return

    async def _freed(self) -> None:
        if self._lease is None:
            self._lease = await self._objects.get_raw(LEASE, "Lease", self._name, self._namespace)
        if self._holder() != self._identity:
            return
        free = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _micro_time(self._clock())}
        await self._objects.update_raw({**self._lease, "spec": {**self._lease["spec"], **free}})

    async def _attempt(self, deadline: float) -> bool:
        """One attempt to take or renew, which ends at the deadline; a failure of any kind is False."""
        try:
            async with asyncio.timeout_at(deadline):
                try:
                    return await self._taken()
                except (Conflict, NotFound):  # it was written or removed since we last read it
                    self._lease = None
                    return await self._taken()
        except (ApiError, TimeoutError) as error:
            log.warning(
                "the lease %s/%s could not be taken or renewed: %s", self._namespace, self._name, str(error) or _SILENT
            )
            return False

    async def _taken(self) -> bool:
        if self._lease is None or self._holder() != self._identity:
            try:
                self._lease = await self._objects.get_raw(LEASE, "Lease", self._name, self._namespace)
            except NotFound:
                return await self._created()
        now = asyncio.get_running_loop().time()
        version = self._lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, now
        spec = self._lease.get("spec") or {}
        if not may_take(spec, self._identity, now - self._seen_at, self._timing.duration):
            return False
        new = taken(spec, self._identity, self._timing.duration, self._clock())
        self._lease = await self._objects.update_raw({**self._lease, "spec": new})
        return True

    async def _created(self) -> bool:
        spec = {**taken({}, self._identity, self._timing.duration, self._clock()), "leaseTransitions": 0}
        meta = {"name": self._name, "namespace": self._namespace}
        try:
            self._lease = await self._objects.create_raw(
                {"apiVersion": LEASE, "kind": "Lease", "metadata": meta, "spec": spec}
            )
        except AlreadyExists:
            return False
        return True

    def _holder(self) -> str:
        return str(((self._lease or {}).get("spec") or {}).get("holderIdentity") or "")

    def _pause(self) -> float:
        return self._timing.retry * (1 + 0.2 * random.random())


def _micro_time(moment: datetime) -> str:
    """As metav1.MicroTime is read: always six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
