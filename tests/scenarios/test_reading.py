"""Scenarios that can't be played are refused before anything is done, with every fault and its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.simulator.scenario.gates import ELSEWHERE, EMBEDDED, not_embedded
from virt_dra.simulator.scenario.reading import ScenarioError, read_scenario

FAULTS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "faults.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", FAULTS)
def test_every_fault_is_named_with_its_field(case: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_scenario(FAULTS[case]["scenario"])
    assert [f"{path}: {message}" if path else message for path, message in raised.value.problems] == FAULTS[case][
        "problems"
    ]


@pytest.mark.parametrize("raw", [None, 1, "text", [], [1], True])
def test_what_is_no_object_is_no_scenario(raw: object) -> None:
    with pytest.raises(ScenarioError, match="a scenario must be a JSON object"):
        read_scenario(raw)


def test_an_object_that_was_removed_and_applied_again_is_there() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    steps = [{"do": "stop", "pods": ["p"]}, {"do": "apply", "objects": [pod]}, {"do": "run", "pods": ["p"]}]
    assert len(read_scenario({"name": "x", "given": [pod], "steps": steps}).steps) == 3


def test_an_object_with_finalizers_or_deleted_by_a_user_may_still_be_there() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p", "finalizers": ["example.com/f"]}}
    other = {"kind": "Pod", "metadata": {"name": "q"}}
    steps = [
        {"do": "stop", "pods": ["p"]},
        {"do": "stop", "pods": ["q"], "as": {"user": "alice"}},
        {"do": "run", "pods": ["p", "q"]},
    ]
    assert read_scenario({"name": "x", "given": [pod, other], "steps": steps}).steps[1].user is not None


@pytest.mark.parametrize("gate", sorted(EMBEDDED | ELSEWHERE))
def test_every_gate_of_dra_can_be_set(gate: str) -> None:
    """C-2.1"""
    on = {
        "GenericWorkload": True,
        "TopologyAwareWorkloadScheduling": True,
        "DRAPartitionableDevices": True,
        "DRAResourcePoolStatus": True,
        "DRAConsumableCapacity": True,
    }
    scenario = read_scenario({"name": "x", "gates": {**on, gate: True}})
    assert scenario.gate_texts[gate] is True


def test_gates_that_the_embedded_cluster_does_not_have_are_named() -> None:
    assert not_embedded({"NodeDeclaredFeatures": True, "DRAAdminAccess": True, "DynamicResourceAllocation": True}) == (
        "NodeDeclaredFeatures",
    )
