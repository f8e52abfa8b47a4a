"""Whatever the text, the outcome is a program or a CelError, and evaluating gives a value or an EvaluationError."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from virt_dra.api.resource_v1 import Device
from virt_dra.cel import CompileError, EvaluationError, compile_expression, device_input

DEVICE = device_input(
    "d", Device.from_wire({"name": "x", "attributes": {"a": {"int": 1}, "l": {"strings": ["a", "b"]}}})
)
LINES = (Path(__file__).parent / "cases" / "language.jsonl").read_text(encoding="utf-8").splitlines()
EXPRESSIONS = [json.loads(line)["expression"] for line in LINES]
PIECES = """
device . driver attributes capacity [ ] ( ) { } , : ? .? [? ! - + * / % == != < <= > >= && || in 1 1u 1.5 -1 0x1f
true false null 'a' "b" r'c' b'd' ''' \\ ` x y dyn size all exists map filter has cel.bind optional.of optMap
matches contains sum sort sortBy int string duration timestamp quantity semver ip cidr type list
""".split()  # noqa: SIM905  # a list literal of it is too long to read


def outcome(text: str) -> str:
    """The message of the refusal or of the failure, or nothing. Any other exception is a defect and escapes."""
    try:
        compile_expression(text).evaluate({"device": DEVICE})
    except CompileError as error:
        return error.message.removeprefix("program instantiation failed: ").removeprefix("compilation failed: ERROR: ")
    except EvaluationError as error:
        return error.message
    return "a value"


@given(st.text(max_size=200))
@settings(max_examples=sample(300), deadline=None)
def test_any_text(text: str) -> None:
    assert outcome(text) != ""


@given(st.lists(st.sampled_from(PIECES), max_size=25))
@settings(max_examples=sample(600), deadline=None)
def test_any_sequence_of_tokens(pieces: list[str]) -> None:
    assert outcome(" ".join(pieces)) != ""


@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(["==", "&&", "+", "in", ".", "?", ",", "["]),
    st.data(),
)
@settings(max_examples=sample(500), deadline=None)
def test_expressions_cut_and_joined(left: str, right: str, between: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(left)))
    assert outcome(f"{left[:cut]} {between} {right}") != ""
    assert outcome(f"({left}) {between} ({right})") != ""
