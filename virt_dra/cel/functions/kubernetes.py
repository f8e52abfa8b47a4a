"""Kubernetes' quantity and semver libraries (L-2.8, L-2.12)."""

from __future__ import annotations

from virt_dra.api.quantity import Quantity, QuantityError, QuantityFormat
from virt_dra.api.semver import SemVer, SemVerError
from virt_dra.cel.errors import EvaluationError
from virt_dra.cel.functions.registry import Library
from virt_dra.cel.values import INT_MAX, CalculatedQuantity, fresh

library = Library()

_Q = "kubernetes.Quantity"
_S = "kubernetes.Semver"


@library.function(f"quantity(string) -> {_Q}", per_character=0.02)
def quantity(text: str) -> Quantity:
    try:
        return fresh(Quantity(text))
    except QuantityError as error:
        raise EvaluationError(error.upstream) from None


@library.function("isQuantity(string) -> bool", per_character=0.02)
def is_quantity(text: str) -> bool:
    try:
        Quantity(text)
    except ValueError:
        return False
    return True


@library.function(f"{_Q}::isInteger() -> bool")
def is_integer(value: Quantity) -> bool:
    return value.as_int64() is not None


@library.function(f"{_Q}::asInteger() -> int")
def as_integer(value: Quantity) -> int:
    whole = value.as_int64()
    if whole is None:
        raise EvaluationError("cannot convert value to integer")
    return whole


@library.function(f"{_Q}::asApproximateFloat() -> double")
def as_approximate_float(value: Quantity) -> float:
    return value.as_approximate_float()


@library.function(f"sign({_Q}) -> int")
def sign(value: Quantity) -> int:
    return value.sign()


def _other(value: Quantity | int) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity.from_number(value, QuantityFormat.DECIMAL_EXPONENT)


@library.function(f"{_Q}::add({_Q}) -> {_Q}", f"{_Q}::add(int) -> {_Q}")
def add(value: Quantity, other: Quantity | int) -> Quantity:
    return CalculatedQuantity(value + _other(other))


@library.function(f"{_Q}::sub({_Q}) -> {_Q}", f"{_Q}::sub(int) -> {_Q}")
def subtract(value: Quantity, other: Quantity | int) -> Quantity:
    return CalculatedQuantity(value - _other(other))


@library.function(f"{_Q}::isLessThan({_Q}) -> bool", f"{_S}::isLessThan({_S}) -> bool")
def is_less_than(value: Quantity | SemVer, other: Quantity | SemVer) -> bool:
    return value < other  # type: ignore[operator]  # both are of one type by declaration


@library.function(f"{_Q}::isGreaterThan({_Q}) -> bool", f"{_S}::isGreaterThan({_S}) -> bool")
def is_greater_than(value: Quantity | SemVer, other: Quantity | SemVer) -> bool:
    return other < value  # type: ignore[operator]  # both are of one type by declaration


@library.function(f"{_Q}::compareTo({_Q}) -> int", f"{_S}::compareTo({_S}) -> int")
def compare_to(value: Quantity | SemVer, other: Quantity | SemVer) -> int:
    return int(is_greater_than(value, other)) - int(is_less_than(value, other))


@library.function(f"semver(string) -> {_S}", f"semver(string, bool) -> {_S}", per_character=0.02)
def semver(text: str, normalize: bool = False) -> SemVer:
    try:
        return SemVer.parse(text, normalize, uint64=True)
    except SemVerError as error:
        raise EvaluationError(str(error)) from None


@library.function("isSemver(string) -> bool", "isSemver(string, bool) -> bool", per_character=0.02)
def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        SemVer.parse(text, normalize, uint64=True)
    except SemVerError:
        return False
    return True


def _int64(number: int) -> int:
    return number if number <= INT_MAX else number - 2**64


@library.function(f"{_S}::major() -> int")
def major(version: SemVer) -> int:
    return _int64(version.major)


@library.function(f"{_S}::minor() -> int")
def minor(version: SemVer) -> int:
    return _int64(version.minor)


@library.function(f"{_S}::patch() -> int")
def patch(version: SemVer) -> int:
    return _int64(version.patch)
