"""docs/guides/hook-sidecar.md: its commands as written, in order, print what it shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.guides.page import blocks
from tests.guides.shell import Shell

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "hook-sidecar.md").read_text(encoding="utf-8")
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_the_guide_prints_what_it_shows(tmp_path: Path) -> None:
    with Shell(tmp_path / "shell", tmp_path, ENVIRONMENT, "") as shell:
        shell.follow("docs/guides/hook-sidecar.md", blocks(PAGE))
