"""Regular expressions with RE2's syntax and linear time (L-2.11): ``matches``, ``find``, ``findAll``."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2

from virt_dra.cel.budget import Budget
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.registry import Library

library = Library()

_CACHE_SIZE = 1024
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class _Match(Protocol):
    def group(self) -> str: ...
    def span(self) -> tuple[int, int]: ...


class _Pattern(Protocol):
    def search(self, text: str, pos: int = 0) -> _Match | None: ...


class InvalidPattern(ValueError):
    """A pattern that RE2 refuses."""


@lru_cache(maxsize=_CACHE_SIZE)
def compile_pattern(pattern: str) -> _Pattern:
    """The compiled pattern. Raises InvalidPattern."""
    try:
        compiled: _Pattern = re2.compile(pattern, options=_OPTIONS)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else ""
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"error parsing regexp: {shown}") from None
    return compiled


def _compiled(budget: Budget, text: str, pattern: str) -> _Pattern:
    budget.spend(((len(text) + 1) // 10 + 1) * (len(pattern) // 4 + 1))
    try:
        return compile_pattern(pattern)
    except InvalidPattern as error:
        raise EvaluationError(str(error)) from None


@library.function("string::matches(string) -> bool", "matches(string, string) -> bool", budget=True)
def matches(budget: Budget, text: str, pattern: str) -> bool:
    return _compiled(budget, text, pattern).search(text) is not None


@library.function("string::find(string) -> string", budget=True)
def find(budget: Budget, text: str, pattern: str) -> str:
    found = _compiled(budget, text, pattern).search(text)
    return "" if found is None else found.group()


@library.function("string::findAll(string) -> list(string)", "string::findAll(string, int) -> list(string)", budget=True)
def find_all(budget: Budget, text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled = _compiled(budget, text, pattern)
    if limit == 0:
        return []
    results: list[str] = []
    position, previous_end = 0, -1
    # Go's rule: an empty match right behind another match doesn't count
    while position <= len(text):
        found = compiled.search(text, position)
        if found is None:
            break
        start, end = found.span()
        if not (start == end and start == previous_end):
            results.append(found.group())
            if 0 <= limit <= len(results):
                break
        previous_end = end
        position = end if end > start else end + 1
        budget.spend(1)
    return results
