"""JSONPath templates and custom columns: what Kubernetes' own package answered (devtools/upstream/jsonpath)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from virt_dra.cli.templates.applying import JsonPath, NotApplicable
from virt_dra.cli.templates.custom_columns import cell_text
from virt_dra.cli.templates.parsing import BadTemplate

HERE = Path(__file__).parent
DOCUMENTS = json.loads((HERE / "documents.json").read_text(encoding="utf-8"))
ANSWERS = [json.loads(line) for line in (HERE / "upstream.jsonl").read_text(encoding="utf-8").splitlines()]
NUMBER = re.compile(r"^u?int(8|64)? (?=is not array)")
"""Go has several types of whole numbers: of a template, of a document, of a byte of a string."""


def _answer(question: dict[str, Any]) -> dict[str, str]:
    document = DOCUMENTS[question["on"]]
    try:
        if path := question.get("columns"):
            return {"text": cell_text(JsonPath.parse(path).values(document))}
        return {"text": JsonPath.parse(question["template"]).text(document)}
    except (BadTemplate, NotApplicable) as error:
        return {"error": str(error)}


def test_every_answer_is_kubernetes_own() -> None:
    differing = []
    for question in ANSWERS:
        answer = _answer(question)
        expected = {key: question[key] for key in ("text", "error") if key in question}
        if "error" in expected:
            expected["error"] = NUMBER.sub("int64 ", expected["error"])
        panicked = expected.get("error") == "panic"
        if (panicked and "error" not in answer) or (not panicked and answer != expected):
            differing.append((question, answer))
    assert differing == []
    assert len(ANSWERS) > 1000
