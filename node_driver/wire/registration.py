"""Registration: how the kubelet learns the driver's name, its socket and its versions (D-5 to D-7)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import grpc

from node_driver.wire.messages import REGISTRATION

_logger = logging.getLogger(__name__)

SERVICE: Final = "pluginregistration.Registration"


class RegistrationServer:
    """Answers for the service at ``endpoint``. ``versions``: newest first (D-7)."""

    def __init__(self, driver: str, endpoint: str, versions: Sequence[str]) -> None:
        self._driver = driver
        self._endpoint = endpoint
        self._versions = tuple(versions)

    def handlers(self) -> grpc.GenericRpcHandler:
        methods = {
            "GetInfo": (self._info, "InfoRequest"),
            "NotifyRegistrationStatus": (self._notified, "RegistrationStatus"),
        }
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    method,
                    request_deserializer=REGISTRATION[request].FromString,
                    response_serializer=lambda message: message.SerializeToString(),
                )
                for name, (method, request) in methods.items()
            },
        )

    async def _info(self, _request: Any, _context: grpc.aio.ServicerContext) -> Any:
        return REGISTRATION["PluginInfo"](
            type="DRAPlugin", name=self._driver, endpoint=self._endpoint, supported_versions=self._versions
        )

    async def _notified(self, status: Any, context: grpc.aio.ServicerContext) -> Any:
        """Answers a refusal with an error, and logs why: the kubelet says it here only (D-6)."""
        if not status.plugin_registered:
            _logger.error("the kubelet refused to register driver %s: %s", self._driver, status.error)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"registration was refused: {status.error}")
        _logger.info("the kubelet has registered driver %s", self._driver)
        return REGISTRATION["RegistrationStatusResponse"]()
