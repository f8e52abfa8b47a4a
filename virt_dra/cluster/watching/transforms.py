"""Transforms for :class:`~virt_dra.cluster.watching.informer.Informer` that drop fields, so that stores take less
memory.

A transformed object must never be written whole (``update``), as that would remove the fields: patch it, or read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.wire import Wire

W = TypeVar("W", bound=Wire)
_Names = dict[str, "_Names"]
"""Fields by their names, each with those in it; without any: the whole of it."""
_IDENTITY: Final = tuple(f"metadata.{name}" for name in ("name", "namespace", "uid", "resource_version"))
"""What an informer needs of each object."""


def known_fields_only(obj: W) -> W:
    """The object without the fields that our types don't know, at any depth. The given object isn't changed."""
    changes = {}
    for name in obj.model_fields_set:
        value = obj.__dict__.get(name)
        smaller = _smaller(value)
        if smaller is not value:
            changes[name] = smaller
    if not changes and not obj.model_extra:
        return obj
    copy = obj.model_copy(update=changes)
    if copy.model_extra:
        object.__setattr__(copy, "__pydantic_extra__", {})
        object.__setattr__(copy, "__pydantic_fields_set__", copy.model_fields_set & type(copy).model_fields.keys())
    return copy


def leaving_out(*paths: str) -> Callable[[ObjectT], ObjectT]:
    """A transform that drops fields by their Python names (``spec.containers.env``; a list or map on the way means each
    of its entries) and every field that our types don't know."""
    split = tuple(tuple(path.split(".")) for path in paths)

    def transform(obj: ObjectT) -> ObjectT:
        for path in split:
            obj = cast("ObjectT", _left_out(obj, path))
        return known_fields_only(obj)

    return transform


def keeping(*paths: str) -> Callable[[ObjectT], ObjectT]:
    """A transform that drops all fields but these (paths as for :func:`leaving_out`) and the object's identity."""
    tree: _Names = {}
    for path in (*paths, *_IDENTITY):
        names = tree
        for name in path.split("."):
            names = names.setdefault(name, {})

    def transform(obj: ObjectT) -> ObjectT:
        return cast("ObjectT", _kept(obj, tree))

    return transform


def differ_in_version_only(old: TypedObject, new: TypedObject) -> bool:
    """True if an update touches only the resourceVersion and dropped fields, such as a node's heartbeat."""
    if old.metadata.without("resource_version") != new.metadata.without("resource_version"):
        return False
    return old == new.with_(metadata=old.metadata)


def _kept(value: Any, tree: _Names) -> Any:
    if not tree:
        return value
    if isinstance(value, tuple):
        return tuple(_kept(entry, tree) for entry in value)
    if isinstance(value, dict):
        return {key: _kept(entry, tree) for key, entry in value.items()}
    if isinstance(value, Wire):
        given = tree.keys() & value.model_fields_set
        return type(value)(**{name: _kept(getattr(value, name), tree[name]) for name in given})
    return value


def _left_out(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, tuple):
        return tuple(_left_out(entry, path) for entry in value)
    if isinstance(value, Wire):
        if len(path) == 1:
            return value.without(path[0])
        inner = getattr(value, path[0], None)
        smaller = _left_out(inner, path[1:])
        return value if smaller is inner else value.with_(**{path[0]: smaller})
    if isinstance(value, dict):
        return {key: _left_out(entry, path) for key, entry in value.items()}
    return value


def _smaller(value: Any) -> Any:
    if isinstance(value, Wire):
        return known_fields_only(value)
    if isinstance(value, tuple):
        entries = tuple(_smaller(entry) for entry in value)
        return value if all(map(_same, entries, value)) else entries
    if isinstance(value, dict):
        changed = {key: _smaller(entry) for key, entry in value.items() if isinstance(entry, Wire)}
        return value if all(map(_same, changed.values(), (value[key] for key in changed))) else {**value, **changed}
    return value


def _same(left: object, right: object) -> bool:
    return left is right
