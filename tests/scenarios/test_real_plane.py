"""On a real control plane: recorded answers are given again, and nothing is left behind, whatever ends a play."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.programs import CONTROLLERS, SCHEDULER, require
from devtools.scenario_table import recorded, scenarios
from devtools.scenarios import play_on, scenario_plane
from virt_dra.simulator.scenario.reading import read_scenario

pytestmark = [pytest.mark.control_plane, pytest.mark.slow]

PLAYED = (
    "the spec of a claim does not change",
    "a user without rights is refused",
    "pods share the capacity of one device",
    "an extended resource beside a claim",
)
NODE = {
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
WAITING = {"name": "waiting", "given": [NODE], "steps": [{"do": "wait", "seconds": 300}]}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    require(SCHEDULER, CONTROLLERS)
    with scenario_plane({}, {}) as running:
        yield running


def _left(plane: ControlPlane) -> list[str]:
    namespaces = [item["metadata"]["name"] for item in plane.request("GET", "/api/v1/namespaces")["items"]]
    nodes = [item["metadata"]["name"] for item in plane.request("GET", "/api/v1/nodes")["items"]]
    return [*nodes, *(name for name in namespaces if name == "play")]


@pytest.mark.parametrize("name", PLAYED)
def test_a_real_control_plane_answers_as_recorded(name: str, plane: ControlPlane) -> None:
    raw = next(raw for _, raw in scenarios() if raw["name"] == name)
    assert asyncio.run(play_on(plane, read_scenario(raw))) == recorded()[name]
    assert _left(plane) == []


def test_an_interrupted_play_leaves_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "waiting.json"
    file.write_text(json.dumps(WAITING), encoding="utf-8")
    # A shell's background job begins with interrupts ignored, and so would the command.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from virt_dra.cli.start import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "scenario", str(file), "--live", "--kubeconfig", str(plane.kubeconfig)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while "n1" not in _left(plane):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "error: interrupted\n")
    assert _left(plane) == []


def test_a_cluster_with_objects_of_others_is_left_alone(plane: ControlPlane) -> None:
    plane.create_node("somebodys")
    try:
        scenario = read_scenario(WAITING)
        with pytest.raises(RuntimeError, match="the cluster must be empty for scenarios, and has Node somebodys"):
            asyncio.run(play_on(plane, scenario))
        assert _left(plane) == ["somebodys"]
    finally:
        plane.request("DELETE", "/api/v1/nodes/somebodys")
