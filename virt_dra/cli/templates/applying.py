"""Applies a JSONPath template to a JSON value, as ``k8s.io/client-go/util/jsonpath`` does.

Members of objects come in the order in which they are written, where Go's is random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from virt_dra.cli.templates.go_printing import marshal, sprint
from virt_dra.cli.templates.nodes import (
    EXISTS,
    FieldStep,
    FilterStep,
    RecursiveStep,
    SliceStep,
    TemplateKeyword,
    TemplateLiteral,
    TemplatePart,
    TemplatePath,
    TemplateStep,
    UnionStep,
    WildcardStep,
)
from virt_dra.cli.templates.parsing import parse_template


class NotApplicable(ValueError):
    """A template that can't be applied to this value; the text is Kubernetes'. ``results``: what it had until then."""

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = results


class _Nothing:
    """The value of an element null in a range, and of a range without elements."""

    def __str__(self) -> str:
        return "<invalid reflect.Value>"


_NOTHING: Final = _Nothing()


@dataclass(frozen=True)
class JsonPath:
    """A template that was read. ``as_json``: results are written as lists."""

    parts: tuple[TemplatePart, ...]
    as_json: bool = False

    @classmethod
    def parse(cls, text: str, *, as_json: bool = False) -> JsonPath:
        """Raises BadTemplate."""
        return cls(parse_template(text), as_json)

    def values(self, value: Any) -> list[list[Any]]:
        """The values of each part, ranges repeated. Raises NotApplicable."""
        return _Application(self.parts).run([value], 0)

    def text(self, value: Any) -> str:
        """What kubectl prints for a value: fields that it lacks are left out. Raises NotApplicable."""
        if self.as_json:
            return "".join(f"{marshal(results, indented=True)}\n" for results in self.values(value))
        return "".join(" ".join(map(_printed, results)) for results in self.values(value))


def _printed(value: Any) -> str:
    if value is _NOTHING:
        return "<no value>"
    if value is None:
        return "null"
    return marshal(value) if isinstance(value, Mapping | list) else sprint(value)


class _Application:
    """One run over the parts. ``_begun``: ranges that were asked for, ``_open``: those that are running, ``_ended``:
    ends that were met."""

    def __init__(self, parts: Sequence[TemplatePart]) -> None:
        self._parts = parts
        self._begun = 0
        self._open = 0
        self._ended = 0
        self._last_end: int | None = None

    def run(self, values: list[Any], start: int) -> list[list[Any]]:
        """The results of the parts from ``start`` up to the end of the range."""
        results: list[list[Any]] = []
        number = start
        while number < len(self._parts):
            part = self._parts[number]
            walked = self._path(values, part if isinstance(part, tuple) else (part,))
            if 0 < self._ended <= self._open:
                self._ended -= 1
                self._last_end = number
                break
            if self._begun:
                self._begun -= 1
                results += self._range(walked, number + 1)
                if self._last_end is not None and self._last_end > number:
                    number = self._last_end
            else:
                results.append(walked)
            number += 1
        return results

    def _range(self, values: Sequence[Any], start: int) -> list[list[Any]]:
        """The results for each value. Without values the parts are walked all the same, to find the end."""
        self._open += 1
        results: list[list[Any]] = []
        for value in values:
            if value is _NOTHING:
                raise NotApplicable("a range over nothing")
            results += self.run([_NOTHING if value is None else value], start)
        if not values:
            self.run([_NOTHING], start)
        self._open -= 1
        return results

    def _path(self, values: list[Any], path: TemplatePath) -> list[Any]:
        for step in path:
            values = self._step(values, step)
        return values

    def _step(self, values: list[Any], step: TemplateStep) -> list[Any]:
        match step:
            case TemplateLiteral(str() as text):
                return [text]
            case TemplateLiteral(literal):
                return [literal for _ in values]
            case TemplateKeyword("range"):
                self._begun += 1
                return values
            case TemplateKeyword("end"):
                if not self._open:
                    raise NotApplicable("not in range, nothing to end")
                self._ended += 1
                return []
            case TemplateKeyword(name):
                raise NotApplicable(f"unrecognized identifier {name}", values)
            case FieldStep(name):
                return [value[name] for value in values if isinstance(value, Mapping) and name in value]
            case WildcardStep():
                return [member for value in values for member in _members(value)]
            case RecursiveStep():
                return _descended(values)
            case SliceStep():
                return _sliced(values, step)
            case UnionStep(paths):
                try:
                    return [result for path in paths for result in self._path(values, path)]
                except NotApplicable as error:
                    raise NotApplicable(str(error), values) from None
            case FilterStep():
                return [item for value in values for item in self._filtered(value, values, step)]

    def _filtered(self, value: Any, values: list[Any], step: FilterStep) -> list[Any]:
        if not isinstance(value, list):
            raise NotApplicable(f"{sprint(value)} is not array or slice and cannot be filtered", values)
        return [item for item in value if self._passes(item, values, step)]

    def _passes(self, item: Any, values: list[Any], step: FilterStep) -> bool:
        if step.operator == EXISTS:
            try:
                return bool(self._path([item], step.left))
            except NotApplicable as error:
                return bool(error.results)
        sides = []
        for path in (step.left, step.right):
            try:
                results = self._path([item], path)
            except NotApplicable as error:
                raise NotApplicable(str(error), values) from None
            if not results:
                return False
            if len(results) > 1:
                raise NotApplicable("can only compare one element at a time", values)
            sides.append(results[0])
        comparison = _COMPARISONS.get(step.operator)
        if comparison is None:
            raise NotApplicable(f"unrecognized filter operator {step.operator}")
        return comparison(*sides)


def _members(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, str):
        return list(value.encode())  # Go's strings are bytes
    return value if isinstance(value, list) else []


def _descended(values: list[Any]) -> list[Any]:
    """Each value that has members, and everything below it that has some."""
    results = []
    for value in values:
        if members := _members(value):
            results.append(value)
            results += _descended(members)
    return results


_TYPES: Final = {bool: "bool", int: "int64", float: "float64", str: "string"}


def _sliced(values: list[Any], step: SliceStep) -> list[Any]:
    results: list[Any] = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            name = "map[string]interface {}" if isinstance(value, Mapping) else _TYPES.get(type(value), "nothing")
            raise NotApplicable(f"{name} is not array or slice", values)
        length = len(value)
        first = step.first or 0
        if first < 0:
            first += length
        last = length if step.last is None else step.last
        if last < 0 or (last == 0 and step.index):
            last += length
        if first == last:
            return results
        if not 0 <= first < length:
            raise NotApplicable(f"array index out of bounds: index {first}, length {length}", values)
        if not 0 <= last <= length:
            raise NotApplicable(f"array index out of bounds: index {last - 1}, length {length}", values)
        if first > last:
            raise NotApplicable(f"starting index {first} is greater than ending index {last}", values)
        if step.step is not None and step.step <= 0:
            raise NotApplicable("step must be > 0", values)
        results += value[first : last : step.step or 1]
    return results


def _basic(value: Any) -> type:
    """The type of a value that can be compared."""
    if type(value) not in _TYPES:
        raise NotApplicable("invalid type for comparison")
    return type(value)


def _equal(left: Any, right: Any) -> bool:
    if _basic(left) is not _basic(right):
        raise NotApplicable("incompatible types for comparison")
    return bool(left == right)


def _less(left: Any, right: Any) -> bool:
    if _basic(left) is not _basic(right):
        raise NotApplicable("incompatible types for comparison")
    if isinstance(left, bool):
        raise NotApplicable("invalid type for comparison")
    return bool(left.encode() < right.encode() if isinstance(left, str) else left < right)


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _less,
    ">=": lambda left, right: not _less(left, right),
    "<=": lambda left, right: _less(left, right) or _equal(left, right),
    ">": lambda left, right: not (_less(left, right) or _equal(left, right)),
}
