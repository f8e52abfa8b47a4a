"""Random well-typed expressions, made from the overloads that the library declares: a new function takes part at once.

An expression is a tree, so that it can be changed and crossed with others at any place where the types agree.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from virt_dra.cel.declarations import FUNCTIONS
from virt_dra.cel.functions.registry import Overload
from virt_dra.cel.types import BOOL, BYTES, DOUBLE, DYN, INT, SHARED, STRING, UINT, Type, TypeKind, parse_type

LISTS = (parse_type("list(int)"), parse_type("list(string)"), parse_type("list(dyn)"), parse_type("list(list(int))"))
MAPS = (parse_type("map(string, int)"), parse_type("map(int, string)"))
_FREE = (INT, STRING, BOOL, DOUBLE, LISTS[0], LISTS[1])
_UNUSED = (
    "@sortByAssociatedKeys",
    "fieldSelector",
    "labelSelector",
    "check",
    "group",
    "serviceAccount",
    "path",
    "resource",
)
_INFIX = {
    "_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=",
    "_==_": "==", "_!=_": "!=", "@in": "in",
}  # fmt: skip
_PREFIX = {"!_": "!", "-_": "-"}
_SURROUNDED = {"_[_]": "{}[{}]", "_[?_]": "{}[?{}]", "_?_:_": "({}?{}:{})"}

TEXTS = (
    "a", "x" * 64, "aaaaaaaaaaaaaaaa", "1111111111111111", "1s1s1s1s1s1s1s1s", "a,b,c,d,e,f,", "é" * 16, "日本" * 8,
    "%s%s%d%f%e%x", "1.2.3-" + "a." * 10 + "b", "10Gi", "0.000000000000001", "10.0.0.1", "::ffff:1.2.3.4", "10.0.0.0/8",
    "2001:db8::/32", "ab\\\"\\n" * 4, "2020-02-29T12:34:56.789Z", "-1h2m3.5s",
    "https://u:p@h:80/%41%42/c?a=b&c=d&e=f#g", "[{(?:a|b)*" , " \\t " * 8, "true", "UTC", "Europe/Berlin",
    "\\u0131" * 16, "%.200f", "dns1123label", "a-" * 16,
)  # fmt: skip
PATTERNS = (
    "a", "^A[0-9]+$", r"\\pL{9", r"\\pL{98}", r"(a|b)*a(a|b){200}c", r"[ab]*a[ab]{900}c", "(a*)*b", "x{1000}",
    "(?i)abc", "[:", "a.*z|a", r"(\\pL*\\pN*){9}z", r"[^\\P{LC}]", r"\\p{Greek}", "(", "a{2}{3}", r"\\b", "", ".",
    r"[\\pL\\pN]{20}", r"(\\pL+a)*.{20}\\pN", "a|", r"[\\x{100}-\\x{ffff}]", "(.*){20}c", r"\\Q", "(?P<n>a)",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "7", "10", "63", "100", "1000", "9223372036854775807", "-1", "99999")


@dataclass(frozen=True, slots=True)
class Tree:
    """``template`` has a pair of braces for each part; ``binds``: a variable that the last ``inner`` parts may use."""

    type: Type
    template: str
    parts: tuple[Tree, ...] = ()

    def text(self) -> str:
        return self.template.format(*(part.text() for part in self.parts))

    def places(self, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Tree]]:
        """Every part, with the way to it."""
        yield path, self
        for number, part in enumerate(self.parts):
            yield from part.places((*path, number))

    def replaced(self, path: tuple[int, ...], new: Tree) -> Tree:
        """The tree with another part at a place."""
        if not path:
            return new
        parts = list(self.parts)
        parts[path[0]] = parts[path[0]].replaced(path[1:], new)
        return Tree(self.type, self.template, tuple(parts))


def leaf(kind: Type, text: str) -> Tree:
    """A tree that is text alone."""
    return Tree(kind, text.replace("{", "{{").replace("}", "}}"))


Scope = tuple[tuple[str, Type], ...]
DEVICE: tuple[tuple[Type, str], ...] = (
    (STRING, "device.driver"),
    (DYN, 'device.attributes["d"].m'),
    (DYN, 'device.attributes["d"].l'),
    (DYN, 'device.attributes["d"].n'),
    (parse_type("map(string, dyn)"), 'device.attributes["d"]'),
    (BOOL, "device.allowMultipleAllocations"),
    (parse_type("kubernetes.Quantity"), 'device.capacity["d"].memory'),
)


def _overloads() -> list[Overload]:
    return [
        overload
        for name, overloads in FUNCTIONS.functions.items()
        if name not in _UNUSED
        for overload in overloads
        if not any("authorizer" in part.name.lower() for part in (*overload.params, overload.result))
    ]


OVERLOADS = _overloads()


class Maker:
    """Makes trees of a wanted type."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def make(self, wanted: Type, depth: int, scope: Scope = ()) -> Tree:
        """A tree of a type; ``depth``: how deeply calls nest."""
        rng = self.rng
        bound = [name for name, kind in scope if kind is wanted or kind is DYN or wanted is DYN]
        if bound and rng.random() < 0.4:
            return leaf(wanted, rng.choice(bound))
        if depth > 0 and rng.random() < 0.85:
            made = rng.choice((self._called, self._called, self._called, self._macro, self._bound))(
                wanted, depth, scope
            )
            if made is not None:
                return made
        return self._leaf(wanted, depth, scope)

    def _leaf(self, wanted: Type, depth: int, scope: Scope) -> Tree:
        rng = self.rng
        given = [text for kind, text in DEVICE if kind is wanted or (kind is DYN and wanted in (STRING, INT))]
        if given and rng.random() < 0.3:
            return leaf(wanted, rng.choice(given))
        if wanted is STRING:
            return leaf(wanted, f"'{rng.choice(rng.choice((TEXTS, PATTERNS)))}'")
        if wanted is INT:
            return leaf(wanted, rng.choice(NUMBERS))
        if wanted is UINT:
            return leaf(wanted, rng.choice(NUMBERS).lstrip("-") + "u")
        if wanted is DOUBLE:
            return leaf(wanted, rng.choice(("0.5", "1e300", "-1.5", "1e-300")))
        if wanted is BOOL:
            return leaf(wanted, rng.choice(("true", "false")))
        if wanted is BYTES:
            return leaf(wanted, "b'" + "x" * rng.choice((1, 64)) + "'")
        if wanted.kind is TypeKind.LIST:
            count = rng.choice((0, 1, 2, 9, 40))
            element = self.make(wanted.params[0], 0, scope) if count else None
            return Tree(wanted, "[" + ",".join(["{0}"] * count) + "]", (element,) if element is not None else ())
        if wanted.kind is TypeKind.MAP:
            key, value = (self.make(part, 0, scope) for part in wanted.params)
            return Tree(wanted, "{{{}:{}}}", (key, value))
        if wanted.kind in (TypeKind.DYN, TypeKind.PARAM):
            inner = self.make(rng.choice((*_FREE, *LISTS)), depth - 1, scope)
            return Tree(wanted, "dyn({})", (inner,))
        if wanted.kind is TypeKind.TYPE:
            return leaf(wanted, rng.choice(("int", "string", "list")))
        if wanted.name == "optional_type":
            return Tree(wanted, "optional.of({})", (self.make(wanted.params[0], depth - 1, scope),))
        return self._called(wanted, 1, scope) or leaf(wanted, _CONSTRUCTED.get(wanted.name, "null"))

    def _called(self, wanted: Type, depth: int, scope: Scope) -> Tree | None:
        """A call of a function with such a result."""
        for _ in range(12):
            overload = self.rng.choice(OVERLOADS)
            assigned = _assigned(overload.result, wanted)
            if assigned is None:
                continue
            for variable in overload.variables:
                assigned.setdefault(variable, self.rng.choice(_FREE))
            arguments = [self.make(substituted(param, assigned), depth - 1, scope) for param in overload.params]
            return Tree(wanted, template(overload), tuple(arguments))
        return None

    def _macro(self, wanted: Type, depth: int, scope: Scope) -> Tree | None:
        rng, name = self.rng, self.name()
        element = rng.choice((INT, STRING, DYN))
        over = self.make(SHARED.list_of(element), depth - 1, scope) if rng.random() < 0.5 else self.range(depth)
        if over.template.startswith("lists.range"):
            element = INT
        inside = (*scope, (name, element))
        if wanted is BOOL:
            macro = rng.choice(("all", "exists", "exists_one"))
            return Tree(wanted, f"{{}}.{macro}({name},{{}})", (over, self.make(BOOL, depth - 1, inside)))
        if wanted.kind is TypeKind.LIST:
            if rng.random() < 0.3 and wanted.params[0] is element:
                return Tree(wanted, f"{{}}.filter({name},{{}})", (over, self.make(BOOL, depth - 1, inside)))
            if rng.random() < 0.2 and wanted.params[0] is element:
                return Tree(wanted, f"{{}}.sortBy({name},{{}})", (over, self.make(INT, depth - 1, inside)))
            return Tree(wanted, f"{{}}.map({name},{{}})", (over, self.make(wanted.params[0], depth - 1, inside)))
        if wanted.kind is TypeKind.MAP and wanted.params[0] is INT:
            second = self.name()
            inside = (*inside, (second, element))
            return Tree(
                wanted,
                f"{{}}.transformMap({name},{second},{{}})",
                (over, self.make(wanted.params[1], depth - 1, inside)),
            )
        if wanted.name == "optional_type":
            target = self.make(SHARED.optional_of(element), depth - 1, scope)
            return Tree(wanted, f"{{}}.optMap({name},{{}})", (target, self.make(wanted.params[0], depth - 1, inside)))
        return None

    def range(self, depth: int) -> Tree:
        """A long list."""
        return Tree(
            LISTS[0],
            "lists.range({})",
            (leaf(INT, self.rng.choice(("3", "10", "100", "300", "1000", "10000", "100000"))),),
        )

    def _bound(self, wanted: Type, depth: int, scope: Scope) -> Tree:
        """A value given a name, often after it was doubled a few times."""
        kind = self.rng.choice((STRING, STRING, *LISTS, INT))
        return self.grown(wanted, self.make(kind, depth - 1, scope), depth, scope, self.rng.choice((0, 2, 8, 12, 16)))

    def grown(self, wanted: Type, value: Tree, depth: int, scope: Scope, times: int) -> Tree:
        """``value``, doubled so many times, in something that uses it."""
        name, kind = self.name(), value.type
        step = self.rng.choice(_DOUBLED.get(kind.kind if kind is not STRING else STRING, ("{0}",)))
        body = self.make(wanted, depth - 1, (*scope, (name, kind)))
        for _ in range(times):
            doubled = leaf(kind, step.replace("{0}", name))
            body = Tree(wanted, f"cel.bind({name},{{}},{{}})", (doubled, body))
        return Tree(wanted, f"cel.bind({name},{{}},{{}})", (value, body))


_CONSTRUCTED = {
    "google.protobuf.Duration": "duration('1s')",
    "google.protobuf.Timestamp": "timestamp('2020-02-29T12:34:56Z')",
    "kubernetes.Quantity": "quantity('1')",
    "kubernetes.Semver": "semver('1.2.3')",
    "net.IP": "ip('::1')",
    "net.CIDR": "cidr('::1/64')",
    "kubernetes.URL": "url('http://h/p')",
    "kubernetes.NamedFormat": "format.dns1123Label().value()",
}
_DOUBLED: dict[object, tuple[str, ...]] = {
    STRING: ("{0}+{0}", "[{0},{0}].join()", "'%s%s'.format([{0},{0}])", "{0}.replace('a','aa')"),
    TypeKind.LIST: ("{0}+{0}", "[{0},{0}].flatten()"),
    TypeKind.BASIC: ("{0}+{0}",),
}


def template(overload: Overload) -> str:
    """A call, with a pair of braces for each argument."""
    name = overload.function
    if name in _INFIX:
        return f"({{}}{' in ' if name == '@in' else _INFIX[name]}{{}})"
    if name in _PREFIX:
        return f"{_PREFIX[name]}({{}})"
    if name in _SURROUNDED:
        return _SURROUNDED[name]
    count = len(overload.params) - overload.member
    arguments = ",".join(["{}"] * count)
    return f"({{}}).{name}({arguments})" if overload.member else f"{name}({arguments})"


def _assigned(result: Type, wanted: Type) -> dict[Type, Type] | None:
    """What type parameters stand for where a result is of the wanted type; None where it can't be."""
    assigned: dict[Type, Type] = {}
    waiting = [(result, wanted)]
    while waiting:
        type_, two = waiting.pop()
        if type_.kind is TypeKind.PARAM:
            if assigned.setdefault(type_, two) is not two:
                return None
        elif type_ is not two:
            if type_.kind is not two.kind or type_.name != two.name or len(type_.params) != len(two.params):
                return None
            waiting += zip(type_.params, two.params, strict=True)
    return assigned


def substituted(kind: Type, assigned: dict[Type, Type]) -> Type:
    """A type with its parameters replaced; int for what isn't assigned."""
    if kind.kind is TypeKind.PARAM:
        return assigned.get(kind, INT)
    if not kind.params:
        return kind
    return SHARED.rebuild(kind, tuple(substituted(part, assigned) for part in kind.params))
