"""CEL's types: interned, so that equal types are the same object, and unified without recursion.

Grammar of a type's text: ``int``, ``list(T)``, ``map(K, V)``, ``type(T)``, ``optional_type(T)``, a qualified name for
an opaque or object type, ``<A>`` for a type parameter of a declaration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from virt_dra.cel.errors import CelError

MAX_TYPE_SIZE = 1000
"""Number of parts a type may have; beyond it an expression is refused, so that checking stays linear (L-6.3)."""


class TypeTooLarge(CelError):
    """The type of a sub-expression has more than MAX_TYPE_SIZE parts."""


class TypeKind(Enum):
    BASIC = "basic"
    NULL = "null"
    DYN = "dyn"
    ERROR = "error"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OPAQUE = "opaque"
    OBJECT = "object"
    PARAM = "param"

    __hash__ = (
        object.__hash__
    )  # a type is looked up by its kind and more for every node; an enumeration's own hash is slow


@dataclass(frozen=True, eq=False, slots=True)
class Type:
    """A type. Compare with ``is``: equal types are the same object within one :class:`Types` table."""

    kind: TypeKind
    name: str
    params: tuple[Type, ...] = ()
    size: int = 1
    open: bool = False
    """Whether a type parameter occurs in it."""

    def __str__(self) -> str:
        return format_type(self)


def format_type(root: Type) -> str:
    """The type as Kubernetes' messages on a result's type write it (``google.protobuf.Duration``)."""
    return _format(root, {})


_MESSAGE_NAMES = {
    "google.protobuf.Any": "any",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}


def format_in_issue(root: Type) -> str:
    """The type as the checker's issues write it (``duration``, ``null``)."""
    return _format(root, _MESSAGE_NAMES)


def _format(root: Type, names: dict[str, str]) -> str:
    parts: list[str] = []
    stack: list[Type | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        parts.append(names.get(item.name, item.name))
        if item.params:
            parts.append("(")
            stack.append(")")
            for number, param in enumerate(reversed(item.params)):
                if number:
                    stack.append(", ")
                stack.append(param)
    return "".join(parts)


class Types:
    """A table of interned types; a table over a base shares the base's types and adds its own."""

    def __init__(self, base: Types | None = None) -> None:
        self._base = base
        self._table: dict[tuple[TypeKind, str, tuple[Type, ...]], Type] = {}

    def get(self, kind: TypeKind, name: str, params: tuple[Type, ...] = ()) -> Type:
        key = (kind, name, params)
        table: Types | None = self
        while table is not None:
            existing = table._table.get(key)
            if existing is not None:
                return existing
            table = table._base
        size = 1 + sum(param.size for param in params)
        if size > MAX_TYPE_SIZE:
            raise TypeTooLarge(f"a type with more than {MAX_TYPE_SIZE} parts")
        created = Type(kind, name, params, size, kind is TypeKind.PARAM or any(param.open for param in params))
        self._table[key] = created
        return created

    def list_of(self, element: Type) -> Type:
        return self.get(TypeKind.LIST, "list", (element,))

    def map_of(self, key: Type, value: Type) -> Type:
        return self.get(TypeKind.MAP, "map", (key, value))

    def type_of(self, inner: Type) -> Type:
        return self.get(TypeKind.TYPE, "type", (inner,))

    def optional_of(self, inner: Type) -> Type:
        return self.get(TypeKind.OPAQUE, "optional_type", (inner,))

    def rebuild(self, like: Type, params: tuple[Type, ...]) -> Type:
        return self.get(like.kind, like.name, params)


SHARED = Types()
BOOL = SHARED.get(TypeKind.BASIC, "bool")
INT = SHARED.get(TypeKind.BASIC, "int")
UINT = SHARED.get(TypeKind.BASIC, "uint")
DOUBLE = SHARED.get(TypeKind.BASIC, "double")
STRING = SHARED.get(TypeKind.BASIC, "string")
BYTES = SHARED.get(TypeKind.BASIC, "bytes")
NULL = SHARED.get(TypeKind.NULL, "null_type")
DYN = SHARED.get(TypeKind.DYN, "dyn")
ANY = SHARED.get(TypeKind.DYN, "google.protobuf.Any")
ERROR = SHARED.get(TypeKind.ERROR, "!error!")
DURATION = SHARED.get(TypeKind.BASIC, "google.protobuf.Duration")
TIMESTAMP = SHARED.get(TypeKind.BASIC, "google.protobuf.Timestamp")
TYPE = SHARED.get(TypeKind.TYPE, "type")
QUANTITY = SHARED.get(TypeKind.OBJECT, "kubernetes.Quantity")
SEMVER = SHARED.get(TypeKind.OBJECT, "kubernetes.Semver")

_OBJECTS = {
    "kubernetes.DRADevice",
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
}
_BASIC = {t.name: t for t in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, ANY, DURATION, TIMESTAMP)}
_TYPE_TOKEN = re.compile(r"[A-Za-z_][\w.]*|<[A-Z]+>|[(),]")


def parse_type(text: str) -> Type:
    """Read a type of a declaration. Raises ValueError."""
    tokens = _TYPE_TOKEN.findall(text)
    parsed, rest = _parse(tokens)
    if rest:
        raise ValueError(f"trailing text in type {text!r}")
    return parsed


def parse_types(text: str) -> tuple[Type, ...]:
    """Read a comma-separated list of types. Raises ValueError."""
    tokens = _TYPE_TOKEN.findall(text)
    parsed: list[Type] = []
    while tokens:
        type_, tokens = _parse(tokens)
        parsed.append(type_)
        if tokens:
            tokens = tokens[1:]
    return tuple(parsed)


def _parse(tokens: list[str]) -> tuple[Type, list[str]]:
    name, rest = tokens[0], tokens[1:]
    params: list[Type] = []
    if rest and rest[0] == "(":
        while rest[0] != ")":
            param, rest = _parse(rest[1:])
            params.append(param)
        rest = rest[1:]
    if name.startswith("<"):
        return SHARED.get(TypeKind.PARAM, name), rest
    if name in _BASIC:
        return _BASIC[name], rest
    if name in ("list", "map", "type"):
        return SHARED.get(TypeKind(name), name, tuple(params)), rest
    return SHARED.get(TypeKind.OBJECT if name in _OBJECTS else TypeKind.OPAQUE, name, tuple(params)), rest


_NULLABLE_BASIC = (DURATION, TIMESTAMP)


def _nullable(candidate: Type) -> bool:
    return (
        candidate.kind in (TypeKind.OPAQUE, TypeKind.OBJECT, TypeKind.NULL, TypeKind.DYN)
        or candidate in _NULLABLE_BASIC
    )


@dataclass(slots=True)
class Unifier:
    """Unification: the bindings of type variables. A failed one is undone (textbook unification with a trail)."""

    types: Types
    bound: dict[Type, Type] = field(default_factory=dict)
    _trail: list[tuple[Type, Type | None]] = field(default_factory=list)
    _count: int = 0

    def fresh(self) -> Type:
        """A new type variable."""
        self._count += 1
        return self.types.get(TypeKind.PARAM, f"_var{self._count}")

    def assignable(self, wanted: Type, given: Type) -> bool:
        """True if the types agree; binds variables as needed."""
        return wanted is given or self.all_assignable((wanted,), (given,))

    def all_assignable(self, wanted: tuple[Type, ...], given: tuple[Type, ...]) -> bool:
        """True if all pairs agree; only then are variables bound."""
        if len(wanted) != len(given):
            return False
        mark = len(self._trail)
        if self._unify(list(zip(reversed(wanted), reversed(given), strict=True))):
            if not mark:
                self._trail.clear()
            return True
        while len(self._trail) > mark:
            variable, previous = self._trail.pop()
            if previous is None:
                del self.bound[variable]
            else:
                self.bound[variable] = previous
        return False

    def _bind(self, variable: Type, value: Type) -> None:
        self._trail.append((variable, self.bound.get(variable)))
        self.bound[variable] = value

    def _unify(self, pairs: list[tuple[Type, Type]]) -> bool:
        generalise: dict[int, list[tuple[Type, Type, Type]]] = {}
        while True:
            # a variable whose value was compared takes the more general of the two once that comparison is through
            for variable, first, second in generalise.pop(len(pairs), ()):
                self._widen(variable, first, second)
            if not pairs:
                return True
            left, right = pairs.pop()
            if left is right:
                continue
            if right.kind is TypeKind.PARAM:
                value = self.bound.get(right)
                if value is not None:
                    if value is not left:
                        generalise.setdefault(len(pairs), []).append((right, left, value))
                        pairs.append((left, value))
                    continue
                if not self._occurs(right, left):
                    self._bind(right, left)
                    continue
            if left.kind is TypeKind.PARAM:
                value = self.bound.get(left)
                if value is not None:
                    if value is not right:
                        generalise.setdefault(len(pairs), []).append((left, right, value))
                        pairs.append((right, value))
                    continue
                if self._occurs(left, right):
                    return False
                self._bind(left, right)
                continue
            if left.kind in (TypeKind.DYN, TypeKind.ERROR) or right.kind in (TypeKind.DYN, TypeKind.ERROR):
                continue
            if left.kind is TypeKind.NULL or right.kind is TypeKind.NULL:
                if not _nullable(right if left.kind is TypeKind.NULL else left):
                    return False
                continue
            if left.kind is TypeKind.TYPE and right.kind is TypeKind.TYPE:
                continue
            if left.kind is not right.kind or left.name != right.name or len(left.params) != len(right.params):
                return False
            pairs.extend(zip(reversed(left.params), reversed(right.params), strict=True))

    def _widen(self, variable: Type, first: Type, second: Type) -> None:
        general = most_general(first, second)
        if not self._occurs(variable, general):
            self._bind(variable, general)

    def _occurs(self, variable: Type, within: Type) -> bool:
        if not within.open:
            return False
        stack, seen = [within], set[Type]()
        while stack:
            item = stack.pop()
            if item is variable:
                return True
            if item in seen or not item.open:
                continue
            seen.add(item)
            if item.kind is TypeKind.PARAM:
                if item in self.bound:
                    stack.append(self.bound[item])
            else:
                stack.extend(item.params)
        return False

    def resolve(self, root: Type, *, close: bool = False, local: dict[Type, Type] | None = None) -> Type:
        """The type with bound variables replaced; with ``close`` others become dyn; ``local`` renames parameters."""
        if not root.open:
            return root
        if root.kind is TypeKind.PARAM and local is None and root not in self.bound:
            return DYN if close else root
        done: dict[Type, Type] = {}
        stack: list[Type] = [root]
        while stack:
            item = stack[-1]
            if item in done:
                stack.pop()
                continue
            if not item.open:
                done[item] = item
            elif item.kind is TypeKind.PARAM:
                value = local.get(item) if local is not None else None
                if value is None:
                    value = self.bound.get(item)
                if value is None:
                    done[item] = DYN if close else item
                elif value in done:
                    done[item] = done[value]
                else:
                    stack.append(value)
                    continue
            else:
                missing = [param for param in item.params if param not in done]
                if missing:
                    stack.extend(missing)
                    continue
                done[item] = self.types.rebuild(item, tuple(done[param] for param in item.params))
            stack.pop()
        return done[root]


def most_general(first: Type, second: Type) -> Type:
    """The more general of two types that agree."""
    stack = [(first, second)]
    while stack:
        left, right = stack.pop()
        if left is right or left.kind in (TypeKind.DYN, TypeKind.PARAM):
            continue
        if (
            right.kind in (TypeKind.DYN, TypeKind.PARAM)
            or left.kind is not right.kind
            or left.name != right.name
            or len(left.params) != len(right.params)
        ):
            return second
        if left.kind is not TypeKind.TYPE:
            stack.extend(zip(left.params, right.params, strict=True))
    return first


def is_dyn(candidate: Type) -> bool:
    return candidate.kind in (TypeKind.DYN, TypeKind.ERROR)
