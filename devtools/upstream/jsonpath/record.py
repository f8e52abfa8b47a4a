"""``python -m devtools.upstream.jsonpath.record [N] [--seed S]``: asks Kubernetes' package about the chosen templates
and N random ones, and writes its answers into tests/cli/templates/upstream.jsonl. Needs Go."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any, Final

from devtools.upstream.jsonpath.questions import CHOSEN, COLUMNS, random_questions

TESTS: Final = Path(__file__).parents[3] / "tests" / "cli" / "templates"
DOCUMENTS: Final = TESTS / "documents.json"
ANSWERS: Final = TESTS / "upstream.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    templates = [*CHOSEN, *random_questions(Random(options.seed), options.count)]
    asked = [{"on": name, "template": template} for name, template in dict.fromkeys(templates)]
    asked += [{"on": name, "columns": path} for name, path in COLUMNS]
    ANSWERS.write_text("".join(f"{json.dumps(answer)}\n" for answer in _answers(asked)), encoding="utf-8")


def _answers(asked: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The answers that don't depend on the order of a Go map."""
    documents = json.loads(DOCUMENTS.read_text(encoding="utf-8"))
    questions = "".join(f"{json.dumps({**question, 'data': documents[question['on']]})}\n" for question in asked)
    program = Path(__file__).parent
    done = subprocess.run(["go", "run", "."], cwd=program, input=questions, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    return [
        {key: value for key, value in answer.items() if key != "data"} for answer in answers if "random" not in answer
    ]


if __name__ == "__main__":
    main()
