"""docs/security.md names the test that keeps each of its claims: those tests are there."""

from __future__ import annotations

import re
from pathlib import Path

HOME = Path(__file__).parents[2]
NAMED = re.compile(r"`(?P<file>[a-z_/]+\.py)(?:::(?P<test>test_[a-z0-9_]+))?`")


def test_every_test_that_it_names_is_there() -> None:
    text = (HOME / "docs" / "security.md").read_text(encoding="utf-8")
    named = [(match["file"], match["test"]) for match in NAMED.finditer(text) if match["file"].startswith("tests/")]
    assert len(named) > 30
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (HOME / file).exists() or (test and f"def {test}(" not in (HOME / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_every_other_file_that_it_names_is_there() -> None:
    text = (HOME / "docs" / "security.md").read_text(encoding="utf-8")
    paths = re.findall(r"(?<![/\w])((?:docs|manifests|launcher|webhooks|virt_dra)/[a-z_/0-9.-]*[a-z0-9_])", text)
    assert paths
    assert [path for path in paths if not (HOME / path).exists()] == []
