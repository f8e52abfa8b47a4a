"""The sidecar's services on one Unix socket: Info and Callbacks of every version (K-11.5), and the domain hook of
KubeVirt 1.9's plugins (K-11.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self

import grpc

from launcher.errors import UNREADABLE_DOMAIN, UNREADABLE_VMI, LauncherError
from launcher.hook.wire import CALLBACKS, INFO, PLUGIN
from virt_dra.api.go_text import visible
from virt_dra.protobuf.messages import MessagePackage

_logger = logging.getLogger(__name__)

NAME: Final = "virt-dra"
PRIORITY: Final = 0
MESSAGE_MAX: Final = 4 << 20
"""Bytes that are received in one message: what a Go server takes by default, and KubeVirt of our answers."""
REFUSAL_MAX: Final = 1000
"""Characters of a refusal: it is sent as a header, and becomes part of a condition of the VMI."""
CALLS_MAX: Final = 8
"""Calls at a time; KubeVirt makes one."""
GRACE: Final = 5.0
"""Seconds for a call that goes on at the end."""
BOOT: Final = "Boot"
"""The invocation context of a domain that is about to be started."""

DomainMutation = Callable[[bytes, bytes], bytes]
"""From a domain's XML and its VMI's JSON to the XML that libvirt gets. Raises :class:`LauncherError`."""
HookMethod = Callable[[MessagePackage, Any], Awaitable[Any]]


class HookServer:
    """The sidecar's server, a context manager: it serves while it is entered. Entering raises :class:`OSError`."""

    def __init__(self, path: str, mutation: DomainMutation) -> None:
        self._path = path
        self._mutation = mutation
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_MAX)],
            maximum_concurrent_rpcs=CALLS_MAX,
        )
        self._server.add_generic_rpc_handlers(self._handlers())
        try:
            self._server.add_insecure_port(f"unix:{self._path}")
        except RuntimeError as error:
            raise OSError(f"{self._path} can't be bound: {error}") from error
        await self._server.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.stop(GRACE)

    async def ended(self) -> None:
        """Returns when KubeVirt has said that the VM ended."""
        await self._ended.wait()

    def _handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        callbacks: Mapping[str, HookMethod] = {
            "OnDefineDomain": self._on_define_domain,
            "PreCloudInitIso": _pre_cloud_init_iso,
            "Shutdown": self._shutdown,
        }
        spoken = (
            (messages, {name: method for name, method in callbacks.items() if f"{name}Params" in messages})
            for messages in CALLBACKS.values()
        )
        return (
            _service(INFO, "Info", {"Info": _info}),
            *(_service(messages, "Callbacks", methods) for messages, methods in spoken),
            _service(PLUGIN, "DomainHookService", {"MutateDomain": self._mutate_domain}, ("Request", "Response")),
        )

    async def _on_define_domain(self, messages: MessagePackage, params: Any) -> Any:
        domain = await asyncio.to_thread(self._mutation, params.domainXML, params.vmi)
        return messages["OnDefineDomainResult"](domainXML=domain)

    async def _mutate_domain(self, messages: MessagePackage, request: Any) -> Any:
        """Completes a domain that boots. The domain of a migration stays as it is, since what a guest sees can't change
        while it migrates."""
        domain = request.domain
        if request.sidecar_context.invocation_context == BOOT:
            domain = await asyncio.to_thread(self._mutation, domain, request.vmi)
        return messages["MutateDomainResponse"](domain=domain)

    async def _shutdown(self, messages: MessagePackage, _params: Any) -> Any:
        self._ended.set()
        return messages["ShutdownResult"]()


async def _info(messages: MessagePackage, _params: Any) -> Any:
    points = [messages["HookPoint"](name=name, priority=PRIORITY) for name in ("OnDefineDomain", "Shutdown")]
    return messages["InfoResult"](name=NAME, hookPoints=points, versions=list(CALLBACKS))


async def _pre_cloud_init_iso(messages: MessagePackage, params: Any) -> Any:
    """Returns the caller's data unchanged. It isn't among the hook points, since devices don't depend on it."""
    return messages["PreCloudInitIsoResult"](
        cloudInitNoCloudSource=params.cloudInitNoCloudSource, cloudInitData=params.cloudInitData
    )


def _service(
    messages: MessagePackage,
    service: str,
    methods: Mapping[str, HookMethod],
    suffixes: tuple[str, str] = ("Params", "Result"),
) -> grpc.GenericRpcHandler:
    """The service's handlers. ``suffixes``: of the names of a method's request and response."""
    return grpc.method_handlers_generic_handler(
        f"{messages.package}.{service}",
        {
            name: grpc.unary_unary_rpc_method_handler(
                _answering(messages, method),
                request_deserializer=messages[f"{name}{suffixes[0]}"].FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, method in methods.items()
        },
    )


def _answering(
    messages: MessagePackage, method: HookMethod
) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]:
    """The method, with refusals as statuses: KubeVirt puts their text into the condition Synchronized (K-7.26)."""

    async def answer(request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await method(messages, request)
        except LauncherError as error:
            unreadable = error.reason in (UNREADABLE_DOMAIN, UNREADABLE_VMI)
            code = grpc.StatusCode.INVALID_ARGUMENT if unreadable else grpc.StatusCode.FAILED_PRECONDITION
            text = visible(f"virt-dra: {error.message}"[: REFUSAL_MAX + 1])
            await context.abort(code, text if len(text) <= REFUSAL_MAX else f"{text[: REFUSAL_MAX - 3]}...")
        except Exception:
            _logger.exception("a hook failed")
            await context.abort(grpc.StatusCode.INTERNAL, "virt-dra: the hook failed; its container's log says why")

    return answer
