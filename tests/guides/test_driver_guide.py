"""docs/guides/driver.md: what a policy publishes of a machine is what the page shows, and a cluster takes the rest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.programs import KUBECTL, binary, require
from node_driver.conditions import DEFAULT_EFFECTS
from tests.guides.page import blocks, of_way
from tests.guides.shell import Shell
from tests.node_driver.machine_trees import machine
from virt_dra.api.schemas.unknown_fields import unknown_fields

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "driver.md").read_text(encoding="utf-8")
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_the_guide_prints_what_it_shows(tmp_path: Path) -> None:
    machine("gpu-workstation", tmp_path / "machine")
    with Shell(tmp_path / "shell", tmp_path, ENVIRONMENT, "") as shell:
        shell.follow("docs/guides/driver.md", of_way(blocks(PAGE), "copy"))


@pytest.mark.control_plane(seconds=8)
def test_a_cluster_takes_all_that_the_guide_applies(tmp_path: Path) -> None:
    require(KUBECTL)
    kubectl = binary(KUBECTL)
    assert kubectl is not None
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    with ControlPlane(arguments=("--allow-privileged",)) as plane:
        environment = {"PATH": f"{ENVIRONMENT['PATH']}:{kubectl.parent}", "KUBECONFIG": str(plane.kubeconfig)}
        with Shell(tmp_path / "shell", tmp_path, environment, "") as shell:
            for block in of_way(blocks(PAGE), "cluster"):
                ran = shell.run(block.commands)
                where = f"docs/guides/driver.md, line {block.line}:\n{block.commands}{ran.printed}"
                assert ran.failed == (), where
    vmi = yaml.safe_load((tmp_path / "vm.yaml").read_text(encoding="utf-8"))
    assert unknown_fields(vmi) == ()


def test_every_taint_is_in_the_table() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name.strip(" `"): effect.strip() for name, effect in rows} == {
        reason.value: effect.value for reason, effect in DEFAULT_EFFECTS.items()
    }
