"""The writes that a plan may ask for, and :func:`write`, which does them: each by resourceVersion or precondition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.wire import Json
from virt_dra.cluster.port import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Writer,
)
from virt_dra.controllers.events import Event, shortened, warning

WRITE_REFUSED: Final = "WriteRefused"
"""Event: the API server refuses a write, and will refuse it again until something is changed."""


@dataclass(frozen=True)
class Create:
    obj: TypedObject


@dataclass(frozen=True)
class Update:
    """Replace an object by itself, changed; refused if it changed since it was read."""

    obj: TypedObject


@dataclass(frozen=True)
class Delete:
    """Delete the object of this UID, and no other of its name. ``resource_version`` "": whatever its version is."""

    kind: type[TypedObject]
    name: str
    namespace: str
    uid: str
    resource_version: str = ""

    @classmethod
    def object(cls, obj: TypedObject, *, unchanged: bool = False) -> Self:
        """The deletion of an object. ``unchanged``: refuse it if the object changed since it was read."""
        version = obj.metadata.resource_version if unchanged else ""
        return cls(type(obj), obj.name, obj.namespace, obj.metadata.uid, version)


@dataclass(frozen=True)
class PatchAnnotations:
    """Set annotations of an object that others write too; None removes one. ``resource_version`` "": of any version."""

    kind: type[TypedObject]
    name: str
    namespace: str
    uid: str
    annotations: Mapping[str, str | None]
    resource_version: str = ""

    @classmethod
    def on(cls, obj: TypedObject, annotations: Mapping[str, str | None], *, unchanged: bool = False) -> Self:
        """The patch of an object. ``unchanged``: refuse it if the object changed since it was read."""
        version = obj.metadata.resource_version if unchanged else ""
        return cls(type(obj), obj.name, obj.namespace, obj.metadata.uid, annotations, version)


@dataclass(frozen=True)
class PatchStatus:
    """Patch what differs between two versions of a status; refused if the object changed since it was read. Objects
    whose informer drops fields may be written in this way only, never whole."""

    obj: TypedObject
    changes: Json

    @classmethod
    def between(cls, old: TypedObject, new: TypedObject) -> Self:
        return cls(old, difference(old.to_wire().get("status", {}), new.to_wire().get("status", {})))


Write = Create | Update | Delete | PatchAnnotations | PatchStatus


def difference(old: Json, new: Json) -> Json:
    """The merge patch (RFC 7396) that makes ``new`` of ``old``; empty if they are equal."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = difference(before, value)
            if inner:
                patch[key] = inner
        elif key not in old or before != value:
            patch[key] = value
    return patch


@dataclass(frozen=True)
class WriteResult:
    """The result of the writes of a plan. ``stale``: an object had changed since the plan was made. ``refused``: events
    about writes that the API server refuses for good."""

    stale: bool = False
    refused: tuple[Event, ...] = ()

    @property
    def done(self) -> bool:
        return not self.stale and not self.refused


_FINAL = (Invalid, Forbidden, BadRequest, TooLarge)


async def write(writer: Writer, actions: Iterable[Write], about: TypedObject) -> WriteResult:
    """Do the writes in order, up to the first that isn't done. ``about``: the object of Events about refused writes.
    Raises other :class:`ApiError`, after which to retry."""
    for action in actions:
        try:
            await _write_one(writer, action)
        except (Conflict, NotFound, AlreadyExists):
            return WriteResult(stale=True)
        except ApiError as error:
            if isinstance(error, Invalid) and any(cause.field == "metadata.uid" for cause in error.causes):
                # The object was replaced; in a patch without a version that is no Conflict.
                return WriteResult(stale=True)
            if not isinstance(error, _FINAL):
                raise
            message = shortened(f"{_named(action)}: {error}")
            return WriteResult(refused=(warning(about, WRITE_REFUSED, message),))
    return WriteResult()


async def patch_status(writer: Writer, obj: ObjectT, status: Json, *, unchanged: bool = False) -> ObjectT:
    """Patch the status of this very object, whatever else of it changed; with ``unchanged`` only if nothing did."""
    meta = {"uid": obj.metadata.uid} | ({"resourceVersion": obj.metadata.resource_version} if unchanged else {})
    merge = {"metadata": meta, "status": status}
    subresource: Literal["", "status"] = "status" if obj.HAS_STATUS else ""
    return await writer.patch(type(obj), obj.name, obj.namespace, merge=merge, subresource=subresource)


async def _write_one(writer: Writer, action: Write) -> None:
    match action:
        case Create(obj):
            await writer.create(obj)
        case Update(obj):
            await writer.update(obj)
        case Delete(kind, name, namespace, uid, version):
            try:
                await writer.delete(kind, name, namespace, uid=uid, resource_version=version)
            except NotFound:
                return
        case PatchAnnotations(kind, name, namespace, uid, annotations, version):
            metadata: dict[str, object] = {"uid": uid, "annotations": dict(annotations)}
            if version:
                metadata["resourceVersion"] = version
            await writer.patch(kind, name, namespace, merge={"metadata": metadata})
        case PatchStatus(obj, changes):
            await patch_status(writer, obj, changes, unchanged=True)


def _named(action: Write) -> str:
    match action:
        case Create(obj):
            return f"creating {obj.KIND} {obj.key or obj.metadata.generate_name}"
        case Update(obj) | PatchStatus(obj):
            return f"updating {obj.KIND} {obj.key}"
        case Delete(kind, name, namespace):
            return f"deleting {kind.KIND} {namespace}/{name}"
        case PatchAnnotations(kind, name, namespace):
            return f"annotating {kind.KIND} {namespace}/{name}"
