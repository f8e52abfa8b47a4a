"""The connections of one process to an API server, which its transports share."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from virt_dra.cluster.kube.access import Access, Endpoint
from virt_dra.cluster.kube.environment_proxy import environment_proxy
from virt_dra.cluster.kube.http_connection import HttpAnswer, HttpConnection, request_bytes

_MOST: Final = 100
"""Connections at once."""
_KEPT: Final = 15.0
"""Seconds for which a connection is kept for the next request."""
_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a name is tried beside the first (RFC 8305)."""
_PORTS: Final = {"http": 80, "https": 443}
_PATH: Final = "/%:@!$&'()*+,;=~"
"""Characters of a configured path that stay as they are, besides letters and digits."""
_NO_HOST: Final = re.compile(r"[\x00-\x20\x7f]")

Header = tuple[str, str]


class NotConnected(OSError):
    """There is no connection: nothing was sent."""


class ServerConnections:
    """Not for several event loops."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._endpoint: Endpoint | None = None
        self._way: _Way | None = None
        self._slots = asyncio.Semaphore(_MOST)
        self._idle: dict[HttpConnection, asyncio.TimerHandle] = {}
        """With what will end each. The last was used last."""
        self._busy: dict[HttpConnection, Endpoint] = {}

    async def ask(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *,
        connect_timeout: float, silence: float | None = None,
    ) -> HttpAnswer:  # fmt: skip
        """The answer to one request, as soon as its head is there. ``target``: path and query, encoded. ``silence``: as
        of the answer, also for its head. Redirections aren't followed: whoever sends one could have our token's holder
        ask anything in reach of this machine. Raises :class:`NotConnected`, ssl.SSLError where TLS failed, other
        OSErrors where the connection was lost, and ValueError for a request that can't be written."""
        endpoint = self.access.endpoint
        if self._way is None or self._endpoint is not endpoint:
            await self.close()  # ends what the connections of before carry; watches are restarted
            self._endpoint, self._way = endpoint, _way(endpoint)
        way = self._way
        request = request_bytes(method, f"{way.prefix}{target}", (*way.headers, *headers), body)
        await self._slots.acquire()
        try:
            connection = self._rested(endpoint) or await self._connected(way, connect_timeout)
        except BaseException:
            self._slots.release()
            raise
        self._busy[connection] = endpoint
        return await connection.ask(request, silence)

    async def close(self) -> None:
        for connection in (*self._idle, *self._busy):
            connection.abort()

    def _rested(self, endpoint: Endpoint) -> HttpConnection | None:
        """The connection that was used last, if it goes to this endpoint."""
        while self._idle and endpoint is self._endpoint:
            connection, end = self._idle.popitem()
            end.cancel()
            if connection.at_rest:
                return connection
        return None

    def _ended(self, connection: HttpConnection) -> None:
        if end := self._idle.pop(connection, None):
            end.cancel()
        endpoint = self._busy.pop(connection, None)
        if endpoint is None:
            return
        self._slots.release()
        if not connection.at_rest:
            return
        if endpoint is self._endpoint:
            self._idle[connection] = asyncio.get_running_loop().call_later(_KEPT, connection.abort)
        else:
            connection.abort()

    async def _connected(self, way: _Way, within: float) -> HttpConnection:
        try:
            async with asyncio.timeout(within):
                connection = await self._connection(way)
        except ssl.SSLError:
            raise
        except TimeoutError as error:
            raise NotConnected(f"no connection within {within:g} s") from error
        except OSError as error:
            raise NotConnected(_why(error)) from error
        if not connection.at_rest:
            raise NotConnected("the connection was closed at once")
        return connection

    async def _connection(self, way: _Way) -> HttpConnection:
        loop = asyncio.get_running_loop()
        first = await self._opened(way)
        if way.tunnel is None:
            return first
        try:
            answer = await first.ask(request_bytes("CONNECT", way.tunnel, (("Host", way.tunnel), *way.tunnel_headers)))
            if not 200 <= answer.status < 300:
                raise NotConnected(f"the proxy {way.host}:{way.port} answered {answer.status} to CONNECT {way.tunnel}")
            connection = HttpConnection(self._ended)
            transport = await loop.start_tls(first.transport, connection, way.tls, server_hostname=way.tls_name)
        except BaseException:
            first.abort()
            raise
        if transport is None:
            raise NotConnected("the connection was closed at once")
        connection.connection_made(transport)
        return connection

    async def _opened(self, way: _Way) -> HttpConnection:
        tunnel = way.tunnel is not None
        name = way.host if tunnel else way.tls_name
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: HttpConnection(self._ended, tunnel=tunnel), way.host, way.port, ssl=way.first_tls,
            server_hostname=name if way.first_tls else None,
            happy_eyeballs_delay=None if _is_address(way.host) else _NEXT_ADDRESS,
        )  # fmt: skip
        return connection


@dataclass(frozen=True)
class _Way:
    """How requests get to a server: the host that is connected to, and what each request says. ``tunnel``: the server
    behind a proxy, which passes on TLS; None: the host answers itself."""

    host: str
    port: int
    tls: ssl.SSLContext
    first_tls: ssl.SSLContext | None
    """For the connection to the host; None for one without TLS."""
    tls_name: str
    prefix: str
    headers: tuple[Header, ...]
    tunnel: str | None = None
    tunnel_headers: tuple[Header, ...] = ()


def _way(endpoint: Endpoint) -> _Way:
    """Raises :class:`NotConnected` for addresses that can't be used."""
    server = _split(endpoint.server, "server")
    name = endpoint.tls_name or server.hostname or ""
    path, headers = quote(server.path.rstrip("/"), safe=_PATH), (("Host", _authority(server)),)
    proxy_url = endpoint.proxy or environment_proxy(os.environ, server.scheme, _ascii_host(server), _port(server))
    if not proxy_url:
        tls = endpoint.tls if server.scheme == "https" else None
        return _Way(server.hostname or "", _port(server), endpoint.tls, tls, name, path, headers)
    proxy = _split(proxy_url, "proxy")
    host, port = proxy.hostname or "", _port(proxy)
    first_tls = ssl.create_default_context() if proxy.scheme == "https" else None
    proxy_headers = (*endpoint.proxy_headers.items(), *_proxy_authorization(proxy))
    if server.scheme == "http":
        prefix = f"http://{_authority(server)}{path}"
        return _Way(host, port, endpoint.tls, first_tls, host, prefix, (*headers, *proxy_headers))
    tunnel = f"{_bracketed(server)}:{_port(server)}"
    return _Way(host, port, endpoint.tls, first_tls, name, path, headers, tunnel, proxy_headers)


def _split(url: str, role: str) -> SplitResult:
    try:
        split = urlsplit(url)
        usable = split.scheme in _PORTS and bool(_ascii_host(split)) and _port(split) > 0
    except ValueError:
        usable = False
    if not usable:
        raise NotConnected(f"the {role}'s address {url!r} can't be used: http:// or https://, a host and a port")
    return split


def _is_address(host: str) -> bool:
    """Then there is nothing to try beside it; asyncio leaks a socket where a race of addresses is cancelled late."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _port(url: SplitResult) -> int:
    return _PORTS[url.scheme] if url.port is None else url.port


def _ascii_host(url: SplitResult) -> str:
    """The host as it is asked for, "" for one that is none. Raises UnicodeError for what no name may be."""
    host = url.hostname or ""
    if _NO_HOST.search(host):
        return ""
    return host if ":" in host else host.encode("idna").decode()


def _bracketed(url: SplitResult) -> str:
    host = _ascii_host(url)
    return f"[{host}]" if ":" in host else host


def _authority(url: SplitResult) -> str:
    return _bracketed(url) if url.port is None else f"{_bracketed(url)}:{url.port}"


def _proxy_authorization(proxy: SplitResult) -> tuple[Header, ...]:
    if proxy.username is None:
        return ()
    account = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return (("Proxy-Authorization", f"Basic {base64.b64encode(account.encode()).decode()}"),)


def _why(error: OSError) -> str:
    if isinstance(error, NotConnected):
        return str(error)
    if isinstance(error, socket.gaierror):
        return f"the name isn't known: {error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
