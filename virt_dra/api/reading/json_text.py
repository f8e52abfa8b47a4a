"""JSON text -> values: one, concatenated ones, or JSON lines. Numbers as in Kubernetes, duplicate keys refused."""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from virt_dra.api.reading.document_error import MAX_DEPTH, DocumentError, Parsed, limit_depth, too_deep
from virt_dra.api.reading.json_lists import TakeItem, take_items
from virt_dra.api.reading.json_members import after_space
from virt_dra.api.reading.yaml_scalars import whole

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
_LONE = re.compile(r"\\u[dD][89a-fA-F]")
_LARGE = 64 * 1024
"""Characters from which on a List is read item by item; a smaller one takes a millisecond either way."""


class _DuplicateKey(ValueError):
    pass


class _BadNumber(ValueError):
    pass


def parse(text: str, name: str) -> tuple[Parsed, ...]:
    """All values, in order. Raises :class:`DocumentError`."""
    values: list[Parsed] = []
    position = after_space(text, 0)
    counted, line = 0, 1
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        value, end = _value(text, position, name, line, len(values) + 1)
        parsed = Parsed(value, line, len(values) + 1, end - position)
        limit_depth(parsed, name)
        values.append(parsed)
        position = after_space(text, end)
    return tuple(values)


def take_list(text: str, take: TakeItem) -> bool:
    """:func:`take_items` for a text that is large; else False."""
    return len(text) >= _LARGE and _LONE.search(text) is None and take_items(text, _DECODER, take)


def _value(text: str, position: int, name: str, line: int, document: int) -> tuple[object, int]:
    try:
        value, end = _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        if _too_deep_before(text, position, error.pos):  # since Python 3.14 the decoder goes as deep as the text does
            raise too_deep(name, line, 1, document) from None
        message = f"not JSON: {error.msg}"
        raise DocumentError(name, error.lineno, error.colno, message, document) from None
    except _DuplicateKey as error:
        duplicate = _find_duplicate(text, position)
        where, column = _line_and_column(text, duplicate)
        message = f"key {error} is given twice in the same object; remove one of them"
        raise DocumentError(name, where, column, message, document, final=True) from None
    except _BadNumber as error:
        raise DocumentError(name, line, 1, str(error), document, final=True) from None
    except RecursionError:
        raise too_deep(name, line, 1, document) from None
    except ValueError:  # an integer with more digits than Python converts
        raise DocumentError(name, line, 1, "an integer has too many digits", document, final=True) from None
    surrogate = _LONE.search(text, position, end)
    if surrogate:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            where, column = _line_and_column(text, surrogate.start())
            message = f"{text[surrogate.start() : surrogate.start() + 6]} is half of a surrogate pair and no character"
            raise DocumentError(name, where, column, message, document, final=True) from None
    return value, end


def _too_deep_before(text: str, start: int, end: int) -> bool:
    """Whether a text that is JSON up to a place is nested too deeply on the way there."""
    depth = 0
    for token in _TOKEN.finditer(text, start, end):
        depth += 1 if token[0] in "[{" else -1 if token[0] in "]}" else 0
        if depth > MAX_DEPTH:
            return True
    return False


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(json.dumps(key, ensure_ascii=False))
            seen.add(key)
    return value


def _find_duplicate(text: str, position: int) -> int:
    """The position of the first key that its object already has. Reads tokens only; the text is well-formed so far."""
    objects: list[set[str] | None] = []
    previous = ""
    for token in _TOKEN.finditer(text, position):
        word = token[0]
        if word in "{[":
            objects.append(set() if word == "{" else None)
        elif word in "}]" and objects:
            objects.pop()
        elif word[0] == '"' and objects and previous in ("{", ","):
            keys = objects[-1]
            if keys is not None:
                key = json.loads(word)
                if key in keys:
                    return token.start()
                keys.add(key)
        previous = word
    return position


def _float(text: str) -> int | float:
    number = float(text)
    if math.isinf(number):
        raise _BadNumber(f"the number {text[:40]} is out of range; write it as a string if a quantity is meant")
    return whole(number)


def _constant(text: str) -> NoReturn:
    raise _BadNumber(f"{text} is not a number that JSON can express")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
