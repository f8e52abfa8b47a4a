"""Translation of Go's regular expressions to RE2's syntax, so that patterns mean what they mean to Kubernetes (L-2.11).

Both engines have one author and one syntax, with these differences (Go 1.26, found by comparing them over random
patterns):

* ``\\C`` (any byte) is RE2's only, and so are names of groups that aren't ASCII.
* Go finds Unicode classes by a canonical name: ``\\p{greek}``, ``\\p{Letter}``, ``\\p{Cased Letter}``. Scripts whose
  own name isn't canonical (``\\p{Old_Italic}``, ``\\p{SignWriting}``) it doesn't find at all.
* Go has the classes Assigned, ASCII, Cn and LC, and counts unassigned code points as C.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from types import MappingProxyType
from typing import Final

_DIFFERENT: Final = re.compile(r"\\[CpP]|\(\?P?<")
_UNICODE: Final = r"(?P<unicode>\\[pP](?:\{[^}]{0,64}\}|[^{]))|(?P<escape>\\.)"
_OUTSIDE: Final = re.compile(
    rf"(?P<literal>\\Q(?:.*?\\E|.*))|{_UNICODE}|(?P<open>\[\^?\]?)|\(\?P?<(?P<name>[^>]{{0,256}})>", re.DOTALL
)
_CODE_POINT: Final = r"\\x(?:\{[0-9A-Fa-f]{1,8}\}|[0-9A-Fa-f]{2})|\\[0-7]{1,3}"
_INSIDE: Final = re.compile(
    rf"(?P<code>{_CODE_POINT})|{_UNICODE}|(?P<named>\[:\^?[a-z]{{1,8}}:\])|(?P<close>\])|(?P<character>.)", re.DOTALL
)
"""Every repetition has a limit, so that parsing a pattern takes linear time."""
_PERL_CLASSES: Final = "dDsSwW"
_LONGEST: Final = 200_000
"""Characters of a translated pattern."""

_NOTHING: Final = r"\x{d800}"
"""Inside brackets, a class that matches nothing: a surrogate, which no text contains."""

_ASSIGNED_BUT_OTHER: Final = ("L", "M", "N", "P", "S", "Z")
_ASSIGNED: Final = (*_ASSIGNED_BUT_OTHER, "Cc", "Cf", "Co", "Cs")
_UNIONS: Final = MappingProxyType(
    {
        "Any": (("Any",), True),
        "Assigned": (_ASSIGNED, True),
        "Cn": (_ASSIGNED, False),
        "C": (_ASSIGNED_BUT_OTHER, False),
        "Lc": (("Lu", "Ll", "Lt"), True),
        "Ascii": (("ASCII",), True),
    }
)
"""Canonical name -> RE2's classes, and whether it means their union or its complement."""
_LONG_NAMES: Final = """
Lc=Cased_Letter Pe=Close_Punctuation M=Combining_Mark Pc=Connector_Punctuation Cc=Control Sc=Currency_Symbol
Pd=Dash_Punctuation Nd=Decimal_Number Me=Enclosing_Mark Pf=Final_Punctuation Cf=Format Pi=Initial_Punctuation L=Letter
Nl=Letter_Number Zl=Line_Separator Ll=Lowercase_Letter M=Mark Sm=Math_Symbol Lm=Modifier_Letter Sk=Modifier_Symbol
Mn=Nonspacing_Mark N=Number Ps=Open_Punctuation C=Other Lo=Other_Letter No=Other_Number Po=Other_Punctuation
So=Other_Symbol Zp=Paragraph_Separator Co=Private_Use P=Punctuation Z=Separator Zs=Space_Separator Mc=Spacing_Mark
Cs=Surrogate S=Symbol Lt=Titlecase_Letter Cn=Unassigned Lu=Uppercase_Letter Cc=cntrl Nd=digit P=punct
"""
_ALIASES: Final = MappingProxyType(
    {
        name.replace("_", "").capitalize(): category
        for category, _, name in (alias.partition("=") for alias in _LONG_NAMES.split())
    }
)
"""Canonical name -> category: Unicode's long names of categories."""

_GO_WORDS: Final = MappingProxyType(
    {
        "bad repetition operator": "invalid nested repetition operator",
        "invalid named capture group": "invalid named capture",
        "invalid perl operator": "invalid or unsupported Perl syntax",
        "invalid repetition size": "invalid repeat count",
        "missing )": "missing closing )",
        "missing ]": "missing closing ]",
        "no argument for repetition operator": "missing argument to repetition operator",
    }
)


class InvalidPattern(ValueError):
    """A pattern that Go refuses; the text is Go's."""


def refusal(reason: str, where: str) -> InvalidPattern:
    """Go's error: the fault, and the part of the pattern that has it."""
    return InvalidPattern(f"error parsing regexp: {reason}: `{where}`")


def in_go_words(message: str, pattern: str) -> InvalidPattern:
    """RE2's error about a pattern, worded as Go's."""
    if message.startswith("trailing \\"):
        return refusal("trailing backslash at end of expression", "")
    reason, colon, where = message.partition(": ")
    if not colon:
        return InvalidPattern(f"error parsing regexp: {message}")
    if (
        where.startswith("(?<") and reason == "invalid perl operator"
    ):  # a look-behind, which Go takes for the name of a group
        rest = pattern[pattern.find(where) :]
        return refusal("invalid named capture", rest[: rest.find(">") + 1] or rest)
    return refusal(_GO_WORDS.get(reason, reason), where if where in pattern else pattern)


def translated(pattern: str, compiles: Callable[[str], bool], members: Callable[[str], list[tuple[int, int]]]) -> str:
    """A pattern for RE2 with the meaning that this one has in Go. Raises :class:`InvalidPattern` for one that only RE2
    accepts.

    ``compiles``: whether RE2 takes a pattern. ``members``: the code points that a class of RE2 matches, as ranges.
    """
    if _DIFFERENT.search(pattern) is None:
        return pattern
    pieces: list[str] = []
    position, inside = 0, False
    before = _Before.CLASS
    while match := (_INSIDE if inside else _OUTSIDE).search(pattern, position):
        pieces.append(pattern[position : match.start()])
        position = match.end()
        kind, text = match.lastgroup, match.group()
        if inside and kind == "unicode" and before is _Before.DASH:
            raise refusal(
                "invalid escape sequence", text[:2]
            )  # the end of a range; what it is translated to might be accepted as one
        if inside:
            before = _after(before, kind, text, pattern[position : position + 1])
        if kind == "open":
            inside = True
            before = _Before.CHARACTER if text.endswith("]") else _Before.CLASS
        elif kind == "close":
            inside = False
        elif kind == "escape" and text == "\\C" and not inside:
            raise refusal("invalid escape sequence", text)
        elif kind == "name" and not match["name"].isascii():
            raise refusal("invalid named capture", text)
        elif kind == "unicode":
            text = _unicode_class(text, inside, compiles, members)
        pieces.append(text)
    pieces.append(pattern[position:])
    whole = "".join(pieces)
    if len(whole) > max(_LONGEST, len(pattern)):
        raise InvalidPattern("error parsing regexp: pattern too large")
    return whole


class _Before(Enum):
    """What stands before a place inside brackets."""

    CLASS = "a class, the end of a range, or nothing: no range can begin here"
    CHARACTER = "a character, with which a range may begin"
    DASH = "a character and a dash: the end of a range comes next"


def _after(before: _Before, kind: str | None, text: str, following: str) -> _Before:
    """What stands behind a part of a class; ``following``: the character after the part."""
    if before is _Before.DASH:
        return _Before.CLASS
    if text == "-" and before is _Before.CHARACTER and following not in ("]", ""):
        return _Before.DASH
    single = kind in ("character", "code") or (kind == "escape" and text[1] not in _PERL_CLASSES)
    return _Before.CHARACTER if single else _Before.CLASS


def _unicode_class(
    text: str, inside: bool, compiles: Callable[[str], bool], members: Callable[[str], list[tuple[int, int]]]
) -> str:
    """``\\p{…}`` or ``\\P{…}`` in RE2's syntax, inside or outside of brackets."""
    given = (text[3:-1] if text[2] == "{" else text[2:]).removeprefix("^")
    positive = (text[1] == "p") != (text[2:4] == "{^" or text[2] == "^")
    name = _canonical(given)
    name = name if name in _UNIONS or _is_class(name, compiles) else _ALIASES.get(name, "")
    if not name:
        raise refusal("invalid character class range", text)
    if name == given and name not in _UNIONS:
        return text
    classes, within = _UNIONS.get(name, ((name,), True))
    spelled = "".join("[:ascii:]" if class_ == "ASCII" else f"\\p{{{class_}}}" for class_ in classes)
    if positive != within and inside:
        return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in members(f"[^{spelled}]")) or _NOTHING
    return spelled if inside else f"[{'' if positive == within else '^'}{spelled}]"


def _canonical(name: str) -> str:
    """The name by which Go finds a class: a capital and then small letters, without ``_``, ``-`` and blanks."""
    letters = re.sub("[_ -]", "", name)
    return letters[:1].upper() + letters[1:].lower() if letters.isascii() else ""


def _is_class(name: str, compiles: Callable[[str], bool]) -> bool:
    return name.isalpha() and compiles(f"\\p{{{name}}}")


def every_character() -> str:
    """All code points but the surrogates, in order."""
    return "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
