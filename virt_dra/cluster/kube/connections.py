"""The connections of one process to an API server, which its transports share."""

from __future__ import annotations

from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from virt_dra.cluster.kube.access import Access, Endpoint

_MOST: Final = 100
"""ServerConnections at once."""
_BUFFER: Final = 2**21
"""Bytes that are read ahead: the events of a watch exceed aiohttp's own buffer."""


class ServerConnections:
    """Not for several event loops."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._endpoint: Endpoint | None = None
        self._session: aiohttp.ClientSession | None = None
        self._way: dict[str, Any] = {}

    async def ask(self, method: str, target: str, **given: Any) -> aiohttp.ClientResponse:
        """The answer to one request. ``target``: path and query, encoded. Raises aiohttp's errors, and OSError.

        Redirections aren't followed: API servers send none, and whoever does could have our token's holder ask
        anything in reach of this machine."""
        endpoint = self.access.endpoint
        if self._session is None or self._endpoint is not endpoint:
            await self._connect_to(endpoint)
        assert self._session is not None
        # Marked as encoded, since it is: what a name escapes must stay escaped.
        url = URL(f"{endpoint.server}{target}", encoded=True)
        return await self._session.request(method, url, allow_redirects=False, **given, **self._way)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _connect_to(self, endpoint: Endpoint) -> None:
        """Ends what the connections of before carry; watches are restarted."""
        stale = self._session
        self._endpoint = endpoint
        # aiohttp would read the proxy's settings and ~/.netrc anew for every request, in a thread: 0.4 ms of each. And
        # a password in ~/.netrc isn't meant for an API server.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_MOST, ssl=endpoint.tls), trust_env=False, read_bufsize=_BUFFER
        )
        way = {
            "server_hostname": endpoint.tls_name,
            "proxy": endpoint.proxy or _environment_proxy(URL(endpoint.server)),
            "proxy_headers": endpoint.proxy_headers,
        }
        self._way = {name: value for name, value in way.items() if value}
        if stale is not None:
            await stale.close()


def _environment_proxy(server: URL) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a server."""
    host = server.host or ""
    if proxy_bypass(f"{host}:{server.port}"):
        return None
    return getproxies().get(server.scheme)
