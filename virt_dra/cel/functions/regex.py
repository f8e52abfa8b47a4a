"""Regular expressions with RE2's syntax and linear time (L-2.11): ``matches``, ``find``, ``findAll``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Protocol

import re2

from virt_dra.cel.budget import Budget
from virt_dra.cel.errors import CelError, EvaluationError
from virt_dra.cel.functions.patterns import InvalidPattern, every_character, in_go_words, translated
from virt_dra.cel.functions.registry import Library

library = Library()

_CACHE_SIZE = 1024
_MATCHES: Final = 4096
"""Answers that are kept, of texts of a few hundred characters."""
_SHORT: Final = 256
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 2 << 20  # 40 ms of compiling at most
_OPTIONS.never_capture = True  # only where a match lies is of interest, and keeping track of thousands of groups takes seconds

_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_MOST_CLASSES: Final = 300
"""Unicode classes in a pattern: merely reading one takes 0.1 ms."""
_DEEPEST: Final = 1000
"""Go refuses a pattern whose tree is higher."""
_PARENTHESIS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.?|[^\]\\])*(?:\]|\Z)|\(\?P?<|\(\?|[()]", re.DOTALL)
"""Parentheses that open and close groups, and what may hold others. Brackets that nothing closes go to the end: linear time."""
_LARGE: Final = 5_000
_MOST_INSTRUCTIONS: Final = 100_000
"""Of all constant patterns of an expression together; a thousand take 0.3 ms to compile."""


class _Match(Protocol):
    def group(self) -> str: ...
    def span(self) -> tuple[int, int]: ...


class _Pattern(Protocol):
    @property
    def programsize(self) -> int: ...
    def search(self, text: str, pos: int = 0) -> _Match | None: ...


class PatternsTooLarge(CelError):
    """The constant patterns of an expression are together larger than any that are meant seriously."""


class Patterns:
    """The constant patterns of one expression."""

    def __init__(self) -> None:
        self._left = _MOST_INSTRUCTIONS
        self._seen: set[str] = set()

    def add(self, pattern: str) -> None:
        """Raises InvalidPattern, PatternsTooLarge."""
        if pattern in self._seen:
            return
        self._left -= compile_pattern(pattern).programsize
        self._seen.add(pattern)
        if self._left < 0:
            raise PatternsTooLarge("its patterns need more than 100000 instructions")


@lru_cache(maxsize=_CACHE_SIZE)
def compile_pattern(pattern: str) -> _Pattern:
    """The compiled pattern. Raises InvalidPattern."""
    if len(_UNICODE_CLASS.findall(pattern)) > _MOST_CLASSES:
        raise InvalidPattern("error parsing regexp: pattern too large")
    if pattern.count("(") >= _DEEPEST and _depth(pattern) >= _DEEPEST:
        raise InvalidPattern("error parsing regexp: expression nests too deeply")
    try:
        compiled: _Pattern = re2.compile(translated(pattern, _is_taken, _members), options=_OPTIONS)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else ""
        raise in_go_words(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason), pattern) from None
    return compiled


@lru_cache(maxsize=_CACHE_SIZE)
def _is_taken(pattern: str) -> bool:
    try:
        re2.compile(pattern, options=_OPTIONS)
    except re2.error:
        return False
    return True


@lru_cache(maxsize=16)
def _members(pattern: str) -> list[tuple[int, int]]:
    """The code points that a class matches, as ranges; the first call takes a quarter of a second."""
    runs = re2.compile(f"{pattern}+", options=_OPTIONS).finditer(every_character())
    return [(ord(run.group()[0]), ord(run.group()[-1])) for run in runs]


def _depth(pattern: str) -> int:
    """How deeply capturing groups nest; the others vanish when Go reads a pattern."""
    opened: list[bool] = []
    depth = deepest = 0
    for found in _PARENTHESIS.finditer(pattern):
        piece = found.group()
        if piece == ")":
            depth -= opened.pop() if opened else 0
        elif piece[0] == "(":
            opened.append(piece != "(?")
            depth += opened[-1]
            deepest = max(deepest, depth)
    return deepest


def _compiled(budget: Budget, text: str, pattern: str, prefix: str = "Illegal regex: ") -> _Pattern:
    """``prefix``: of an error; Kubernetes' functions have one, CEL's own has none."""
    budget.spend(((len(text) + 1) // 10 + 1) * (len(pattern) // 4 + 1))
    try:
        compiled = compile_pattern(pattern)
    except InvalidPattern as error:
        raise EvaluationError(f"{prefix}{error}") from None
    if len(pattern) > 3 and compiled.programsize > _LARGE:  # made at run time it may have taken long to compile
        budget.spend(10 * compiled.programsize)
    return compiled


@library.function("string::matches(string) -> bool", "matches(string, string) -> bool", budget=True)
def matches(budget: Budget, text: str, pattern: str) -> bool:
    compiled = _compiled(budget, text, pattern, prefix="")
    return _matches_short(pattern, text) if len(text) <= _SHORT else compiled.search(text) is not None


@lru_cache(maxsize=_MATCHES)
def _matches_short(pattern: str, text: str) -> bool:
    """The thousands of devices of a cluster have few models and versions, and asking RE2 takes ten times as long as remembering."""
    return compile_pattern(pattern).search(text) is not None


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
