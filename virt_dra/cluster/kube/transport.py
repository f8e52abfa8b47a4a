"""Requests to an API server: paced, timed, repeated where that is safe, and refused with the port's exceptions.

What is repeated, within :class:`~virt_dra.cluster.kube.limits.ClientLimits`: whatever was certainly not carried out (no
connection; 429; an answer with Retry-After), and what may be carried out twice when the answer was lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote, urlencode

from virt_dra.cluster.cluster_clock import ClusterClock
from virt_dra.cluster.kube.connections import NotConnected, ServerConnections
from virt_dra.cluster.kube.errors import refusal
from virt_dra.cluster.kube.http_connection import HttpAnswer
from virt_dra.cluster.kube.limits import MIB, READING_VARIABLE, ClientLimits, TokenBucket
from virt_dra.cluster.large import resident_bytes
from virt_dra.cluster.port import ApiError, TooManyRequests, Unauthorized, Unavailable
from virt_dra.cluster.requester import Requester
from virt_dra.cluster.watching.backoff import backoff

T = TypeVar("T")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JSON = "application/json"
USER_AGENT = f"virt-dra/{version('virt-dra')}"

_WARNINGS_REMEMBERED = 1000
_REDIRECTIONS = (301, 302, 303, 307, 308)
_LOCATION_SHOWN = 200

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KubeRequest:
    """One request. ``body`` is any JSON value; ``subject`` and ``verb`` are for metrics (``pods``, ``list``)."""

    method: Method
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    content_type: str = JSON
    accept: str = JSON
    verb: str = ""
    subject: str = ""
    repeatable: bool = True
    """Whether it may be carried out twice when the first answer was lost."""
    most: int = 0
    """Bytes of an answer that are read at most, or :class:`TooMuch` is raised; 0: as of every answer."""


class KubeObserver(Protocol):
    """The metrics of requests to an API server. Must not raise."""

    def answered(self, verb: str, subject: str, status: int, seconds: float) -> None:
        """One attempt; ``status`` is 0 when there was no answer."""

    def throttled(self, seconds: float) -> None:
        """We held a request back to keep to our own rate."""

    def unreadable(self, kind: str, key: str, problem: str) -> None:
        """An object was left out of a list or watch because it doesn't have the shape we know."""


class NoKubeObserver:
    """Records nothing."""

    def answered(self, verb: str, subject: str, status: int, seconds: float) -> None: ...
    def throttled(self, seconds: float) -> None: ...
    def unreadable(self, kind: str, key: str, problem: str) -> None: ...


class NotSent(Unavailable):
    """There is no connection, so the request was certainly not carried out."""


class TooMuch(Unavailable):
    """The answer is larger than the request or our memory allows. Asking again for the same doesn't help."""


class Redirected(Unavailable):
    """Who answered sends us to another address, which isn't followed. Asking again doesn't help."""


class NotWriting(Unavailable):
    """The write was not sent because this process is not the leader."""


class UntrustedServer(Unavailable):
    """TLS failed: the server's certificate isn't trusted, or it doesn't trust ours. Trying again doesn't help."""


@dataclass
class Transport:
    """Not for several event loops. ``may_write`` is called before every attempt that isn't a GET, as leadership may
    have been lost while a request waited or was retried."""

    connections: ServerConnections
    limits: ClientLimits = field(default_factory=ClientLimits)
    observer: KubeObserver = field(default_factory=NoKubeObserver)
    may_write: Callable[[], bool] = lambda: True
    clock: ClusterClock = field(default_factory=ClusterClock)
    """Set by the server's time in every answer."""
    requester: Requester | None = None
    """The user to impersonate; None: requests are our own."""
    resident: Callable[[], int] = resident_bytes
    """The memory that this process takes."""

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(self.limits.qps, self.limits.burst)
        self._warned: set[str] = set()
        self._resident_before = self.resident() if self.limits.memory else 0

    @property
    def server(self) -> str:
        return self.connections.access.endpoint.server

    async def request(self, request: KubeRequest) -> bytes:
        """The body of a successful answer. Raises the port's exceptions."""

        async def once() -> bytes:
            async with asyncio.timeout(self.limits.timeout):
                answer = await self._sent(request)
                try:
                    data = await self._body(answer, request)
                finally:
                    answer.abort()
            self._heed_warnings(answer)
            if answer.status >= 300:
                raise refusal(answer.status, data, answer.header("retry-after"))
            return data

        return await self._repeated(request, once)

    @asynccontextmanager
    async def stream(self, request: KubeRequest) -> AsyncIterator[HttpAnswer]:
        """The body of a successful answer as it comes. Reading it raises OSError; see :func:`lost`."""

        async def once() -> HttpAnswer:
            answer = await self._sent(request, silence=self.limits.silence)
            if answer.status >= 300:
                try:
                    async with asyncio.timeout(self.limits.timeout):
                        data = await self._body(answer, request)
                finally:
                    answer.abort()
                raise refusal(answer.status, data, answer.header("retry-after"))
            return answer

        answer = await self._repeated(request, once)
        try:
            yield answer
        finally:
            answer.abort()  # what is left of a stream has no end

    async def close(self) -> None:
        await self.connections.close()
        await asyncio.sleep(0.01)  # aborted TLS connections are closed when the loop comes to them

    async def _repeated(self, request: KubeRequest, once: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        end, renewed = loop.time() + self.limits.patience, False
        attempt = 0
        while True:
            attempt += 1
            await self._turn()
            if request.method != "GET" and not self.may_write():
                raise NotWriting(
                    f"this process is not the leader: {request.verb or request.method} of {request.path} was not sent"
                )
            began = loop.time()
            try:
                result = await self._translated(once)
            except ApiError as error:
                answered = 0 if isinstance(error, NotSent | UntrustedServer | _Lost) else error.status
                self.observer.answered(request.verb or request.method, request.subject, answered, loop.time() - began)
                if isinstance(error, Unauthorized) and not renewed:
                    renewed = True
                    if await self.connections.access.renewed():
                        continue
                if attempt >= self.limits.attempts or not _may_repeat(request, error):
                    raise
                pause = max(error.retry_after or 0.0, backoff(attempt, random.random(), first=0.1, longest=10.0))
                if loop.time() + pause > end:
                    raise
                await asyncio.sleep(pause)
                continue
            self.observer.answered(request.verb or request.method, request.subject, 200, loop.time() - began)
            return result

    async def _body(self, answer: HttpAnswer, request: KubeRequest) -> bytes:
        """The whole answer, decompressed. Raises :class:`TooMuch`."""
        limits, parts, size = self.limits, list[bytes](), 0
        most = request.most or limits.answer_bytes
        while part := await answer.readany():
            size += len(part)
            if size > most:
                raise self.too_much(request.path, f"answers more than {most // MIB} MiB")
            parts.append(part)
        if limits.memory and self.resident() - self._resident_before > limits.memory:
            raise TooMuch(
                f"the objects of {self.server} take more than {limits.memory // MIB} MiB of memory: "
                f"if that is your cluster, and as large, set {READING_VARIABLE} to more MiB"
            )
        body = b"".join(parts)
        most_containers = max(limits.answer_containers, limits.answer_containers * request.most // limits.answer_bytes)
        if body.count(b"{") + body.count(b"[") > most_containers:
            raise self.too_much(request.path, f"answers more than {most_containers:,} JSON objects and lists")
        return body

    def too_much(self, path: str, what_it_does: str) -> TooMuch:
        return TooMuch(self._no_api_server(path, what_it_does))

    def _no_api_server(self, path: str, what_it_does: str) -> str:
        return (
            f"{self.server}{path} {what_it_does}, as no API server does: "
            "check the server's address in the kubeconfig, and the proxies on the way"
        )

    async def _translated(self, once: Callable[[], Awaitable[T]]) -> T:
        try:
            return await once()
        except OSError as error:  # TimeoutError among them
            raise lost(self.server, error) from error

    def _heed_warnings(self, answer: HttpAnswer) -> None:
        """Log the server's warnings (``299 - "v1beta1 is deprecated"``), each text once."""
        for header in answer.headers("warning"):
            if header not in self._warned and len(self._warned) < _WARNINGS_REMEMBERED:
                self._warned.add(header)
                log.warning("%s warns: %s", self.server, header.removeprefix("299 - ").strip('"'))

    async def _turn(self) -> None:
        wait = self._bucket.take(asyncio.get_running_loop().time())
        if wait > 0:
            self.observer.throttled(wait)
            await asyncio.sleep(wait)

    async def _sent(self, request: KubeRequest, silence: float | None = None) -> HttpAnswer:
        connections = self.connections
        headers = [
            ("Accept", request.accept),
            ("Accept-Encoding", "gzip"),
            ("Content-Type", request.content_type),
            ("User-Agent", USER_AGENT),
        ]
        if authorization := await connections.access.authorization():
            headers.append(("Authorization", authorization))
        if self.requester is not None:
            headers += impersonation(self.requester)
        query = f"?{urlencode(request.query)}" if request.query else ""
        body = None if request.body is None else json.dumps(request.body).encode()
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await connections.ask(
            request.method, f"{request.path}{query}", headers, body,
            connect_timeout=self.limits.connect_timeout, silence=silence,
        )  # fmt: skip
        self.clock.observe(answer.header("date") or None, loop.time() - began)
        if answer.status in _REDIRECTIONS:
            answer.abort()
            where = answer.header("location")[:_LOCATION_SHOWN]
            raise Redirected(self._no_api_server(request.path, f"redirects to {where!r}"))
        return answer


def impersonation(requester: Requester) -> Iterator[tuple[str, str]]:
    """The headers that impersonate a user."""
    yield "Impersonate-User", requester.name
    for group in requester.groups:
        yield "Impersonate-Group", group
    for key, values in requester.extra.items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe='')}", value


class _Lost(Unavailable):
    """The connection was lost before the end of the answer."""


def lost(server: str, error: OSError) -> Unavailable:
    """The exception for what a broken connection raises."""
    why = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLError):
        return UntrustedServer(f"{server}: TLS failed: {why}")
    if isinstance(error, NotConnected):
        return NotSent(f"{server} can't be reached: {why}")
    if isinstance(error, TimeoutError):
        return _Lost(f"{server} didn't answer in time")
    return _Lost(f"{server}: the connection was lost: {why}")


def _may_repeat(request: KubeRequest, error: ApiError) -> bool:
    if isinstance(error, UntrustedServer | TooMuch | Redirected):
        return False
    if isinstance(error, NotSent | TooManyRequests):
        return True
    return isinstance(error, Unavailable) and (request.repeatable or error.retry_after is not None)
