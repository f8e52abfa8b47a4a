"""The operator's process, given to kopf: start, stop, signals, credentials, liveness.

It decides nothing: :mod:`virt_dra.controllers.operator.instance_loop` does, which this module gives a cluster, a clock,
an election and metrics. Why kopf watches no objects: docs/decisions/0012-real-cluster.md.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import kopf
from aiohttp import web

from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.leader import LeaseTiming, lead
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.operator.explanation_process import ProcessExplanationWorker
from virt_dra.operator.metrics import CONTENT_TYPE, OperatorMetrics

log = logging.getLogger("virt_dra.operator")

STOP_SECONDS: Final = 10.0
"""What is in work at SIGTERM has so long to be done; then it is left to the next replica."""
_RELEASE_SECONDS: Final = 3.0
"""For giving back the Lease."""
_KILLED_SECONDS: Final = 25.0
"""After so long kopf ends the process whatever holds it up: less than the pod's terminationGracePeriodSeconds."""
_LIMITS: Final = ClientLimits(qps=400.0, burst=800)
"""A VM that starts costs four writes; 50 of them a second must not wait for us."""
_TIMING: Final = LeaseTiming()
_CHATTY: Final = ("kopf.activities", "kopf._core.engines.activities", "kopf._core.reactor.running", "aiohttp.access")
"""Loggers that say something about every probe and every step of kopf's life."""


@dataclass(frozen=True)
class OperatorProcess:
    """How the process runs. ``lease``: of the election, in ``namespace``; None: lead without one.

    ``/metrics`` and ``/readyz`` are answered on ``plain_port``, ``/healthz`` on ``health_port``. ``stuck_seconds``: one look at a VMI that
    takes longer fails ``/healthz``, so that the process is started anew.
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
    """What should run for ever has ended: a lease that was lost, or a fault of the program (then with a cause)."""


async def operate(process: OperatorProcess, settings: LoopSettings) -> None:
    """Run the operator until SIGTERM or SIGINT. Raises :class:`ConnectionProblem`, OSError for ports, :class:`OperatorFailed`."""
    for name in _CHATTY if logging.getLogger().level == logging.INFO else ():
        logging.getLogger(name).setLevel(logging.WARNING)
    metrics = OperatorMetrics()
    async with connect(process.kubeconfig, process.context, limits=_LIMITS, observer=metrics) as cluster:
        clock = cluster.transport.clock
        loop = InstanceLoop(cluster, settings, clock, metrics, ProcessExplanationWorker(), clock.began)
        metrics.count(loop)
        async with _plain_server(process, loop, metrics):
            background = _Background(process, cluster, loop, metrics)
            try:
                await kopf.operator(
                    registry=_registry(process, cluster, loop, background),
                    settings=_kopf_settings(),
                    standalone=True,  # the election is by Lease, not by kopf's peering, which leaves a moment with two leaders
                    clusterwide=True,
                    liveness_endpoint=f"http://{_bracketed(process.host)}:{process.health_port}/healthz",
                    stop_flag=background.ended,
                )
            except aiohttp.ClientError as error:  # some are OSErrors, which ours are about ports
                raise OperatorFailed(f"the API server can't be asked what it serves: {error}") from error
    if background.failure is not None:
        raise OperatorFailed(_said(background.failure)) from background.failure
    log.info("stopped", extra={"fields": {"identity": process.identity}})


def _said(failure: BaseException) -> str:
    """An exception's text, of the first where it is a group."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return str(failure) or type(failure).__name__


def _bracketed(host: str) -> str:
    """As an address stands in a URL."""
    return f"[{host}]" if ":" in host else host


class _Background:
    """The tasks that run as long as the process: informers always, workers while this replica leads."""

    def __init__(self, process: OperatorProcess, cluster: KubeCluster, loop: InstanceLoop, metrics: OperatorMetrics) -> None:
        self._process, self._cluster, self._loop, self._metrics = process, cluster, loop, metrics
        self._led = False
        self.ended = asyncio.Event()
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._informers = asyncio.create_task(self._loop.follow(), name="informers")
        self._workers = asyncio.create_task(self._lead(), name="workers")
        for task in (self._informers, self._workers):
            task.add_done_callback(self._noticed)
        self._collector = asyncio.create_task(self._spare_the_collector(), name="collector")

    async def stop(self) -> None:
        """Workers finish what they are at, with informers to see what came of it; then the Lease is given back."""
        log.info("stopping", extra={"fields": {"identity": self._process.identity}})
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._loop.stop()
        except TimeoutError:
            log.warning("what is in work isn't done after %.0f s and is left to the next replica", STOP_SECONDS)
        if self._led:
            await asyncio.wait({self._workers}, timeout=_RELEASE_SECONDS)
        for task in (self._collector, self._workers, self._informers):
            task.cancel()
            await asyncio.wait({task})

    async def _spare_the_collector(self) -> None:
        """What is known of a large cluster stays; going through it again and again would hold up everything for half a second each time."""
        await self._loop.settled()
        gc.collect()
        gc.freeze()

    async def _lead(self) -> None:
        process = self._process
        if process.lease is None:
            self._leading(True)
            await self._loop.work()
            return
        await lead(
            self._cluster, process.lease, process.namespace, process.identity, self._loop.work,
            timing=process.timing, leading=self._leading,
        )  # fmt: skip

    def _leading(self, leads: bool) -> None:
        self._led = self._led or leads
        self._metrics.leading(leads)

    def _noticed(self, task: asyncio.Task[None]) -> None:
        """What runs for ever has ended: a fault, which ends the process, unless it was to end."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("%s ended: %s", task.get_name(), _said(error), exc_info=error)
        if not task.cancelled() and not self._loop.stopping:
            self.failure = self.failure or error or RuntimeError(f"{task.get_name()} ended")
        self.ended.set()


def _registry(process: OperatorProcess, cluster: KubeCluster, loop: InstanceLoop, background: _Background) -> kopf.OperatorRegistry:
    """kopf's handlers."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        """As our own client does it, so that --kubeconfig and --context count for both."""
        found = await cluster.credentials()
        return kopf.ConnectionInfo(
            server=found.server,
            insecure=not found.verify,
            ca_path=found.ca_file,
            certificate_path=found.certificate_file,
            private_key_path=found.key_file,
            scheme="Bearer" if found.token else None,
            token=found.token,
        )

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        background.start()
        log.info("following the cluster", extra={"fields": {"server": cluster.transport.server, "identity": process.identity}})

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await background.stop()

    @kopf.on.probe(id="longestReconcileSeconds", registry=registry)
    async def stuck(**_: Any) -> float:
        longest = loop.longest_work()
        if longest > process.stuck_seconds:
            raise kopf.PermanentError(f"one VMI has been worked on for {longest:.0f} s")
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
    """Seconds between kopf's attempts to ask the API server what it serves. As a list it would end, and the process with it."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1, 2, 3, 5, 8), itertools.repeat(13))


@asynccontextmanager
async def _plain_server(process: OperatorProcess, loop: InstanceLoop, metrics: OperatorMetrics) -> AsyncIterator[None]:
    """``/metrics``, and ``/readyz``: all informers know their kinds."""

    async def show_metrics(request: web.Request) -> web.Response:
        return web.Response(body=metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def ready(request: web.Request) -> web.Response:
        missing = loop.unsynced()
        return web.Response(text=f"waiting for {'; '.join(missing)}\n", status=503) if missing else web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", show_metrics), web.get("/readyz", ready)])
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, process.host, process.plain_port).start()
        yield
    finally:
        await runner.cleanup()
