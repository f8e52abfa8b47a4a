"""CEL's values in Python.

bool, double, string, bytes, null, list and map are bool, float, str, bytes, None, list and dict; int is int, uint is :class:`UInt`. A map's
keys go through :func:`map_key`, because Python takes 1, 1.0 and True for the same key and CEL does not. Values are never changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from virt_dra.api.quantity import Quantity
from virt_dra.api.semver import SemVer
from virt_dra.cel.errors import InternalFault

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1

Value: TypeAlias = object
"""Any CEL value. Static typing ends here: CEL's own checker and the run-time dispatch take over."""


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Timestamp:
    """``nanoseconds`` since 1970-01-01T00:00:00Z, between the years 1 and 9999; ``offset``: seconds east of UTC, for writing only."""

    nanoseconds: int
    offset: int = field(default=0, compare=False)

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __le__(self, other: Timestamp) -> bool:
        return self.nanoseconds <= other.nanoseconds

    def __gt__(self, other: Timestamp) -> bool:
        return self.nanoseconds > other.nanoseconds

    def __ge__(self, other: Timestamp) -> bool:
        return self.nanoseconds >= other.nanoseconds


@dataclass(frozen=True, slots=True)
class Duration:
    """A signed number of ``nanoseconds`` that fits 64 bits."""

    nanoseconds: int

    def __lt__(self, other: Duration) -> bool:
        return self.nanoseconds < other.nanoseconds

    def __le__(self, other: Duration) -> bool:
        return self.nanoseconds <= other.nanoseconds

    def __gt__(self, other: Duration) -> bool:
        return self.nanoseconds > other.nanoseconds

    def __ge__(self, other: Duration) -> bool:
        return self.nanoseconds >= other.nanoseconds


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)`` or, with ``present`` False, ``optional.none()``."""

    present: bool
    value: Value = None


NONE = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what ``type(x)`` gives. Compared by name."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as a map's key, kept apart from 0 and 1."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class IdentityKey:
    """A list, map or object as a map's key: found again by this very object only, as upstream, which goes by its pointer."""

    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


WRAPPED_KEYS: Final = (BoolKey, IdentityKey)
_TRUE_KEY, _FALSE_KEY = BoolKey(True), BoolKey(False)


class NamedValues(dict[str, Value]):
    """A map whose keys are texts only, as a device's are: looking up anything else finds nothing."""

    __slots__ = ()
    CEL_TYPE: ClassVar[str] = "map"
    GO_TYPE: ClassVar[str] = "*types.baseMap"


class DomainMap(NamedValues):
    """A device's attributes or capacities by domain: an unknown domain reads as an empty map (L-3.4)."""

    __slots__ = ()

    def __missing__(self, key: str) -> NamedValues:
        return NamedValues()


_PLAIN_KEYS = (int, str, float, Timestamp, Duration, type(None))
_KEYS_BY_VALUE = frozenset(("*types.Type", "cel.CIDR", "cel.IP"))
_NO_KEYS = frozenset(("cel.Format", "cel.Semver", "types.Bytes"))
"""Types that upstream can't look up in a map: it fails while trying."""


def map_key(value: Value) -> Value:
    """The key that a CEL value is stored under. An integral double finds the int it equals. Raises InternalFault, as upstream."""
    if value is True:
        return _TRUE_KEY
    if value is False:
        return _FALSE_KEY
    if isinstance(value, _PLAIN_KEYS):
        return value
    kind = go_type(value)
    if kind in _NO_KEYS:
        raise InternalFault(f"runtime error: hash of unhashable type {kind}")
    return value if kind in _KEYS_BY_VALUE else IdentityKey(value)


_ABSENT = object()


def lookup_key(entries: dict[Value, Value], key: Value) -> Value:
    """The key that a CEL value would have in this map. Raises InternalFault as :func:`map_key`, where upstream's map can't look it up."""
    if isinstance(key, str):
        return key
    return _ABSENT if not entries or isinstance(entries, NamedValues) else map_key(key)


def key_value(key: Value) -> Value:
    """The CEL value of a stored key."""
    return key.value if isinstance(key, WRAPPED_KEYS) else key


def go_type(value: Value) -> str:
    """The name of the Go type that upstream holds such a value in; some of its messages show it."""
    name = _GO_TYPES.get(type(value))
    if name is not None:
        return name
    declared = getattr(type(value), "GO_TYPE", None)
    return declared if isinstance(declared, str) else type(value).__name__


_GO_TYPES: dict[type, str] = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    list: "*types.baseList",
    dict: "*types.baseMap",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    TypeValue: "*types.Type",
    Optional: "*types.Optional",
    Quantity: "cel.Quantity",
    SemVer: "cel.Semver",
}


def type_name(value: Value) -> str:
    """The name of a value's run-time type as CEL writes it."""
    if isinstance(value, TypeValue):
        return "type"
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    declared = getattr(type(value), "CEL_TYPE", None)
    return declared if isinstance(declared, str) else type(value).__name__


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    SemVer: "kubernetes.Semver",
}


def compare_numbers(left: int | float, right: int | float) -> int | None:
    """-1, 0 or 1; None if one is not a number. An int meets a double as a double, as in cel-go."""
    if isinstance(left, float) or isinstance(right, float):
        if left != left or right != right:
            return None
        if isinstance(left, int) and isinstance(right, float):
            return -compare_double_int(right, left)
        if isinstance(right, int) and isinstance(left, float):
            return compare_double_int(left, right)
    return -1 if left < right else 1 if left > right else 0


def compare_double_int(left: float, right: int) -> int:
    low, high = (0.0, float(UINT_MAX)) if isinstance(right, UInt) else (float(INT_MIN), float(INT_MAX))
    if left < low:
        return -1
    if left > high:
        return 1
    as_double = float(right)
    return -1 if left < as_double else 1 if left > as_double else 0


_NUMBERS = (int, UInt, float)


def equal_scalars(left: Value, right: Value) -> bool:
    """Equality of values that contain no others; of different types only numbers are ever equal."""
    one, two = type(left), type(right)
    if one is two:
        return left == right
    if one in _NUMBERS and two in _NUMBERS:
        return isinstance(left, (int, float)) and isinstance(right, (int, float)) and compare_numbers(left, right) == 0
    return False


_SAME_TYPE_ONLY = frozenset(("cel.CIDR", "cel.Format", "cel.IP", "cel.Quantity", "cel.Semver", "cel.URL"))


def incomparable(left: Value, right: Value, *, null_too: bool = False) -> bool:
    """Whether upstream fails to compare them: Kubernetes' own types on the left are compared to their like only, and (save within
    optionals, ``null_too``) to null."""
    return type(left) is not type(right) and (right is not None or null_too) and go_type(left) in _SAME_TYPE_ONLY


def equals(left: Value, right: Value) -> tuple[bool, int]:
    """Deep equality and how many pairs were compared. Does not recurse.

    As upstream, elements of lists and maps that can't be compared don't make the containers differ.
    """
    stack: list[tuple[Value, Value]] = [(left, right)]
    compared = 0
    while stack:
        one, two = stack.pop()
        compared += 1
        if isinstance(one, list):
            if not isinstance(two, list) or len(one) != len(two):
                return False, compared
            stack.extend(zip(reversed(one), reversed(two), strict=True))
        elif isinstance(one, dict):
            if not isinstance(two, dict) or len(one) != len(two):
                return False, compared
            for key, value in one.items():
                if key not in two:
                    return False, compared
                stack.append((value, two[key]))
        elif isinstance(one, Optional):
            if not isinstance(two, Optional) or one.present is not two.present:
                return False, compared
            if one.present:
                stack.append((one.value, two.value))
        elif not equal_scalars(one, two) and (compared == 1 or not incomparable(one, two)):
            return False, compared
        if compared > COMPARISON_LIMIT:
            return False, compared
    return True, compared


COMPARISON_LIMIT: Final = 100_000
"""Pairs one comparison may look at; the caller refuses a result that took more."""


def is_zero(value: Value) -> bool:
    """Whether optional.ofNonZeroValue drops the value."""
    if value is None or value is False:
        return True
    if isinstance(value, (Timestamp, Duration)):
        return value.nanoseconds == 0 if isinstance(value, Duration) else value.nanoseconds == _YEAR_ONE
    if isinstance(value, (int, float, str, bytes, list, dict)):
        return not value
    return False


_YEAR_ONE: Final = -62135596800 * 10**9
