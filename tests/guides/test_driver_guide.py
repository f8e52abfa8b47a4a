"""docs/guides/driver.md: what a policy publishes of a machine is what the page shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from node_driver.conditions import DEFAULT_EFFECTS
from tests.guides.page import blocks
from tests.guides.shell import Shell
from tests.node_driver.machine_trees import machine

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "driver.md").read_text(encoding="utf-8")
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_the_guide_prints_what_it_shows(tmp_path: Path) -> None:
    machine("gpu-workstation", tmp_path / "machine")
    with Shell(tmp_path / "shell", tmp_path, ENVIRONMENT, "") as shell:
        for block in blocks(PAGE):
            ran = shell.run(block.commands)
            where = f"docs/guides/driver.md, line {block.line}:\n{block.commands}{ran.printed}"
            assert ran.failed == (), where
            assert block.missing(ran.printed) is None, f"{where}\nmissing: {block.missing(ran.printed)}"


def test_every_taint_is_in_the_table() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name.strip(" `"): effect.strip() for name, effect in rows} == {
        reason.value: effect.value for reason, effect in DEFAULT_EFFECTS.items()
    }
