"""The DRAPlugin service: the kubelet's two calls, in every version that is spoken (D-7, D-9 to D-12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

import grpc

from node_driver.wire.messages import DRA_V1, DRA_V1BETA1
from node_driver.wire.service import ClaimName, ClaimService, FailedClaim, HandedDevice, ReadyClaim, ReleasedClaim
from node_driver.wire.texts import wire_text
from virt_dra.protobuf.messages import MessagePackage

_logger = logging.getLogger(__name__)

VERSIONS: Final[Mapping[str, MessagePackage]] = {"v1.DRAPlugin": DRA_V1, "v1beta1.DRAPlugin": DRA_V1BETA1}
"""As registration lists them, newest first, and the package on the wire (D-7)."""
WAIT: Final = 15.0
"""Seconds until a call is answered; the kubelet gives up after 45 (D-11)."""
CLAIMS_MAX: Final = 256
"""Of one call; a pod has fewer."""
ATTEMPTS_MAX: Final = 4096
"""Attempts that go on at a time, also after their calls were answered."""

ClaimAnswer = ReadyClaim | ReleasedClaim | FailedClaim


class ClaimCall(StrEnum):
    PREPARE = "prepare"
    UNPREPARE = "unprepare"


@dataclass(frozen=True, slots=True)
class _Attempt:
    call: ClaimCall
    name: ClaimName
    task: asyncio.Task[ClaimAnswer]


class PluginServer:
    """Serves a :class:`ClaimService`. An attempt that takes longer than ``wait`` seconds goes on, and the kubelet's
    next call joins it, unless the other call for this claim came between."""

    def __init__(self, service: ClaimService, wait: float = WAIT) -> None:
        self._service = service
        self._wait = wait
        self._latest: dict[str, _Attempt] = {}
        self._tasks: set[asyncio.Task[ClaimAnswer]] = set()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        return [self._handler(messages) for messages in VERSIONS.values()]

    async def end(self) -> None:
        """Cancels what still goes on; the checkpoint knows what it had begun."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handler(self, messages: MessagePackage) -> grpc.GenericRpcHandler:
        methods = {
            "NodePrepareResources": (self._prepare, "NodePrepareResourcesRequest"),
            "NodeUnprepareResources": (self._unprepare, "NodeUnprepareResourcesRequest"),
        }
        return grpc.method_handlers_generic_handler(
            f"{messages.package}.DRAPlugin",
            {
                name: grpc.unary_unary_rpc_method_handler(
                    partial(method, messages),
                    request_deserializer=messages[request].FromString,
                    response_serializer=lambda message: message.SerializeToString(),
                )
                for name, (method, request) in methods.items()
            },
        )

    async def _prepare(self, messages: MessagePackage, request: Any, context: grpc.aio.ServicerContext) -> Any:
        answers = await self._answers(ClaimCall.PREPARE, request, context)
        return prepare_response(messages, answers)

    async def _unprepare(self, messages: MessagePackage, request: Any, context: grpc.aio.ServicerContext) -> Any:
        answers = await self._answers(ClaimCall.UNPREPARE, request, context)
        return unprepare_response(messages, answers)

    async def _answers(
        self, call: ClaimCall, request: Any, context: grpc.aio.ServicerContext
    ) -> dict[str, ClaimAnswer]:
        """One for each claim, and none for others (D-10)."""
        if len(request.claims) > CLAIMS_MAX:
            message = f"{len(request.claims)} claims in one call, at most {CLAIMS_MAX} are taken"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        names = {claim.uid: ClaimName(claim.namespace, claim.name, claim.uid) for claim in request.claims}
        attempts = {uid: self._attempt(call, name) for uid, name in names.items()}
        if tasks := [task for task in attempts.values() if task]:
            await asyncio.wait(tasks, timeout=self._wait)
        return {uid: _result(call, task) for uid, task in attempts.items()}

    def _attempt(self, call: ClaimCall, name: ClaimName) -> asyncio.Task[ClaimAnswer] | None:
        """The attempt that the call waits for, one that goes on already if it is the claim's latest; None if there are
        too many."""
        latest = self._latest.get(name.uid)
        if latest and (latest.call, latest.name) == (call, name):
            return latest.task
        if len(self._tasks) >= ATTEMPTS_MAX:
            return None
        task = asyncio.create_task(self._answer(call, name), name=f"{call} {name.uid}")
        attempt = self._latest[name.uid] = _Attempt(call, name, task)
        self._tasks.add(task)
        task.add_done_callback(lambda _task: self._ended(attempt))
        return task

    def _ended(self, attempt: _Attempt) -> None:
        self._tasks.discard(attempt.task)
        if self._latest.get(attempt.name.uid) is attempt:
            del self._latest[attempt.name.uid]

    async def _answer(self, call: ClaimCall, name: ClaimName) -> ClaimAnswer:
        work = self._service.prepare if call is ClaimCall.PREPARE else self._service.unprepare
        try:
            answer: ClaimAnswer = await work(name)
        except Exception as error:
            _logger.exception("%s of claim %s/%s (%s)", call, name.namespace, name.name, name.uid)
            return FailedClaim(f"the driver failed: {error!r}; its log says more")
        if isinstance(answer, FailedClaim):
            message = wire_text(answer.message)
            _logger.warning("%s of claim %s/%s (%s): %s", call, name.namespace, name.name, name.uid, message)
        return answer


def _result(call: ClaimCall, task: asyncio.Task[ClaimAnswer] | None) -> ClaimAnswer:
    if task is None:
        return FailedClaim(f"the driver still works on {ATTEMPTS_MAX} other claims; the kubelet asks again")
    if task.done() and not task.cancelled():
        return task.result()
    if task.cancelled():
        return FailedClaim("the driver is ending; the kubelet asks again")
    doing = "prepared" if call is ClaimCall.PREPARE else "released"
    return FailedClaim(f"the devices are still being {doing}; the kubelet asks again")


def prepare_response(messages: MessagePackage, answers: Mapping[str, ClaimAnswer]) -> Any:
    response = messages["NodePrepareResourcesResponse"]()
    for uid, answer in answers.items():
        entry = response.claims[uid]
        if isinstance(answer, FailedClaim):
            entry.error = wire_text(answer.message)
        elif isinstance(answer, ReadyClaim):
            entry.devices.extend(_devices(messages, answer.devices))
    return response


def unprepare_response(messages: MessagePackage, answers: Mapping[str, ClaimAnswer]) -> Any:
    response = messages["NodeUnprepareResourcesResponse"]()
    for uid, answer in answers.items():
        entry = response.claims[uid]
        if isinstance(answer, FailedClaim):
            entry.error = wire_text(answer.message)
    return response


def _devices(messages: MessagePackage, devices: Sequence[HandedDevice]) -> Iterable[Any]:
    device_class = messages["Device"]
    has_share_id = "share_id" in device_class.DESCRIPTOR.fields_by_name
    for device in devices:
        share = {"share_id": device.share_id} if has_share_id and device.share_id else {}
        requests, ids = device.requests, device.cdi_ids
        yield device_class(
            request_names=requests, pool_name=device.pool, device_name=device.device, cdi_device_ids=ids, **share
        )
