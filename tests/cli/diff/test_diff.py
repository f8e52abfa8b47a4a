"""``virt-dra diff``: which VMs start and stop fitting between two states of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod, user
from virt_dra.cli.main import cli

EXAMPLES = Path(__file__).parents[3] / "examples"


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["diff", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _file(folder: Path, name: str, *parts: Any) -> str:
    objects = [obj for part in (classes(), *parts) for obj in (part if isinstance(part, list) else [part])]
    (folder / name).write_text("\n".join(json.dumps(obj) for obj in objects))
    return str(folder / name)


WHY = "VMI team-a/vm-late would wait: none of 4 nodes can take it. Nearest: node-1, request gpu: 2 devices: in use"


def test_a_vm_that_starts_and_one_that_stops_fitting() -> None:
    before, after = str(EXAMPLES / "explain" / "cluster.yaml"), str(EXAMPLES / "diff" / "after.yaml")
    starts, stops = _run(before, after), _run(after, before)
    assert (starts.exit_code, starts.stdout) == (0, f"VMI team-a/vm-late starts fitting\n  {WHY}\n")
    assert (stops.exit_code, stops.stdout) == (1, f"VMI team-a/vm-late stops fitting\n  {WHY}\n")
    assert json.loads(_run(before, after, "-o", "json").stdout) == {
        "apiVersion": "output.virt-dra.io/v1",
        "kind": "ClusterDifference",
        "changes": [{"subject": "VMI team-a/vm-late", "before": "does not fit", "after": "fits", "why": WHY}],
        "unknown": [],
    }


def test_what_is_not_known_of_a_state_is_said_once(tmp_path: Path) -> None:
    path = _file(tmp_path, "dump.json", node("n1", [gpu("g0")]))
    text = "Pods aren't given or readable: the room that they use and who runs beside whom isn't known"
    assert _run(path, path).stdout == f"no VM starts or stops fitting\nNot known: {text}\n"
    unknown = json.loads(_run(path, path, "-o", "json").stdout)["unknown"]
    assert unknown == [{"code": "PodsNotGiven", "subject": "Pod", "text": text}]


def test_nothing_changes() -> None:
    path = str(EXAMPLES / "explain" / "cluster.yaml")
    result = _run(path, path)
    assert (result.exit_code, result.stdout) == (0, "no VM starts or stops fitting\n")


def test_a_running_pod_is_tried_without_what_it_holds(tmp_path: Path) -> None:
    """It fits on its own device as long as that is there."""
    before = _file(tmp_path, "before.json", node("n1", [gpu("g0")]), user("runs", "n1", "g0"))
    after = _file(tmp_path, "after.json", node("n1", []), user("runs", "n1", "g0"), claim("c"), pod("new", ["c"]))
    result = _run(before, after)
    why = "waits: the one node can't take it. Nearest: n1, request gpu: no device on the node"
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "pod team-a/new is new, and does not fit",
        f"  pod team-a/new {why}",
        "pod team-a/runs stops fitting",
        f"  pod team-a/runs {why}",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.yaml",), "Missing argument 'AFTER'"),
        (("/nowhere.yaml", "/nowhere.yaml"), "/nowhere.yaml: no such file or folder"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], said: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.output
