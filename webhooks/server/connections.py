"""The listener in front of aiohttp: limits on connections and handshakes, and deadlines for requests to arrive.

asyncio's own servers begin a handshake for every client, and can't limit connections until it is over; aiohttp limits
the pauses between requests, but not how long one takes to arrive. So connections are accepted here:
:mod:`webhooks.server.connection_table` says which one is evicted when there are too many,
:mod:`webhooks.server.handshakes` whose handshake is next.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from webhooks.server.connection_table import ConnectionEntry, ConnectionPhase, ConnectionTable, Standing, group_of
from webhooks.server.handshakes import HandshakeQueue
from webhooks.server.metrics import ConnectionMetrics

ProtocolFactory = Callable[[], asyncio.Protocol]
IsVerified = Callable[[Mapping[str, Any]], bool]
"""Whether a client certificate that the handshake has verified (as ``ssl`` shows it) is an API server's."""

_BACKLOG: Final = 1024
_SHUTDOWN_SECONDS: Final = 1.0
"""Timeout of the TLS shutdown (close_notify)."""
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_PAUSE: Final = 0.1


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of one listener.

    ``connections``: all; ``per_address``: of one address (IPv6: of a /64), without those of verified clients;
    ``reserved``: of all, for verified clients only. ``handshakes``: begun a second; ``handshake_burst``: at once.
    ``head_seconds``: from connecting to the first request's head, from any other request's first byte to the end of its
    head, and for a client to read an answer.
    """

    connections: int = 1000
    per_address: int = 250
    reserved: int = 100
    handshakes: float = 200.0
    handshake_burst: int = 200
    head_seconds: float = 10.0


class Connections:
    """All connections of a server, from the moment they are accepted."""

    def __init__(
        self,
        make: ProtocolFactory,
        metrics: ConnectionMetrics,
        limits: ConnectionLimits,
        is_verified: IsVerified | None = None,
    ) -> None:
        self._make = make
        self._metrics = metrics
        self._limits = limits
        self._is_verified = is_verified
        self._table = ConnectionTable(limits.connections, limits.per_address, limits.reserved)
        self._guards: dict[ConnectionEntry, _Guard] = {}
        self._by_protocol: dict[asyncio.BaseProtocol, _Guard] = {}
        self._context: ssl.SSLContext | None = None
        self._turns: HandshakeQueue[_Guard] | None = None
        self._pumping: asyncio.TimerHandle | None = None
        self._listening: list[tuple[socket.socket, asyncio.Task[None]]] = []

    def __len__(self) -> int:
        return len(self._guards)

    def __contains__(self, protocol: object) -> bool:
        """True for the protocol of an open connection."""
        return protocol in self._by_protocol

    # --- listening --------------------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Accept connections, with TLS where a context is given. Returns the port, for ``port`` 0. Raises OSError where
        it is taken."""
        loop = asyncio.get_running_loop()
        self._context = context
        self._turns = HandshakeQueue(self._limits.handshakes, self._limits.handshake_burst, loop.time())
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listening = socket.socket(family, kind, protocol)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind((address[0], self.port or port, *address[2:]))
                listening.listen(_BACKLOG)
                listening.setblocking(False)
            except OSError:
                listening.close()
                await self.stop_listening()
                raise
            self._listening.append((listening, asyncio.create_task(self._accept(listening))))
        return self.port

    @property
    def port(self) -> int:
        """The port that is listened on; 0 for none."""
        return int(self._listening[0][0].getsockname()[1]) if self._listening else 0

    async def stop_listening(self) -> None:
        """Accept no more connections; those whose handshake hasn't begun are closed."""
        listening, self._listening = self._listening, []
        for _, task in listening:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for server, _ in listening:
            server.close()
        for guard in tuple(self._guards.values()):
            if guard.is_queued:
                guard.abort()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._metrics.refused_connections.labels("resources").inc()
                    await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            self._arrived(connection, group_of(address))

    def _arrived(self, connection: socket.socket, group: str) -> None:
        now = asyncio.get_running_loop().time()
        entry, evicted = self._table.enter(group, now)
        if evicted is not None:
            self._metrics.refused_connections.labels("evicted").inc()
            self._guards[evicted].abort()
        if entry is None:
            self._metrics.refused_connections.labels("limit").inc()
            connection.close()
            return
        guard = self._guards[entry] = _Guard(self, entry, connection)
        self._metrics.connections.inc()
        guard.expect_head()
        if self._context is None or self._turns is None:
            guard.establish(None)
        else:
            self._turns.add(group, guard)
            self._pump()

    def _pump(self) -> None:
        """Begin the handshakes whose turn it is, and schedule the next."""
        loop = asyncio.get_running_loop()
        if self._turns is None or self._pumping is not None:
            return
        while (guard := self._turns.next(loop.time())) is not None:
            guard.establish(self._context)
        if len(self._turns):
            self._pumping = loop.call_later(self._turns.pause, self._pump_again)

    def _pump_again(self) -> None:
        self._pumping = None
        self._pump()

    # --- requests ---------------------------------------------------------------------------------------------------

    def asked(self, protocol: asyncio.BaseProtocol | None) -> None:
        """The head of a request has arrived on the connection of this protocol; its body may not have."""
        guard = self._guard(protocol)
        if guard is not None:
            guard.stop_timer()
            guard.change(phase=ConnectionPhase.READING)

    def change(
        self,
        protocol: asyncio.BaseProtocol | None,
        phase: ConnectionPhase | None = None,
        standing: Standing | None = None,
    ) -> None:
        """Set the phase or the standing of the connection of this protocol."""
        guard = self._guard(protocol)
        if guard is not None:
            guard.change(phase, standing)

    def group(self, protocol: asyncio.BaseProtocol | None) -> str | None:
        """The address group whose limits the connection of this protocol counts to; None for a verified client, which
        has none."""
        guard = self._guard(protocol)
        return guard.entry.group if guard is not None and guard.entry.standing != Standing.VERIFIED else None

    def is_retired(self, protocol: asyncio.BaseProtocol | None) -> bool:
        """True if the connection of this protocol is to be closed after its next answer."""
        guard = self._guard(protocol)
        return guard is not None and guard.retired

    def retire(self) -> None:
        """Close all open connections: idle ones now, others after their next answer (:meth:`is_retired`)."""
        for guard in tuple(self._guards.values()):
            guard.retired = True
            if guard.idle:
                guard.close()

    async def end(self, seconds: float) -> None:
        """Close connections as they become idle, until there are none; those that are left after so many seconds are
        aborted.

        A connection on which a part of a request has arrived isn't idle.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._guards and loop.time() < end:
            await asyncio.sleep(0.01)
            for guard in tuple(self._guards.values()):
                if guard.idle:
                    guard.close()
        for guard in tuple(self._guards.values()):
            guard.abort()

    def _guard(self, protocol: asyncio.BaseProtocol | None) -> _Guard | None:
        return self._by_protocol.get(protocol) if protocol is not None else None

    # --- of guards --------------------------------------------------------------------------------------------------

    def _too_slow(self, guard: _Guard) -> None:
        self._metrics.refused_connections.labels("slow").inc()
        guard.abort()

    def _established(self, guard: _Guard, peer: Mapping[str, Any] | None) -> asyncio.Protocol:
        inner = self._make()
        self._by_protocol[inner] = guard
        if peer and self._is_verified is not None and self._is_verified(peer):
            guard.change(standing=Standing.VERIFIED)
        return inner

    def _closed(self, guard: _Guard) -> None:
        if self._turns is not None:
            self._turns.remove(guard.entry.group, guard)
        self._table.leave(guard.entry)
        if self._guards.pop(guard.entry, None) is not None:
            if guard.inner is not None:
                del self._by_protocol[guard.inner]
            self._metrics.connections.dec()


class _Guard(asyncio.Protocol):
    """One connection: an accepted socket, then a handshake, then a protocol that forwards everything to the HTTP
    protocol."""

    def __init__(self, connections: Connections, entry: ConnectionEntry, connection: socket.socket) -> None:
        self.inner: asyncio.Protocol | None = None
        self.entry = entry
        self.retired = False
        self._connections = connections
        self._socket: socket.socket | None = connection
        self._handshake: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    @property
    def is_queued(self) -> bool:
        """True if its handshake hasn't begun."""
        return self._handshake is None

    @property
    def idle(self) -> bool:
        return self._transport is not None and self.entry.phase == ConnectionPhase.WAITING

    def establish(self, context: ssl.SSLContext | None) -> None:
        self._handshake = asyncio.create_task(self._establish(context))

    async def _establish(self, context: ssl.SSLContext | None) -> None:
        # Only here: if the task is cancelled before it runs, _gone closes it.
        connection, self._socket = self._socket, None
        assert connection is not None
        loop = asyncio.get_running_loop()
        tls: dict[str, Any] = {}
        if context is not None:  # our own timer covers handshake and head together
            tls = {"ssl": context, "ssl_handshake_timeout": 3600.0, "ssl_shutdown_timeout": _SHUTDOWN_SECONDS}
        try:
            await loop.connect_accepted_socket(lambda: self, connection, **tls)
        except OSError:  # ssl.SSLError and TimeoutError included; the client sees the error itself
            pass
        finally:
            if self._transport is None:
                self._gone()

    def expect_head(self) -> None:
        """Start the timer within which a request's head must arrive."""
        if self._timer is None:
            self._timer = self._deadline()

    def _deadline(self) -> asyncio.TimerHandle:
        connections = self._connections
        return asyncio.get_running_loop().call_later(connections._limits.head_seconds, connections._too_slow, self)

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def change(self, phase: ConnectionPhase | None = None, standing: Standing | None = None) -> None:
        self._connections._table.change(self.entry, asyncio.get_running_loop().time(), phase, standing)

    def close(self) -> None:
        """Close the connection once everything written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        elif self._handshake is not None:
            self._handshake.cancel()
        if self._transport is None:
            self._gone()

    def _gone(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.stop_timer()
        if self._sending is not None:
            self._sending.cancel()
        self._connections._closed(self)

    # --- asyncio.Protocol -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.inner = self._connections._established(self, transport.get_extra_info("peercert"))
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.entry.phase == ConnectionPhase.WAITING:
            self.expect_head()
            self.change(phase=ConnectionPhase.READING)
        assert self.inner is not None
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        assert self.inner is not None
        return self.inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        if self.inner is not None:
            self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client doesn't read its answer."""
        if self._sending is None:
            self._sending = self._deadline()
        assert self.inner is not None
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        assert self.inner is not None
        self.inner.resume_writing()
