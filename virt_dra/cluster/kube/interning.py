"""Interning: equal parts of objects are parsed once and kept once.

What a cluster holds repeats: 40,000 GPUs are of three models, 5,000 launcher pods have the same volumes and environment. Every part of an
object is immutable, so objects can share it. Interning happens while an object is read, before anything else refers to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from virt_dra.api.meta import TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceCapacity, ResourceSlice
from virt_dra.api.wire import Wire, WireError

W = TypeVar("W", bound=Wire)

LIMIT = 50_000
"""Parts that are remembered; then the memory is cleared, since unique parts (serial numbers) would pile up."""

PartKey = tuple[object, ...]


class SharedParts:
    """Of one reader."""

    def __init__(self) -> None:
        self._values: dict[PartKey, Wire] = {}
        self._done: set[int] = set()
        """The ids of those."""
        self._parts: dict[PartKey, object] = {}
        """By content. Parts within parts are named by their ids in the keys: they live as long as the part that has them is remembered."""
        self._field_sets: dict[frozenset[str], set[str]] = {}

    def put_into(self, kind: type[TypedObject], raw: Mapping[str, Any]) -> None:
        """Replaces devices' values in the JSON of a ResourceSlice by those read before, which saves half of the time of reading it.

        Changes ``raw``, which must be the caller's own. Nothing happens for other kinds, and to values that can't be read.
        """
        if not issubclass(kind, ResourceSlice):
            return
        spec = raw.get("spec")
        devices = spec.get("devices") if isinstance(spec, dict) else None
        for device in devices if isinstance(devices, list) else ():
            if isinstance(device, dict):
                self._put(device.get("attributes"), DeviceAttribute)
                self._put(device.get("capacity"), DeviceCapacity)

    def _put(self, values: object, kind: type[Wire]) -> None:
        if not isinstance(values, dict):
            return
        for name, value in values.items():
            if not isinstance(value, dict) or len(value) != 1:
                continue
            ((field, content),) = value.items()
            if not isinstance(content, str | int):
                continue
            key = (kind, field, content.__class__, content)  # the class, since True is 1
            known = self._values.get(key)
            if known is None:
                try:
                    known = self.model(kind.from_wire(value))
                except WireError:
                    continue  # reported with its path when the whole object is read
                if len(self._values) >= LIMIT:
                    self._values.clear()
                    self._done.clear()
                self._values[key] = known
                self._done.add(id(known))
            values[name] = known

    def shared(self, obj: W) -> W:
        """The same, its parts shared with what was read before. Changes ``obj``, which must be the caller's own and seen by nobody else."""
        if not isinstance(obj, ResourceSlice):
            return self.model(obj)
        # Every device differs from all others: what they have in common was put in before, there is nothing more to share.
        for device in obj.spec.devices:
            self._slim(device)
            fields = device.__dict__
            for name, value in fields.items():
                if value.__class__ is dict and not value:
                    fields[name] = _NOTHING
        for part in (obj.metadata, obj.spec.pool, obj.spec, obj):
            self._slim(part)
        return obj

    def _slim(self, obj: Wire) -> set[str]:
        """Shares what pydantic keeps for each object: the names of the fields given, and that there are no others."""
        if not obj.__pydantic_extra__:
            _set(obj, "__pydantic_extra__", _NOTHING)
        given = obj.__pydantic_fields_set__
        shared = self._field_sets.setdefault(frozenset(given), given)
        _set(obj, "__pydantic_fields_set__", shared)
        return shared

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
        given = self._slim(obj)
        return obj if key is None or obj.__pydantic_extra__ else cast("W", self._remembered((*key, id(given)), obj))

    def _part(self, value: Any) -> tuple[Any, object]:
        """What to keep of a value, and what stands for it in a key."""
        if isinstance(value, Wire):
            model = value if id(value) in self._done else self.model(value)
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
            return self._joined(dict(zip(value, (kept for kept, _ in parts), strict=True)), (dict, *value, *(part for _, part in parts)))
        return value, _UNIQUE  # lists and objects of fields that no type knows

    def _joined(self, value: object, key: PartKey) -> tuple[object, object]:
        if any(part is _UNIQUE for part in key):
            return value, _UNIQUE
        kept = self._remembered(key, value)
        return kept, id(kept)

    def _remembered(self, key: PartKey, part: object) -> object:
        known = self._parts.get(key)
        if known is None:
            if len(self._parts) >= LIMIT:
                self._parts.clear()
            self._parts[key] = known = part
        return known


_UNIQUE = object()
_NOTHING: dict[str, Any] = {}
"""For every empty map, and for "no unknown fields": nobody changes them."""
_NOTHING_KEY = (dict,)
_set = object.__setattr__
