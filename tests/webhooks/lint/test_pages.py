"""docs/lint and the registry say the same: a page for every id, whose example gives the finding, and an index that is
complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Golden
from virt_dra.api.reading.documents import read_documents
from virt_dra.simulator.fit import Fitting
from webhooks.lint import CHECKS, LintCheck, LintSettings, lint_documents
from webhooks.lint.finding import RUNNING, WARNING
from webhooks.lint.registry import WARNED_BY_REVIEW

PAGES = Path(__file__).parents[3] / "docs" / "lint"
SETTINGS = {"old-version": LintSettings(warn={"old-version"}), "selector-not-checked": LintSettings(max_work=100_000)}
"""Where a finding is only reported on request, or is about a limit, which a lint of files doesn't have."""
HEADINGS = ["What", "Why", "How to fix", "Example"]


def test_every_check_has_a_page_and_every_page_a_check() -> None:
    assert sorted(page.stem for page in PAGES.glob("*.md")) == sorted(["README", *(check.id for check in CHECKS)])


def test_ids_are_unique_and_written_alike() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    assert [id for id in ids if not re.fullmatch(r"[a-z]+(-[a-z]+)*", id)] == []


@pytest.mark.parametrize("check", [pytest.param(check, id=check.id) for check in CHECKS])
def test_a_page_says_what_why_and_how_and_its_example_gives_the_finding(check: LintCheck, golden: Golden) -> None:
    text = (PAGES / f"{check.id}.md").read_text(encoding="utf-8")
    at_admission = ", at admission a warning" if check.lenient else ""
    assert text.startswith(f"# {check.id}\n\n{check.title} A {check.severity}{at_admission}.\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    (example,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    judgement = lint_documents(
        read_documents(example.encode(), check.id),
        SETTINGS.get(check.id, LintSettings()),
        trial=Fitting,
        has_keeper=check.id != "keeper-missing",
    )
    assert judgement.subjects
    findings = judgement.subjects[0].findings
    others = [(judged, finding) for judged in judgement.checked[1:] for finding in judged.findings]
    assert check.id in {*(finding.id for finding in findings), *(finding.id for _, finding in others)}
    told = [f"{finding.id} {finding.severity} {finding.field}: {finding.message}\n" for finding in findings]
    told += [
        f"{judged.title}: {finding.id} {finding.severity} {finding.field}: {finding.message}\n"
        for judged, finding in others
    ]
    golden(f"{check.id}.txt", "".join(told))


def test_the_index_lists_all_checks_in_their_order() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([a-z-]+)\]\(([a-z-]+)\.md\) \| (\w+) \| (\w+) \| (.*) \|$", text, re.MULTILINE)
    assert rows == [
        (
            check.id,
            check.id,
            check.severity,
            WARNING if check.lenient or check.id in WARNED_BY_REVIEW else check.severity,
            check.title,
        )
        for check in CHECKS
    ]


def test_the_index_says_which_checks_are_made_of_what_runs() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    (paragraph,) = re.findall(r"^\* \*\*What runs has started\*\*(.*?)^\*", text, re.MULTILINE | re.DOTALL)
    assert re.findall(r"\[([a-z-]+)\]", paragraph) == [check.id for check in CHECKS if check.matters == RUNNING]
