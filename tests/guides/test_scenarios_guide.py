"""docs/guides/scenarios.md: its commands as written, in order, print what it shows; those for a real cluster on a real
control plane."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from devtools.cluster.programs import CONTROLLERS, SCHEDULER, require
from devtools.scenarios import scenario_plane
from tests.guides.page import blocks
from tests.guides.shell import Shell

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "scenarios.md").read_text(encoding="utf-8")
BLOCKS = blocks(PAGE)


@pytest.fixture
def environment(program: Path) -> dict[str, str]:
    """Finds the program that starts quickly, and Python."""
    folders = (program.parent, Path(sys.executable).parent, os.environ["PATH"])
    return {"PATH": ":".join(map(str, folders))}


@pytest.mark.slow
def test_the_guide_prints_what_it_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    with Shell(tmp_path / "shell", tmp_path, environment, "") as shell:
        shell.follow("docs/guides/scenarios.md", tuple(block for block in BLOCKS if not block.way))


@pytest.mark.slow
@pytest.mark.control_plane
def test_a_real_cluster_gives_the_same_answer(tmp_path: Path, environment: dict[str, str]) -> None:
    require(SCHEDULER, CONTROLLERS)
    with scenario_plane({}, {}) as plane:
        on_plane = {**environment, "SCRATCH_KUBECONFIG": str(plane.kubeconfig)}
        with Shell(tmp_path / "shell", tmp_path, on_plane, "") as shell:
            shell.follow("docs/guides/scenarios.md", BLOCKS)
