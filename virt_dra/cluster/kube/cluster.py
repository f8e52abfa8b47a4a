"""A real cluster behind the port: an API server. :func:`connect` finds and connects to a cluster.

Importing this module costs a third of a second: import it where a cluster is really asked.
"""

from __future__ import annotations

import asyncio
import builtins
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal, Self, cast

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.cluster import refusals
from virt_dra.cluster.kinds import ApiResource, resource_of
from virt_dra.cluster.kube import paging as kube_paging
from virt_dra.cluster.kube import paths as kube_paths
from virt_dra.cluster.kube.access import Access, Credentials
from virt_dra.cluster.kube.config import found_access
from virt_dra.cluster.kube.connections import ServerConnections
from virt_dra.cluster.kube.decoding import Decoder, metadata_in, parsed, parsed_object
from virt_dra.cluster.kube.errors import ConnectionProblem, ProblemReason, of_status
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.kube.paging import Selection, selection
from virt_dra.cluster.kube.raw import JSON_PATCH, MERGE_PATCH, RawObjects
from virt_dra.cluster.kube.transport import (
    KubeObserver,
    KubeRequest,
    NoKubeObserver,
    Transport,
    UntrustedServer,
    lost,
)
from virt_dra.cluster.kube.watch import lines, parsed_event
from virt_dra.cluster.large import beside_the_loop
from virt_dra.cluster.port import ApiError, BadRequest, Forbidden, Gone, Listed, Unauthorized, Unavailable, WatchEvent
from virt_dra.cluster.requester import Requester

__all__ = ["ConnectionProblem", "KubeCluster", "connect"]

_CLOCK_WORDS = ("certificate is not yet valid", "certificate has expired")
_SHORTEST_WATCH = 1.0
"""Seconds; a watch that ends sooner, without an event, has failed rather than timed out."""


class KubeCluster(RawObjects):
    """Implements :class:`virt_dra.cluster.port.Cluster`. Not for several event loops.

    Besides the port's exceptions every method raises :class:`Unavailable`, :class:`Unauthorized`, :class:`Forbidden`
    and :class:`TooManyRequests`, after the repetitions that make sense.
    """

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._decoder = Decoder(transport.observer)

    @property
    def transport(self) -> Transport:
        return self._transport

    def acting_as(self, requester: Requester) -> Self:
        """The same cluster on behalf of a user whom we must be allowed to impersonate. Valid as long as this one."""
        view = copy(self)
        view._transport = replace(self._transport, requester=requester)
        return view

    async def credentials(self) -> Credentials:
        """The current credentials, for another client of the same server (kopf's). Raises :class:`Unauthorized`."""
        return await self._transport.connections.access.credentials()

    # --- Reader ---------------------------------------------------------------------------------------------------

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        """Raises :class:`~virt_dra.cluster.port.NotFound`, :class:`~virt_dra.cluster.port.Unreadable`."""
        resource = resource_of(kind)
        request = KubeRequest("GET", kube_paths.item(resource, namespace, name), verb="get", subject=resource.plural)
        return await self._answered(kind, resource, request, name, namespace)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        """By namespace and name, read in pages of one state; all at once if that state is gone before the last page."""
        try:
            pages = [page async for page in self.pages(kind, namespace, labels=labels, fields=fields)]
        except Gone:
            selected = selection(labels, fields)
            pages = [page async for page in self._pages_of(kind, namespace, selected, at_once=True)]
        size = sum(page.size for page in pages)
        return Listed(tuple(chain.from_iterable(page.items for page in pages)), pages[-1].resource_version, size)

    def pages(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listed[ObjectT]]:
        """See :class:`virt_dra.cluster.port.PagedReader`. There is always one page, be it empty."""
        return self._pages_of(kind, namespace, selection(labels, fields))

    async def _pages_of(
        self, kind: type[ObjectT], namespace: str, selected: Selection, *, at_once: bool = False
    ) -> AsyncIterator[Listed[ObjectT]]:
        """The parts of a list."""
        resource = resource_of(kind)
        async for page in kube_paging.pages(self._transport, resource, namespace, selected, at_once=at_once):
            objects = await beside_the_loop(page.size, self._read, kind, resource, page.items)
            yield Listed(tuple(objects), page.resource_version, page.size)
            objects.clear()

    def _read(self, kind: type[ObjectT], resource: ApiResource, items: builtins.list[Any]) -> builtins.list[ObjectT]:
        """The objects of the items, whose list it empties to save memory."""
        items.reverse()
        read = (self._decoder.listed(kind, resource, items.pop()) for _ in range(len(items)))
        return [obj for obj in read if obj is not None]

    # --- Writer ---------------------------------------------------------------------------------------------------

    async def create(self, obj: ObjectT) -> ObjectT:
        """Not repeated when the answer is lost: :class:`Unavailable` then leaves open whether it was created."""
        resource = resource_of(obj)
        path = kube_paths.collection(resource, obj.metadata.namespace or kube_paths.DEFAULT_NAMESPACE)
        request = KubeRequest(
            "POST", path, body=_body(resource, obj), verb="create", subject=resource.plural, repeatable=False
        )
        return await self._answered(type(obj), resource, request, obj.metadata.name, obj.metadata.namespace)

    async def update(self, obj: ObjectT) -> ObjectT:
        return await self._replaced(obj, "")

    async def update_status(self, obj: ObjectT) -> ObjectT:
        return await self._replaced(obj, "status")

    async def _replaced(self, obj: ObjectT, subresource: str) -> ObjectT:
        resource = resource_of(obj)
        path = kube_paths.item(resource, obj.metadata.namespace, obj.metadata.name, subresource)
        request = KubeRequest("PUT", path, body=_body(resource, obj), verb="update", subject=resource.plural)
        return await self._answered(type(obj), resource, request, obj.metadata.name, obj.metadata.namespace)

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        """Operations are not repeated when the answer is lost: they may add twice."""
        if (merge is None) == (operations is None):
            raise BadRequest("a patch needs either merge or operations")
        resource = resource_of(kind)
        path = kube_paths.item(resource, namespace, name, subresource)
        body, content_type = (merge, MERGE_PATCH) if operations is None else (list(operations), JSON_PATCH)
        request = KubeRequest(
            "PATCH", path, body=body, content_type=content_type, verb="patch", subject=resource.plural,
            repeatable=operations is None,
        )  # fmt: skip
        return await self._answered(kind, resource, request, name, namespace)

    async def bind(self, pod: Pod, node: str) -> None:
        """Not repeated when the answer is lost: a second request would be refused in any case."""
        resource = resource_of(Pod)
        uid = {"uid": pod.metadata.uid} if pod.metadata.uid else {}
        meta = {"name": pod.name, "namespace": _namespace(resource, pod.namespace), **uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        path = kube_paths.item(resource, pod.namespace, pod.name, "binding")
        request = KubeRequest("POST", path, body=body, verb="create", subject=resource.plural, repeatable=False)
        await self._transport.request(request)

    async def delete(
        self, kind: type[ObjectT], name: str, namespace: str = "", *,
        uid: str = "", resource_version: str = "", grace_seconds: int | None = None,
    ) -> None:  # fmt: skip
        """In the background: what it owned goes after it. After a lost answer the next may be :class:`NotFound`."""
        resource = resource_of(kind)
        given = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if preconditions := {key: value for key, value in given.items() if value}:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = kube_paths.item(resource, namespace, name)
        await self._transport.request(KubeRequest("DELETE", path, body=options, verb="delete", subject=resource.plural))

    async def _answered(
        self, kind: type[ObjectT], resource: ApiResource, request: KubeRequest, name: str, namespace: str
    ) -> ObjectT:
        """The object that the answer to a request has."""
        body = await self._transport.request(request)
        answer = parsed_object(body, resource.kind, name, _namespace(resource, namespace))
        return self._decoder.read(kind, resource, answer)

    # --- Watcher --------------------------------------------------------------------------------------------------

    async def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        """Every change after ``resource_version``, in order, and bookmarks: goes on when the server ends a watch whose
        time is over. Raises :class:`Unavailable` when it was cut otherwise (go on from the last version seen, bookmarks
        included), :class:`Gone` when the version is too old. Events are read on demand; the server cuts off a reader
        that is too slow."""
        resource = resource_of(kind)
        version = resource_version
        if version in ("", "0"):
            there = await self.list(kind, namespace, labels=labels, fields=fields)
            for obj in there.items:
                yield WatchEvent("ADDED", obj)
            version = there.resource_version
        else:
            refusals.parsed_version(version)
        loop = asyncio.get_running_loop()
        while True:
            began, number = loop.time(), 0
            async with aclosing(self._watched(kind, resource, namespace, version, selection(labels, fields))) as events:
                async for reached, event in events:
                    version, number = reached, number + 1
                    if event is not None:
                        yield event
            if not number and loop.time() - began < _SHORTEST_WATCH:
                raise Unavailable(f"a watch of {resource} ended as soon as it began")

    async def _watched(
        self, kind: type[ObjectT], resource: ApiResource, namespace: str, version: str, selected: Selection
    ) -> AsyncGenerator[tuple[str, WatchEvent[ObjectT] | None]]:
        """One watch until the server ends it: events with the version each leads to. None for one that changes
        nothing."""
        seconds = str(int(self._transport.limits.watch_seconds * (1 + random.random())))
        asked = (
            ("watch", "1"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", seconds), ("resourceVersion", version)
        )  # fmt: skip
        path = kube_paths.collection(resource, namespace)
        request = KubeRequest("GET", path, (*selected, *asked), verb="watch", subject=resource.plural)
        limits = self._transport.limits
        async with self._transport.stream(request) as stream, aclosing(lines(stream, limits)) as watch_lines:
            while True:
                try:
                    line = await anext(watch_lines)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    return  # silent for too long: restarted, which shows whether the server is alive
                except OSError as error:
                    raise lost(self._transport.server, error) from error
                if line.strip():
                    reached, event = await beside_the_loop(len(line), self._read_event, kind, resource, line)
                    yield reached or version, event

    def _read_event(
        self, kind: type[ObjectT], resource: ApiResource, line: bytes
    ) -> tuple[str, WatchEvent[ObjectT] | None]:
        """The version that an event leads to, "" for none, and the event, which has its size."""
        type_, raw = parsed_event(line, resource.kind)
        event = self._event(kind, resource, type_, raw)
        return _version_of(raw), None if event is None else replace(event, size=len(line))

    def _event(self, kind: type[ObjectT], resource: ApiResource, type_: str, raw: Any) -> WatchEvent[ObjectT] | None:
        if type_ == "ERROR":
            raise of_status(raw)
        if type_ == "BOOKMARK":
            mark = kind.from_wire({"apiVersion": resource.api_version, "kind": resource.kind})
            return WatchEvent("BOOKMARK", mark.with_(metadata=ObjectMeta(resource_version=_version_of(raw))))
        if type_ not in ("ADDED", "MODIFIED", "DELETED"):
            return None  # of a newer API; the version counts all the same
        obj = self._decoder.listed(kind, resource, raw)
        if obj is not None:
            return WatchEvent(cast("Literal['ADDED', 'MODIFIED', 'DELETED']", type_), obj)
        outline = self._decoder.outline(kind, resource, raw)
        return None if outline is None else WatchEvent("DELETED", outline)


@asynccontextmanager
async def connect(
    kubeconfig: str | None = None, context: str | None = None, *,
    limits: ClientLimits | None = None, observer: KubeObserver | None = None,
) -> AsyncIterator[KubeCluster]:  # fmt: skip
    """A cluster that has answered once: of ``kubeconfig``, ``$KUBECONFIG``, ``~/.kube/config`` or the service account
    of the pod we run in, in this order. Credentials are reloaded when they are refused, and a service account's token
    every minute. Raises :class:`ConnectionProblem`."""
    access = await found_access(kubeconfig, context)
    transport = Transport(ServerConnections(access), limits or ClientLimits(), observer or NoKubeObserver())
    try:
        await _check(transport, access)
        yield KubeCluster(transport)
    finally:
        await transport.close()


async def _check(transport: Transport, access: Access) -> None:
    """Raises :class:`ConnectionProblem` unless the server answers us."""
    limits = ClientLimits(timeout=10.0, connect_timeout=5.0, patience=15.0, attempts=3)
    first = Transport(transport.connections, limits, clock=transport.clock)
    try:
        parsed(await first.request(KubeRequest("GET", "/version", verb="get", subject="version")))
    except ApiError as error:
        reason, text, advice = _explained(error)
        tried = f"tried {transport.server} ({access.source})"
        raise ConnectionProblem(reason, f"{text}; {tried}: {advice}") from error


def _explained(error: ApiError) -> tuple[ProblemReason, str, str]:
    """Reason, text and remedy of what kept a server from answering."""
    match error:
        case UntrustedServer() if any(words in str(error) for words in _CLOCK_WORDS):
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
            advice = f"this machine's clock says {now}: set it if it is wrong, else renew the certificate"
            return "TLS", str(error), advice
        case UntrustedServer():
            advice = "check certificate-authority in the kubeconfig, and that the server's name is in its certificate"
            return "TLS", str(error), advice
        case Unauthorized():
            advice = "the credentials are missing, unknown or expired: log in again, or check the user of the context"
            return "Unauthorized", f"the server refused our credentials: {error}", advice
        case Forbidden():
            return "Forbidden", f"the server knows us but refuses us: {error}", "grant it, or use another user"
        case Unavailable():
            advice = "check that the server runs and that its address and port are right, and the network and proxy"
            return "Unreachable", str(error), f"{advice} on the way"
    return "Unreachable", str(error), "is that a Kubernetes API server?"


def _body(resource: ApiResource, obj: TypedObject) -> dict[str, Any]:
    return {**obj.to_wire(), "apiVersion": resource.api_version, "kind": resource.kind}


def _namespace(resource: ApiResource, given: str) -> str:
    """The namespace in which the server stores the object; "" for cluster-scoped kinds."""
    return (given or kube_paths.DEFAULT_NAMESPACE) if resource.namespaced else ""


def _version_of(raw: Mapping[str, Any]) -> str:
    version = metadata_in(raw).get("resourceVersion")
    return version if isinstance(version, str) else ""
