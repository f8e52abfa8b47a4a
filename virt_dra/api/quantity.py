"""resource.Quantity: exact numbers with a unit suffix, as Kubernetes reads, computes and writes them.

Grammar (L-2.12), no spaces anywhere::

    quantity  = number [ suffix ]
    number    = [ "+" | "-" ] digits [ "." digits ]                        ; digits may be missing on either
                                                                              ; side: "1.", ".5", and even "k" is 0
    suffix    = "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E"           ; DecimalSI, powers of 1000
              | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei"                       ; BinarySI, powers of 1024
              | ( "e" | "E" ) [ "+" | "-" ] digits                            ; DecimalExponent

Values are exact integers of nano-units; what is finer is rounded away from zero, as upstream does when parsing. Unlike
upstream nothing saturates at 2^63-1 and every value has its right text (AC-22): ``10Ei`` stays ``10Ei``, ``1000E``
stays ``1000E``. Also unlike upstream the text is always canonical: upstream repeats the spelling of some inputs
(``1.001``, ``+5``, ``1E3``), here these are ``1001m``, ``5``, ``1e3``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from virt_dra.api.go_text import printable

MAX_DIGITS = 4000
"""The most digits of a number; longer ones are no real amounts, and ``1e999999999`` would fill the memory."""


class QuantityFormat(StrEnum):
    """The family of suffixes that a quantity is written with. It is remembered from the text that was read."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """A text that is not a quantity. ``upstream`` is the message of Kubernetes' own parser (CEL shows that one)."""

    def __init__(self, text: str, upstream: str, advice: str) -> None:
        self.text = text
        self.upstream = upstream
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        super().__init__(f'"{printable(shown)}" is not a quantity: {advice}')


UPSTREAM_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
UPSTREAM_NUMERIC = "unable to parse numeric part of quantity"
UPSTREAM_SUFFIX = "unable to parse quantity's suffix"

_PARTS = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_SUFFIXES: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_POWER: Final = {power // 3: suffix for suffix, power in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", *_BINARY_SUFFIXES)

_NANO: Final = 10**9
_TOO_LONG: Final = 10**MAX_DIGITS * _NANO
_INT64: Final = 2**63
_MAX_SCALE: Final = 2**31 - 1


class Spelling(NamedTuple):
    """How a quantity was written: see :attr:`Quantity.spelling`."""

    nano: int
    format: QuantityFormat
    scale: int | None
    kept: str | None


class Quantity:
    """An immutable exact amount. Equality, order and hash go by value: ``Quantity("1Ki") == Quantity("1024")``.

    ``Quantity(text)`` raises :class:`QuantityError`. ``str()`` gives the canonical text (A-17.8).
    """

    __slots__ = ("_kept", "_nano", "_scale", "_text", "format")

    _nano: int
    _scale: int | None
    """The power of ten of upstream's int64 form; None where it takes its decimal form (see :meth:`as_int64`)."""
    _text: str | None
    _kept: str | None
    """The text it was read from, where upstream keeps it instead of writing the amount anew (see :attr:`spelling`)."""
    format: QuantityFormat

    def __new__(cls, text: str) -> Quantity:
        return _parsed(text)

    @classmethod
    def from_number(cls, number: int | Fraction, format: QuantityFormat | str = QuantityFormat.DECIMAL_SI) -> Quantity:
        """A number of units, rounded to nano away from zero. Raises :class:`QuantityError` beyond 4000 digits."""
        if isinstance(number, int):
            return _make(number * _NANO, QuantityFormat(format), 0)
        scaled = number * _NANO
        return _make(_div_away(scaled.numerator, scaled.denominator), QuantityFormat(format))

    @classmethod
    def milli(cls, thousandths: int, format: QuantityFormat | str = QuantityFormat.DECIMAL_SI) -> Quantity:
        """A number of thousandths. Raises :class:`QuantityError` beyond 4000 digits."""
        return _make(thousandths * 1_000_000, QuantityFormat(format), -3)

    # --- values ---

    @property
    def nano(self) -> int:
        """The exact value in billionths."""
        return self._nano

    @property
    def spelling(self) -> Spelling:
        """What upstream's ``==`` on the structs compares: also how the amount is held and, for some texts, the text.

        ``1Gi`` and ``1024Mi`` are equal amounts and spelled differently. A spelling with ``scale`` None is there held
        by reference, so not even equal to a copy of itself.
        """
        return Spelling(self._nano, self.format, self._scale, self._kept)

    def as_fraction(self) -> Fraction:
        """The exact value."""
        return Fraction(self._nano, _NANO)

    def value(self) -> int:
        """The number of whole units, rounded away from zero, as upstream's ``Value()`` (but never saturated)."""
        return _div_away(self._nano, _NANO)

    def milli_value(self) -> int:
        """The number of thousandths, rounded away from zero, as upstream's ``MilliValue()`` (but never saturated)."""
        return _div_away(self._nano, 1_000_000)

    def is_integer(self) -> bool:
        """Whether this is a whole number."""
        return self._nano % _NANO == 0

    def fits_int64(self) -> bool:
        """Whether this is a whole number in [-2^63, 2^63)."""
        return self._nano % _NANO == 0 and -_INT64 <= self._nano // _NANO < _INT64

    def as_int64(self) -> int | None:
        """Upstream's ``AsInt64()``: the value if it is whole, but only where upstream holds it without a fraction or
        decimal form.

        That depends on the text it was read from and on the arithmetic since: ``1k`` and ``2e3`` have a value,
        ``1000m``, ``1.0`` and ``1.5Gi`` have none. CEL's ``isInteger`` and ``asInteger`` answer with it.
        """
        return self._nano // _NANO if self._scale is not None and self._scale >= 0 and self.fits_int64() else None

    def as_approximate_float(self) -> float:
        """Upstream's ``AsApproximateFloat64()``: the int64 form's number times the power of ten; else infinite."""
        if self._scale is None:
            try:
                return self._nano / _NANO
            except OverflowError:
                return float("inf") if self._nano > 0 else float("-inf")
        number = float(self._nano // 10 ** (9 + self._scale))
        return number * float(f"1e{self._scale}") if self._scale else number

    def decimal_text(self) -> str:
        """Upstream's ``AsDec().String()``: plain decimals with as many places as were spelled: ``0.5``, but ``0.500``
        for ``500m``.

        Of the decimal form (see :meth:`as_int64`) the places were not kept; there it has no more than the value needs.
        """
        places = 9 if self._scale is None else max(0, -self._scale)
        sign, digits = "-" if self._nano < 0 else "", str(abs(self._nano) // 10 ** (9 - places)).zfill(places + 1)
        if not places:
            return sign + digits
        decimals = digits[-places:] if self._scale is not None else digits[-places:].rstrip("0")
        return f"{sign}{digits[:-places]}.{decimals}" if decimals else sign + digits[:-places]

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self._nano > 0) - (self._nano < 0)

    # --- arithmetic: the result is written as the left operand is, unless that is zero (as upstream) ---

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return _built(self._nano + other._nano, self.format if self._nano else other.format, _sum_scale(self, other))

    def __sub__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return _built(self._nano - other._nano, self.format if self._nano else other.format, _sum_scale(self, other))

    def __neg__(self) -> Quantity:
        return _make(-self._nano, self.format, self._scale)

    def __mul__(self, factor: int) -> Quantity:
        if not isinstance(factor, int):
            return NotImplemented
        return _make(self._nano * factor, self.format, self._scale)

    __rmul__ = __mul__

    def __bool__(self) -> bool:
        """Whether the amount is not zero."""
        return self._nano != 0

    # --- order ---

    def __eq__(self, other: object) -> bool:
        return self._nano == other._nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nano < other._nano if isinstance(other, Quantity) else NotImplemented

    def __le__(self, other: Quantity) -> bool:
        return self._nano <= other._nano if isinstance(other, Quantity) else NotImplemented

    def __gt__(self, other: Quantity) -> bool:
        return self._nano > other._nano if isinstance(other, Quantity) else NotImplemented

    def __ge__(self, other: Quantity) -> bool:
        return self._nano >= other._nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nano)

    # --- text ---

    def __str__(self) -> str:
        if self._text is None:
            object.__setattr__(self, "_text", _canonical(self._nano, self.format))
        return self._text or "0"

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    # --- immutability, also when copied or pickled ---

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Quantity can't be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Quantity can't be changed")

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Quantity:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._nano, self.format, self._scale, self._kept)

    # --- pydantic ---

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.from_json, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def from_json(cls, value: object) -> Quantity:
        """A JSON string or number, with white space around a string allowed and ``null`` read as 0, as upstream.

        Raises ValueError (:class:`QuantityError` where it is a text).
        """
        if isinstance(value, Quantity):
            return value
        if isinstance(value, str):
            return _parsed(value.strip())
        if value is None:
            return _parsed("0")
        if isinstance(value, int) and not isinstance(value, bool):
            if abs(value) >= _TOO_LONG:
                raise QuantityError("...", UPSTREAM_NUMERIC, f"it has more than {MAX_DIGITS} digits")
            return _parsed(str(value))
        if isinstance(value, float):
            return _parsed(_float_text(value))
        actual = {bool: "a boolean", list: "a list", dict: "an object"}.get(type(value), type(value).__name__)
        raise ValueError(f'must be a quantity (a string such as "500m", "2" or "10Gi", or a number), not {actual}')


def _make(nano: int, format: QuantityFormat, scale: int | None = None, kept: str | None = None) -> Quantity:
    if not -_TOO_LONG < nano < _TOO_LONG:
        raise QuantityError("...", UPSTREAM_NUMERIC, f"it has more than {MAX_DIGITS} digits")
    return _built(nano, format, scale, kept)


def _built(nano: int, format: QuantityFormat, scale: int | None = None, kept: str | None = None) -> Quantity:
    """A quantity without the limit on digits, for sums: adding up valid quantities mustn't fail."""
    quantity = object.__new__(Quantity)
    object.__setattr__(quantity, "_nano", nano)
    if scale is not None and not -_INT64 <= nano // 10 ** (9 + scale) < _INT64:
        scale = None
    object.__setattr__(quantity, "_scale", scale)
    object.__setattr__(quantity, "_text", None)
    object.__setattr__(quantity, "_kept", kept)
    object.__setattr__(quantity, "format", format)
    return quantity


_REMEMBERED: Final = 64
"""Characters of a text whose quantity is remembered: tenants write these texts, with any number of zeros in front."""


def _parsed(text: str) -> Quantity:
    return _remembered(text) if len(text) <= _REMEMBERED else _read(text)


@lru_cache(maxsize=65536)
def _remembered(text: str) -> Quantity:
    return _read(text)


def _read(text: str) -> Quantity:
    parts = _PARTS.fullmatch(text) if text else None
    if parts is None:
        raise QuantityError(text, UPSTREAM_FORMAT, _advice(text))
    sign, whole, decimals, suffix = parts.groups(default="")
    digits = (whole + decimals).lstrip("0")
    power, binary, format = _suffix(text, suffix)
    places = power - len(decimals)
    if digits and (len(digits) > MAX_DIGITS or len(digits) + places > MAX_DIGITS):
        raise QuantityError(text, UPSTREAM_NUMERIC, f"it has more than {MAX_DIGITS} digits")
    nano = _scaled(digits, places + 9, binary) if digits else 0
    if binary and 0 < nano < _NANO:
        format = QuantityFormat.DECIMAL_SI  # a fraction below one unit can't be written in powers of 1024
    scale = _int64_scale(whole, decimals, power, binary)
    return _make(-nano if sign == "-" else nano, format, scale, _kept(text, whole, decimals, scale, binary))


def _kept(text: str, whole: str, decimals: str, scale: int | None, binary: int) -> str | None:
    """The text, if upstream considers it canonical."""
    if text == "0":
        return text
    number = (whole.lstrip("0") or "0") + decimals
    if scale is None:
        return None
    if binary:
        return text if int(number) % 8 else None
    return text if scale % 3 == 0 and not number.endswith("000") and number[0] != "0" else None


def _int64_scale(whole: str, decimals: str, power: int, binary: int) -> int | None:
    """The power of ten of upstream's int64 form, None if the text is too long or has a fraction and a binary suffix."""
    digits = max(len(whole.lstrip("0")), 1)
    if binary:
        return 0 if not decimals and digits <= 14 - binary * 3 // 10 else None
    scale = power - len(decimals)
    return scale if digits + len(decimals) <= 18 and -9 <= scale <= _MAX_SCALE else None


def _sum_scale(left: Quantity, right: Quantity) -> int | None:
    """The power of ten of a sum's int64 form: the smaller one, ignoring zeros."""
    if left._scale is None or right._scale is None:
        return None
    if not right._nano:
        return left._scale
    if not left._nano:
        return right._scale
    return min(left._scale, right._scale)


def _suffix(text: str, suffix: str) -> tuple[int, int, QuantityFormat]:
    """(power of ten, power of two, format)."""
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], 0, QuantityFormat.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 0, _BINARY_SUFFIXES[suffix], QuantityFormat.BINARY_SI
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None or len(exponent[1]) > 4000 or not -_INT64 <= int(exponent[1]) < _INT64:
        raise QuantityError(text, UPSTREAM_SUFFIX, _suffix_advice(suffix))
    return int(exponent[1]), 0, QuantityFormat.DECIMAL_EXPONENT


def _scaled(digits: str, places: int, binary: int) -> int:
    """digits · 10^places · 2^binary, rounded up to a whole number. Builds no power of ten beyond their number."""
    number = int(digits) << binary
    if places >= 0:
        return number * int("1" + "0" * places)
    if -places > len(digits) + 20:  # far below one: 2^60 has 19 digits
        return 1
    return _div_away(number, int("1" + "0" * -places))


def _div_away(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


def _canonical(nano: int, format: QuantityFormat) -> str:
    """The amount without a fraction, with the largest suffix that leaves a whole number (A-17.8)."""
    if nano == 0:
        return "0"
    if format is QuantityFormat.BINARY_SI:
        units, rest = divmod(nano, _NANO)
        if rest == 0 and not -1024 < units < 1024:
            power = 0
            while power < 6 and units % 1024 == 0:
                units //= 1024
                power += 1
            return f"{units}{_BINARY_NAMES[power]}"
        format = QuantityFormat.DECIMAL_SI
    number, power = nano, -3
    while number % 1000 == 0 and not (power == 6 and format is QuantityFormat.DECIMAL_SI):
        number //= 1000
        power += 1
    if format is QuantityFormat.DECIMAL_SI:
        return f"{number}{_DECIMAL_BY_POWER[power]}"
    return f"{number}e{power * 3}" if power else str(number)


def _float_text(value: float) -> str:
    """The text Go gives a JSON number: shortest digits that read back as the same value, written out below 10^21."""
    text = repr(value)
    if "n" in text:  # inf, nan
        raise QuantityError(text, UPSTREAM_FORMAT, "it must be a finite number")
    mantissa, _, exponent = text.partition("e")
    if exponent and (0 < int(exponent) < 21 or int(exponent) == -5 or int(exponent) == -6):
        sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
        whole, _, decimals = mantissa.partition(".")
        shift = int(exponent)
        digits = whole + decimals
        text = f"{sign}{digits.ljust(shift + 1, '0')}" if shift > 0 else f"{sign}0.{'0' * (-shift - 1)}{digits}"
    return text.removesuffix(".0")


def _advice(text: str) -> str:
    if not text:
        return 'it is empty; write a number with an optional unit such as "500m", "2" or "10Gi"'
    if text != text.strip() or " " in text:
        return 'it must not contain white space: write "10Gi", not "10 Gi"'
    if text.lower().endswith(("b", "bytes", "bit")):
        return 'units have no "B": write "10Gi" for 10·2^30 bytes or "10G" for 10·10^9 bytes'
    return 'write a number with an optional unit such as "500m", "2", "1.5" or "10Gi"'


def _suffix_advice(suffix: str) -> str:
    hint = {"K": ' (write "k" for 1000 or "Ki" for 1024)', "ki": ' (write "Ki")', "g": ' (write "G" or "Gi")'}.get(
        suffix, ""
    )
    return (
        f'unknown suffix "{suffix[:20]}"{hint}; known are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and exponents such as e3'
    )
