"""What stands between the network and the HTTP protocol: how many connections there may be, and how long one may take to ask.

aiohttp limits the pauses between requests, but not how long the first one takes to arrive; a client that only connects, or sends a byte a
minute, would hold its connection for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from webhooks.metrics import Metrics

ProtocolFactory = Callable[[], asyncio.Protocol]


class Connections:
    """All open connections of a server. Calling it makes the protocol of the next one."""

    def __init__(self, make: ProtocolFactory, metrics: Metrics, limit: int, seconds: float) -> None:
        """``seconds``: how long the head of a connection's first request may take."""
        self._make = make
        self._metrics = metrics
        self._limit = limit
        self._seconds = seconds
        self._open: dict[asyncio.BaseProtocol, _Guard] = {}

    def __call__(self) -> asyncio.Protocol:
        return _Guard(self._make(), self)

    def __len__(self) -> int:
        return len(self._open)

    def asked(self, protocol: asyncio.BaseProtocol | None) -> None:
        """The head of a request has arrived on the connection of this protocol."""
        guard = self._open.get(protocol) if protocol is not None else None
        if guard is not None:
            guard.asked()

    def answered(self, protocol: asyncio.BaseProtocol | None) -> None:
        """The request on the connection of this protocol is over."""
        guard = self._open.get(protocol) if protocol is not None else None
        if guard is not None:
            guard.idle = True

    def is_retired(self, protocol: asyncio.BaseProtocol | None) -> bool:
        """True if the connection of this protocol is to be closed with its next answer."""
        guard = self._open.get(protocol) if protocol is not None else None
        return guard is not None and guard.retired

    def retire(self) -> None:
        """Close all connections that there are: idle ones now, others with their next answer (:meth:`is_retired`)."""
        for guard in self._open.values():
            guard.retired = True
            if guard.idle:
                guard.close()

    async def end(self, seconds: float) -> None:
        """Close connections as they become idle, until there are none; those that are left after so many seconds are cut.

        A connection on which a part of a request has arrived isn't idle.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._open and loop.time() < end:
            await asyncio.sleep(0.01)
            for guard in tuple(self._open.values()):
                if guard.idle:
                    guard.close()
        for guard in tuple(self._open.values()):
            guard.abort()

    def _opened(self, guard: _Guard) -> asyncio.TimerHandle | None:
        """The timer of a connection's first request; None where there are too many connections."""
        if len(self._open) >= self._limit:
            self._metrics.refused_connections.labels("limit").inc()
            return None
        self._open[guard.inner] = guard
        self._metrics.connections.inc()
        return asyncio.get_running_loop().call_later(self._seconds, self._too_slow, guard)

    def _too_slow(self, guard: _Guard) -> None:
        self._metrics.refused_connections.labels("slow").inc()
        guard.abort()

    def _closed(self, guard: _Guard) -> None:
        if self._open.pop(guard.inner, None) is not None:
            self._metrics.connections.dec()


class _Guard(asyncio.Protocol):
    """Hands everything on to the HTTP protocol of one connection."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self.inner = inner
        self.idle = True
        self.retired = False
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refused = False

    def asked(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """When what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = self._connections._opened(self)
        self._refused = self._timer is None
        if self._refused:
            transport.abort()
        else:
            self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.idle = False
        if not self._refused:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._refused else self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.asked()
        self._connections._closed(self)
        if not self._refused:
            self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()
