"""Expressions with their answers, as data.

``language.jsonl``, ``random.jsonl`` and ``device.jsonl`` hold what Kubernetes' own package answers (made with
devtools/upstream/cel), word for word. ``deviations.jsonl`` holds what this engine answers where that differs, with the
reference's answer and the reason.
"""

from __future__ import annotations

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
