"""The meaning of YAML scalars in Kubernetes: the rules of go-yaml v2 as sigs.k8s.io/yaml uses it, not PyYAML's.

The differences that matter here: ``0000:01:00.0`` and dates are strings; ``y``, ``n``, ``on``, ``off`` are booleans;
``1e3`` is a number; ``010`` is 8 but ``08`` is 8 too (read as a float); underscores in numbers are dropped. Whole
floats become integers, as Kubernetes' JSON writes them. Unlike go-yaml, integers beyond 64 bits stay exact instead of
becoming floats.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from functools import lru_cache

JsonScalar = str | int | float | bool | None
"""The JSON values of a scalar node."""

_TAG = "tag:yaml.org,2002:"
STR, BOOL, INT, FLOAT, NULL, TIMESTAMP, BINARY, MERGE = (
    _TAG + name for name in ("str", "bool", "int", "float", "null", "timestamp", "binary", "merge")
)

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"x": 16, "X": 16, "o": 8, "O": 8, "b": 2, "B": 2}
_BASED = re.compile(r"[-+]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FIRST = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
_STARTS_NUMBER = frozenset("+-.0123456789")
MAX_INTEGER_DIGITS = 4000
"""The most digits of a plain integer; a longer one is a string, as numbers out of range are in go-yaml."""


class ScalarError(ValueError):
    """A scalar that has no JSON value."""


_REMEMBERED = 64
"""The longest scalar whose value is cached, so that the cache's size doesn't depend on the input."""


def plain_scalar(text: str) -> JsonScalar:
    """The value of a plain, untagged scalar. Raises :class:`ScalarError` for infinity and NaN, which JSON hasn't."""
    return _remembered(text) if len(text) <= _REMEMBERED else _plain(text)


@lru_cache(maxsize=65536)
def _remembered(text: str) -> JsonScalar:
    return _plain(text)


def _plain(text: str) -> JsonScalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_NUMBER:
        return text
    if _INFINITE.fullmatch(text):
        raise ScalarError(
            f"{text} is not a number that JSON can express; write a finite number, or quote it if a string is meant"
        )
    integer = _integer(text)
    if integer is not None:
        return integer
    number = _float(text)
    return text if number is None else whole(number)


def _integer(text: str) -> int | None:
    digits = text.replace("_", "")
    if text[0] == "." or len(digits) > MAX_INTEGER_DIGITS:
        return None
    if _DECIMAL.fullmatch(digits):
        return int(digits)
    if _BASED.fullmatch(digits):
        sign, bare = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
        return _within_64_bits(sign * int(bare[2:], _BASES[bare[1]]))
    return _within_64_bits(int(digits, 8)) if _OCTAL.fullmatch(digits) else None


def _float(text: str) -> float | None:
    form = _POINT_FIRST if text[0] == "." else _FLOAT
    digits = text.replace("_", "")
    if not form.fullmatch(text if text[0] == "." else digits):
        return None
    number = float(digits)
    return None if math.isinf(number) else number


def _within_64_bits(number: int) -> int | None:
    return number if -(2**63) <= number < 2**64 else None


def whole(number: float) -> int | float:
    """A float as Kubernetes' JSON writes it: without fraction below 10^21, so that ``1e3`` and ``5.0`` are integers."""
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def tagged_scalar(tag: str, text: str) -> JsonScalar:
    """The value of a scalar with a tag (long form). Unknown tags read as strings. Raises :class:`ScalarError`."""
    if tag == BINARY:
        try:
            return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            raise ScalarError("!!binary value contains invalid base64 data") from None
    if tag not in (BOOL, INT, FLOAT, NULL, TIMESTAMP):
        return text
    if tag == TIMESTAMP:
        if _TIMESTAMP.fullmatch(text):
            return text
        raise ScalarError(f"cannot decode `{text}` as a !!timestamp")
    value = plain_scalar(text)
    kinds: dict[str, tuple[type, ...]] = {BOOL: (bool,), NULL: (type(None),), INT: (int,), FLOAT: (int, float)}
    if not isinstance(value, kinds[tag]) or (isinstance(value, bool) and tag != BOOL):
        raise ScalarError(f"cannot decode `{text}` as a !!{tag.removeprefix(_TAG)}")
    return value


def plain_key(text: str) -> str:
    """A plain mapping key as the string that JSON needs: ``yes`` -> ``true``, ``0x10`` -> ``16``, ``1e6`` -> ``1e+06``.

    Raises :class:`ScalarError` for null and for integers of 2^63 and more.
    """
    if text not in _WORDS and text[0] in _STARTS_NUMBER:
        if _INFINITE.fullmatch(text):
            return text.lower().removeprefix("+")
        integer = _integer(text)
        number = _float(text) if integer is None else None
        if number is not None:
            return _float_key(number)
    return key_text(plain_scalar(text))


def key_text(value: JsonScalar) -> str:
    """A scalar as a mapping key. Raises :class:`ScalarError`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise ScalarError('null can\'t be a key; quote it ("null") if the string is meant')
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ScalarError(f"{value} is too large for a key; quote it if the string is meant")
        return str(value)
    return _float_key(value)


def _float_key(number: float) -> str:
    """The shortest text of a number in single precision, as sigs.k8s.io/yaml writes float keys (Go's %g)."""
    single = _single(number)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    for precision in range(9):
        text = f"{single:.{precision}e}"
        if _single(float(text)) == single:
            break
    mantissa, exponent = text.split("e")
    if single and not -4 <= int(exponent) < 6:
        return text
    decimals = max(len(mantissa.partition(".")[2]) - int(exponent), 0)
    return f"{float(text):.{decimals}f}"


def _single(number: float) -> float:
    try:
        single: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return single
