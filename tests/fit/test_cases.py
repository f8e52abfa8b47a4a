"""Named questions in ``cases/``: the answer, and that everyone gives it. The first document of a file says what is
expected, the others are a dump with the asker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.fit.case import FitCase
from devtools.fit.comparing import compared
from devtools.fit.reference import by_filters

CASES = sorted(Path(__file__).parent.joinpath("cases").glob("*.yaml"))


def read_case(path: Path) -> tuple[dict[str, Any], FitCase]:
    expected, *objects = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    return expected, FitCase(tuple(objects), gaps=expected.get("gaps", False))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_named_question_has_one_answer(path: Path) -> None:
    expected, case = read_case(path)
    answer = by_filters(case)
    assert {
        "verdict": answer.verdict,
        "nodes": sorted(answer.nodes or ()),
        "reasons": dict(answer.reasons or {}),
        "line": answer.line,
        "unknown": sorted(answer.unknown or ()),
    } == {key: expected[key] for key in ("verdict", "nodes", "reasons", "line", "unknown")}
    comparisons = list(compared(case))
    assert {name for comparison in comparisons for name in comparison.answers} >= set(expected["asked"])
    assert not any(comparison.contradictions for comparison in comparisons)
