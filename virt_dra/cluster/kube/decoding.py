"""Typed objects from an API server's JSON. **An unreadable object counts as absent.**

One that doesn't have the shape its class knows (a newer API wrote it) must not stop a list or a watch of thousands of
others: it is left out, and reported to the log and the observer. In a watch it looks like one that leaves the
selection: DELETED, with its metadata only. Asked for by name it is :class:`~virt_dra.cluster.port.Unreadable`. Unknown
fields are kept (:mod:`virt_dra.api.wire`). ``metadata.managedFields`` is left out: it is as large as the rest of many
objects, nothing reads it, and the API server keeps its own when an update brings none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from virt_dra.api.meta import ObjectMeta, ObjectT
from virt_dra.api.wire import Json, WireError
from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.kube.interning import SharedParts
from virt_dra.cluster.kube.transport import KubeObserver
from virt_dra.cluster.port import Unavailable, Unreadable

log = logging.getLogger(__name__)

_REMEMBERED = 1000
_SHOWN = 200
"""Characters of an unexpected answer that an error message quotes."""


class Decoder:
    def __init__(self, observer: KubeObserver) -> None:
        self._observer = observer
        self._shared = SharedParts()
        self._told: dict[tuple[str, str], str] = {}
        """Kind and key -> the resourceVersion that was reported: an unreadable object is logged once, however often it
        is listed."""

    def read(self, kind: type[ObjectT], resource: ApiResource, raw: Mapping[str, Any]) -> ObjectT:
        """The typed object. Raises :class:`Unreadable`."""
        try:
            return self._read(kind, resource, raw)
        except WireError as error:
            subject = f"{resource.kind} {_key(raw)}"
            raise Unreadable(f"{subject} doesn't have the shape known to this version of virt-dra: {error}") from error

    def listed(self, kind: type[ObjectT], resource: ApiResource, raw: object) -> ObjectT | None:
        """One item of a list; None if it is unreadable, which is reported."""
        try:
            if not isinstance(raw, dict):
                raise WireError(resource.kind, (("", "must be an object"),))
            return self._read(kind, resource, raw)
        except WireError as error:
            self._report(resource, raw if isinstance(raw, dict) else {}, error)
            return None

    def outline(self, kind: type[ObjectT], resource: ApiResource, raw: Mapping[str, Any]) -> ObjectT | None:
        """Only what identifies an object, for one that is otherwise unreadable; None if not even that can be read."""
        meta, names = metadata_in(raw), ("name", "namespace", "uid", "resourceVersion")
        try:
            read = ObjectMeta.from_wire({name: meta[name] for name in names if name in meta})
        except WireError:
            return None
        if not read.name:
            return None
        return kind.from_wire({"apiVersion": resource.api_version, "kind": resource.kind}).with_(metadata=read)

    def _read(self, kind: type[ObjectT], resource: ApiResource, raw: Mapping[str, Any]) -> ObjectT:
        # Items of a list of Kubernetes' own kinds don't say what they are.
        whole = {**raw, "apiVersion": resource.api_version, "kind": resource.kind}
        meta = whole.get("metadata")
        if isinstance(meta, dict) and "managedFields" in meta:
            whole["metadata"] = {name: value for name, value in meta.items() if name != "managedFields"}
        return self._shared.shared(kind.from_wire(whole))

    def _report(self, resource: ApiResource, raw: Mapping[str, Any], error: WireError) -> None:
        key, version = _key(raw), str(metadata_in(raw).get("resourceVersion", ""))
        self._observer.unreadable(resource.kind, key, str(error))
        if self._told.get((resource.kind, key)) == version:
            return
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told[resource.kind, key] = version
        text = "%s %s is left out: it doesn't have the shape known to this version of virt-dra: %s"
        log.warning(text, resource.kind, key, error)


def parsed(body: bytes) -> Json:
    """A JSON object. Raises :class:`~virt_dra.cluster.port.Unavailable` for anything else, such as a proxy's page."""
    try:
        value: object = from_json(body, cache_strings="all")
    except ValueError as error:
        raise Unavailable(f"the server answered what is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unavailable("the server answered what is no object")
    return value


def parsed_object(body: bytes, kind: str, name: str = "", namespace: str = "") -> Json:
    """The JSON of the one object that was asked for or written. ``name``, ``namespace``: "" for any, or none (reviews).
    Raises :class:`~virt_dra.cluster.port.Unavailable` for any other answer: it may be the state of another object."""
    answer = parsed(body)
    meta = metadata_in(answer)
    answered = (answer.get("kind"), meta.get("name") or "", meta.get("namespace") or "")
    wanted = (kind, name or answered[1], namespace or answered[2])
    if answered != wanted:
        raise Unavailable(
            f"the server answered another object than was asked for: {_shown(answered)} instead of {_shown(wanted)}"
        )
    return answer


def parsed_list(body: bytes, kind: str) -> tuple[list[Any], Json]:
    """Items and metadata of one page of a list of a kind. Raises :class:`~virt_dra.cluster.port.Unavailable` for any
    other answer: taken for a list without items it would mean that all objects are gone."""
    answer = parsed(body)
    items, meta = answer.get("items"), answer.get("metadata")
    if answer.get("kind") != f"{kind}List" or not isinstance(meta, dict) or not isinstance(items, list | None):
        raise Unavailable(f"the server answered what is no list of {kind}: {_cut(answer.get('kind'))}")
    if not isinstance(meta.get("resourceVersion"), str) or not meta["resourceVersion"]:
        raise Unavailable(f"the server answered a list of {kind} without a resourceVersion")
    return items or [], meta


def _shown(identity: tuple[object, ...]) -> str:
    kind, name, namespace = identity
    return f"{_cut(kind)} {_cut(f'{namespace}/{name}' if namespace else name)}"


def _cut(value: object) -> str:
    return repr(value)[:_SHOWN] if not isinstance(value, str) else value[:_SHOWN]


def metadata_in(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object; empty if it has none."""
    meta = raw.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _key(raw: Mapping[str, Any]) -> str:
    name, namespace = metadata_in(raw).get("name", ""), metadata_in(raw).get("namespace", "")
    return f"{namespace}/{name}" if namespace else f"{name}"
