"""CEL's values in Python.

bool, double, string, bytes, null, list and map are bool, float, str, bytes, None, list and dict; int is int, uint is
:class:`UInt`. A map's keys go through :func:`map_key`, because Python takes 1, 1.0 and True for the same key and CEL
does not. Values are never changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias, TypeVar

from virt_dra.api.quantity import Quantity
from virt_dra.api.semver import SemVer
from virt_dra.cel.errors import BudgetExceeded, InternalFault

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1

Value: TypeAlias = object
"""Any CEL value. Static typing ends here: CEL's own checker and the run-time dispatch take over."""


class UInt(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class Zone:
    """The zone a timestamp was written in, ``offset`` seconds east of UTC; none (not +00:00) is UTC. Equal only to
    itself."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset

    @staticmethod
    def at_offset(offset: int) -> Zone:
        """The zone of an offset. Go shares an object for each whole hour in use, others are new each time."""
        return _WHOLE_HOURS.get(offset) or Zone(offset)


_WHOLE_HOURS: Final = {hour * 3600: Zone(hour * 3600) for hour in range(-12, 15)}


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """``nanoseconds`` since 1970-01-01T00:00:00Z, in the years 1 to 9999; ``zone``: for writing, and map keys."""

    nanoseconds: int
    zone: Zone | None = field(default=None, compare=False)

    @property
    def offset(self) -> int:
        """Seconds east of UTC."""
        return self.zone.offset if self.zone is not None else 0


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A signed number of ``nanoseconds`` that fits 64 bits."""

    nanoseconds: int


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


class CalculatedQuantity(Quantity):
    """A sum or difference of quantities, by reference upstream: no quantity left of ``==`` can be compared with it."""

    __slots__ = ()

    def __new__(cls, value: Quantity) -> CalculatedQuantity:
        return _copied(value, object.__new__(cls))


Q = TypeVar("Q", bound=Quantity)


def _copied(value: Quantity, made: Q) -> Q:
    for name in Quantity.__slots__:
        object.__setattr__(made, name, getattr(value, name))  # a quantity can't be changed once it is made
    return made


def fresh(value: Quantity) -> Quantity:
    """A copy with an identity of its own: as a map's key, only this object finds it."""
    return _copied(value, object.__new__(Quantity))


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as a map's key, kept apart from 0 and 1."""

    value: bool


class NumberKey:
    """A uint or a double as a map's key, kept apart from the int it equals. Not-a-number is never found again."""

    __slots__ = ("value",)

    def __init__(self, value: UInt | float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberKey) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class InstantKey:
    """A timestamp as a map's key: the same instant in another zone is another key."""

    value: Timestamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InstantKey) and self.value == other.value and self.value.zone is other.value.zone

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class IdentityKey:
    """A list, map or object as a map's key: compared by identity, as upstream compares pointers."""

    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


WRAPPED_KEYS: Final = (BoolKey, IdentityKey, NumberKey, InstantKey)
_TRUE_KEY, _FALSE_KEY = BoolKey(True), BoolKey(False)


class NamedValues(dict[str, Value]):
    """A map with text keys only, as a device's: looking up any other key finds nothing."""

    __slots__ = ()
    CEL_TYPE: ClassVar[str] = "map"
    GO_TYPE: ClassVar[str] = "*types.baseMap"


class DomainMap(NamedValues):
    """A device's attributes or capacities by domain: an unknown domain reads as an empty map (L-3.4)."""

    __slots__ = ()

    def __missing__(self, key: str) -> NamedValues:
        return NamedValues()


_PLAIN_KEYS = frozenset((str, int, Duration, type(None)))
_KEYS_BY_VALUE = frozenset(("*types.Type", "cel.CIDR", "cel.IP"))
_NO_KEYS = frozenset(("cel.Format", "cel.Semver", "types.Bytes"))
"""Types that upstream can't hash: looking them up in a map fails."""


def map_key(value: Value) -> Value:
    """The key that a CEL value is stored under. Raises InternalFault, as upstream."""
    if type(value) in _PLAIN_KEYS:
        return value
    if isinstance(value, bool):
        return _TRUE_KEY if value else _FALSE_KEY
    if isinstance(value, (UInt, float)):
        return NumberKey(value)
    if isinstance(value, Timestamp):
        return InstantKey(value)
    kind = go_type(value)
    if kind in _NO_KEYS:
        raise InternalFault(f"runtime error: hash of unhashable type {kind}")
    return value if kind in _KEYS_BY_VALUE else IdentityKey(value)


_ABSENT = object()


def lookup_key(entries: dict[Value, Value], key: Value) -> Value:
    """The key under which a CEL value is stored in this map, or one that isn't in it. Raises InternalFault as
    :func:`map_key`.

    A uint finds the int it equals and the other way round; a double finds either, and none of them finds a double.
    """
    if isinstance(key, str):
        return key
    if not entries or isinstance(entries, NamedValues):
        return _ABSENT
    if isinstance(key, (int, float)) and not isinstance(key, bool):
        return next((stored for stored in _spellings(key) if stored in entries), _ABSENT)
    return map_key(key)


def _spellings(number: int | float) -> Iterator[Value]:
    """The keys under which a number is looked up, in order."""
    if number != number:
        return
    yield map_key(number)
    if isinstance(number, float) and not number.is_integer():
        return
    whole = int(number)
    if not isinstance(number, float) or whole > INT_MIN:
        if isinstance(number, (UInt, float)) and whole <= INT_MAX:
            yield whole
        if not isinstance(number, UInt) and 0 <= whole <= UINT_MAX:
            yield NumberKey(UInt(whole))


def is_key(entries: dict[Value, Value], key: Value) -> bool:
    """Whether a CEL value is among a map's keys. Raises InternalFault as :func:`lookup_key`."""
    return lookup_key(entries, key) in entries


def constant_keys(values: Iterable[Value]) -> frozenset[Value]:
    """The keys for ``x in [constants]``: a number is there in all its types, a double also as the nearest int."""
    keys: set[Value] = set()
    for value in values:
        keys.add(map_key(value))
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value != value
            or value in (math.inf, -math.inf)
        ):
            continue
        keys.add(NumberKey(float(value)))
        whole = int(value)
        if whole == value and (whole > INT_MIN or not isinstance(value, float)) and whole <= INT_MAX:
            keys.add(whole)
        if whole == value and 0 <= whole <= UINT_MAX:
            keys.add(NumberKey(UInt(whole)))
    return frozenset(keys)


def key_value(key: Value) -> Value:
    """The CEL value of a stored key."""
    return key.value if isinstance(key, WRAPPED_KEYS) else key


def go_type(value: Value) -> str:
    """The name of the Go type in which upstream holds such a value; some of its messages show it."""
    kind = type(value)
    return _GO_TYPES.get(kind) or str(getattr(kind, "GO_TYPE", kind.__name__))


def type_name(value: Value) -> str:
    """The name of a value's run-time type as CEL writes it."""
    kind = type(value)
    return _TYPE_NAMES.get(kind) or str(getattr(kind, "CEL_TYPE", kind.__name__))


_NAMES: Final[dict[type, tuple[str, str]]] = {
    bool: ("bool", "types.Bool"),
    int: ("int", "types.Int"),
    UInt: ("uint", "types.Uint"),
    float: ("double", "types.Double"),
    str: ("string", "types.String"),
    bytes: ("bytes", "types.Bytes"),
    type(None): ("null_type", "types.Null"),
    list: ("list", "*types.baseList"),
    dict: ("map", "*types.baseMap"),
    Timestamp: ("google.protobuf.Timestamp", "types.Timestamp"),
    Duration: ("google.protobuf.Duration", "types.Duration"),
    TypeValue: ("type", "*types.Type"),
    Optional: ("optional_type", "*types.Optional"),
    Quantity: ("kubernetes.Quantity", "cel.Quantity"),
    CalculatedQuantity: ("kubernetes.Quantity", "*cel.Quantity"),
    SemVer: ("kubernetes.Semver", "cel.Semver"),
}
"""A type's name in CEL and in Go; others have CEL_TYPE and GO_TYPE."""
_TYPE_NAMES: Final = {kind: name for kind, (name, _) in _NAMES.items()}
_GO_TYPES: Final = {kind: name for kind, (_, name) in _NAMES.items()}


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
    left_type, right_type = type(left), type(right)
    if left_type is right_type:
        return left == right and right_type is not CalculatedQuantity
    if left_type is CalculatedQuantity:
        return right_type is Quantity and left == right
    if left_type in _NUMBERS and right_type in _NUMBERS:
        return isinstance(left, (int, float)) and isinstance(right, (int, float)) and compare_numbers(left, right) == 0
    return False


_SAME_TYPE_ONLY = frozenset(
    ("cel.CIDR", "cel.Format", "cel.IP", "cel.Quantity", "cel.Semver", "cel.URL", "*cel.Quantity")
)


def incomparable(left: Value, right: Value, *, null_too: bool = False) -> bool:
    """True if upstream fails to compare them: values of Kubernetes' types on the left compare only with the same type
    and (except within optionals, ``null_too``) with null."""
    if type(left) is type(right) and type(right) is not CalculatedQuantity:
        return False
    if type(left) is CalculatedQuantity and type(right) is Quantity:
        return False
    return (right is not None or null_too) and go_type(left) in _SAME_TYPE_ONLY


def equals(left: Value, right: Value, spend: Callable[[float], None]) -> bool:
    """Deep equality, without recursion. The work is charged to ``spend``, in microseconds. Raises BudgetExceeded.

    As upstream, elements of lists and maps that can't be compared don't make the containers differ.
    """
    waiting: list[Iterator[tuple[Value, Value]]] = [iter(((left, right),))]
    compared = spent = 0
    while waiting:
        for first, second in waiting[-1]:
            within = compared > 0
            compared += 1
            null_too = isinstance(first, Optional)
            while isinstance(first, Optional) and first.present and isinstance(second, Optional) and second.present:
                first, second = first.value, second.value
                compared += 1
            if compared - spent >= _REPORTED_PAIRS:
                spend((compared - spent) * _PER_PAIR)
                spent = compared
                if compared > COMPARISON_LIMIT:
                    raise BudgetExceeded("operation cancelled: values are too large to compare")
            if isinstance(first, list):
                if not isinstance(second, list) or len(first) != len(second):
                    spend((compared - spent) * _PER_PAIR)
                    return False
                waiting.append(zip(first, second, strict=True))
                break
            if isinstance(first, dict):
                pairs = _paired(first, second)
                if pairs is None:
                    spend((compared - spent) * _PER_PAIR)
                    return False
                spend(len(pairs) * _PER_PAIR)
                # the last entry first
                waiting.append(reversed(pairs))
                break
            if isinstance(first, Optional):
                differ = not isinstance(second, Optional) or first.present is not second.present
            else:
                differ = not equal_scalars(first, second) and not (
                    within and incomparable(first, second, null_too=null_too)
                )
            if differ:
                spend((compared - spent) * _PER_PAIR)
                return False
        else:
            waiting.pop()
    spend((compared - spent) * _PER_PAIR)
    return True


def _paired(left: dict[Value, Value], right: Value) -> list[tuple[Value, Value]] | None:
    """The values under the same keys of two maps; None if ``left`` has a key that ``right`` lacks."""
    if not isinstance(right, dict) or len(left) != len(right):
        return None
    pairs: list[tuple[Value, Value]] = []
    for key, value in left.items():
        right_key = key if isinstance(key, str) else lookup_key(right, key_value(key))
        if right_key not in right:
            return None
        pairs.append((value, right[right_key]))
    return pairs


COMPARISON_LIMIT: Final = 100_000
"""Pairs that one comparison may compare."""
_REPORTED_PAIRS: Final = 500
_PER_PAIR: Final = 0.4
"""Microseconds."""


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
