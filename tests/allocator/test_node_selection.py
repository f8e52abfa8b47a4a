"""core/v1 node selectors (A-4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.allocator import build
from virt_dra.api.core_v1 import NodeSelector
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError

NODE = build.node({"name": "n1", "labels": {"zone": "a", "cores": "8", "empty": ""}})


def selector(*terms: dict[str, Any]) -> NodeSelector:
    return NodeSelector.from_wire({"nodeSelectorTerms": list(terms)})


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def name(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "selected"),
    [
        (label("zone", "In", "b", "a"), True),
        (label("zone", "In", "b"), False),
        (label("rack", "In", "a"), False),
        (label("zone", "NotIn", "a"), False),
        (label("rack", "NotIn", "a"), True),
        (label("empty", "Exists"), True),
        (label("rack", "Exists"), False),
        (label("rack", "DoesNotExist"), True),
        (label("zone", "DoesNotExist"), False),
        (label("cores", "Gt", "7"), True),
        (label("cores", "Gt", "8"), False),
        (label("cores", "Lt", "9"), True),
        (label("zone", "Gt", "1"), False),
        (label("rack", "Lt", "1"), False),
        (name("In", "n1"), True),
        (name("In", "n2"), False),
        (name("NotIn", "n2"), True),
        (name("In", "n1", key="metadata.uid"), False),
        ({}, False),
        (label("zone", "In", "a") | name("In", "n2"), False),
    ],
)
def test_one_term(term: dict[str, Any], selected: bool) -> None:
    assert NodeMatcher(selector(term)).matches(NODE) is selected


def test_terms_are_ored_and_none_selects_nothing() -> None:
    assert NodeMatcher(selector(label("zone", "In", "b"), name("In", "n1"))).matches(NODE)
    assert not NodeMatcher(selector()).matches(NODE)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (
            label("zone", "Near"),
            'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported '
'value: "Near": supported values: "In", "NotIn", '
            '"Exists", "DoesNotExist", "Gt", "Lt"',
        ),
        (label("cores", "Gt", "x"), "nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid "
"value: \"x\": for 'Gt', 'Lt' operators, "
         "the value must be an integer"),
        (name("In", "a", "b"), 'nodeSelectorTerms[0].matchFields[0].values: Invalid '
'value: ["a","b"]: must have one element'),
        (
            {"matchExpressions": [{"key": "-a", "operator": "In"}]},
            """[nodeSelectorTerms[0].matchExpressions[0].key: Invalid value: "-a": name part must consist of """
            """alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. """
            """'MyName',  or 'my.name',  """
            """or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), """
            """nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, """
            """values set can't be empty]""",
        ),
        (
            name("Exists"),
            'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: '
'"Exists": supported values: "In", "NotIn"',
        ),
    ],
)  # fmt: skip
def test_faults_are_named_with_their_path(term: dict[str, Any], text: str) -> None:
    with pytest.raises(NodeSelectorError) as caught:
        NodeMatcher(selector(term))
    assert str(caught.value) == text


def test_a_faulty_term_selects_nothing_when_read_leniently() -> None:
    assert NodeMatcher(selector(label("zone", "Near"), label("zone", "In", "a")), lenient=True).matches(NODE)
    assert not NodeMatcher(selector(label("zone", "Near")), lenient=True).matches(NODE)
