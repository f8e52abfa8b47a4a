"""Every rule of the control loops' and of the node driver's specification has a test that cites it, or a line in
docs/spec/without-test.md that says why not; every rule of some sections of KubeVirt's specification has one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = ROOT / "docs" / "spec" / "control-loops.md"
WITHOUT_TEST = ROOT / "docs" / "spec" / "without-test.md"

_DEFINED = re.compile(r"^(?:\* \*\*|\| |### )(C-\d+\.\d+)\b", re.MULTILINE)
_CITED = re.compile(r"\bC-(\d+)\.(\d+)(?: to (?:C-\1\.)?(\d+))?")


def rules() -> set[str]:
    """Those that the specification defines: points of lists, rows of tables, headings above tables."""
    return set(_DEFINED.findall(SPEC.read_text(encoding="utf-8")))


@cache
def cited() -> frozenset[str]:
    """Those that tests and their cases cite; ``C-10.4 to C-10.7`` cites four."""
    rules = set()
    for file in sorted((ROOT / "tests").rglob("*")):
        if file.suffix in (".py", ".yaml") and file != Path(__file__):
            for section, first, last in _CITED.findall(file.read_text(encoding="utf-8")):
                rules |= {f"C-{section}.{number}" for number in range(int(first), int(last or first) + 1)}
    return frozenset(rules)


def excused() -> dict[str, str]:
    """Rule -> why it has no test: the rows of the table in without-test.md, whose first cell may name several rules."""
    reasons: dict[str, str] = {}
    for line in WITHOUT_TEST.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| C-"):
            named, reason = cells
            for section, first, last in _CITED.findall(named):
                reasons |= {f"C-{section}.{number}": reason for number in range(int(first), int(last or first) + 1)}
    return reasons


TESTED_SECTIONS_OF_KUBEVIRT = (7, 8, 10)
_KUBEVIRT_DEFINED = re.compile(r"^- (K-(\d+)\.\d+[a-z]?) ", re.MULTILINE)
_KUBEVIRT_CITED = re.compile(r"\bK-(\d+)\.(\d+)([a-z]?)(?: to (?:K-\1\.)?(\d+))?")


@pytest.mark.parametrize("folders", [("tests",), ("launcher", "virt_dra", "webhooks")], ids=["tests", "code"])
def test_every_rule_of_these_sections_is_cited(folders: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / "spec" / "kubevirt.md").read_text(encoding="utf-8")
    wanted = {rule for rule, section in _KUBEVIRT_DEFINED.findall(text) if int(section) in TESTED_SECTIONS_OF_KUBEVIRT}
    assert wanted
    assert sorted(wanted - set(_kubevirt_citations(folders))) == []


def _kubevirt_citations(folders: tuple[str, ...]) -> Iterator[str]:
    for folder in folders:
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".yaml") and file != Path(__file__):
                for section, first, letter, last in _KUBEVIRT_CITED.findall(file.read_text(encoding="utf-8")):
                    yield f"K-{section}.{first}{letter}"
                    for number in range(int(first), int(last or first) + 1):
                        yield f"K-{section}.{number}"


def test_every_rule_is_cited_by_a_test_or_excused() -> None:
    missing = sorted(rules() - cited() - excused().keys(), key=_order)
    assert missing == []


def test_excuses_are_for_rules_that_exist_and_no_test_cites() -> None:
    assert sorted(excused().keys() - rules(), key=_order) == []
    assert sorted(excused().keys() & cited(), key=_order) == []
    assert all(excused().values())


def test_no_test_cites_a_rule_that_does_not_exist() -> None:
    assert sorted(cited() - rules(), key=_order) == []


def _order(rule: str) -> tuple[int, ...]:
    return tuple(map(int, rule[2:].split(".")))


_DRIVER_DEFINED = re.compile(r"^\*\*D-(\d+)()\b", re.MULTILINE)
_DRIVER_CITED = re.compile(r"\bD-(\d+)(?: to (?:D-)?(\d+))?")


def _driver_rules(text: str, pattern: re.Pattern[str] = _DRIVER_CITED) -> set[int]:
    return {number for first, last in pattern.findall(text) for number in range(int(first), int(last or first) + 1)}


def test_every_rule_of_the_node_driver_is_cited_by_a_test_or_excused() -> None:
    spec = _driver_rules((ROOT / "docs" / "spec" / "driver.md").read_text(encoding="utf-8"), _DRIVER_DEFINED)
    files = (file for file in sorted((ROOT / "tests").rglob("*")) if file.suffix in (".py", ".yaml"))
    cited = _driver_rules("\n".join(file.read_text(encoding="utf-8") for file in files if file != Path(__file__)))
    rows = [line for line in WITHOUT_TEST.read_text(encoding="utf-8").splitlines() if line.startswith("| D-")]
    excused = {rule for row in rows for rule in _driver_rules(row.split("|")[1])}
    assert spec
    assert (sorted(spec - cited - excused), sorted(cited - spec), sorted(excused & cited)) == ([], [], [])
