"""One large JSON object, decoded member by member: what stands in its lists is converted as soon as it is read, so that
the whole is never in memory as JSON, which takes ten times as much as the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

_SPACE = re.compile(r"[ \t\r\n]*")

ConvertItem = Callable[[object, int], object]
"""Takes an item of a list and its index."""


OnRepeated = Callable[[str], object]
"""Takes the name of a member that the object already has."""


def decode_object(
    text: str, decoder: json.JSONDecoder, convert: Mapping[str, ConvertItem], on_repeated: OnRepeated | None = None
) -> object:
    """The JSON value of a text. If it is an object, each item of its lists named in ``convert`` is what its converter
    returned. Of members with one name the last counts.

    Raises JSONDecodeError, RecursionError, whatever the decoder's hooks raise, and what the callbacks raise.
    """
    try:
        return _members(text, decoder, convert, on_repeated)
    except (_Unexpected, StopIteration, json.JSONDecodeError):
        return decoder.decode(text)  # which gives a value that is not an object, or describes the fault


class _Unexpected(Exception):
    """The text is not a JSON object."""


def _members(
    text: str, decoder: json.JSONDecoder, convert: Mapping[str, ConvertItem], on_repeated: OnRepeated | None
) -> dict[str, object]:
    members: dict[str, object] = {}
    position = _after("{", text, 0)
    if text[position : position + 1] == "}":
        end = after_space(text, position + 1)
    else:
        end = after_space(text, position)
        while True:
            key, position = decoder.raw_decode(text, end)
            if not isinstance(key, str):
                raise _Unexpected
            if key in members and on_repeated is not None:
                on_repeated(key)
            position = _after(":", text, position)
            if key in convert and text[position : position + 1] == "[":
                members[key], position = _items(text, position, decoder, convert[key])
            else:
                members[key], position = decoder.raw_decode(text, position)
            end = after_space(text, position)
            if text[end : end + 1] != ",":
                break
            end = after_space(text, end + 1)
        end = _after("}", text, end)
    if end != len(text):
        raise _Unexpected
    return members


def _items(text: str, position: int, decoder: json.JSONDecoder, convert: ConvertItem) -> tuple[list[object], int]:
    """The list that begins at a position, and the position after it."""
    items: list[object] = []
    position = after_space(text, position + 1)
    if text[position : position + 1] == "]":
        return items, position + 1
    while True:
        value, position = decoder.raw_decode(text, position)
        items.append(convert(value, len(items)))
        position = after_space(text, position)
        if text[position : position + 1] != ",":
            break
        position = after_space(text, position + 1)
    if text[position : position + 1] != "]":
        raise _Unexpected
    return items, position + 1


def after_space(text: str, position: int) -> int:
    """The position of what follows JSON's white space."""
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _after(sign: str, text: str, position: int) -> int:
    """The position of what follows a sign and the space around it."""
    position = after_space(text, position)
    if text[position : position + 1] != sign:
        raise _Unexpected
    return after_space(text, position + 1)
