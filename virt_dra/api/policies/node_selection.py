"""core/v1 NodeSelector: which nodes it selects (A-4.6), with the API machinery's errors for selectors it can't read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from virt_dra.api.names import label_key, label_value

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")

Facts = Mapping[str, str]
_Test = Callable[[Facts], bool]


class NodeSelectorError(ValueError):
    """A selector that can't be evaluated; the text lists every fault with its field path."""


@dataclass(frozen=True)
class _Term:
    labels: tuple[_Test, ...]
    fields: tuple[_Test, ...]
    faults: tuple[str, ...]

    def matches(self, node: Node) -> bool:
        fields = {"metadata.name": node.name}
        return (
            not self.faults
            and all(test(node.metadata.labels) for test in self.labels)
            and all(test(fields) for test in self.fields)
        )


class NodeMatcher:
    """A compiled NodeSelector: terms are ORed, requirements of a term ANDed, an empty term selects nothing. With
    ``lenient`` (how kube-scheduler reads a pod's affinity) a faulty term selects nothing and is listed in ``faults``;
    otherwise any fault raises :class:`NodeSelectorError`."""

    def __init__(self, selector: NodeSelector, *, lenient: bool = False) -> None:
        self._terms = tuple(
            _term(term, f"nodeSelectorTerms[{i}]")
            for i, term in enumerate(selector.node_selector_terms)
            if term.match_expressions or term.match_fields
        )
        self.faults = tuple(dict.fromkeys(fault for term in self._terms for fault in term.faults))
        if self.faults and not lenient:
            raise NodeSelectorError(self.faults[0] if len(self.faults) == 1 else f"[{', '.join(self.faults)}]")

    def matches(self, node: Node) -> bool:
        return any(term.matches(node) for term in self._terms)


def _term(term: NodeSelectorTerm, path: str) -> _Term:
    faults: list[str] = []
    labels = _tests(term.match_expressions, f"{path}.matchExpressions", _label_test, faults)
    fields = _tests(term.match_fields, f"{path}.matchFields", _field_test, faults)
    return _Term(labels, fields, tuple(faults))


_TestOf = Callable[[NodeSelectorRequirement, str, list[str]], _Test]


def _tests(
    requirements: Sequence[NodeSelectorRequirement], path: str, test_of: _TestOf, faults: list[str]
) -> tuple[_Test, ...]:
    return tuple(test_of(requirement, f"{path}[{i}]", faults) for i, requirement in enumerate(requirements))


def _label_test(requirement: NodeSelectorRequirement, path: str, faults: list[str]) -> _Test:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in _LABEL_OPERATORS:
        faults.append(_unsupported(f"{path}.operator", operator, _LABEL_OPERATORS))
        return _never
    if wrong := label_key(key):
        faults.append(f"{path}.key: Invalid value: {_quoted(key)}: {'; '.join(wrong)}")
    if operator in ("In", "NotIn") and not values:
        faults.append(
            f"{path}.values: Invalid value: {_go_list(requirement)}: for 'in', "
            "'notin' operators, values set can't be empty"
        )
    if operator in ("Exists", "DoesNotExist") and values:
        faults.append(
            f"{path}.values: Invalid value: {_go_list(requirement)}: values "
            "set must be empty for exists and does not exist"
        )
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            faults.append(
                f"{path}.values: Invalid value: {_go_list(requirement)}: for 'Gt', "
                "'Lt' operators, exactly one value is required"
            )
        for i, value in enumerate(values):
            if integer(value) is None:
                faults.append(
                    f"{path}.values[{i}]: Invalid value: {_quoted(value)}: for 'Gt', "
                    "'Lt' operators, the value must be an integer"
                )
    for i, value in enumerate(values):
        if wrong := label_value(value):
            faults.append(f"{path}.values[{i}][{key}]: Invalid value: {_quoted(value)}: {'; '.join(wrong)}")
    match operator:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
    bound = integer(values[0]) if values else None
    if bound is None:
        return _never
    greater = operator == "Gt"

    def compare(labels: Facts) -> bool:
        number = integer(labels.get(key, ""))
        return number is not None and (number > bound if greater else number < bound)

    return compare


def _field_test(requirement: NodeSelectorRequirement, path: str, faults: list[str]) -> _Test:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if operator not in _FIELD_OPERATORS:
        faults.append(_unsupported(f"{path}.operator", operator, _FIELD_OPERATORS))
        return _never
    if len(values) != 1:
        faults.append(f"{path}.values: Invalid value: {_go_list(requirement)}: must have one element")
        return _never
    (value,) = values
    if operator == "In":
        return lambda fields: fields.get(key, "") == value
    return lambda fields: fields.get(key, "") != value


def _never(facts: Facts) -> bool:
    return False


def _unsupported(path: str, value: str, supported: Sequence[str]) -> str:
    return f"{path}: Unsupported value: {_quoted(value)}: supported values: {', '.join(map(_quoted, supported))}"


def integer(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _go_list(requirement: NodeSelectorRequirement) -> str:
    """The values as JSON. A list that isn't there is null in Go."""
    if not requirement.given("values"):
        return "null"
    return json.dumps(requirement.values, ensure_ascii=False, separators=(",", ":"))


def describe_selector(selector: NodeSelector) -> str:
    """The selector in the notation of the reference's messages."""

    def requirements(items: Sequence[NodeSelectorRequirement]) -> str:
        rendered = (
            f"NodeSelectorRequirement{{Key:{r.key},Operator:{r.operator},Values:[{' '.join(r.values)}],}},"
            for r in items
        )
        return f"[]NodeSelectorRequirement{{{''.join(rendered)}}}"

    terms = (
        f"NodeSelectorTerm{{MatchExpressions:{requirements(t.match_expressions)},MatchFields:{requirements(t.match_fields)},}},"
        for t in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{''.join(terms)}}},}}"
