"""Kubernetes' quantity and semver libraries (L-2.8, L-2.12)."""

from __future__ import annotations

import operator
from functools import partial

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


@library.function(f"{_Q}::asInteger() -> int")
def as_integer(value: Quantity) -> int:
    whole = value.as_int64()
    if whole is None:
        raise EvaluationError("cannot convert value to integer")
    return whole


def _part(name: str, version: SemVer) -> int:
    """A number of a version, in 64 bits."""
    number: int = getattr(version, name)
    return number if number <= INT_MAX else number - 2**64


def _quantity(value: Quantity | int) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity.from_number(value, QuantityFormat.DECIMAL_EXPONENT)


for _other in (_Q, "int"):
    library.define(
        {
            f"{_Q}::add({_other}) -> {_Q}": lambda value, other: CalculatedQuantity(value + _quantity(other)),
            f"{_Q}::sub({_other}) -> {_Q}": lambda value, other: CalculatedQuantity(value - _quantity(other)),
        }
    )
for _kind in (_Q, _S):
    library.define(
        {
            f"{_kind}::isLessThan({_kind}) -> bool": operator.lt,
            f"{_kind}::isGreaterThan({_kind}) -> bool": operator.gt,
            f"{_kind}::compareTo({_kind}) -> int": lambda value, other: (value > other) - (value < other),
        }
    )
library.define(
    {
        f"{_Q}::isInteger() -> bool": lambda value: value.as_int64() is not None,
        f"{_Q}::asApproximateFloat() -> double": Quantity.as_approximate_float,
        f"sign({_Q}) -> int": Quantity.sign,
        **{f"{_S}::{part}() -> int": partial(_part, part) for part in ("major", "minor", "patch")},
    }
)


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
