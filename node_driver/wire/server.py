"""One instance of the driver as the kubelet sees it: its sockets, in the right order (D-3, D-8, D-57)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import grpc

from node_driver.wire import health_server, plugin_server
from node_driver.wire.health_server import HealthServer
from node_driver.wire.plugin_server import PluginServer
from node_driver.wire.registration import RegistrationServer
from node_driver.wire.service import ClaimService, HealthSource
from node_driver.wire.sockets import InstanceLock, instance_sockets, remove_left_behind

_logger = logging.getLogger(__name__)

MESSAGE_MAX: Final = 1 << 20
"""Bytes that are received in one message; 256 claims with the longest names have 150,000."""
CALLS_MAX: Final = 1024
"""Calls at a time."""
GRACE: Final = 5.0
"""Seconds for calls that go on when the driver ends; a kubelet gives its pod 30."""


class KubeletServer:
    """Serves and is registered while it is entered. Entering raises :class:`ValueError` for paths that can't be,
    :class:`~node_driver.wire.sockets.SocketsInUse` and :class:`OSError`."""

    def __init__(
        self,
        driver: str,
        claims: ClaimService,
        health: HealthSource,
        *,
        plugin_folder: str,
        registry: str,
        pod_uid: str = "",
        wait: float = plugin_server.WAIT,
    ) -> None:
        """``plugin_folder``: of this driver; ``registry``: where the kubelet looks for registrations. Both are the same
        paths in the driver's container and on the host (D-1)."""
        self._driver, self._plugin_folder, self._registry = driver, plugin_folder, registry
        self._sockets = instance_sockets(driver, plugin_folder, registry, pod_uid)
        self._plugin, self._health = PluginServer(claims, wait), HealthServer(health)
        self._servers: list[grpc.aio.Server] = []

    async def __aenter__(self) -> Self:
        for folder in (self._plugin_folder, self._registry):
            Path(folder).mkdir(mode=0o750, parents=True, exist_ok=True)
        self._lock = InstanceLock(self._sockets)
        try:
            self._lock.remove_sockets()
            remove_left_behind(self._driver, self._plugin_folder, self._registry)
            versions = [*plugin_server.VERSIONS, *health_server.VERSIONS]
            registration = RegistrationServer(self._driver, self._sockets.service, versions)
            await self._serve(self._sockets.service, [*self._plugin.handlers(), *self._health.handlers()])
            await self._serve(self._sockets.registration, [registration.handlers()])
        except BaseException:
            await self._end()
            raise
        _logger.info("driver %s serves %s", self._driver, self._sockets.service)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._end()

    async def _serve(self, path: str, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_MAX)],
            maximum_concurrent_rpcs=CALLS_MAX,
        )
        server.add_generic_rpc_handlers(tuple(handlers))
        self._servers.append(server)
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise OSError(f"{path} can't be bound: {error}") from error
        await server.start()

    async def _end(self) -> None:
        """The registration first, so that the kubelet asks another instance from now on."""
        try:
            self._lock.remove_registration()
            self._health.end()
            for server in reversed(self._servers):
                await server.stop(GRACE)
            await self._plugin.end()
        finally:
            self._servers.clear()
            self._lock.release()
