"""Answers the cases of tests/cel/cases anew: ``python -m devtools.upstream.cel.record [FILE]`` adds the expressions of
FILE, one a line.

A line is a question as JSON or just an expression; one that mentions ``device`` is asked as a selector on the device of
``device.json``, any other as plain CEL. Where ours differs from the reference, the case goes to ``deviations.jsonl``
with the reason; one without a reason is printed, and no file is changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from devtools.cel.answers import Answer, Question, answer
from devtools.cel.cases import CASES, SAMPLE, load, question_of
from devtools.upstream.cel.compare import Difference, steadily
from devtools.upstream.cel.differences import MAP_ORDER, reason
from devtools.upstream.cel.reference import Reference, temporary

_FILES = ("language", "random", "device")


def record(reference: Reference, added: Iterable[str]) -> int:
    """Rewrite the files, unless expressions differ without a reason; how many do."""
    asked: dict[str, tuple[str, Question]] = {}

    def ask(case: Answer, home: str | None, mode: str) -> None:
        question = question_of(case, mode)
        home = home or ("language" if "mode" in question else "device")
        asked.setdefault(json.dumps(question, sort_keys=True), (home, question))

    for name in (*_FILES, "deviations"):
        for case in load(f"{name}.jsonl"):
            ask(
                case,
                name if name in _FILES else None,
                case.get("mode") or ("language" if name in ("language", "random") else "selector"),
            )
    for line in added:
        case = json.loads(line) if line.startswith('{"expression"') else {"expression": line}
        ask(
            case,
            None,
            case.get("mode") or ("selector" if "device" in case["expression"] or "device" in case else "language"),
        )
    lines: dict[str, list[Answer]] = {name: [] for name in (*_FILES, "deviations")}
    unexplained = 0
    for (home, question), theirs in zip(
        asked.values(), reference.ask([question for _, question in asked.values()]), strict=True
    ):
        mine = answer(question)
        case = {**question, **mine}
        if case.get("device") == SAMPLE:
            del case["device"]
        why = None if mine == theirs else reason(question, theirs, mine)
        if why is None and mine != theirs and steadily(reference, [Difference(question, theirs, mine)]) == [False]:
            why = MAP_ORDER
        if mine == theirs or why == MAP_ORDER:
            if home in ("language", "random"):
                del case["mode"]
            lines[home].append(case)
        elif why is None:
            unexplained += 1
            print(json.dumps({**case, "reference": theirs}, ensure_ascii=False))  # noqa: T201 - a command's output
        else:
            reported = {key: value for key, value in theirs.items() if key != "type"}
            lines["deviations"].append({**case, "reference": reported, "why": why})
    if unexplained:
        return unexplained
    for name, cases in lines.items():
        text = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
        (CASES / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return 0


def main() -> None:
    added = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines() if len(sys.argv) > 1 else []
    reference, _folder = temporary()
    raise SystemExit(min(1, record(reference, filter(None, added))))


if __name__ == "__main__":
    main()
