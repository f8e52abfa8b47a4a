"""The driver's local port: ``/metrics``, ``/healthz`` and ``/readyz`` over HTTP/1.0, without TLS.

While two instances run on a node, the older one has the port; the other takes it when it is free.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from typing import Final

from node_driver.exposition import CONTENT_TYPE, Metric, exposition

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 5.0
REQUEST_BYTES: Final = 8192
TAKEN_PAUSE: Final = 2.0
_PLAIN: Final = "text/plain; charset=utf-8"


async def serve_plain(host: str, port: int, metrics: Sequence[Metric], ready: Callable[[], bool]) -> None:
    """Serves until it is cancelled. ``ready``: whether the devices have been looked at. Raises OSError for a port that
    can't be had, but for one that is taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n")
                writer.write(_response(request, metrics, ready))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()

    while True:
        try:
            server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            await asyncio.sleep(TAKEN_PAUSE)
            continue
        async with server:
            await server.serve_forever()


def _response(request: bytes, metrics: Sequence[Metric], ready: Callable[[], bool]) -> bytes:
    match request.split(b" ")[:2]:
        case [b"GET", b"/metrics"]:
            return _answer("200 OK", CONTENT_TYPE, exposition(metrics))
        case [b"GET", b"/healthz"]:
            return _answer("200 OK", _PLAIN, b"ok\n")
        case [b"GET", b"/readyz"]:
            is_ready = ready()
            return _answer(
                "200 OK" if is_ready else "503 Service Unavailable", _PLAIN, b"ok\n" if is_ready else b"no\n"
            )
    return _answer("404 Not Found", _PLAIN, b"the paths are /healthz, /readyz, /metrics\n")


def _answer(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.0 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
