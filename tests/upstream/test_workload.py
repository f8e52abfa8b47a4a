"""The first pods of every workload of the bench, placed by ours and by the reference: equal digests, in both modes.

Needs Go and its modules; skips otherwise.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.explosions import EXPLOSIONS, Explosion
from bench.reference import NotAvailable, built
from bench.workloads import WORKLOADS, Workload, full_cluster
from virt_dra.cli.main import cli

pytestmark = pytest.mark.go

Json = dict[str, Any]
SMALL = [workload for workload in WORKLOADS.values() if not workload.large]
FEW = {"1": 20, "auto": 4}
"""Pods by mode."""
NODES, FEWER = 110, {"lists": 12, "partitionable": 30, "backtracking": 30}
"""More than the 100 below which kube-scheduler looks for all nodes that fit; fewer than the bench has, to be quick."""


@pytest.fixture(scope="module")
def reference() -> Iterator[Path]:
    try:
        with built("workload") as binary:
            yield binary
    except NotAvailable as why:
        pytest.skip(str(why))


def _both(reference: Path, workload: Json, mode: str, path: Path) -> tuple[Json, Json]:
    """What both sides say of who was placed where, without times."""
    path.write_text(json.dumps(workload))
    asked = [str(reference), "--candidates", mode, str(path)]
    theirs = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    result = CliRunner().invoke(cli, ["allocate", "--workload", str(path), "--candidates", mode])
    assert result.exit_code == 0, result.output
    told = ("scheduled", "unschedulable", "errors", "digest")
    ours = json.loads(result.stdout)
    return {name: ours[name] for name in told}, {name: theirs[name] for name in told}


@pytest.mark.parametrize("mode", ["1", "auto"])
@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.name)
def test_the_first_pods_of_a_workload_go_where_the_reference_puts_them(
    reference: Path, workload: Workload, mode: str, tmp_path: Path
) -> None:
    pods = FEW[mode]
    ours, theirs = _both(
        reference, workload.make(pods, FEWER.get(workload.name, NODES)), mode, tmp_path / "workload.json"
    )
    assert ours == theirs
    assert ours["scheduled"] == pods


@pytest.mark.parametrize("mode", ["1", "auto"])
def test_pods_come_and_go_as_with_the_reference(reference: Path, mode: str, tmp_path: Path) -> None:
    """A cluster of which most nodes are gone, so that walks wrap round and some pods find nothing."""
    made = WORKLOADS["match"].make(60, 100)
    kept = {f"node-{i:05d}" for i in range(0, 100, 12)}
    made["nodes"] = [node for node in made["nodes"] if node["metadata"]["name"] in kept]
    made |= {"init_pods": 5, "max_alive": 12}
    ours, theirs = _both(reference, made, mode, tmp_path / "workload.json")
    assert ours == theirs
    assert ours["unschedulable"] < ours["scheduled"]


def test_a_full_cluster_takes_nobody(reference: Path, tmp_path: Path) -> None:
    ours, theirs = _both(reference, full_cluster(30), "1", tmp_path / "workload.json")
    assert ours == theirs
    assert ours["unschedulable"] == 1


@pytest.mark.parametrize("explosion", EXPLOSIONS, ids=lambda explosion: explosion.name)
def test_small_searches_that_explode_have_the_answers_of_the_reference(
    reference: Path, explosion: Explosion, tmp_path: Path
) -> None:
    ours, theirs = _both(reference, explosion.make(4), "1", tmp_path / "workload.json")
    assert ours == theirs
    assert ours["scheduled"] == (explosion.fits or explosion.name == "groups of 7 among 252")
