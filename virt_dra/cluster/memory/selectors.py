"""Label and field selectors in kubectl's syntax.

Label selectors (k8s.io/apimachinery/pkg/labels)::

    selector    = [ requirement { "," requirement } ]
    requirement = "!" KEY
                | KEY [ ("=" | "==" | "!=" | ">" | "<") VALUE | ("in" | "notin") "(" [ VALUE ] { "," [ VALUE ] } ")" ]

Field selectors (k8s.io/apimachinery/pkg/fields)::

    selector    = [ term { "," term } ]
    term        = PATH ("=" | "==" | "!=") VALUE          in VALUE the characters , = and \\ are escaped by \\
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic.alias_generators import to_snake

from virt_dra.api import names
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.node_selection import integer
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.kinds import ApiResource
from virt_dra.cluster.port import BadRequest

Operator = Literal["in", "notin", "exists", "!", ">", "<"]


@dataclass(frozen=True)
class Requirement:
    """A condition on a label. ``=`` is ``in`` with one value; ``notin`` and ``!`` hold where the label is absent."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "notin":
            return value not in self.values
        if self.operator == "!":
            return value is None
        if value is None:
            return False
        if self.operator == "exists":
            return True
        if self.operator == "in":
            return value in self.values
        number = integer(value)
        if number is None:
            return False
        (bound,) = (int(text) for text in self.values)
        return number > bound if self.operator == ">" else number < bound


@dataclass(frozen=True)
class FieldTerm:
    """One condition on one field; an absent field reads as empty text."""

    value_of: Callable[[TypedObject], str]
    value: str
    equal: bool

    def matches(self, obj: TypedObject) -> bool:
        return (self.value_of(obj) == self.value) is self.equal


@dataclass(frozen=True)
class ObjectSelector:
    """Namespace, label and field conditions, all of which must hold."""

    namespace: str
    requirements: tuple[Requirement, ...]
    terms: tuple[FieldTerm, ...]

    def matches(self, obj: TypedObject) -> bool:
        if self.namespace and obj.metadata.namespace != self.namespace:
            return False
        labels = obj.metadata.labels
        return all(requirement.matches(labels) for requirement in self.requirements) and all(
            term.matches(obj) for term in self.terms
        )

    @property
    def everything(self) -> bool:
        return not (self.namespace or self.requirements or self.terms)


def parse_selector(resource: ApiResource, namespace: str, labels: str, fields: str) -> ObjectSelector:
    """The combined selector. Raises :class:`BadRequest` in the API server's words."""
    scope = namespace if resource.namespaced else ""
    return ObjectSelector(scope, parse_labels(labels), parse_fields(resource, fields))


# --- labels -------------------------------------------------------------------------------------------------------

_SPECIAL = ("==", "!=", "=", "!", "(", ")", ",", ">", "<")
_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n]+))")
_BINARY = "in, notin, =, ==, !=, gt, lt"


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector. Raises :class:`BadRequest`."""
    return _LabelParser(text).parse()


class _LabelParser:
    """One pass over the tokens; ``""`` is the end of the text."""

    def __init__(self, text: str) -> None:
        self._tokens = [*_label_tokens(text), ""]
        self._next = 0

    def parse(self) -> tuple[Requirement, ...]:
        requirements: list[Requirement] = []
        if not self._peek():
            return ()
        while True:
            if self._peek() != "!" and not _is_identifier(self._peek()):
                raise BadRequest(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            token = self._take()
            if not token:
                return tuple(requirements)
            if token != ",":
                raise BadRequest(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() != "!" and not _is_identifier(self._peek()):
                raise BadRequest(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if not _is_identifier(key):
            raise _unparsable(f"found '{key}', expected: identifier")
        if faults := names.label_key(key):
            raise _unparsable(
                f"<nil>: Invalid value: {quoted(key)}: {'; '.join(faults)}"
            )  # upstream prints a path it doesn't have
        if absent:
            return Requirement(key, "!")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self._take()
        if operator in ("in", "notin"):
            return self._checked(Requirement(key, "in" if operator == "in" else "notin", self._value_set()))
        if operator in ("=", "==", "!="):
            return self._checked(Requirement(key, "notin" if operator == "!=" else "in", frozenset((self._value(),))))
        if operator in (">", "<"):
            return self._checked(Requirement(key, ">" if operator == ">" else "<", frozenset((self._value(),))))
        raise _unparsable(f"found '{operator}', expected: {_BINARY}")

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._take()
        if not _is_identifier(token):
            raise _unparsable(f"found '{token}', expected: identifier")
        return token

    def _value_set(self) -> frozenset[str]:
        if (token := self._take()) != "(":
            raise _unparsable(f"found '{token}' expected: '('")
        if self._peek() == ")":
            self._take()
            return frozenset(("",))
        if self._peek() != "," and not _is_identifier(self._peek()):
            raise _unparsable(f"found '{self._peek()}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            token = self._take()
            if _is_identifier(token):
                values.add(token)
                if self._peek() not in (",", ")"):
                    raise _unparsable(f"found '{self._peek()}', expected: ',' or ')'")
            elif token == ",":
                if not values or self._peek() in (",", ")"):
                    values.add("")  # an absent value is the empty text
            else:
                raise _unparsable(f"found '{token}', expected: ',', or identifier")
            if self._peek() == ")":
                self._take()
                return frozenset(values)

    def _checked(self, requirement: Requirement) -> Requirement:
        faults: list[str] = []
        for index, value in enumerate(sorted(requirement.values)):
            if requirement.operator in (">", "<") and integer(value) is None:
                faults.append(
                    f"values[{index}]: Invalid value: {quoted(value)}: for 'Gt', "
                    "'Lt' operators, the value must be an integer"
                )
            if broken := names.label_value(value):
                faults.append(
                    f"values[{index}][{requirement.key}]: Invalid value: {quoted(value)}: {'; '.join(broken)}"
                )
        if faults:
            raise _unparsable(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
        return requirement

    def _peek(self) -> str:
        return self._tokens[self._next]

    def _take(self) -> str:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token


def _label_tokens(text: str) -> Iterator[str]:
    position, end = 0, len(text.rstrip(" \t\r\n"))
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:  # the pattern covers every character
            raise BadRequest(f"unable to parse requirement: found '{text[position:]}'")
        yield token.group(1) or token.group(2)
        position = token.end()


def _is_identifier(token: str) -> bool:
    """Where a key or a value is due, ``in`` and ``notin`` are ordinary names."""
    return bool(token) and token not in _SPECIAL


def _unparsable(why: str) -> BadRequest:
    return BadRequest(f"unable to parse requirement: {why}")


# --- fields -------------------------------------------------------------------------------------------------------

_FieldTable = Mapping[str, Callable[[TypedObject], str]]


def parse_fields(resource: ApiResource, text: str) -> tuple[FieldTerm, ...]:
    """The terms of a field selector. Raises :class:`BadRequest`, also for a field that this resource isn't selected
    by."""
    parts = sorted(filter(None, _split_terms(text)))
    read = [_read_term(part, text) for part in parts]
    table, refusal = _selectable(resource)
    terms: list[FieldTerm] = []
    for path, value, equal in read:
        if path not in table:
            raise BadRequest(refusal.format(path))
        terms.append(FieldTerm(table[path], value, equal))
    return tuple(terms)


def _read_term(part: str, text: str) -> tuple[str, str, bool]:
    """Path, value and whether they shall be equal."""
    operator = re.search(r"!=|==|=", part)
    if operator is None:
        raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
    return part[: operator.start()], _unescaped(part[operator.end() :]), operator.group() != "!="


def _split_terms(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    return [part for part in re.findall(r"((?:\\.|\\$|[^,\\])*)(?:,|$)", text, re.DOTALL) if part]


def _unescaped(value: str) -> str:
    result = ""
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "=") or not escaped:
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{escaped}")
            result += escaped
        elif character in ",=":
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            result += character
    return result


def _name(obj: TypedObject) -> str:
    return obj.metadata.name


def _namespace(obj: TypedObject) -> str:
    return obj.metadata.namespace


def _at(*path: str) -> Callable[[TypedObject], str]:
    """The text at a path of wire names, whether or not the types have these fields; booleans as Go writes them."""
    steps = tuple((name, to_snake(name)) for name in path)

    def value_of(obj: TypedObject) -> str:
        value: object = obj
        for wire, python in steps:
            value = value.get(wire) if isinstance(value, dict) else getattr(value, python, getattr(value, wire, None))
        if isinstance(value, bool):
            return "true" if value else "false"
        return value if isinstance(value, str) else ""

    return value_of


def _flag(*path: str) -> Callable[[TypedObject], str]:
    text = _at(*path)
    return lambda obj: text(obj) or "false"


_METADATA: _FieldTable = {"metadata.name": _name, "metadata.namespace": _namespace}
_POD: _FieldTable = {
    **_METADATA,
    "spec.nodeName": _at("spec", "nodeName"),
    "spec.restartPolicy": _at("spec", "restartPolicy"),
    "spec.schedulerName": _at("spec", "schedulerName"),
    "spec.serviceAccountName": _at("spec", "serviceAccountName"),
    "spec.hostNetwork": _flag("spec", "hostNetwork"),
    "status.phase": _at("status", "phase"),
    "status.podIP": _at("status", "podIP"),
    "status.nominatedNodeName": _at("status", "nominatedNodeName"),
}
_NODE: _FieldTable = {"metadata.name": _name, "spec.unschedulable": _flag("spec", "unschedulable")}
_NAMESPACES: _FieldTable = {"metadata.name": _name, "name": _name, "status.phase": _at("status", "phase")}
_SLICE: _FieldTable = {
    "metadata.name": _name,
    "spec.nodeName": _at("spec", "nodeName"),
    "spec.driver": _at("spec", "driver"),
    "spec.pool.name": _at("spec", "pool", "name"),
}


_TABLES: Mapping[tuple[str, str], _FieldTable] = {
    (kind.API_VERSION, kind.KIND): table
    for kind, table in ((Pod, _POD), (Node, _NODE), (Namespace, _NAMESPACES), (ResourceSlice, _SLICE))
}


def _selectable(resource: ApiResource) -> tuple[_FieldTable, str]:
    """The fields of a resource, and the refusal of another one, a format; both differ by resource (C-2.4)."""
    table = _TABLES.get((resource.api_version, resource.kind))
    if table is None and resource.native:
        return _METADATA, '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    of_kind = f" for {resource.api_version}, Kind={resource.kind}" if table is _SLICE else ""
    return table or _METADATA, f"field label not supported{of_kind}: {{}}"
