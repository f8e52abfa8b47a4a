"""Messages between a process and its sandbox: dataclasses, each written as a frame. Pure.

    4 bytes: length of the rest | 1 byte: number of parts | 4 bytes for each: its length | the parts

The parts are the name of the class, its fields as JSON, and its fields of type ``bytes`` as they are, which have the
default ``b""``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

M = TypeVar("M")

LENGTH: Final = struct.Struct("!I")
_MOST_PARTS: Final = 16
_FAILED_BYTES: Final = 8192
_FAILED_CHARACTERS: Final = 500


class BadMessage(ValueError):
    """A frame is no message that its sender may send."""


@dataclass(frozen=True)
class Failed:
    """Answer of any sandbox: a request, or the process itself, has failed."""

    reason: str


class RequestFailed(Exception):
    """A request, or the sandbox itself, has failed; the text says why."""


@dataclass(frozen=True)
class _Kind:
    """How messages of a class are written. ``raw``: its fields of bytes; ``limit``: of a frame, in bytes."""

    adapter: TypeAdapter[Any]
    raw: dict[str, bool]
    limit: int


class Messages(Generic[M]):
    """The messages that one side may send: their classes, each with the most bytes of a frame. ``strict``: whether
    fields are refused that would have to be converted."""

    def __init__(self, limits: Mapping[type[M], int], *, strict: bool = True) -> None:
        self._strict = strict
        self._kinds = {
            kind.__name__: _Kind(TypeAdapter(kind), dict.fromkeys(_raw_fields(kind), True), limit)
            for kind, limit in {**limits, Failed: _FAILED_BYTES}.items()
        }
        self._longest = max(kind.limit for kind in self._kinds.values())

    def encoded(self, message: M | Failed) -> bytes:
        """The frame of a message. Raises :class:`BadMessage` for one that its reader would refuse."""
        name = type(message).__name__
        kind = self._kinds[name]
        try:
            head = kind.adapter.dump_json(message, exclude=kind.raw, by_alias=True, exclude_unset=True)
        except PydanticSerializationError as error:
            raise BadMessage(f"{name} can't be written: {error}"[:200]) from None
        parts = (name.encode(), head, *(getattr(message, field) for field in kind.raw))
        frame = b"".join((bytes((len(parts),)), *(LENGTH.pack(len(part)) for part in parts), *parts))
        if len(frame) > kind.limit:
            raise BadMessage(f"a {name} of {len(frame)} bytes, more than {kind.limit}")
        return LENGTH.pack(len(frame)) + frame

    def length(self, prefix: bytes) -> int:
        """The length of a frame, from the bytes before it. Raises :class:`BadMessage` for one beyond all limits."""
        length = int.from_bytes(prefix)
        if length > self._longest:
            raise BadMessage(f"a frame of {length} bytes, more than {self._longest}")
        return length

    def decoded(self, frame: bytes) -> M:
        """The message of a frame, without its length. Raises :class:`BadMessage`, :class:`RequestFailed`."""
        name, head, *values = _parts(frame)
        kind = self._kinds.get(name.decode(errors="replace"))
        if kind is None or len(values) != len(kind.raw):
            raise BadMessage(f"no such message: {name[:40]!r} with {len(values)} raw fields")
        if len(frame) > kind.limit:
            raise BadMessage(f"a {name.decode()} of {len(frame)} bytes, more than {kind.limit}")
        try:
            message = kind.adapter.validate_json(head, strict=self._strict)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise BadMessage(f"{name.decode()}: {where}{': ' if where else ''}{first['msg']}"[:200]) from None
        if isinstance(message, Failed):
            raise RequestFailed(message.reason[:_FAILED_CHARACTERS])
        return replace(message, **dict(zip(kind.raw, values, strict=True)))  # type: ignore[no-any-return]  # of the adapter


def failed(error: BaseException) -> Failed:
    """The answer about an exception."""
    text = str(error) if isinstance(error, RequestFailed) else f"{type(error).__name__}: {error}"
    return Failed(text[:_FAILED_CHARACTERS].encode(errors="replace").decode())


def _raw_fields(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind) if field.type in (bytes, "bytes")]


def _parts(frame: bytes) -> list[bytes]:
    count = frame[0] if frame else 0
    start = 1 + count * LENGTH.size
    if not 2 <= count <= _MOST_PARTS or len(frame) < start:
        raise BadMessage("a frame without its parts")
    parts = []
    for (length,) in LENGTH.iter_unpack(frame[1:start]):
        parts.append(frame[start : start + length])
        start += length
    if start != len(frame):
        raise BadMessage("a frame of another length than its parts")
    return parts
