"""The HTTPS server of the admission webhooks: it reads, limits, logs, counts and answers; :mod:`webhooks.validation`
has the verdicts.

    POST /validate-vmi, /validate-vm,   AdmissionReview v1 in, AdmissionReview v1 out; without a verdict, a metav1
         /mutate-vmi,                   Status with its HTTP code
         /mutate-launcher-pod
    GET  /healthz                       ok while the process runs
    GET  /readyz                        ok if it knows the cluster, and isn't shutting down
    GET  /metrics                       on the plain port only

Replicas share nothing. Why it is built like this: docs/decisions/0011-webhook-server.md.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from virt_dra.api.persistent_map import PersistentMap
from virt_dra.matching.published_slice import PublishedSlice
from webhooks.knowledge import Knowledge
from webhooks.review import BadReview, Review, failure
from webhooks.server.bodies import Bodies, ReceivedBody
from webhooks.server.callers import Callers
from webhooks.server.connection_table import ConnectionPhase, Standing
from webhooks.server.connections import ConnectionLimits, Connections
from webhooks.server.deciding import Deciding, encoded
from webhooks.server.log import LOGGER, Repeats
from webhooks.server.metrics import CONTENT_TYPE, Metrics
from webhooks.server.quiet_logger import QuietLogger
from webhooks.tls.reloading import CertificateError, ReloadingTls
from webhooks.validation import WEBHOOKS, Webhook
from webhooks.verdict import Verdict
from webhooks.worker.parent import Worker, WorkerLimits

_TIMEOUT = re.compile(r"(\d{1,4})s")
_MARGIN: Final = 0.5
"""Seconds by which an answer comes before the API server gives up."""
_HANG_UP_AFTER: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
)
"""Status codes after which the rest of the request isn't read."""
_HANG_UP_SECONDS: Final = 1.0
"""Timeout of closing a connection."""


KnowledgeSource = Callable[[], Knowledge | None]
"""Returns the current state; None as long as there is none."""


@dataclass(frozen=True)
class ServerLimits:
    """Limits of requests and connections.

    ``body_bytes``: of one request. ``buffered_bytes``: of all requests that are being read or decided. ``seconds``: for
    one answer, less if the API server's timeout is shorter. ``head_seconds``: until the first request of a connection
    has arrived. ``idle_seconds``: a connection without requests; more than the 90 s after which Kubernetes' client
    closes it, so that the server never closes one that is about to be used. ``connections_per_address``,
    ``connections_reserved``: as :class:`ConnectionLimits` has them.
    """

    body_bytes: int = 3 * 1024 * 1024
    buffered_bytes: int = 64 * 1024 * 1024
    seconds: float = 8.0
    head_seconds: float = 10.0
    idle_seconds: float = 120.0
    connections: int = 1000
    connections_per_address: int = 250
    connections_reserved: int = 100

    def of_listener(self, *, encrypted: bool) -> ConnectionLimits:
        reserved = min(self.connections_reserved, self.connections // 10) if encrypted else 0
        per_address = min(self.connections_per_address, self.connections - reserved)
        return ConnectionLimits(self.connections, per_address, reserved, head_seconds=self.head_seconds)


class WebhookServer:
    """One server. :meth:`start` opens its ports, :meth:`stop` closes them without losing a request."""

    def __init__(
        self,
        knowledge: KnowledgeSource,
        tls: ReloadingTls,
        metrics: Metrics | None = None,
        limits: ServerLimits | None = None,
        callers: Callers | None = None,
        evaluation: WorkerLimits | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._knowledge = knowledge
        self._tls = tls
        self._limits = limits or ServerLimits()
        self.callers = callers or Callers()
        self._log = logging.getLogger(LOGGER)
        self._repeats = Repeats(time.monotonic)
        self._worker = Worker(self._slices, evaluation, observer=self.metrics, log=self._log)
        self._evaluation = AsyncExitStack()
        self._deciding = Deciding(self._worker, (evaluation or WorkerLimits()).seconds, self.metrics)
        self._bodies = Bodies(self._limits.body_bytes, self._limits.buffered_bytes)
        self._draining = False
        self._in_flight = 0
        self._servers: list[web.Server] = []
        self._connections: list[Connections] = []

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int, plain_port: int | None = None) -> tuple[int, int | None]:
        """Listen for reviews with TLS, and for probes and metrics without if ``plain_port`` is given. Returns the
        ports, chosen for 0.

        Raises OSError if a port is in use.
        """
        self.metrics.certificate_expiry.set(self._tls.expires.timestamp())
        self.metrics.callers_mode.labels(self.callers.unverified).set(1)
        await self._evaluation.enter_async_context(self._worker.running())
        reviews = await self._listen(self._reviews, host, port, encrypted=True)
        plain = await self._listen(self._probes, host, plain_port, encrypted=False) if plain_port is not None else None
        return reviews, plain

    async def stop(self, announce_seconds: float) -> None:
        """Shut down: unready from now on, and each answer asks its client to close the connection; after
        ``announce_seconds`` without new connections; then every request that has begun is answered."""
        self._draining = True
        fields = {"inFlight": self._in_flight, "announceSeconds": announce_seconds}
        self._log.info("shutting down", extra={"fields": fields})
        await asyncio.sleep(announce_seconds)
        for connections in self._connections:
            await connections.stop_listening()
        # aiohttp's own shutdown comes last: it no longer reads what is left of a request that is being received.
        seconds = self._limits.seconds + _HANG_UP_SECONDS
        await asyncio.gather(*(connections.end(seconds) for connections in self._connections))
        for server in self._servers:
            await server.shutdown(_HANG_UP_SECONDS)
        self._deciding.close()
        await self._evaluation.aclose()
        self._log.info("stopped")

    async def keep_certificate(self, every_seconds: float) -> None:
        """Reload the certificate every so many seconds, forever."""
        reported = ""
        trusted = self._tls.client_ca_changes
        while True:
            await asyncio.sleep(every_seconds)
            try:
                changed = await asyncio.to_thread(self._tls.reload)
            except CertificateError as error:
                self.metrics.certificate_reloads.labels("failed").inc()
                if str(error) != reported:
                    extra = {"fields": {"reason": str(error)}}
                    self._log.error("certificate not reloaded, the one in service stays", extra=extra)
                reported = str(error)
                continue
            reported = ""
            if changed:
                self.metrics.certificate_reloads.labels("loaded").inc()
                self.metrics.certificate_expiry.set(self._tls.expires.timestamp())
                self._log.info("certificate reloaded", extra={"fields": {"expires": self._tls.expires.isoformat()}})
            if trusted != self._tls.client_ca_changes:
                trusted = self._tls.client_ca_changes
                # Clients that were verified by the previous authorities must be verified again.
                for connections in self._connections:
                    connections.retire()
                self._log.info("authorities of client certificates changed", extra={"fields": {}})

    @property
    def ready(self) -> bool:
        """True if /readyz answers ok."""
        return self.unready is None

    @property
    def unready(self) -> str | None:
        """Why the server is unready; None if it isn't."""
        if self._draining:
            return "shutting down"
        knowledge = self._knowledge()
        if knowledge is None:
            return "the cluster's state isn't known yet"
        if knowledge.slices is not None and not self._worker.filled:
            return "the process that evaluates selectors is being started"
        return None

    def _slices(self) -> PersistentMap[str, PublishedSlice] | None:
        """The slices on which selectors are evaluated."""
        knowledge = self._knowledge()
        return knowledge.slices if knowledge is not None else None

    async def _listen(
        self, handler: Callable[[web.BaseRequest], object], host: str, port: int, *, encrypted: bool
    ) -> int:
        server = web.Server(
            handler,  # type: ignore[arg-type] # a coroutine function; aiohttp's own alias can't be named
            access_log=None,
            auto_decompress=False,  # a small body must not become a large one
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=1.0,
            logger=QuietLogger(self._log, self._repeats),
        )
        limits = self._limits.of_listener(encrypted=encrypted)
        connections = Connections(server, self.metrics, limits, self._is_verified)
        self._servers.append(server)
        self._connections.append(connections)
        return await connections.listen(host, port, self._tls.context if encrypted else None)

    def _is_verified(self, peer: Mapping[str, Any]) -> bool:
        try:
            return self.callers.verified(peer, datetime.now(UTC))
        except BadReview:
            return False

    # --- requests -------------------------------------------------------------------------------------------------

    async def _reviews(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._answering(request):
            webhook = WEBHOOKS.get(request.path)
            if webhook is None:
                return self._closing(request, self._health(request, {}))
            return self._closing(request, await self._reviewed(webhook, request))

    async def _probes(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._answering(request):
            return self._closing(request, self._health(request, {"/metrics": self._metrics}))

    @contextmanager
    def _answering(self, request: web.BaseRequest) -> Iterator[None]:
        protocol = request.protocol
        for connections in self._connections:
            connections.asked(protocol)
        self._in_flight += 1
        self.metrics.in_flight.set(self._in_flight)
        try:
            yield
        finally:
            if not self._draining:  # else aiohttp closes the connection when the answer is sent
                for connections in self._connections:
                    connections.change(protocol, ConnectionPhase.WAITING)
            self._in_flight -= 1
            self.metrics.in_flight.set(self._in_flight)

    def _closing(self, request: web.BaseRequest, response: web.Response) -> web.Response:
        retired = any(connections.is_retired(request.protocol) for connections in self._connections)
        if self._draining or retired or response.status in _HANG_UP_AFTER:
            response.force_close()
        return response

    def _health(self, request: web.BaseRequest, more: dict[str, Callable[[], web.Response]]) -> web.Response:
        pages = {"/healthz": lambda: web.Response(text="ok\n"), "/readyz": self._readiness, **more}
        page = pages.get(request.path)
        if page is None:
            paths = ", ".join([*WEBHOOKS, *pages])
            return self._failed(BadReview(404, "NotFound", f"there is nothing at this path; the paths are {paths}"))
        if request.method not in ("GET", "HEAD"):
            return self._failed(BadReview(405, "MethodNotAllowed", "only GET is possible here"), {"Allow": "GET, HEAD"})
        return page()

    def _readiness(self) -> web.Response:
        unready = self.unready
        return web.Response(text=f"{unready or 'ok'}\n", status=503 if unready else 200)

    def _metrics(self) -> web.Response:
        self.metrics.ready.set(self.ready)
        return web.Response(body=self.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def _reviewed(self, webhook: Webhook, request: web.BaseRequest) -> web.Response:
        begin = time.perf_counter()
        seconds = self._seconds(request)
        having = (connections for connections in self._connections if request.protocol in connections)
        received = ReceivedBody(next((connections.group(request.protocol) for connections in having), None))
        read = False
        try:
            everything = self._full_answer(request)
            async with asyncio.timeout(seconds):
                self._bodies.check(request)
                body = await self._bodies.receive(request, received)
                read = True
                for connections in self._connections:
                    connections.change(request.protocol, ConnectionPhase.BUSY)
                knowledge = self._known(everything=everything)
                review, wire, verdict = await self._deciding.decide(webhook, body, received.group or "", knowledge)
        except BadReview as bad:
            return self._failed(bad)
        except TimeoutError:
            code, stage = (504, "decided") if read else (408, "received")
            return self._failed(BadReview(code, "Timeout", f"the review could not be {stage} within {seconds:g} s"))
        finally:
            self._bodies.release(received)
        taken = time.perf_counter() - begin
        for connections in self._connections:
            connections.change(request.protocol, standing=Standing.PROVEN)
        self.metrics.reviews.labels(webhook.name, review.operation, str(verdict.allowed).lower()).inc()
        self.metrics.seconds.labels(webhook.name).observe(taken)
        self._log_verdict(webhook, review, verdict, taken)
        return web.Response(body=wire, content_type="application/json")

    def _seconds(self, request: web.BaseRequest) -> float:
        """The limit for this answer. The API server passes its timeout as ``?timeout=10s``."""
        given = _TIMEOUT.fullmatch(request.query.get("timeout", ""))
        return min(self._limits.seconds, max(float(given[1]) - _MARGIN, _MARGIN)) if given else self._limits.seconds

    def _full_answer(self, request: web.BaseRequest) -> bool:
        """True if the answer may depend on everything known. Raises :class:`BadReview` for a caller without any
        answer."""
        peer = request.transport.get_extra_info("peercert") if request.transport is not None else None
        verified = False
        try:
            verified = self.callers.verified(peer, datetime.now(UTC))
            return self.callers.full_answer(verified=verified)
        finally:
            self.metrics.callers.labels(str(verified).lower()).inc()

    def _known(self, *, everything: bool) -> Knowledge:
        """The current knowledge for a caller. Raises :class:`BadReview` if there is none yet."""
        knowledge = self._knowledge()
        if knowledge is None:
            raise BadReview(503, "ServiceUnavailable", "the cluster's state isn't known yet; try again")
        return knowledge if everything else knowledge.for_unverified

    def _failed(self, bad: BadReview, headers: dict[str, str] | None = None) -> web.Response:
        self.metrics.failures.labels(str(bad.code)).inc()
        fields: dict[str, object] = {"code": bad.code, "reason": str(bad)}
        self._write(logging.WARNING, "request without a verdict", fields, (bad.code, str(bad)))
        allow = {"Allow": "POST"} if bad.code == HTTPStatus.METHOD_NOT_ALLOWED else {}
        body = encoded(failure(bad.code, bad.reason, str(bad)))
        return web.Response(body=body, status=bad.code, content_type="application/json", headers=headers or allow)

    def _log_verdict(self, webhook: Webhook, review: Review, verdict: Verdict, taken: float) -> None:
        level = logging.DEBUG if verdict.allowed else logging.INFO
        if not self._log.isEnabledFor(level):
            return
        fields = {
            "webhook": webhook.name,
            "uid": review.uid,
            "operation": review.operation,
            "kind": review.kind,
            "namespace": review.namespace,
            "name": review.name,
            "user": review.user,
            "dryRun": review.dry_run,
            "allowed": verdict.allowed,
            "operations": len(verdict.patch),
            "reason": verdict.message,
            "warnings": len(verdict.warnings),
            "milliseconds": round(taken * 1000, 3),
        }
        if verdict.allowed:
            self._log.log(level, "admitted", extra={"fields": fields})
        else:
            key = (webhook.name, review.namespace, review.name, review.user, verdict.message)
            self._write(level, "denied", fields, key)

    def _write(self, level: int, message: str, fields: dict[str, object], key: object) -> None:
        """Log a line of which clients can cause many."""
        suppressed = self._repeats.suppressed_before(key)
        if suppressed is not None:
            fields = {**fields, "suppressed": suppressed} if suppressed else fields
            self._log.log(level, message, extra={"fields": fields})
