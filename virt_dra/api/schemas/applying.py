"""The object that is stored after a manifest is applied to another. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.wire import Wire

W = TypeVar("W", bound=Wire)

_OF_THE_SERVER = (
    "uid", "resource_version", "generation", "creation_timestamp", "deletion_timestamp",
    "deletion_grace_period_seconds", "self_link", "managed_fields",
)  # fmt: skip
_UNLESS_GIVEN = ("namespace", "owner_references", "finalizers")
"""Kept like the server's, unless the manifest has them."""


def on_top(new: TypedObject, old: TypedObject) -> TypedObject:
    """The object that is stored after ``new`` is applied to ``old``.

    A manifest leaves status and the server's metadata of an object from a cluster (one with a UID) alone. A ``new``
    object that has a UID itself replaces the old one.
    """
    if new.metadata.uid:
        return new
    if not old.metadata.uid:
        return new if _has_status(new) else as_in(new, old, "status")
    kept = [*_OF_THE_SERVER, *(field for field in _UNLESS_GIVEN if not new.metadata.given(field))]
    metadata: ObjectMeta = as_in(new.metadata, old.metadata, *kept)
    for field in ("labels", "annotations"):
        merged = {**getattr(old.metadata, field), **getattr(metadata, field)}
        if merged:
            metadata = metadata.with_(**{field: merged})
    return as_in(new.with_(metadata=metadata), old, "status")


def applied_in_order(objects: Iterable[TypedObject], namespace: str) -> list[TypedObject]:
    """The objects, each name once: the last one, applied to the one before as by ``kubectl apply``, so that a claim
    keeps its allocation. ``namespace``: of objects that name none."""
    latest: dict[object, TypedObject] = {}
    for obj in objects:
        identity = (obj.kind or obj.KIND, obj.namespace or namespace, obj.name or id(obj))
        before = latest.get(identity)
        latest[identity] = obj if before is None or type(before) is not type(obj) else on_top(obj, before)
    return list(latest.values())


def _has_status(obj: TypedObject) -> bool:
    """True if the status has any content: API servers print new objects with ``status: {}``."""
    return bool(obj.to_wire().get("status"))


def as_in(obj: W, source: W, *fields: str) -> W:
    """A copy of ``obj`` whose fields (Python names) are as in ``source``, absence included."""
    for field in fields:
        if field in type(obj).model_fields:
            obj = obj.with_(**{field: getattr(source, field)}) if source.given(field) else obj.without(field)
        elif field in (extra := source.model_extra or {}):
            obj = obj.with_(**{field: extra[field]})
        else:
            obj = obj.without(field)
    return obj
