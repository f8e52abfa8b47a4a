"""Interning: equal parts of JSON objects are read once and kept once. A cluster has thousands of devices of a few
models.

Wire types never change, so equal values may be one object. What is kept is bounded: beyond a limit all is forgotten,
and what is read afterwards is shared among itself.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from virt_dra.api.wire import Wire

W = TypeVar("W", bound=Wire)
V = TypeVar("V")

_KEPT_BYTES: Final = 1 << 20
"""Of the keys of what one table remembers, which are about as long as its JSON; the objects take ten times as much."""
_LONGEST: Final = 4_096
"""Bytes of a value that is remembered; a longer one is read each time."""
_MARSHAL_VERSION: Final = 2
"""Without references, so that equal bytes mean equal values of equal types (1, 1.0 and true differ)."""
_NOTHING: Final[dict[str, object]] = {}
"""The unknown members of most objects."""
_KEPT_MEMBERS: Final = 4_096
"""Sets of given members that are remembered."""

_set = object.__setattr__
_given: dict[tuple[str, ...], set[str]] = {}


def share_members(*objects: Wire) -> None:
    """Let objects share the sets of their given members and of unknown ones with others: 280 bytes less for each."""
    for obj in objects:
        if obj.model_extra:
            continue  # its unknown members count as given, and their names may be of any length
        given = obj.model_fields_set
        if len(_given) >= _KEPT_MEMBERS:
            _given.clear()
        _set(obj, "__pydantic_fields_set__", _given.setdefault(tuple(given), given))
        _set(obj, "__pydantic_extra__", _NOTHING)


class _Memory(Generic[V]):
    """What was read of which JSON."""

    def __init__(self) -> None:
        self._known: dict[bytes, V] = {}
        self._bytes = 0
        self.get = self._known.get

    def put(self, key: bytes, value: V) -> None:
        if len(key) <= _LONGEST:
            if self._bytes > _KEPT_BYTES:
                self._known.clear()
                self._bytes = 0
            self._known[key] = value
            self._bytes += len(key)


class InternTable(Generic[W]):
    """Reads values of a type. The same members in the same order give the same object, unless long or forgotten."""

    def __init__(self, kind: type[W]) -> None:
        self._kind = kind
        self._known: _Memory[W] = _Memory()

    def read(self, raw: Any) -> W:
        """The object. Raises ValueError (ValidationError is one) for what isn't of the type, or no JSON."""
        key = marshal.dumps(raw, _MARSHAL_VERSION)
        return self._known.get(key) or self._new(key, raw)

    def _new(self, key: bytes, raw: Any) -> W:
        obj = self._kind.model_validate(raw, by_alias=True, by_name=False)
        share_members(obj)
        self._known.put(key, obj)
        return obj


class TemplateTable(Generic[W]):
    """Reads objects that differ in their name and one map of parts, if at all, and share the rest with many others."""

    def __init__(self, kind: type[W], name: str, parts: str, part: type[Wire]) -> None:
        """``name``, ``parts``: the members that differ, in Python and JSON. ``part``: the type of the map's values."""
        self._name = name
        self._parts = parts
        self._known: _Memory[W] = _Memory()
        self._rests: InternTable[W] = InternTable(kind)
        self._shared: InternTable[Wire] = InternTable(part)
        self._kind = kind

    def read(self, raw: object) -> object:
        """The object; the unchanged JSON where it must be read by its type (something is missing, unusual or wrong)."""
        if type(raw) is not dict:
            return raw
        try:
            key = marshal.dumps(raw, _MARSHAL_VERSION)
            obj = self._known.get(key)
            if obj is None and (obj := self._read(raw)) is not None:
                self._known.put(key, obj)
        except ValueError:
            return raw
        return raw if obj is None else obj

    def _read(self, raw: Mapping[str, Any]) -> W | None:
        name, parts = raw.get(self._name), raw.get(self._parts)
        if type(name) is not str or type(parts) is not dict:
            return None
        read = self._shared.read
        members = {key: read(value) for key, value in parts.items() if type(key) is str and type(value) is dict}
        if len(members) != len(parts):
            return None
        # Keep both members, but empty, so that they count as given and keep their places.
        template = self._rests.read({**raw, self._name: "", self._parts: {}})
        return self._made(template, {self._name: name, self._parts: members})

    def _made(self, template: W, different: Mapping[str, object]) -> W:
        made = self._kind.__new__(self._kind)
        for member, value in {
            **template.__dict__,
            **different,
        }.items():  # one by one: such a dictionary shares its keys with others
            _set(made, member, value)
        _set(made, "__pydantic_fields_set__", template.model_fields_set)
        _set(made, "__pydantic_extra__", template.model_extra)
        _set(made, "__pydantic_private__", None)
        return made
