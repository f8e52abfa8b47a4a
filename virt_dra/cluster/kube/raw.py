"""Objects of any kind as JSON: kinds are named by apiVersion and kind, their resource names and scopes come from the
API server's discovery, which is cached until a kind is missing in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from virt_dra.api.wire import Json
from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.kube.decoding import metadata_in, parsed, parsed_object
from virt_dra.cluster.kube.limits import MIB
from virt_dra.cluster.kube.paging import pages, selection
from virt_dra.cluster.kube.paths import DEFAULT_NAMESPACE, collection, group_version, item
from virt_dra.cluster.kube.transport import KubeRequest, Transport
from virt_dra.cluster.port import BadRequest, Gone, NotFound, Unavailable

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_METRICS_BYTES = 64 * MIB

Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True)
class ServedKind:
    """A kind, from discovery."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    subresources: tuple[str, ...]

    @property
    def resource(self) -> ApiResource:
        """The resource, for paths and messages; discovery has nothing about how its objects are stored."""
        return ApiResource(
            api_version=self.api_version, kind=self.kind, plural=self.plural, namespaced=self.namespaced,
            has_status="status" in self.subresources, counts_generation=False, keeps_status_on_create=False,
            unconditional_update=False, native=False,
        )  # fmt: skip


class RawObjects:
    """What :class:`~virt_dra.cluster.kube.cluster.KubeCluster` can do with JSON objects. ``dry_run``: the server does
    everything but store. ``namespace`` is ignored for cluster-scoped kinds and means ``default`` if empty."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._served: dict[str, tuple[ServedKind, ...]] = {}

    # --- objects --------------------------------------------------------------------------------------------------

    async def apply(
        self, raw: Mapping[str, Any], *, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Json:
        """Server-side apply: the object as it then is. Raises :class:`~virt_dra.cluster.port.Conflict` for fields of
        other managers, whose message names them, unless ``force``; the server refuses fields that it doesn't know."""
        served, namespace, name = await self._identified(raw)
        query = (("fieldManager", field_manager), ("force", "true" if force else "false"), *_dry(dry_run))
        path = item(served.resource, namespace, name)
        request = KubeRequest("PATCH", path, query, dict(raw), APPLY_PATCH, verb="apply", subject=served.plural)
        return await self._object(request, served, name, namespace)

    async def get_raw(self, api_version: str, kind: str, name: str, namespace: str = "") -> Json:
        served = await self.served_kind(api_version, kind)
        request = KubeRequest("GET", item(served.resource, namespace, name), verb="get", subject=served.plural)
        return await self._object(request, served, name, namespace)

    async def list_raw(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[Json, ...]:
        """All objects of a kind, with apiVersion and kind filled in; of all namespaces if none is given."""
        served = await self.served_kind(api_version, kind)
        named = {"apiVersion": served.api_version, "kind": served.kind}

        async def read(*, at_once: bool) -> tuple[Json, ...]:
            selected = selection(labels, fields)
            parts = pages(self._transport, served.resource, namespace, selected, at_once=at_once)
            return tuple([{**raw, **named} async for page in parts for raw in page.items])

        try:
            return await read(at_once=False)
        except Gone:  # between two pages
            return await read(at_once=True)

    async def create_raw(self, raw: Mapping[str, Any], *, dry_run: bool = False, field_manager: str = "") -> Json:
        served, namespace, name = await self._identified(raw, named=False)
        path = collection(served.resource, namespace or DEFAULT_NAMESPACE)
        query = (*((("fieldManager", field_manager),) if field_manager else ()), *_dry(dry_run))
        request = KubeRequest("POST", path, query, dict(raw), verb="create", subject=served.plural, repeatable=False)
        return await self._object(request, served, name, namespace)

    async def update_raw(self, raw: Mapping[str, Any], *, dry_run: bool = False, subresource: str = "") -> Json:
        served, namespace, name = await self._identified(raw)
        path = item(served.resource, namespace, name, subresource)
        request = KubeRequest("PUT", path, _dry(dry_run), dict(raw), verb="update", subject=served.plural)
        return await self._object(request, served, name, namespace)

    async def patch_raw(
        self, api_version: str, kind: str, name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None,
        operations: Sequence[Mapping[str, Any]] | None = None, strategic: Mapping[str, Any] | None = None,
        subresource: str = "", dry_run: bool = False,
    ) -> Json:  # fmt: skip
        """Apply one of the three kinds of patch; any other number is a :class:`~virt_dra.cluster.port.BadRequest`."""
        given = ((merge, MERGE_PATCH), (operations, JSON_PATCH), (strategic, STRATEGIC_PATCH))
        patches = [(body, content_type) for body, content_type in given if body is not None]
        if len(patches) != 1:
            raise BadRequest("a patch needs exactly one of merge, operations and strategic")
        ((body, content_type),) = patches
        served = await self.served_kind(api_version, kind)
        request = KubeRequest(
            "PATCH", item(served.resource, namespace, name, subresource), _dry(dry_run), body, content_type,
            verb="patch", subject=served.plural, repeatable=operations is None,
        )  # fmt: skip
        return await self._object(request, served, name, namespace)

    async def delete_raw(
        self, api_version: str, kind: str, name: str, namespace: str = "", *,
        uid: str = "", propagation: Propagation = "Background", dry_run: bool = False,
    ) -> None:  # fmt: skip
        served = await self.served_kind(api_version, kind)
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        if dry_run:
            options["dryRun"] = ["All"]
        await self._transport.request(
            KubeRequest(
                "DELETE", item(served.resource, namespace, name), body=options, verb="delete", subject=served.plural
            )
        )

    # --- the server -----------------------------------------------------------------------------------------------

    async def server_version(self) -> Json:
        """``/version``: ``major``, ``minor``, ``gitVersion``, …"""
        return await self._answer(KubeRequest("GET", "/version", verb="get", subject="version"))

    async def pod_text(self, namespace: str, pod: str, port: int, path: str) -> str:
        """What a pod answers to GET over HTTP, through the API server."""
        proxied = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}:{port}/proxy/{path}"
        request = KubeRequest("GET", proxied, accept="text/plain", verb="get", subject="pods/proxy")
        return (await self._transport.request(request)).decode(errors="replace")

    async def metrics_text(self) -> str:
        """The API server's own metrics, in Prometheus' text format (the gates among them)."""
        request = KubeRequest(
            "GET", "/metrics", accept="text/plain", verb="get", subject="metrics", most=_METRICS_BYTES
        )
        return (await self._transport.request(request)).decode()

    async def api_versions(self) -> tuple[str, ...]:
        """All apiVersions that are served: ``v1``, ``apps/v1``, …"""
        core, groups = await asyncio.gather(
            self._answer(KubeRequest("GET", "/api", verb="get", subject="discovery")),
            self._answer(KubeRequest("GET", "/apis", verb="get", subject="discovery")),
        )
        named = (entry["groupVersion"] for group in groups.get("groups") or () for entry in group.get("versions") or ())
        return (*(core.get("versions") or ()), *named)

    async def kinds_of(self, api_version: str) -> tuple[ServedKind, ...]:
        """All kinds of one apiVersion, from a new request; empty if it isn't served."""
        try:
            answer = await self._answer(KubeRequest("GET", group_version(api_version), verb="get", subject="discovery"))
        except NotFound:
            return ()
        resources = answer.get("resources") or []
        if (
            answer.get("kind") != "APIResourceList"
            or not isinstance(resources, list)
            or not all(isinstance(resource, dict) for resource in resources)
        ):
            raise Unavailable(f"the server answered what is no list of the kinds of {api_version}")
        self._served[api_version] = kinds = _kinds(api_version, resources)
        return kinds

    async def served_kind(self, api_version: str, kind: str) -> ServedKind:
        """The kind, from discovery. Raises :class:`~virt_dra.cluster.port.NotFound` if the server doesn't serve it."""
        remembered = _named(kind, self._served.get(api_version, ()))
        served = remembered or _named(kind, await self.kinds_of(api_version))
        if served is None:
            raise NotFound(
                f"the server doesn't serve {kind} of {api_version}: is its "
                "CustomResourceDefinition (or feature gate) missing?"
            )
        return served

    # --- parts ----------------------------------------------------------------------------------------------------

    async def _object(self, request: KubeRequest, served: ServedKind, name: str, namespace: str) -> Json:
        """The object that the request is about."""
        where = (namespace or DEFAULT_NAMESPACE) if served.namespaced else ""
        return parsed_object(await self._transport.request(request), served.kind, name, where)

    async def _answer(self, request: KubeRequest) -> Json:
        return parsed(await self._transport.request(request))

    async def _identified(self, raw: Mapping[str, Any], *, named: bool = True) -> tuple[ServedKind, str, str]:
        """Kind, namespace and name. Raises :class:`~virt_dra.cluster.port.BadRequest` for an object that lacks one."""
        api_version, kind, meta = raw.get("apiVersion"), raw.get("kind"), metadata_in(raw)
        name, namespace = meta.get("name") or "", meta.get("namespace") or ""
        if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
            raise BadRequest("an object must say its apiVersion and kind")
        if not isinstance(name, str) or not isinstance(namespace, str) or (named and not name):
            raise BadRequest(f"{kind}: metadata.name is required and must be a string")
        return await self.served_kind(api_version, kind), namespace, name


def _dry(dry_run: bool) -> tuple[tuple[str, str], ...]:
    return (("dryRun", "All"),) if dry_run else ()


def _named(kind: str, among: Sequence[ServedKind]) -> ServedKind | None:
    return next((served for served in among if served.kind == kind), None)


def _kinds(api_version: str, resources: Sequence[Mapping[str, Any]]) -> tuple[ServedKind, ...]:
    names = [str(entry.get("name")) for entry in resources]
    return tuple(
        ServedKind(
            api_version,
            str(entry.get("kind")),
            name,
            bool(entry.get("namespaced")),
            tuple(other.partition("/")[2] for other in names if other.startswith(f"{name}/")),
        )
        for name, entry in zip(names, resources, strict=True)
        if "/" not in name
    )
