"""docs/scenarios.md: every row is what its scenario gives now, and what was recorded of a real control plane."""

from __future__ import annotations

import re

import pytest

from devtools.scenario_table import HEADING, PAGE, outcome, recorded, row, scenarios


@pytest.mark.slow
def test_every_row_of_the_page_is_true() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = {
        match[1]: match[0] for match in re.finditer(r"^\| (.*?) \| .* \| (?:yes|no|pending) \|\n", page, re.MULTILINE)
    }
    assert HEADING in page
    cases = {raw["name"]: raw for _, raw in scenarios()}
    answers = recorded()
    assert [name for name in rows if name not in cases] == []
    wrong = {name: now for name, line in rows.items() if (now := row(cases[name], answers[name])) != line}
    assert wrong == {}, "write the page again: python -m devtools.scenario_table --write"
    same = sum(line.endswith("| yes |\n") for line in rows.values())
    assert f"\n{same} of {len(rows)} are the same.\n" in page


def test_an_outcome_is_short() -> None:
    pods = {"p": {"nodeName": "n"}, "as": [{"nodeName": "n"}, {}]}
    end = {"Pod": pods, "ResourceClaim": {"c": {"allocation": {}}}, "events": [["Pod/p", "Normal", "Scheduled", ""]]}
    answer = {"refusals": [{"code": 403}], "states": {"end": end}}
    assert outcome(answer) == "2 of 3 pods bound, 1 of 1 claim allocated, 1 refusal, 1 event"
    assert outcome({"refusals": [], "states": {"end": {"events": []}}}) == "nothing left"
