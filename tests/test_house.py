"""The house is in order: citations can be looked up, links lead somewhere, and nothing names the machine it was made
on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CITATION = re.compile(r"\b([ACKL]-\d+\.\d+|AC-\d+)\b")
DEFINITION = re.compile(
    r"^(?:- |\* |\|)?\s*(?:\*\*)?(?:#+ )?([ACKL]-\d+\.\d+|AC-\d+)\b|^#+ "
    r"([ACKL]-\d+\.\d+)|^\| ([ACKL]-\d+\.\d+) \||^\*\*(AC-\d+)",
    re.MULTILINE,
)


def _tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    return [path for name in names.decode().split("\0") if name and (path := ROOT / name).is_file()]


def _text_files() -> list[Path]:
    return [
        path
        for path in _tracked()
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".sh", ".go", ""} and path.stat().st_size < 1_000_000
    ]


def _defined_rules() -> set[str]:
    rules: set[str] = set()
    for page in (ROOT / "docs" / "spec").glob("*.md"):
        rules.update(rule for groups in DEFINITION.findall(page.read_text(encoding="utf-8")) for rule in groups if rule)
    return rules


def test_every_cited_rule_can_be_looked_up() -> None:
    defined = _defined_rules()
    assert len(defined) > 500
    missing = {
        f"{path.relative_to(ROOT)}: {rule}"
        for path in _text_files()
        if path.suffix == ".py" or (path.suffix == ".md" and "spec" not in path.parts)
        for rule in CITATION.findall(path.read_text(encoding="utf-8"))
        if rule not in defined
    }
    assert missing == set()


def test_relative_links_in_documents_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in _tracked()
        if page.suffix == ".md" and "spec" not in page.parts
        for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_decision_has_a_number_of_its_own_and_a_reason() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [page.name[:4] for page in decisions]
    assert numbers == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    for page in decisions:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]}: "), page.name
        assert re.search(r"\b(why|context|because)\b", text, re.IGNORECASE), page.name


def _linked(page: Path) -> set[Path]:
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    return {target for link in links if (target := (page.parent / link).resolve()).suffix == ".md"}


def test_every_document_is_linked_from_an_index() -> None:
    folders = ("", "decisions", "lint", "reasons", "runbooks")
    indexes = [ROOT / "docs" / folder / "README.md" for folder in folders]
    linked = set().union(*map(_linked, indexes))
    assert {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - linked == {indexes[0].resolve()}


def test_the_index_of_decisions_has_their_titles() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        number, title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").split(": ", 1)
        assert f"| [{number}]({page.name}) | {title} |" in index


@pytest.mark.parametrize("pattern", [r"/" + "work/", "/ro" + "ot/", r"\.py" + "env", "brief" + r"\.md"])
def test_nothing_names_the_machine_it_was_made_on(pattern: str) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in _text_files()
        if re.search(pattern, path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
