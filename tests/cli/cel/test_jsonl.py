"""``virt-dra cel --jsonl``: a request a line, an answer a line, whatever stands in the lines."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.jsonl.answers import members_of
from virt_dra.cli.cel.command import NOTHING, answer
from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.jsonl.lines import answer_lines
from virt_dra.cli.main import cli

DEVICE = {
    "driver": "d.example.com",
    "allowMultipleAllocations": True,
    "attributes": {"x": {"int": 4}, "tags": {"strings": ["a", "b"]}, "version": {"version": "1.2.3"}},
    "capacity": {"memory": {"value": "16Gi"}},
}
TAGS = 'device.attributes["d.example.com"].tags'


def _answers(*lines: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    answer_lines([line.encode() for line in lines], out, "SelectorAnswer", answer, NOTHING)
    return [members_of(line, "SelectorAnswer") for line in out.getvalue().splitlines()]


def _asked(expression: str, **request: Any) -> dict[str, Any]:
    (told,) = _answers(json.dumps({"id": 1, "expression": expression, "device": DEVICE, **request}))
    assert told.keys() == {"id", *NOTHING}
    return {key: value for key, value in told.items() if value is not None and key != "id"}


NO_SUCH_KEY = (
    "no such key: y. consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


@pytest.mark.parametrize(
    ("expression", "request_", "told"),
    [
        ('device.driver == "d.example.com"', {}, {"cost_estimate": 4, "result": True, "cost": 4}),
        ("device.allowMultipleAllocations", {"device": {}}, {"cost_estimate": 2, "result": False, "cost": 2}),
        (TAGS + '.exists(t, t == "b")', {}, {"cost_estimate": 389, "result": True, "cost": 17}),
        (TAGS, {"derived": True}, {"cost_estimate": 4, "result": {"strings": ["a", "b"]}, "cost": 4}),
        ("[]", {"derived": True}, {"cost_estimate": 10, "result": {"strings": []}, "cost": 0}),
        (
            'semver("1.2.3-rc.1+b")',
            {"derived": True},
            {"cost_estimate": 2, "result": {"version": "1.2.3-rc.1+b"}, "cost": 2},
        ),
        (
            "[dyn(1), dyn(true)]",
            {"derived": True},
            {"cost_estimate": 12, "error": "expected list element at index 1 to be int, got bool", "cost": 0},
        ),
        ('device.attributes["x"].y', {"derived": True}, {"cost_estimate": 4, "error": NO_SUCH_KEY, "cost": 4}),
        ('device.attributes["x"].y == 1', {}, {"cost_estimate": 5, "error": NO_SUCH_KEY, "cost": 5}),
        (
            "true",
            {"device": {"driver": "d", "attributes": {"v": {"version": "1.2"}}}},
            {"cost_estimate": 0, "error": "attribute v: parse semantic version: No Major.Minor.Patch elements found"},
        ),
        ("1", {}, {"compile_error": "must evaluate to bool or the unknown type, not int"}),
        (
            "[1.5]",
            {"derived": True},
            {
                "compile_error": "must evaluate to a primitive scalar (string, integer, boolean, "
                "semver) or a list of these scalars, "
                "not list(double)"
            },
        ),
        (
            "lists.range(1000).all(x, lists.range(10000).all(y, y >= 0))",
            {},
            {"cost_estimate": 60016012, "error": "operation cancelled: actual cost limit exceeded", "cost": 1000001},
        ),
    ],
)
def test_an_expression_is_compiled_estimated_and_evaluated(
    expression: str, request_: dict[str, Any], told: dict[str, Any]
) -> None:
    assert _asked(expression, **request_) == told


UNDEFINED = (
    "compilation failed: ERROR: <input>:1:7: undefined field 'allowMultipleAllocations'\n "
    "| device.allowMultipleAllocations\n | ......^"
)


@pytest.mark.parametrize(
    ("features", "shared", "lists"),
    [
        (None, True, True),
        ({"consumable": True, "list": True}, True, True),
        ({"consumable": True}, True, False),
        ({"list": True, "consumable": None}, False, True),
        ({}, False, False),
    ],
)
def test_new_text_sees_what_the_features_allow_and_stored_text_everything(
    features: Any, shared: bool, lists: bool
) -> None:
    asked = {"features": features}
    refused = _asked("device.allowMultipleAllocations", new=True, **asked).get("compile_error")
    assert refused == (None if shared else UNDEFINED)
    for expression in (TAGS + ".includes('a')", TAGS + ".exists(t, t == 'a')"):
        assert ("compile_error" not in _asked(expression, new=True, **asked)) is lists
        assert _asked(expression, **asked)["result"] is True
    assert _asked("device.allowMultipleAllocations", **asked)["result"] is True
    only_scalars = _asked("[1]", new=True, derived=True, **asked).get("compile_error")
    assert only_scalars == (
        None if lists else "must evaluate to a primitive scalar (string, integer, boolean, semver), not list(int)"
    )
    assert "result" in _asked("[1]", derived=True, **asked)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{}", "expression: required, a string"),
        ('{"expression": 1}', "expression: must be a string, not an integer"),
        ('{"expression": "true", "device": []}', "device: must be an object, not a list"),
        ('{"expression": "true", "device": {"driver": 1}}', "device.driver: must be a string, not an integer"),
        ('{"expression": "true", "features": {"list": 1}}', "features.list: must be a boolean, not an integer"),
        (
            '{"expression": "true", "features": {"lists": true}}',
            "features.lists: no such feature; there are consumable, list",
        ),
        ('{"expression": "true", "new": "yes"}', "new: must be a boolean, not a string"),
        ("not JSON", "not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_request_that_is_wrong_is_told_so_and_the_next_one_answered(line: str, error: str) -> None:
    refused, good = _answers(line, '{"id": "next", "expression": "true"}')
    assert refused == {"id": None, **NOTHING, "error": f"line 1: {error}"}
    assert good == {"id": "next", **NOTHING, "cost_estimate": 0, "result": True, "cost": 0}


def test_attributes_of_the_wrong_shape_are_named_with_their_path() -> None:
    (refused,) = _answers('{"id": 7, "expression": "true", "device": {"attributes": {"x": {"int": "1"}}}}')
    assert refused["id"] == 7
    assert refused["error"].startswith("line 1: device.attributes.x.int: ")


def test_half_a_character_is_the_replacement_character_as_in_kubernetes() -> None:
    assert _asked('"\\ufffd" == "\ud800"', device={})["result"] is True


def test_the_command_reads_a_file_or_standard_input() -> None:
    line = '{"id": 1, "expression": "true"}\n'
    told = CliRunner().invoke(cli, ["cel", "--jsonl"], input=line * 2)
    assert (
        told.output.splitlines()
        == [
            json.dumps(
                output_document("SelectorAnswer", {"id": 1, **NOTHING, "cost_estimate": 0, "result": True, "cost": 0})
            )
        ]
        * 2
    )


REQUEST = st.fixed_dictionaries(
    {},
    optional={
        "expression": st.one_of(
            st.text(max_size=30), st.sampled_from(["true", "device.driver", "[1, 2]"]), st.integers()
        ),
        "device": st.dictionaries(
            st.sampled_from(["driver", "attributes", "capacity"]),
            st.one_of(st.none(), st.text(), st.dictionaries(st.text(), st.none())),
        ),
        "features": st.one_of(
            st.none(), st.dictionaries(st.sampled_from(["list", "consumable"]), st.one_of(st.booleans(), st.integers()))
        ),
        "new": st.booleans(),
        "derived": st.booleans(),
    },
)


@given(REQUEST)
def test_every_line_is_answered(request_: dict[str, Any]) -> None:
    (told,) = _answers(json.dumps({"id": 1, **request_}))
    assert told.keys() == {"id", *NOTHING}
    assert [key for key in ("compile_error", "result", "error") if told[key] is not None] != []
