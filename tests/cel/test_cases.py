"""Expressions with their answers, as data.

``language.jsonl``, ``random.jsonl`` and ``device.jsonl`` hold what Kubernetes' own package answers (made with
devtools/upstream/cel), word for word. ``deviations.jsonl`` holds what this engine answers where that differs, with the
reference's answer and the reason.
"""

from __future__ import annotations

from typing import Final

import pytest

from devtools.cel.answers import answer
from devtools.cel.cases import Case, load, question_of
from virt_dra.cel.checker import check
from virt_dra.cel.cost.ceiling import ceiling
from virt_dra.cel.declarations import STORED_EXPRESSIONS
from virt_dra.cel.syntax.parser import parse


def expected(case: Case) -> Case:
    return {
        key: case[key] for key in ("compile_error", "type", "cost_estimate", "result", "error", "cost") if key in case
    }


def identify(case: Case) -> str:
    text: str = case["expression"]
    return text[:60]


_TOGETHER: Final = 50
"""Expressions of a test: one takes a millisecond, and so does a test."""


def bundles(cases: list[Case]) -> list[list[Case]]:
    return [cases[first : first + _TOGETHER] for first in range(0, len(cases), _TOGETHER)]


def answers(cases: list[Case], mode: str) -> list[tuple[str, Case]]:
    return [(case["expression"], answer(question_of(case, mode))) for case in cases]


def wanted(cases: list[Case]) -> list[tuple[str, Case]]:
    return [(case["expression"], expected(case)) for case in cases]


@pytest.mark.parametrize(
    "cases", bundles(load("language.jsonl") + load("random.jsonl")), ids=lambda cases: identify(cases[0])
)
def test_the_language_answers_as_kubernetes_does(cases: list[Case]) -> None:
    assert answers(cases, "language") == wanted(cases)


@pytest.mark.parametrize("cases", bundles(load("device.jsonl")), ids=lambda cases: identify(cases[0]))
def test_a_selector_answers_as_kubernetes_does(cases: list[Case]) -> None:
    assert answers(cases, "selector") == wanted(cases)


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
