"""docs/guides/profiles.md: its commands as written, in order, print what it shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.guides.page import blocks
from tests.guides.shell import Shell

ROOT = Path(__file__).parents[2]
GUIDE = Path("docs") / "guides" / "profiles.md"


@pytest.mark.slow
def test_the_guide_prints_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "examples").symlink_to(ROOT / "examples")
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with Shell(tmp_path / "shell", tmp_path / "home", environment, "") as shell:
        for block in blocks((ROOT / GUIDE).read_text(encoding="utf-8")):
            ran = shell.run(block.commands)
            where = f"{GUIDE}, line {block.line}:\n{block.commands}{ran.printed}"
            assert ran.failed == (), where
            assert block.missing(ran.printed) is None, f"{where}\nmissing: {block.missing(ran.printed)}"
