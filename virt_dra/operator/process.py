"""The process of a controller, run by kopf: start, stop, signals, credentials, probes. The operator and the keeper are
such processes.

It decides nothing: it gives a loop (:mod:`virt_dra.controllers.keyed_loop`) a cluster, a clock, leader election and
metrics. Why kopf watches no objects: docs/decisions/0012-real-cluster.md.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import aiohttp
import kopf
from aiohttp import web
from kopf._core.engines import peering

from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.leader import LeaseTiming, lead
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.controllers.keeping.loop import KeeperSettings, KeepingLoop
from virt_dra.controllers.keyed_loop import Ambient, KeyedLoop
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.operator.explanation_process import ProcessExplanationWorker
from virt_dra.operator.keeper_metrics import KeeperMetrics
from virt_dra.operator.metrics import CONTENT_TYPE, OperatorMetrics, ProcessMetrics

log = logging.getLogger("virt_dra.operator")

STOP_SECONDS: Final = 10.0
"""How long reconciles that are in progress at SIGTERM may take; then they are left to the next replica."""
_RELEASE_SECONDS: Final = 12.0
"""For releasing the Lease, which may take several attempts."""
_KILLED_SECONDS: Final = 25.0
"""After so long kopf kills the process: less than the pod's terminationGracePeriodSeconds."""
_LIMITS: Final = ClientLimits(qps=2000.0, burst=4000)
"""Starting a VM takes four writes; neither 50 VMs a second nor a restart over 5,000 VMIs may be throttled. What
protects the API server are its own flow control and our number of workers."""
_TIMING: Final = LeaseTiming()
_CHATTY: Final = ("kopf.activities", "kopf._core.engines.activities", "kopf._core.reactor.running", "aiohttp.access")
"""Loggers that log every probe and every step of kopf's."""


@dataclass(frozen=True)
class OperatorProcess:
    """Settings of the process. ``lease``: the Lease in ``namespace`` that elects the leader; None to lead without an
    election.

    ``/metrics`` and ``/readyz`` are served on ``plain_port``, ``/healthz`` on ``health_port``. ``stuck_seconds``: a
    reconcile that takes longer fails ``/healthz``, so that the kubelet restarts the process.
    """

    identity: str
    namespace: str = "virt-dra"
    lease: str | None = "virt-dra-operator"
    timing: LeaseTiming = _TIMING
    host: str = "0.0.0.0"
    plain_port: int = 8080
    health_port: int = 8081
    stuck_seconds: float = 300.0
    kubeconfig: str | None = None
    context: str | None = None


class OperatorFailed(Exception):
    """A task that should run for ever has ended: the Lease was lost, or there is a bug, which is the cause."""


async def operate(process: OperatorProcess, settings: LoopSettings) -> None:
    """Run the operator. Raises as :func:`run_loop`."""
    metrics = OperatorMetrics()

    def instance_loop(cluster: KubeCluster, ambient: Ambient) -> InstanceLoop:
        loop = InstanceLoop(cluster, settings, ambient, metrics, ProcessExplanationWorker(observer=metrics))
        metrics.count(loop)
        return loop

    await run_loop(process, metrics, instance_loop)


async def keep(process: OperatorProcess, settings: KeeperSettings) -> None:
    """Run the keeper. Raises as :func:`run_loop`."""
    metrics = KeeperMetrics()

    def keeping_loop(cluster: KubeCluster, ambient: Ambient) -> KeepingLoop:
        loop = KeepingLoop(cluster, settings, ambient, metrics)
        metrics.count(loop)
        return loop

    await run_loop(process, metrics, keeping_loop)


async def run_loop(
    process: OperatorProcess, metrics: ProcessMetrics, make_loop: Callable[[KubeCluster, Ambient], KeyedLoop]
) -> None:
    """Run a loop until SIGTERM or SIGINT. Raises :class:`ConnectionProblem`, OSError for ports,
    :class:`OperatorFailed`."""
    for name in _CHATTY if logging.getLogger().level == logging.INFO else ():
        logging.getLogger(name).setLevel(logging.WARNING)
    async with connect(process.kubeconfig, process.context, limits=_LIMITS, observer=metrics) as cluster:
        clock = cluster.transport.clock
        ambient = Ambient(clock, time.monotonic, random.random, lambda: uuid4().hex[:16], clock.count_from)
        loop = make_loop(cluster, ambient)
        host = f"[{process.host}]" if ":" in process.host else process.host  # as a URL has it
        async with _plain_server(process, loop, metrics):
            background = _Background(process, cluster, loop, metrics)
            try:
                await kopf.operator(
                    registry=_registry(process, cluster, loop, background),
                    settings=_kopf_settings(),
                    # Its own would have the name of the system's user, which a container's user needn't have.
                    identity=peering.Identity(process.identity),
                    # the election is by Lease, not by kopf's peering, which leaves a moment with two leaders
                    standalone=True,
                    clusterwide=True,
                    liveness_endpoint=f"http://{host}:{process.health_port}/healthz",
                    stop_flag=background.ended,
                )
            except aiohttp.ClientError as error:  # some are OSErrors, which our callers take for faults of ports
                raise OperatorFailed(f"the API server's discovery failed: {error}") from error
    if background.failure is not None:
        raise OperatorFailed(_said(background.failure)) from background.failure
    log.info("stopped", extra={"fields": {"identity": process.identity}})


def _said(failure: BaseException) -> str:
    """The text of an exception, or of the first in a group."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return str(failure) or type(failure).__name__


class _Background:
    """The tasks that run as long as the process: informers always, workers while this replica leads."""

    def __init__(
        self, process: OperatorProcess, cluster: KubeCluster, loop: KeyedLoop, metrics: ProcessMetrics
    ) -> None:
        self._process, self._cluster, self._loop, self._metrics = process, cluster, loop, metrics
        self._led = False
        self.ended = asyncio.Event()
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._informers = asyncio.create_task(self._loop.run_informers(), name="informers")
        self._workers = asyncio.create_task(self._lead(), name="workers")
        for task in (self._informers, self._workers):
            task.add_done_callback(self._task_ended)
        self._collector = asyncio.create_task(self._freeze_stores(), name="collector")

    async def stop(self) -> None:
        """Stop the workers, then release the Lease, then stop the informers, so that the last reconciles see their own
        writes."""
        log.info("stopping", extra={"fields": {"identity": self._process.identity}})
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._loop.stop()
        except TimeoutError:
            log.warning("reconciles are still running after %.0f s and are left to the next replica", STOP_SECONDS)
            self._workers.cancel()  # which ends with the Lease's release
        if self._led:
            await asyncio.wait({self._workers}, timeout=_RELEASE_SECONDS)
        for task in (self._collector, self._workers, self._informers):
            task.cancel()
            await asyncio.wait({task})

    async def _freeze_stores(self) -> None:
        """Exempt the informers' stores from garbage collection, which would pause the process for half a second each
        time."""
        await self._loop.until_idle()
        gc.collect()
        gc.freeze()

    async def _lead(self) -> None:
        process = self._process
        if process.lease is None:
            self._leading(True)
            await self._loop.run_workers()
            return
        await lead(
            self._cluster, process.lease, process.namespace, process.identity, self._loop.run_workers,
            timing=process.timing, leading=self._leading,
        )  # fmt: skip

    def _leading(self, leads: bool) -> None:
        self._led = self._led or leads
        self._metrics.leading(leads)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """End the process when one of its tasks ends; that is a failure unless the process is stopping."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s ended: %s", task.get_name(), _said(error), exc_info=error)
        if not task.cancelled() and not self._loop.stopping:
            self.failure = self.failure or error or RuntimeError(f"{task.get_name()} ended")
        self.ended.set()


def _registry(
    process: OperatorProcess, cluster: KubeCluster, loop: KeyedLoop, background: _Background
) -> kopf.OperatorRegistry:
    """kopf's handlers."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        """Our client's credentials, so that --kubeconfig and --context apply to kopf, too."""
        credentials = await cluster.credentials()
        return kopf.ConnectionInfo(
            server=credentials.server,
            insecure=not credentials.verify,
            ca_path=credentials.ca_file,
            certificate_path=credentials.certificate_file,
            private_key_path=credentials.key_file,
            scheme="Bearer" if credentials.token else None,
            token=credentials.token,
        )

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        background.start()
        log.info(
            "watching the cluster", extra={"fields": {"server": cluster.transport.server, "identity": process.identity}}
        )

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await background.stop()

    @kopf.on.probe(id="longestReconcileSeconds", registry=registry)
    async def stuck(**_: Any) -> float:
        longest = loop.oldest_reconcile_age()
        if longest > process.stuck_seconds:
            raise kopf.PermanentError(f"one reconcile has been running for {longest:.0f} s")
        return round(longest, 1)

    return registry


def _kopf_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # events are written by the controllers, with rates and aggregation
    settings.scanning.disabled = True  # it watches nothing
    settings.process.ultimate_exiting_timeout = _KILLED_SECONDS
    settings.networking.error_backoffs = _ForEver()
    return settings


class _ForEver:
    """Seconds between kopf's attempts at discovery. A list would end, and the process with it."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1, 2, 3, 5, 8), itertools.repeat(13))


@asynccontextmanager
async def _plain_server(process: OperatorProcess, loop: KeyedLoop, metrics: ProcessMetrics) -> AsyncIterator[None]:
    """Serve ``/metrics``, and ``/readyz``, which is 200 once all informers have synced."""

    async def show_metrics(request: web.Request) -> web.Response:
        return web.Response(body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def ready(request: web.Request) -> web.Response:
        missing = loop.unsynced()
        text = f"waiting for {'; '.join(missing)}" if missing else "ok"
        return web.Response(text=f"{text}\n", status=503 if missing else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", show_metrics), web.get("/readyz", ready)])
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, process.host, process.plain_port).start()
        yield
    finally:
        await runner.cleanup()
