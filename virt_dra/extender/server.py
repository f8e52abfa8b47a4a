"""The HTTP server that kube-scheduler asks, and that of probes and metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from virt_dra.extender.advising_process import Answer, NoAdvice, Verb
from virt_dra.extender.following import FollowedCluster
from virt_dra.extender.metrics import CONTENT_TYPE, ExtenderMetrics
from virt_dra.fairness.lanes import FairLane, LaneLimits, TooManyWaiting
from virt_dra.fairness.use import Tenant
from webhooks.review import BadReview
from webhooks.server.bodies import Bodies, ReceivedBody
from webhooks.tls.reloading import ReloadingTls

_BODY: Final = 64 * 2**20
"""Largest request in bytes: 5,000 whole nodes, if the extender isn't declared as one that caches them."""
_BUFFERED: Final = 2 * _BODY
"""Bytes of all requests that are being received or answered."""
_RECEIVE_SECONDS: Final = 2.0
"""kube-scheduler waits for one."""
_LANE: Final = LaneLimits(waiting=8, longest_rest=0.0)
"""kube-scheduler asks for one pod after the other: a rest would only keep others from being asked for. What a namespace
may use is the advisor's to limit."""
_KEPT: Final = "kept"
_NEW: Final = "new"
"""The lane's two groups of namespaces: by whether the scores for the last pod were kept. The first isn't charged."""
_EVALUATIONS: Final[Tenant] = (_NEW, "evaluations of pods of all namespaces")
"""One tenant, so that many newcomers don't get a turn each before all others."""
_MOST_KEPT: Final = 10_000
_ANSWER_SECONDS: Final = 1.0
"""kube-scheduler doesn't wait for longer; a request that wasn't answered until then gets no further turn."""
_HEAD: Final = 4096
_NAMESPACE: Final = re.compile(rb'"namespace"\s*:\s*"([a-z0-9-]{1,63})"')
_STOP_SECONDS: Final = 5.0

log = logging.getLogger("virt_dra.extender")


@dataclass(frozen=True)
class ExtenderPorts:
    """The ports of the server. ``port``: for kube-scheduler, on ``host``; ``plain_port``: for probes and metrics, on
    ``plain_host``. 0: any free one."""

    host: str = "127.0.0.1"
    port: int = 8766
    plain_host: str = "127.0.0.1"
    plain_port: int = 8767


class ExtenderServer:
    """Answers by what the followed cluster's process says. ``tls``: None for HTTP; ``verified``: only clients with a
    certificate."""

    def __init__(
        self,
        followed: FollowedCluster,
        metrics: ExtenderMetrics,
        tls: ReloadingTls | None = None,
        *,
        verified: bool = False,
    ) -> None:
        self._followed, self._metrics, self._tls, self._verified = followed, metrics, tls, verified
        self._bodies = Bodies(_BODY, _BUFFERED)
        self._answers, self._evaluations = FairLane(_LANE), FairLane(_LANE)
        self._kept: OrderedDict[str, None] = OrderedDict()
        """The namespaces for whose last pod the scores were kept; the one that was asked for the longest ago is
        first."""

    @asynccontextmanager
    async def serving(self, ports: ExtenderPorts) -> AsyncIterator[tuple[int, int]]:
        """Serves while the body runs, which gets both ports. Raises OSError."""
        asked, plain = web.Application(client_max_size=_BODY), web.Application()
        asked.router.add_post("/filter", partial(self._answered, "filter"))
        asked.router.add_post("/prioritize", partial(self._answered, "prioritize"))
        plain.router.add_get("/healthz", self._healthz)
        plain.router.add_get("/readyz", self._readyz)
        plain.router.add_get("/metrics", self._text)
        runners = [web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS) for app in (asked, plain)]
        try:
            bound = []
            for runner, host, port, context in (
                (runners[0], ports.host, ports.port, None if self._tls is None else self._tls.context),
                (runners[1], ports.plain_host, ports.plain_port, None),
            ):
                await runner.setup()
                await web.TCPSite(runner, host, port, ssl_context=context).start()
                bound.append(int(runner.addresses[0][1]))
            yield bound[0], bound[1]
        finally:
            for runner in runners:
                await runner.cleanup()

    async def _answered(self, verb: Verb, request: web.Request) -> web.Response:
        if self._verified and not (request.transport is not None and request.transport.get_extra_info("peercert")):
            return self._refused(verb, 403, "a client certificate is required", "not verified")
        if not self._followed.process.ready:
            return self._refused(verb, 503, "the extender doesn't know the cluster yet", "not ready")
        began = time.monotonic()
        received = ReceivedBody(None)
        try:
            async with asyncio.timeout(_RECEIVE_SECONDS):
                body = await self._bodies.receive(request, received)
            answer = await self._advised(verb, body, began + _ANSWER_SECONDS)
        except TimeoutError:
            return self._refused(verb, 408, f"not received within {_RECEIVE_SECONDS:g} s", "not received")
        except BadReview as error:
            return self._refused(verb, error.code, str(error), "not received")
        except TooManyWaiting:
            return self._refused(verb, 503, "too many requests for pods of this namespace wait", "busy")
        except NoAdvice as error:
            return self._refused(verb, 503, str(error), "no advice")
        finally:
            self._bodies.release(received)
        self._metrics.seconds.labels(verb).observe(time.monotonic() - began)
        self._metrics.answers.labels(verb, answer.verdict).inc()
        if answer.verdict == "scored":
            self._metrics.scored.labels(answer.policy).inc()
        kind = "application/json" if answer.status == 200 else "text/plain"
        return web.Response(status=answer.status, body=answer.body, content_type=kind)

    async def _advised(self, verb: Verb, body: bytes, until: float) -> Answer:
        """By scores that are kept, which costs milliseconds and isn't charged. Where there are none the selectors are
        evaluated, in turns that wait for nobody's but for such answers. Raises NoAdvice, TooManyWaiting."""
        namespace, process = _namespace(body), self._followed.process
        group = _KEPT if namespace in self._kept else _NEW
        async with self._answers.turn((group, namespace)) as turn:
            answer = await process.answer(verb, body, evaluate=False)
            if group == _KEPT:
                turn.used = 0.0
            self._remember(namespace, kept=answer.verdict == "scored")
        while answer.verdict == "unfinished":
            async with self._evaluations.turn((namespace,)), self._answers.turn(_EVALUATIONS):
                if time.monotonic() >= until:
                    raise NoAdvice("the selectors of other pods were evaluated first")
                answer = await process.answer(verb, body, evaluate=True)
        return answer

    def _remember(self, namespace: str, *, kept: bool) -> None:
        self._kept.pop(namespace, None)
        if kept:
            self._kept[namespace] = None
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def _refused(self, verb: Verb, status: int, text: str, verdict: str) -> web.Response:
        self._metrics.answers.labels(verb, verdict).inc()
        return web.Response(status=status, text=text)

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, request: web.Request) -> web.Response:
        if self._followed.process.ready:
            return web.Response(text="ok")
        waiting = ", ".join(self._followed.waiting_for)
        why = f"waiting for {waiting}" if waiting else "the advising process isn't ready"
        return web.Response(status=503, text=why)

    async def _text(self, request: web.Request) -> web.Response:
        self._metrics.ready.set(self._followed.process.ready)
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _namespace(body: bytes) -> str:
    """Whose pod it is, read without parsing the body: kube-scheduler writes the pod and its metadata first."""
    match = _NAMESPACE.search(body, 0, _HEAD)
    return match[1].decode() if match else ""
