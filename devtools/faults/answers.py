"""A reverse proxy in front of a real API server that answers writes wrongly: refused, lost, cut short, late, or about
something else.

What is *kept* from the server was not carried out; what is *lost* was, and its writer doesn't learn it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp
from aiohttp import web

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.scripted_server import status_object

Fault = Literal[
    "conflict",
    "internal",
    "busy",
    "many",
    "many-for-long",
    "html",
    "reset",
    "lost",
    "truncated",
    "no-json",
    "empty",
    "other",
    "late",
]
KEPT: Final[tuple[Fault, ...]] = ("conflict", "internal", "busy", "many", "many-for-long", "html", "reset")
"""Not carried out: 409, 500, 503 and 429 with Retry-After, 429 with a very long one, 502 with a page, a connection that
ends."""
LOST: Final[tuple[Fault, ...]] = ("lost", "truncated", "no-json", "empty", "other", "late")
"""Carried out: then the connection ends before or in the middle of the answer; or the answer is a page, ``{}``, another
object; or it comes after the client gave up."""
FAULTS: Final[tuple[Fault, ...]] = (*KEPT, *LOST)

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)
_RESOURCE: Final = re.compile(
    r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+)?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$"
)


@dataclass(frozen=True)
class Asked:
    """One write as it came in. ``fault``: what became of it; None if it was answered as the server did."""

    at: float
    method: str
    resource: str
    """``pods``, ``leases``, ``virtualmachineinstances/status`` …"""
    path: str
    fault: Fault | None


@dataclass
class Answering:
    """``choose``: what befalls a write: of the resource, path, and how often it was tried before. ``late``: seconds."""

    choose: Callable[[str, str, int], Fault | None] = lambda resource, path, before: None
    late: float = 31.0
    asked: list[Asked] = field(default_factory=list)
    tries: Counter[tuple[str, str]] = field(default_factory=Counter)
    url: str = ""

    def fault_of(self, method: str, path: str) -> Fault | None:
        match_ = _RESOURCE.match(path)
        if method not in WRITES or match_ is None:
            return None
        resource = match_["plural"] + (f"/{match_['sub']}" if match_["sub"] else "")
        fault = self.choose(resource, path, self.tries[method, path])
        self.tries[method, path] += 1
        self.asked.append(Asked(time.monotonic(), method, resource, path, fault))
        return fault


def each_once(faults: tuple[Fault, ...], seed: int, times: int = 1) -> Callable[[str, str, int], Fault | None]:
    """The first so many attempts of each write (by path) go wrong, each in a way that chance picks."""
    chance = random.Random(seed)
    return lambda resource, path, before: chance.choice(faults) if before < times else None


@asynccontextmanager
async def answering(plane: ControlPlane) -> AsyncIterator[Answering]:
    """The proxy, on plain HTTP; who asks it brings a token."""
    state = Answering()
    trusted = json.loads(plane.kubeconfig.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
    context = ssl.create_default_context(cadata=base64.b64decode(trusted).decode())
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
    ) as session:
        serving: set[asyncio.Task[object]] = set()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            task = asyncio.current_task()
            assert task is not None
            serving.add(task)
            task.add_done_callback(serving.discard)
            return await _handled(plane.server, session, state, request)

        runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        state.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield state
        finally:
            while serving:  # late answers, and watches, which have no end
                for task in list(serving):
                    task.cancel()
                await asyncio.wait(serving, timeout=0.1)
            await runner.cleanup()


async def _handled(
    server: str, session: aiohttp.ClientSession, state: Answering, request: web.BaseRequest
) -> web.StreamResponse:
    body = await request.read()
    fault = state.fault_of(request.method, request.path)
    if fault in KEPT:
        return _refused(fault, request)
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
    try:
        async with session.request(
            request.method, f"{server}{request.raw_path}", data=body or None, headers=headers
        ) as answer:
            if fault is not None and answer.status < 300:
                await answer.read()
                return await _distorted(fault, state, request, answer)
            return await _passed_on(request, answer)
    except (aiohttp.ClientError, OSError):
        return _cut(request)


async def _passed_on(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
    response = web.StreamResponse(status=answer.status, headers=kept)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


def _refused(fault: Fault, request: web.BaseRequest) -> web.StreamResponse:
    match fault:
        case "conflict":
            return _status(
                409,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version and try again",
            )
        case "internal":
            return _status(500, "InternalError", "Internal error occurred: no answer for you")
        case "busy":
            return _status(503, "ServiceUnavailable", "the server is currently unable to handle the request", "1")
        case "many":
            return _status(429, "TooManyRequests", "the server has received too many requests", "1")
        case "many-for-long":
            return _status(429, "TooManyRequests", "the server has received too many requests", "86400")
        case "html":
            return web.Response(status=502, text="<html><body>502 Bad Gateway</body></html>", content_type="text/html")
    return _cut(request)


async def _distorted(
    fault: Fault, state: Answering, request: web.BaseRequest, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    text = await answer.read()
    match fault:
        case "truncated":
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": "application/json", "Content-Length": str(len(text))}
            )
            await response.prepare(request)
            await response.write(text[: len(text) // 2])
            return _cut(request)
        case "no-json":
            return web.Response(
                status=answer.status, text="<html><body>Welcome</body></html>", content_type="text/html"
            )
        case "empty":
            return web.json_response({}, status=answer.status)
        case "other":
            other = json.loads(text)
            meta = {
                **other.get("metadata", {}),
                "name": "another",
                "uid": "00000000-0000-0000-0000-000000000000",
                "resourceVersion": "1",
            }
            return web.json_response({**other, "metadata": meta}, status=answer.status)
        case "late":
            await asyncio.sleep(state.late)
    return _cut(request)


def _status(code: int, reason: str, message: str, retry_after: str = "") -> web.Response:
    headers = {"Retry-After": retry_after} if retry_after else None
    return web.json_response(status_object(code, reason, message), status=code, headers=headers)


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
