"""Expressions with their answers, as data.

``language.jsonl``, ``random.jsonl`` and ``device.jsonl`` hold what Kubernetes' own package answers (made with tests/upstream/cel), word for
word. ``deviations.jsonl`` holds what this engine answers where that differs, with the reference's answer and the reason.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cel.rendering import render
from virt_dra.api.resource_v1 import Device
from virt_dra.cel import CompileError, DeviceInput, EvaluationError, compile_expression, compile_selector, device_input

CASES = Path(__file__).parent / "cases"
Case = dict[str, Any]


def load(name: str) -> list[Case]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


@cache
def sample_device() -> DeviceInput:
    raw = json.loads((CASES / "device.json").read_text(encoding="utf-8"))
    return device_input(raw["driver"], Device.from_wire(raw["device"]))


def answer_language(expression: str) -> Case:
    try:
        program = compile_expression(expression)
    except CompileError as error:
        return {"compile_error": error.message}
    try:
        return {"type": str(program.type), "result": render(program.evaluate({}))}
    except EvaluationError as error:
        return {"type": str(program.type), "error": error.message}


def answer_selector(expression: str) -> Case:
    try:
        selector = compile_selector(expression)
    except CompileError as error:
        return {"compile_error": error.message}
    kind = str(compile_expression(expression).type)
    try:
        return {"type": kind, "result": selector.matches(sample_device())}
    except EvaluationError as error:
        return {"type": kind, "error": error.message}


def expected(case: Case) -> Case:
    return {key: case[key] for key in ("compile_error", "type", "result", "error") if key in case}


def identify(case: Case) -> str:
    text: str = case["expression"]
    return text[:60]


@pytest.mark.parametrize("case", load("language.jsonl") + load("random.jsonl"), ids=identify)
def test_the_language_answers_as_kubernetes_does(case: Case) -> None:
    assert answer_language(case["expression"]) == expected(case)


@pytest.mark.parametrize("case", load("device.jsonl"), ids=identify)
def test_a_selector_answers_as_kubernetes_does(case: Case) -> None:
    assert answer_selector(case["expression"]) == expected(case)


@pytest.mark.parametrize("case", load("deviations.jsonl"), ids=identify)
def test_a_documented_deviation_is_what_it_says(case: Case) -> None:
    answer = answer_language if case["mode"] == "language" else answer_selector
    assert answer(case["expression"]) == expected(case)
    assert case["why"]
    assert expected(case) != case["reference"]
