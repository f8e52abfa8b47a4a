"""What an admission review answers: a verdict with its causes (K-2.1), and how causes write paths and quoted texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CauseType = Literal["FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate", "FieldValueNotFound", "FieldValueNotSupported"]

INVALID: CauseType = "FieldValueInvalid"
REQUIRED: CauseType = "FieldValueRequired"
DUPLICATE: CauseType = "FieldValueDuplicate"
NOT_FOUND: CauseType = "FieldValueNotFound"
NOT_SUPPORTED: CauseType = "FieldValueNotSupported"


@dataclass(frozen=True)
class Cause:
    """One reason to refuse an object: which kind of fault, the text shown to the user, and the path of the field."""

    type: CauseType
    message: str
    field: str


@dataclass(frozen=True)
class Verdict:
    """The answer to a review. ``warnings`` are shown to the user whether or not the object is admitted."""

    allowed: bool
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The response's one message: all causes, in order (K-2.1)."""
        return ", ".join(cause.message for cause in self.causes)


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'}


def quoted(text: str) -> str:
    """A text in double quotes with Go's escapes, as KubeVirt's messages write names (``%q``).

    >>> print(quoted('a"b'))
    "a\\"b"
    """
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    short = _ESCAPES.get(character)
    if short is not None:
        return short
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"  # a lone surrogate: Go's JSON decoder replaces it
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
