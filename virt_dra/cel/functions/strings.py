"""Functions on text: the standard ones and version 2 of the strings extension (L-2.6). Positions count code points."""

from __future__ import annotations

from virt_dra.api.go_text import ESCAPES
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.printing import printed
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.values import Value

library = Library()

_FOUND = 0.03
_TRANSLATED = 0.1
"""Microseconds of a character: in a replacement with many matches, and in a translation of every character."""
_PART = 70
"""Bytes of a short text in a list."""

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_WHITE = (
    "\t\n\x0b\x0c\r "
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def _out_of_range(position: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {position}")


@library.function("string::contains(string) -> bool", budget=True)
def contains(budget: Budget, text: str, part: str) -> bool:
    budget.read(text)
    return part in text


library.define({"string::startsWith(string) -> bool": str.startswith, "string::endsWith(string) -> bool": str.endswith})


@library.function("string::charAt(int) -> string")
def char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


@library.function("string::indexOf(string) -> int", "string::indexOf(string, int) -> int", budget=True)
def index_of(budget: Budget, text: str, part: str, start: int = 0) -> int:
    budget.read(text)
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return min(start, len(text))
    return text.find(part, start)


@library.function("string::lastIndexOf(string) -> int", "string::lastIndexOf(string, int) -> int", budget=True)
def last_index_of(budget: Budget, text: str, part: str, last: int | None = None) -> int:
    budget.read(text)
    if last is None:
        return _find_last(text, part)
    if last < 0:
        raise _out_of_range(last)
    if not part:
        return min(last, len(text))
    if last >= len(text):
        return -1
    return _find_last(text[: last + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """The position of the last occurrence, in linear time: Python's ``rfind`` is quadratic, ``find`` linear."""
    if len(text) * len(part) < 100_000:
        return text.rfind(part)
    reversed_index = text[::-1].find(part[::-1])
    return -1 if reversed_index < 0 else len(text) - len(part) - reversed_index


@library.function("list(string)::join() -> string", "list(string)::join(string) -> string", budget=True)
def join(budget: Budget, parts: list[Value], *separators: str) -> str:
    separator = "".join(separators)
    texts: list[str] = []
    length = 0
    for part in budget.charged(parts, 0.15):
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {printed(part)}")
        texts.append(part)
        length += len(part) + len(separator)
    budget.build(length)
    return separator.join(texts)


@library.function("string::lowerAscii() -> string", budget=True)
def lower_ascii(budget: Budget, text: str) -> str:
    budget.read(text, _TRANSLATED)
    return text.translate(_LOWER)


@library.function("string::upperAscii() -> string", budget=True)
def upper_ascii(budget: Budget, text: str) -> str:
    budget.read(text, _TRANSLATED)
    return text.translate(_UPPER)


@library.function(
    "string::replace(string, string) -> string", "string::replace(string, string, int) -> string", budget=True
)
def replace(budget: Budget, text: str, old: str, new: str, limit: int = -1) -> str:
    budget.read(text, _FOUND)
    occurrences = text.count(old)
    times = min(occurrences, limit) if limit >= 0 else occurrences
    budget.build(len(text) + times * len(new))
    budget.read(text, _FOUND)
    return text.replace(old, new, times)


@library.function("string::split(string) -> list(string)", "string::split(string, int) -> list(string)", budget=True)
def split(budget: Budget, text: str, separator: str, limit: int = -1) -> list[str]:
    budget.read(text, _TRANSLATED)
    if limit == 0:
        return []
    parts = len(text) if not separator else text.count(separator)
    budget.grow(min(parts, limit) if limit > 0 else parts, _PART)
    if not separator:
        return list(text) if limit < 0 or len(text) <= limit else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, -1 if limit < 0 else limit - 1)


@library.function("string::substring(int) -> string", "string::substring(int, int) -> string")
def substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, len(text) if end is None else end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


@library.function("string::trim() -> string", budget=True)
def trim(budget: Budget, text: str) -> str:
    budget.read(text, 0.02)
    return text.strip(_WHITE)


@library.function("strings.quote(string) -> string", budget=True)
def quote(budget: Budget, text: str) -> str:
    budget.build(2 * len(text))
    budget.read(text, _TRANSLATED)
    return '"' + "".join(ESCAPES.get(character, character) for character in text) + '"'
