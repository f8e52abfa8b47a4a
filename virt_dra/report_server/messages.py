"""Messages of the rendering process: a header in JSON and parts, each with its length before it. Pure.

    4 bytes: length of the header | header: {"kind": …, …, "parts": [lengths]} | the parts

What is read is bounded, and nothing of it is carried out: whoever takes over the rendering process can show wrong
pages, no more.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_HEADER: Final = 64 * 1024
MOST_BYTES: Final = 64 * 2**20
"""Of one part."""
_PARTS: Final = 8


class BadMessage(ValueError):
    """What was read is no message."""


@dataclass(frozen=True)
class RenderingMessage:
    """A message. ``fields``: what the header says besides."""

    kind: str
    fields: dict[str, Any]
    parts: tuple[bytes, ...] = ()


def encoded(kind: str, fields: dict[str, Any] | None = None, parts: Sequence[bytes] = ()) -> bytes:
    """A message's bytes. Raises :class:`BadMessage` for one that wouldn't be read."""
    if len(parts) > _PARTS or any(len(part) > MOST_BYTES for part in parts):
        raise BadMessage(f"a page of {max(map(len, parts))} bytes is more than is sent, {MOST_BYTES}")
    header = json.dumps({**(fields or {}), "kind": kind, "parts": [len(part) for part in parts]}).encode()
    if len(header) > _HEADER:
        raise BadMessage("the header is too long")
    return b"".join((len(header).to_bytes(4, "big"), header, *parts))


async def read_message(read: Callable[[int], Awaitable[bytes]]) -> RenderingMessage:
    """The next message. ``read``: reads exactly so many bytes. Raises :class:`BadMessage`, and what ``read`` raises."""
    length = int.from_bytes(await read(4), "big")
    if not 0 < length <= _HEADER:
        raise BadMessage(f"a header of {length} bytes")
    try:
        header = json.loads(await read(length))
    except (ValueError, RecursionError):
        raise BadMessage("the header is no JSON") from None
    if (
        not isinstance(header, dict)
        or not isinstance(header.get("kind"), str)
        or not isinstance(header.get("parts"), list)
    ):
        raise BadMessage("the header says no kind and parts")
    kind, lengths = header.pop("kind"), header.pop("parts")
    if len(lengths) > _PARTS or not all(type(each) is int and 0 <= each <= MOST_BYTES for each in lengths):
        raise BadMessage("the header says parts that are too many or too large")
    return RenderingMessage(kind, header, tuple([await read(each) for each in lengths]))
