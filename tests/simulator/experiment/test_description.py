"""Descriptions of experiments: what they mean, and every fault of those that mean nothing (cases/refused.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.resource_v1 import DeviceClass, ResourceSlice
from virt_dra.simulator.experiment.building import build_experiment
from virt_dra.simulator.experiment.description import read_description
from virt_dra.simulator.experiment.durations import seconds_of, shown
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import Experiment

Json = dict[str, Any]
REFUSED: Json = yaml.safe_load((Path(__file__).parent / "cases" / "refused.yaml").read_text(encoding="utf-8"))


def merged(base: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    changed = {name: merged(base.get(name), value) for name, value in patch.items()}
    return {name: value for name, value in {**base, **changed}.items() if value is not None}


def built(patch: Json, arrivals: tuple[str, list[str]] | None = None, seed: int | None = None) -> Experiment:
    description = read_description(merged(REFUSED["base"], patch), "x.yaml")
    return build_experiment(description, "x.yaml", (), arrivals, seed=seed)


@pytest.mark.parametrize("case", REFUSED["cases"], ids=lambda case: case["name"])
def test_every_fault_is_named_with_its_path(case: Json) -> None:
    with pytest.raises(BadExperiment) as refused:
        built(case["with"])
    assert sorted(refused.value.problems) == sorted(case["refused"])


def test_a_description_is_an_object() -> None:
    with pytest.raises(BadExperiment, match=r"^x\.yaml: must be an object with kind: Simulation$"):
        read_description(["kind"], "x.yaml")


def test_nodes_have_their_devices_in_slices_of_128() -> None:
    devices = [
        {
            "driver": "gpu.example.com",
            "count": 130,
            "name": "gpu",
            "perRoot": 4,
            "perNumaNode": 65,
            "capacity": {"memory": "8Gi"},
        }
    ]
    experiment = built({"cluster": {"nodes": [{"name": "n", "devices": devices}]}})
    assert [
        (slice_.name, slice_.spec.pool.resource_slice_count, len(slice_.spec.devices))
        for slice_ in experiment.cluster.of(ResourceSlice)
    ] == [
        ("n-0-gpu.example.com-0", 2, 128),
        ("n-0-gpu.example.com-1", 2, 2),
    ]
    last = experiment.cluster.of(ResourceSlice)[1].spec.devices[1]
    assert last.name == "gpu-129"
    assert {name: value.to_wire() for name, value in last.attributes.items()} == {
        "numaNode": {"int": 1},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:20"},
    }
    assert [(class_.name, class_.spec.selectors[0].to_wire()) for class_ in experiment.cluster.of(DeviceClass)] == [
        ("gpu.example.com", {"cel": {"expression": "device.driver == 'gpu.example.com'"}})
    ]


def test_arrivals_at_given_times_and_in_steps() -> None:
    assert [arrival.at for arrival in built({"vms": [{"name": "one", "arrivals": {"at": ["2m", 30]}}]}).arrivals] == [
        30.0,
        120.0,
    ]
    stepped = built({"vms": [{"name": "one", "arrivals": {"every": "10s", "begin": "5s", "end": "30s"}}]}).arrivals
    assert [(arrival.name, arrival.at) for arrival in stepped] == [("one-0", 5.0), ("one-1", 15.0), ("one-2", 25.0)]


def test_drawn_arrivals_are_those_of_the_seed() -> None:
    wanted: Json = {"vms": [{"name": "one", "lifetime": {"mean": "1h"}, "arrivals": {"rate": "60/h", "count": 2000}}]}
    first, same, other = built(wanted, seed=1), built(wanted, seed=1), built(wanted, seed=2)
    facts = [[(arrival.at, arrival.lifetime) for arrival in experiment.arrivals] for experiment in (first, same, other)]
    assert facts[0] == facts[1] != facts[2]
    gaps = [b.at - a.at for a, b in zip(first.arrivals, first.arrivals[1:], strict=False)]
    assert sum(gaps) / len(gaps) == pytest.approx(60, rel=0.1)
    assert sum(arrival.lifetime or 0 for arrival in first.arrivals) / 2000 == pytest.approx(3600, rel=0.1)


def test_arrivals_of_a_file() -> None:
    vms: Json = {"vms": [{"name": "one", "priority": 3, "lifetime": "1h"}, {"name": "two"}]}
    lines = ["at,vm,name,lifetime,priority,gang\n", "5m,one,,,,\n", "10,two,mine,2h,7,4\n"]
    assert [
        (arrival.at, arrival.shape.name, arrival.name, arrival.lifetime, arrival.priority, arrival.members)
        for arrival in built(vms, ("a.csv", lines)).arrivals
    ] == [(10.0, "two", "mine", 7200.0, 7, 4), (300.0, "one", "one-line-2", 3600.0, 3, 1)]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "a.csv: is empty; the first line names the columns at, vm, name, lifetime, priority, gang"),
        (["vm\n"], "a.csv:1: column 'at' is missing; the columns are at, vm, name, lifetime, priority, gang"),
        (["at,vm,prio\n"], "a.csv:1: unknown column 'prio'; the columns are at, vm, name, lifetime, priority, gang"),
        (["at,vm\n", "1m,onee\n"], "a.csv:2: vm: there is no kind of VM called 'onee'; did you mean one?"),
        (["at,vm\n", ",one\n"], "a.csv:2: at: is required"),
        (["at,vm,lifetime\n", "1,one,-3s\n"], "a.csv:2: lifetime: must not be negative, is -3s"),
        (["at,vm,gang\n", "1,one,0\n"], "a.csv:2: gang: must be 1 to 1000, is 0"),
        (["at,vm,priority\n", "1,one,high\n"], "a.csv:2: priority: must be a whole number, is 'high'"),
        (["at,vm\n", "1,one,more\n"], "a.csv:2: more values than the 2 columns"),
        (["at,vm,at\n"], "a.csv:1: there are 2 columns 'at'"),
        (["at,vm\n", '1,"one\n'], "a.csv:2: not CSV: unexpected end of data"),
    ],
)
def test_faults_of_an_arrivals_file(lines: list[str], problem: str) -> None:
    with pytest.raises(BadExperiment) as refused:
        built({"vms": [{"name": "one"}]}, ("a.csv", lines))
    assert refused.value.problems == (problem,)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), (1.5, 1.5), ("250ms", 0.25), ("1h30m", 5400.0), ("2d", 172800.0), ("1w", 604800.0)],
)
def test_durations(text: object, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1h30", "1 h", "1y", "1e9", True, None, "9" * 40, "200000d"])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|years"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5s"), (59.94, "59.9s"), (60, "1m"), (61, "1m1s"), (5400, "1h30m"), (200000, "2d7h"), (86401, "1d")],
)
def test_durations_are_shown_in_two_units(seconds: float, text: str) -> None:
    assert shown(seconds) == text
