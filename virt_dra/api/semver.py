"""Semantic versions 2.0.0, strictly read, as Kubernetes' CEL (``semver()``) and device attributes of type version use
them.

Grammar::

    version    = number "." number "." number [ "-" prerelease ] [ "+" build ]
    number     = "0" | digit without zero { digit }
    prerelease = identifier { "." identifier }       ; identifiers: [0-9A-Za-z-]+, numeric ones without leading zeros
    build      = identifier { "." identifier }       ; leading zeros allowed

Order is semver's precedence: build metadata doesn't count, neither for order nor for equality and hash. Numbers are
exact, of any size, as the API server takes them; Kubernetes' own reader, which expressions use, refuses those beyond 64
bits.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

MAX_LENGTH = 4000
"""The most characters of a version; longer texts are refused."""

_NUMBER = re.compile(r"[0-9]+")
_DIGITS = re.compile(r"[0-9]*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_UINT64 = 2**64


class SemVerError(ValueError):
    """A text that is not a semantic version. The message is that of Kubernetes' own parser."""


@dataclass(frozen=True, eq=False)
class SemVer:
    """An immutable version. ``prerelease`` has integers for numeric identifiers; ``build`` is for the text only."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, normalize: bool = False, *, uint64: bool = False) -> SemVer:
        """Read a version. Raises :class:`SemVerError`.

        With ``normalize`` (CEL's ``semver(text, true)``) one leading ``v`` and leading zeros of the three numbers are
        dropped, and missing minor and patch numbers are 0. With ``uint64`` numbers of 2^64 and more are refused, as
        Kubernetes' own reader does.
        """
        if len(text) > MAX_LENGTH:
            raise SemVerError(f"version is too long: {len(text)} characters, at most {MAX_LENGTH}")
        return _parsed(_normalized(text) if normalize else text, uint64)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(map(str, self.prerelease))
        if self.build:
            text += "+" + ".".join(self.build)
        return text

    @cached_property
    def _key(self) -> tuple[object, ...]:
        # A release follows its prereleases; numeric identifiers come before others; the longer of two equal beginnings
        # follows.
        identifiers = tuple((0, i, "") if isinstance(i, int) else (1, 0, i) for i in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, identifiers

    def compare(self, other: SemVer) -> int:
        """-1, 0 or 1 by precedence."""
        return (self > other) - (self < other)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, SemVer) else NotImplemented

    def __lt__(self, other: SemVer) -> bool:
        return self._key < other._key if isinstance(other, SemVer) else NotImplemented

    def __le__(self, other: SemVer) -> bool:
        return self._key <= other._key if isinstance(other, SemVer) else NotImplemented

    def __gt__(self, other: SemVer) -> bool:
        return self._key > other._key if isinstance(other, SemVer) else NotImplemented

    def __ge__(self, other: SemVer) -> bool:
        return self._key >= other._key if isinstance(other, SemVer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)


_REMEMBERED = 64
"""The longest text whose version is cached, since drivers and tenants write these texts."""


def _parsed(text: str, uint64: bool) -> SemVer:
    return _remembered(text, uint64) if len(text) <= _REMEMBERED else _read_version(text, uint64)


@lru_cache(maxsize=16384)
def _remembered(text: str, uint64: bool) -> SemVer:
    return _read_version(text, uint64)


def _read_version(text: str, uint64: bool) -> SemVer:
    if not text:
        raise SemVerError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemVerError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major", "Major", uint64)
    minor = _number(parts[1], "minor", "Minor", uint64)
    rest, plus, build_text = parts[2].partition("+")
    patch_text, minus, prerelease_text = rest.partition("-")
    patch = _number(patch_text, "patch", "Patch", uint64)
    prerelease = tuple(_prerelease(part, uint64) for part in prerelease_text.split(".")) if minus else ()
    build = tuple(_build(part) for part in build_text.split(".")) if plus else ()
    return SemVer(major, minor, patch, prerelease, build)


def _number(text: str, name: str, title: str, uint64: bool) -> int:
    if not _DIGITS.fullmatch(text):
        raise SemVerError(f"Invalid character(s) found in {name} number {_quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise SemVerError(f"{title} number must not contain leading zeroes {_quoted(text)}")
    if not text:
        raise SemVerError('strconv.ParseUint: parsing "": invalid syntax')
    return _read(text, uint64)


def _read(digits: str, uint64: bool) -> int:
    number = int(digits)
    if uint64 and number >= _UINT64:
        raise SemVerError(f'strconv.ParseUint: parsing "{digits}": value out of range')
    return number


def _prerelease(text: str, uint64: bool) -> int | str:
    if not text:
        raise SemVerError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise SemVerError(f"Numeric PreRelease version must not contain leading zeroes {_quoted(text)}")
        return _read(text, uint64)
    if not _IDENTIFIER.fullmatch(text):
        raise SemVerError(f"Invalid character(s) found in prerelease {_quoted(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise SemVerError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise SemVerError(f"Invalid character(s) found in build meta data {_quoted(text)}")
    return text


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[index] = bare if bare and bare[0] in "0123456789" else f"0{bare}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise SemVerError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
