"""Interning: equal parts of objects (5,000 launcher pods' volumes and environment) are parsed once and kept once.

Every part is immutable, so objects can share it; it is replaced while an object is read, before anything refers to it.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from virt_dra.api.quantity import Quantity
from virt_dra.api.reading.interning import share_members
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.api.wire import Wire

W = TypeVar("W", bound=Wire)

LIMIT = 50_000
"""Parts that are remembered; then the memory is cleared, since unique parts (serial numbers) would pile up."""

PartKey = tuple[object, ...]


class SharedParts:
    """The shared parts of one reader's objects."""

    def __init__(self) -> None:
        self._parts: dict[PartKey, object] = {}
        """By content. Parts within parts are named by their ids in the keys: they live as long as the part that has
        them is remembered."""

    def shared(self, obj: W) -> W:
        """The same, its parts shared with what was read before. Changes ``obj``, which must belong to the caller alone.
        A ResourceSlice is as it was read: its type shares the parts of devices."""
        return obj if isinstance(obj, ResourceSlice) else self.model(obj)

    def model(self, obj: W) -> W:
        """As :meth:`shared`, in all depths, of any type."""
        key: list[object] | None = [type(obj)]
        fields = obj.__dict__
        for name, value in fields.items():
            part: object = value
            if value is not None and value.__class__ is not str:
                kept, part = self._part(value)
                if kept is not value:
                    fields[name] = kept
            if part is _UNIQUE:
                key = None
            elif key is not None:
                key.append(part)
        share_members(obj)
        return (
            obj
            if key is None or obj.__pydantic_extra__
            else cast("W", self._remembered((*key, id(obj.model_fields_set)), obj))
        )

    def _part(self, value: Any) -> tuple[Any, object]:
        """What to keep of a value, and what stands for it in a key."""
        if isinstance(value, Wire):
            model = self.model(value)
            return model, id(model)
        if isinstance(value, bool | int | str) or value is None:
            return value, (value.__class__, value)
        if isinstance(value, Quantity):
            return value, (str(value), value.spelling)
        if isinstance(value, tuple):
            if not value:
                return (), ()
            parts = [self._part(entry) for entry in value]
            return self._joined(tuple(kept for kept, _ in parts), tuple(part for _, part in parts))
        if isinstance(value, dict):
            if not value:
                return _NOTHING, _NOTHING_KEY
            parts = [self._part(entry) for entry in value.values()]
            return self._joined(
                dict(zip(value, (kept for kept, _ in parts), strict=True)), (dict, *value, *(part for _, part in parts))
            )
        return value, _UNIQUE  # lists and objects of fields that no type knows

    def _joined(self, value: object, key: PartKey) -> tuple[object, object]:
        if any(part is _UNIQUE for part in key):
            return value, _UNIQUE
        kept = self._remembered(key, value)
        return kept, id(kept)

    def _remembered(self, key: PartKey, part: object) -> object:
        stored = self._parts.get(key)
        if stored is None:
            if len(self._parts) >= LIMIT:
                self._parts.clear()
            self._parts[key] = stored = part
        return stored


_UNIQUE = object()
_NOTHING: dict[str, Any] = {}
"""Stands for every empty map, and for "no unknown fields": they are never changed."""
_NOTHING_KEY = (dict,)
