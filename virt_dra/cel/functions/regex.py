"""Regular expressions with RE2's syntax and linear time (L-2.11): ``matches``, ``find``, ``findAll``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import re2

from virt_dra.cel.errors import BudgetExceeded, CelError, EvaluationError
from virt_dra.cel.functions.patterns import InvalidPattern, every_character, in_go_words, translated
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.limits.budget import Budget
from virt_dra.cel.limits.sized_cache import SizedCache

library = Library()

_MATCHES: Final = 4096
_REMEMBERED: Final = 512
"""Limits of the cache of matches: their number, and the characters of text and pattern together."""
_TIERS: Final = (1 << 16, 1 << 18, 2 << 20)
"""Memory limits for RE2, in bytes, tried in this order. A pattern that needs more than the last one is too large."""
_CACHE_BYTES: Final = 48 << 20
"""Bytes of the cache of compiled patterns, each counted with its memory limit: about 700 realistic patterns."""
_FAILURE_BYTES: Final = 1_000
_LONGEST: Final = 10_240
"""Characters of a pattern, the same as of an expression: RE2 takes up to 8 ms to parse this many, and that grows
quadratically."""

_UNICODE_CLASS: Final = re.compile(r"\\[pP]")
_MOST_CLASSES: Final = 300
"""Unicode classes in a pattern: parsing one takes 0.1 ms."""
_DEEPEST: Final = 1000
"""The height of a pattern's tree beyond which Go refuses it."""
_PARENTHESIS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.?|[^\]\\])*(?:\]|\Z)|\(\?P?<|\(\?|[()]", re.DOTALL)
"""Parentheses of groups, and what may hold others. Brackets that nothing closes go to the end: linear time."""
_MOST_INSTRUCTIONS: Final = 100_000
"""Instructions of all constant patterns of an expression together; a thousand take 0.3 ms to compile."""

# Microseconds, measured. What RE2 takes to compile isn't known before, so each try is charged with the most that it may
# take.
_LARGE_TRANSLATION: Final = 2_000
_MANY_CLASSES: Final = 10
_READING: Final = 20.0
_PER_CHARACTER: Final = 2.7
_PER_CLASS: Final = 90.0
_TRIES: Final = (400.0, 4_000.0, 48_000.0)
_PER_INSTRUCTION: Final = 0.45
_SEARCH: Final = 1.5
_PER_BYTE: Final = 0.003
_PER_STEP: Final = 0.0055
"""Of an instruction on a byte where RE2 goes through its program singly; then no more than some thousand are alive."""
_PER_ENCODED: Final = 0.02
_FOUND: Final = 4.0
_MOST_ALIVE: Final = 1_200
_LONGEST_SEARCH: Final = 80_000.0
"""Microseconds that one search may take."""


Spend = Callable[[float], None]


def free(microseconds: float) -> None:
    """A charge that costs nothing, for callers without a budget."""


class _Match(Protocol):
    def group(self) -> str: ...
    def span(self) -> tuple[int, int]: ...


class _Pattern(Protocol):
    @property
    def programsize(self) -> int: ...
    def search(self, text: str) -> _Match | None: ...
    def finditer(self, text: str) -> Iterator[_Match]: ...


class PatternsTooLarge(CelError):
    """The constant patterns of an expression are too large together; PatternTooLarge: one of them is."""


class PatternTooLarge(PatternsTooLarge):
    """A pattern that Go compiles and this engine refuses, so that it is unknown what it matches."""


class Patterns:
    """The constant patterns of one expression. ``spend`` is charged for each before it is compiled."""

    def __init__(self, spend: Spend) -> None:
        self._spend = spend
        self._left = _MOST_INSTRUCTIONS
        self._classes = _MOST_CLASSES
        self._seen: set[str] = set()

    def add(self, pattern: str) -> None:
        """Raises InvalidPattern, PatternsTooLarge."""
        if pattern in self._seen:
            return
        self._classes -= len(_UNICODE_CLASS.findall(pattern))
        if self._classes < 0:
            raise PatternsTooLarge(f"its patterns have more than {_MOST_CLASSES} Unicode classes")
        self._seen.add(pattern)
        self._left -= _cached(pattern, self._spend).usable().programsize
        if self._left < 0:
            raise PatternsTooLarge(f"its patterns need more than {_MOST_INSTRUCTIONS} instructions")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A compiled pattern, or the error of compiling it; ``work``: the microseconds to charge for that."""

    work: float
    pattern: _Pattern | None = None
    error: str = ""
    size: int = 0
    """Instructions."""
    too_large: bool = False

    def usable(self) -> _Pattern:
        """Raises InvalidPattern, PatternTooLarge."""
        if self.pattern is not None:
            return self.pattern
        raise PatternTooLarge(self.error) if self.too_large else InvalidPattern(self.error)


def compile_pattern(pattern: str) -> _Pattern:
    """The compiled pattern. Raises InvalidPattern, and PatternTooLarge for one that is none to us only."""
    return _cached(pattern, free).usable()


_cache: SizedCache[str, _Compiled] = SizedCache(_CACHE_BYTES)


def _cached(pattern: str, spend: Spend) -> _Compiled:
    """The outcome of compiling a pattern, from the cache or new; ``spend`` is charged before each part of that work."""
    compiled = _cache.get(pattern)
    if compiled is None:
        compiled, size = _made(pattern, spend)
        _cache.put(pattern, compiled, size + 4 * len(pattern))
    return compiled


def _made(pattern: str, spend: Spend) -> tuple[_Compiled, int]:
    """Compile a pattern; also returns its memory limit in bytes."""
    if len(pattern) > _LONGEST:
        return _refused(f"a pattern of more than {_LONGEST} characters")
    classes = len(_UNICODE_CLASS.findall(pattern))
    if classes > _MOST_CLASSES:
        return _refused(f"a pattern with more than {_MOST_CLASSES} Unicode classes")
    work = _READING + _PER_CHARACTER * len(pattern) + _PER_CLASS * classes
    spend(work)
    try:
        if pattern.count("(") >= _DEEPEST and _depth(pattern) >= _DEEPEST:
            raise InvalidPattern("error parsing regexp: expression nests too deeply")
        translation = translated(pattern, _is_taken, _members)
    except InvalidPattern as error:
        return _refused(str(error), work, too_large=False)
    tries = list(zip(_TIERS, _TRIES, strict=True))
    if len(translation) > _LARGE_TRANSLATION or classes > _MANY_CLASSES:  # parsing alone takes long
        del tries[:-1]
    for limit, most in tries:
        spend(most)
        work += most
        try:
            compiled: _Pattern = re2.compile(translation, options=_OPTIONS[limit])
        except (re2.error, UnicodeError) as error:
            reason = error.args[0] if error.args else ""
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            if not text.startswith(_TOO_LARGE):
                return _refused(str(in_go_words(text, pattern)), work, too_large=False)
        else:
            if limit > _TIERS[0]:
                re2.purge()  # its own cache counts patterns, not bytes
            taken = min(most, _PER_INSTRUCTION * compiled.programsize)
            spend(taken - most)
            return _Compiled(work + taken - most, compiled, size=compiled.programsize), limit
    return _refused("a pattern that needs more than 2 MiB", work)


def _refused(error: str, work: float = _READING, *, too_large: bool = True) -> tuple[_Compiled, int]:
    return _Compiled(work, error=error, too_large=too_large), _FAILURE_BYTES + len(error)


def _options(limit: int) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = limit
    options.never_capture = True  # only the place of a match matters, and tracking thousands of groups takes seconds
    return options


_TOO_LARGE: Final = "pattern too large"
_OPTIONS: Final = {limit: _options(limit) for limit in _TIERS}


@lru_cache(maxsize=256)
def _is_taken(pattern: str) -> bool:
    try:
        re2.compile(pattern, options=_OPTIONS[_TIERS[-1]])
    except re2.error:
        return False
    return True


@lru_cache(maxsize=16)
def _members(pattern: str) -> list[tuple[int, int]]:
    """The code points that a class matches, as ranges; the first call takes a quarter of a second."""
    runs = re2.compile(f"{pattern}+", options=_OPTIONS[_TIERS[-1]]).finditer(every_character())
    return [(ord(run.group()[0]), ord(run.group()[-1])) for run in runs]


def _depth(pattern: str) -> int:
    """How deeply capturing groups nest; Go drops the others when it parses a pattern."""
    opened: list[bool] = []
    depth = deepest = 0
    for match in _PARENTHESIS.finditer(pattern):
        piece = match.group()
        if piece == ")":
            depth -= opened.pop() if opened else 0
        elif piece[0] == "(":
            opened.append(piece != "(?")
            depth += opened[-1]
            deepest = max(deepest, depth)
    return deepest


def _compiled(budget: Budget, text: str, pattern: str, prefix: str = "Illegal regex: ") -> _Compiled:
    """The pattern, compiled. ``prefix``: of an error; Kubernetes' functions have one, CEL's own has none."""
    compiled = _cache.get(pattern)
    if pattern in budget.patterns:  # a constant, compiled with the expression
        if compiled is None:
            compiled = _cached(pattern, budget.extra)
    elif budget.is_new(pattern):
        if compiled is None:
            compiled = _cached(pattern, budget.spend)
        else:  # charged as if it were not cached, so that no result depends on earlier evaluations
            budget.repeat(compiled.work)
        budget.compiled(compiled.size)
    elif compiled is None:
        compiled = _cached(pattern, budget.extra)
    if compiled.too_large:
        raise BudgetExceeded(f"operation cancelled: {compiled.error} is too large")
    if compiled.pattern is None:
        raise EvaluationError(f"{prefix}{compiled.error}")
    return compiled


def _charge_search(budget: Budget, compiled: _Compiled, text: str, start: int = 0) -> None:
    """Charge the worst case of a search. Raises BudgetExceeded."""
    length = (len(text) - start) * (1 if text.isascii() else 3)
    work = _SEARCH + length * (_PER_BYTE + min(compiled.size, _MOST_ALIVE) * _PER_STEP)
    if work > _LONGEST_SEARCH:
        raise BudgetExceeded("operation cancelled: a search for a large pattern in a long text")
    budget.spend(work)


@library.function("string::matches(string) -> bool", "matches(string, string) -> bool", budget=True)
def matches(budget: Budget, text: str, pattern: str) -> bool:
    compiled = _compiled(budget, text, pattern, prefix="")
    _charge_search(budget, compiled, text)
    if len(text) + len(pattern) <= _REMEMBERED:
        return _matches_short(pattern, text)
    return compiled.usable().search(text) is not None


@lru_cache(maxsize=_MATCHES)
def _matches_short(pattern: str, text: str) -> bool:
    """Memoized search: devices have few models and versions, and a search takes ten times as long as the look-up."""
    return compile_pattern(pattern).search(text) is not None


def forget() -> None:
    """Clear the caches of patterns and of matches."""
    _cache.clear()
    _matches_short.cache_clear()
    re2.purge()


@library.function("string::find(string) -> string", budget=True)
def find(budget: Budget, text: str, pattern: str) -> str:
    compiled = _compiled(budget, text, pattern)
    _charge_search(budget, compiled, text)
    match = compiled.usable().search(text)
    return "" if match is None else match.group()


@library.function(
    "string::findAll(string) -> list(string)", "string::findAll(string, int) -> list(string)", budget=True
)
def find_all(budget: Budget, text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled = _compiled(budget, text, pattern)
    if limit == 0:
        return []
    results: list[str] = []
    budget.read(text, _PER_ENCODED)
    _charge_search(budget, compiled, text)
    previous_end = -1
    for match in compiled.usable().finditer(text):
        start, end = match.span()
        # Go's rule: an empty match directly after another match is skipped
        if not (start == end and start == previous_end):
            results.append(text[start:end])
            if 0 <= limit <= len(results):
                break
        previous_end = end
        budget.grow(end - start, 4)
        budget.spend(_FOUND)
        if end < len(text):
            _charge_search(budget, compiled, text, end)
    return results
