"""Expressions with their answers, as data.

``language.jsonl``, ``random.jsonl`` and ``device.jsonl`` hold what Kubernetes' own package answers (made with tests/upstream/cel), word for
word. ``deviations.jsonl`` holds what this engine answers where that differs, with the reference's answer and the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cel.answers import Question, answer
from virt_dra.cel.checker import check
from virt_dra.cel.cost.ceiling import ceiling
from virt_dra.cel.declarations import STORED_EXPRESSIONS
from virt_dra.cel.syntax.parser import parse

CASES = Path(__file__).parent / "cases"
Case = dict[str, Any]


def load(name: str) -> list[Case]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def sample_device() -> dict[str, Any]:
    """The device that the selectors of device.jsonl are about, with its driver."""
    raw: dict[str, Any] = json.loads((CASES / "device.json").read_text(encoding="utf-8"))
    return {"driver": raw["driver"], **raw["device"]}


def question_of(case: Case, mode: str) -> Question:
    """The question that a case answers."""
    if mode == "language":
        return {"expression": case["expression"], "mode": mode}
    asked: Question = {key: case[key] for key in ("new", "features", "derived") if key in case}
    return {"expression": case["expression"], "device": case.get("device", SAMPLE), **asked}


SAMPLE = sample_device()


def expected(case: Case) -> Case:
    return {key: case[key] for key in ("compile_error", "type", "cost_estimate", "result", "error", "cost") if key in case}


def identify(case: Case) -> str:
    text: str = case["expression"]
    return text[:60]


@pytest.mark.parametrize("case", load("language.jsonl") + load("random.jsonl"), ids=identify)
def test_the_language_answers_as_kubernetes_does(case: Case) -> None:
    assert answer(question_of(case, "language")) == expected(case)


@pytest.mark.parametrize("case", load("device.jsonl"), ids=identify)
def test_a_selector_answers_as_kubernetes_does(case: Case) -> None:
    assert answer(question_of(case, "selector")) == expected(case)


def test_the_quick_ceiling_is_never_below_what_is_paid() -> None:
    bounded = 0
    for case in load("language.jsonl") + load("random.jsonl"):
        if "cost" not in case:
            continue
        root = parse(case["expression"])
        assert check(root, STORED_EXPRESSIONS) == []
        most = ceiling(root)
        bounded += most is not None
        assert most is None or most >= case["cost"], case["expression"]
    assert bounded > 200


@pytest.mark.parametrize("case", load("deviations.jsonl"), ids=identify)
def test_a_documented_deviation_is_what_it_says(case: Case) -> None:
    assert answer(question_of(case, case.get("mode", "selector"))) == expected(case)
    assert case["why"]
    assert expected(case) != case["reference"]
