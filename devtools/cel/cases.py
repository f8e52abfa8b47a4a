"""The expressions of tests/cel/cases: reading them, and the questions that they answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devtools.cel.answers import Question

CASES = Path(__file__).parents[2] / "tests" / "cel" / "cases"


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
