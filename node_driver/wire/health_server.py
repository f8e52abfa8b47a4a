"""The DRAResourceHealth service: a stream of the devices' health (D-37)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import grpc

from node_driver.wire.messages import HEALTH_V1, HEALTH_V1ALPHA1
from node_driver.wire.service import HealthReport, HealthSource
from node_driver.wire.texts import wire_text
from virt_dra.protobuf.messages import MessagePackage

_logger = logging.getLogger(__name__)

VERSIONS: Final[Mapping[str, MessagePackage]] = {
    "v1.DRAResourceHealth": HEALTH_V1,
    "v1alpha1.DRAResourceHealth": HEALTH_V1ALPHA1,
}
REPEAT: Final = 10.0
"""Seconds."""
PACE: Final = 0.2
"""Seconds between two reports, however often devices change."""
TIMEOUT: Final = 30
"""Seconds after which the kubelet takes a device's health for unknown."""
DEVICES_MAX: Final = 16384
"""The kubelet takes no more of a driver."""
BATCH: Final = 1024
"""Devices in one message of the stream: the kubelet takes 4 MiB. It keeps what it knows of the others."""


class HealthServer:
    def __init__(self, source: HealthSource, repeat: float = REPEAT) -> None:
        self._source = source
        self._repeat = repeat
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Ends all streams: a server that stops waits for them."""
        self._ending.set()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        return [self._handler(messages) for messages in VERSIONS.values()]

    def _handler(self, messages: MessagePackage) -> grpc.GenericRpcHandler:
        watch = grpc.unary_stream_rpc_method_handler(
            partial(self._watch, messages),
            request_deserializer=messages["NodeWatchResourcesRequest"].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        return grpc.method_handlers_generic_handler(
            f"{messages.package}.DRAResourceHealth", {"NodeWatchResources": watch}
        )

    async def _watch(
        self, messages: MessagePackage, _request: Any, _context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Any]:
        """All devices at once, after each change, and repeated. It ends with the kubelet or the driver only: the end of
        a stream clears what the kubelet knows."""
        ending = asyncio.create_task(self._ending.wait())
        changed = asyncio.create_task(self._source.changed())
        try:
            while not ending.done():
                await asyncio.sleep(0)  # it waits before the reports are read, so that no change is lost between
                for batch in self._batches():
                    yield health_response(messages, batch)
                await asyncio.wait([ending], timeout=PACE)
                await asyncio.wait([ending, changed], timeout=self._repeat - PACE, return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    changed.result()
                    changed = asyncio.create_task(self._source.changed())
        finally:
            ending.cancel()
            changed.cancel()

    def _batches(self) -> list[tuple[HealthReport, ...]]:
        try:
            reports = self._source.reports()[:DEVICES_MAX]
        except Exception:
            _logger.exception("the devices' health can't be reported")
            return []
        return [reports[start : start + BATCH] for start in range(0, len(reports), BATCH)] or [()]


def health_response(messages: MessagePackage, reports: Sequence[HealthReport]) -> Any:
    device_health, identifier = messages["DeviceHealth"], messages["DeviceIdentifier"]
    return messages["NodeWatchResourcesResponse"](
        devices=[
            device_health(
                device=identifier(pool_name=report.pool, device_name=report.device),
                health=report.health.value,
                last_updated_time=report.updated,
                health_check_timeout_seconds=TIMEOUT,
                message=wire_text(report.message),
            )
            for report in reports
        ]
    )
