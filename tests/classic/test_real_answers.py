"""The embedded classic control plane gives the answers that real ones of 1.30.14 and 1.31.14 gave, with a driver on
Kubernetes' own library (C-18).

``answers/*.jsonl`` are recorded by ``python -m devtools.classic --record``; ``deviations.yaml`` names the scenarios in
which ours deliberately answers otherwise, with the reason: they must still differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from devtools.classic.answers import ROOT, deviations, read, recorded, recorded_form
from devtools.classic.random_scenarios import random_scenarios
from devtools.classic.real import classic_plane, play_really
from devtools.cluster.programs import CLASSIC, require_classic
from virt_dra.api.wire import Json
from virt_dra.cli.main import cli
from virt_dra.simulator.scenario.comparing import differences
from virt_dra.simulator.scenario.embedded_target import performed
from virt_dra.simulator.scenario.scenario import Scenario

SCENARIOS = [
    pytest.param(release, scenario, id=f"{release} {scenario.name}")
    for release in CLASSIC
    for scenario in read(release)
]


@pytest.mark.parametrize(("release", "scenario"), SCENARIOS)
def test_ours_answers_as_the_real_control_plane_did(release: str, scenario: Scenario) -> None:
    """C-18."""
    differing = list(differences(recorded(release)[scenario.name], recorded_form(performed(scenario))))
    if scenario.name in deviations(release):
        assert differing, f"{scenario.name} no longer differs: take it off the list"
    else:
        assert differing == []


@pytest.mark.parametrize("release", CLASSIC)
def test_every_scenario_is_recorded_and_every_deviation_is_about_one(release: str) -> None:
    names = [scenario.name for scenario in read(release)]
    assert sorted(names) == sorted(recorded(release))
    assert deviations(release).keys() <= set(names)
    assert all(len(reason) > 20 for reason in deviations(release).values())


@pytest.mark.parametrize("release", CLASSIC)
def test_random_scenarios_are_those_of_their_seed_and_play_without_a_refusal(release: str) -> None:
    """What ``--random`` compares: pods come, and some of them run."""
    scenarios = random_scenarios(release, 8, 1)
    assert scenarios == random_scenarios(release, 8, 1) != random_scenarios(release, 8, 2)
    answers = [recorded_form(performed(scenario)) for scenario in scenarios]
    assert [answer["refusals"] for answer in answers] == [[]] * len(answers)
    pods = [pod for answer in answers for pod in answer["states"]["end"].get("Pod", {}).values()]
    assert {bool(pod.get("nodeName")) for pod in pods} == {True, False}


@pytest.mark.control_plane
@pytest.mark.slow
@pytest.mark.parametrize("release", CLASSIC)
def test_a_real_control_plane_answers_as_recorded(release: str) -> None:
    require_classic(release)
    played = [scenario for scenario in read(release) if scenario.name in ("one pod, one claim", "refused contexts")]
    with classic_plane(release) as plane:
        for scenario in played:
            assert play_really(scenario, plane) == recorded(release)[scenario.name]


@pytest.mark.control_plane
@pytest.mark.slow
def test_the_command_plays_classic_scenarios_on_a_real_control_plane(tmp_path: Path) -> None:
    """Without drivers; those of another release, and those with drivers, are refused before anything is done."""
    release = "1.30.14"
    require_classic(release)
    given = {document["name"]: document for document in _documents(release)}["structured: one instance"]
    del given["drivers"]
    stories = [
        given,
        {**given, "name": "another release", "kubernetes": "1.31", "given": [], "steps": []},
        {"name": "with drivers", "kubernetes": "1.30", "drivers": {"gpu.example.com": {}}},
    ]
    text = "".join(f"{json.dumps(story)}\n" for story in stories)
    with classic_plane(release) as plane:
        live = CliRunner().invoke(cli, ["scenario", "--jsonl", "--live", "--kubeconfig", str(plane.kubeconfig)], text)
    real, *errors = map(json.loads, live.stdout.splitlines())
    embedded = CliRunner().invoke(cli, ["scenario", "--jsonl"], text)
    assert list(differences(real, json.loads(embedded.stdout.splitlines()[0]))) == []
    assert [answer["error"] for answer in errors] == [
        "the scenario is about Kubernetes 1.31, and the cluster is 1.30",
        "drivers: gpu.example.com would have to run on that cluster, and only the embedded cluster can start it as "
        "described; play the scenario without --live, or leave drivers out and start your own there",
    ]


def _documents(release: str) -> Iterator[Json]:
    yield from yaml.load_all((ROOT / "cases" / f"{release}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
