"""Guides about files and the embedded cluster: their commands as written, in order, print what they show, and what they
write as JSON is as published."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.guides.outputs import OutputRecorder
from tests.guides.page import blocks
from tests.guides.shell import Shell

ROOT: Final = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


GUIDES: Final = (
    "simulator",
    "policies",
    "extender",
    "inventory",
    "scripting",
    "explain",
    "profiles",
    "keep",
    "topology",
    "report",
    "testing",
    "domain-xml",
)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_guide_prints_what_it_shows(guide: str, tmp_path: Path, program: Path) -> None:
    folders = (program.parent, Path(sys.executable).parent, os.environ["PATH"])
    environment = {"PATH": ":".join(map(str, folders)), "PYTHONPATH": str(ROOT)}
    found = [
        block
        for block in blocks((ROOT / "docs" / "guides" / f"{guide}.md").read_text(encoding="utf-8"))
        if block.way != "cluster"
    ]
    assert found
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "examples").symlink_to(ROOT / "examples")
    recorder = OutputRecorder(tmp_path / "outputs", environment)
    with Shell(tmp_path / "shell", tmp_path / "here", recorder.environment, "") as shell:
        shell.follow(f"docs/guides/{guide}.md", found)
    assert recorder.faults() == []
