"""``kubectl logs`` of our pods: the part of a kubelet's own API that the API server asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiohttp import web

from devtools.agents.kubevirt_webhooks import server_context
from devtools.play.network import PodNetwork
from virt_dra.api.core_v1 import Node
from virt_dra.cluster.port import Cluster
from webhooks.tls.authority import SystemKeys, bootstrap

_ADDRESS: Final = "10.244.255.1"
"""Of all nodes: they are one machine."""
_PORT: Final = 10250
_POLL_SECONDS: Final = 0.25
LogOf = Callable[[str, str, str], Path | None]
"""Namespace, pod and container -> the file with what it says, if there is one."""


@asynccontextmanager
async def logs_served(
    cluster: Cluster, network: PodNetwork, nodes: Iterable[str], log_of: LogOf
) -> AsyncIterator[None]:
    """While the body runs, the nodes say where their kubelet is, and it answers with logs."""

    async def answer(request: web.Request) -> web.StreamResponse:
        place = request.match_info
        path = log_of(place["namespace"], place["pod"], place["container"])
        if path is None or not path.exists():
            return web.Response(
                status=404, text=f"no process of this machine is container {place['container']} of pod {place['pod']}\n"
            )
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        with path.open("rb") as file:
            said = file.read()
            wanted = request.query.get("tailLines")
            lines = said.splitlines(keepends=True)
            await response.write(
                said if wanted is None else b"".join(lines[len(lines) - min(int(wanted), len(lines)) :])
            )
            while request.query.get("follow") == "true":
                await asyncio.sleep(_POLL_SECONDS)
                if more := file.read():
                    await response.write(more)
        return response

    app = web.Application()
    app.add_routes([web.get("/containerLogs/{namespace}/{pod}/{container}", answer)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        address = network.loopback_of(_ADDRESS)
        files = bootstrap((address,), datetime.now(UTC), SystemKeys()).to_files()
        await web.TCPSite(runner, address, _PORT, ssl_context=await asyncio.to_thread(server_context, files)).start()
        status = {
            "addresses": [{"type": "InternalIP", "address": _ADDRESS}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": _PORT}},
        }
        for node in nodes:
            await cluster.patch(Node, node, merge={"status": status}, subresource="status")
        yield
    finally:
        await runner.cleanup()
