"""``virt-dra scenario`` as a user meets it: states, differences, JSON lines, exit codes, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.jsonl.answers import members_of
from virt_dra.cli.main import cli

REQUESTS = Path(__file__).parents[3] / "examples" / "requests"
SCENARIO, ANSWERS = str(REQUESTS / "scenario.yaml"), str(REQUESTS / "scenario.answers.jsonl")


def _run(*arguments: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["scenario", *arguments], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_states_are_shown_in_order() -> None:
    result = _run(SCENARIO)
    assert result.exit_code == 0
    labels = [line.strip() for line in result.stdout.splitlines() if line.endswith(":")]
    assert labels == ["waiting-for-a-device:", "bound:", "waits:", "end:"]


def test_what_json_printed_can_be_expected(tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(_run(SCENARIO, "-o", "json").stdout, encoding="utf-8")
    result = _run(SCENARIO, "--expect", str(answers))
    assert (result.stdout, result.exit_code) == ("waiting-for-a-device: as expected\n", 0)


def test_a_difference_is_shown_and_ends_with_one(tmp_path: Path) -> None:
    answer = json.loads(Path(ANSWERS).read_text(encoding="utf-8"))
    answer["states"]["end"]["Pod"]["p"]["phase"] = "Failed"
    expected = tmp_path / "answers.jsonl"
    expected.write_text(json.dumps(answer), encoding="utf-8")
    result = _run(SCENARIO, "--expect", str(expected))
    assert result.exit_code == 1
    assert result.stdout == (
        'waiting-for-a-device: 1 difference\n  states.end.Pod.p.phase: wanted "Failed", found "Succeeded"\n'
    )


@pytest.mark.parametrize("text", ["{\n", '{\n"scenarios": 1}', "[]", '{"name": '])
def test_answers_that_cannot_be_read_are_bad_input(text: str, tmp_path: Path) -> None:
    expected = tmp_path / "answers.json"
    expected.write_text(text, encoding="utf-8")
    result = _run(SCENARIO, "--expect", str(expected))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {expected}: ")


def test_lines_are_answered_in_order_and_bad_ones_with_an_error() -> None:
    lines = [
        '{"name": "a"}',
        "nonsense",
        '{"name": "b", "steps": [{"do": "aply"}]}',
        "",
        '{"name": "c", "steps": [{"do": "wait", "seconds": 600}]}',
    ]
    result = _run("--jsonl", text="\n".join(lines))
    answers = [members_of(line, "ScenarioAnswer") for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [(answer["name"], "error" in answer) for answer in answers] == [
        ("a", False),
        (None, True),
        ("b", True),
        ("c", False),
    ]
    assert answers[2]["error"].startswith("line 3: steps[0].do: aply is not known; did you mean apply?")
    assert answers[0] == {"name": "a", "refusals": [], "states": {"end": {"events": []}}}


def test_faults_of_all_files_are_named_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "name: a\nsteps: [{do: wait, seconds: -1}]\n---\nname: b\ngates: {DRADeviceTaint: true}\n", encoding="utf-8"
    )
    result = _run(str(file))
    assert result.exit_code == 2
    first, second = result.stderr.splitlines()
    assert first.startswith(f"error: {file}:1: steps[0].seconds: must be a number of seconds")
    assert second.endswith("gates: unrecognized feature gate: DRADeviceTaint; did you mean DRADeviceTaints?")


def test_gates_that_only_a_real_cluster_has_are_named() -> None:
    result = _run("-", text='{"name": "a", "gates": {"NodeDeclaredFeatures": true}}')
    assert result.exit_code == 0
    assert result.stderr == "a: the embedded cluster does not have NodeDeclaredFeatures; played without\n"


def test_a_scenario_of_classic_dra_is_played() -> None:
    """C-18.5, C-18.6"""
    result = _run(str(REQUESTS / "classic-scenario.yaml"), "-o", "json")
    assert result.exit_code == 0
    states = json.loads(result.stdout)["scenarios"][0]["states"]
    nodes = {
        label: {name: pod.get("nodeName") for name, pod in state["Pod"].items()} for label, state in states.items()
    }
    assert nodes == {"bound": {"p": "n1"}, "waits": {"p": "n1", "q": None}, "end": {"q": "n1"}}
    assert states["waits"]["PodSchedulingContext"] == {
        "q": {
            "spec": {"selectedNode": "n1", "potentialNodes": ["n1"]},
            "status": {"resourceClaims": [{"name": "c", "unsuitableNodes": ["n1"]}]},
        }
    }


@pytest.mark.parametrize(
    ("release", "kind"), [("1.26", "PodScheduling"), ("1.27", "PodSchedulingContext"), ("1.29", "PodSchedulingContext")]
)
def test_older_releases_have_their_own_kinds(release: str, kind: str) -> None:
    """C-18.1"""
    raw = yaml.safe_load((REQUESTS / "classic-scenario.yaml").read_text(encoding="utf-8"))
    answer = members_of(_run("--jsonl", text=json.dumps({**raw, "kubernetes": release})).stdout, "ScenarioAnswer")
    assert {label: tuple(state) for label, state in answer["states"].items()} == {
        "bound": ("Pod", "ResourceClaim", "events"),
        "waits": ("Pod", "ResourceClaim", kind, "events"),
        "end": ("Pod", "ResourceClaim", "events"),
    }


def test_a_cluster_that_cannot_be_reached_is_no_traceback(tmp_path: Path) -> None:
    result = _run(SCENARIO, "--live", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "could not be played: kubeconfig" in result.stdout


CLASSIC = REQUESTS / "classic-scenario.yaml"


@pytest.mark.parametrize("kubernetes", [None, "1.30"])
def test_a_symbol_that_was_never_seen_is_named(kubernetes: str | None, tmp_path: Path) -> None:
    scenario = {"name": "s", "given": [], "steps": [{"do": "delete", "kind": "ResourceClaim", "name": "@nope"}]}
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario if kubernetes is None else {**scenario, "kubernetes": kubernetes}))
    result = _run(str(path))
    said = "s: could not be played: steps[0]: @nope: no ResourceClaim of that symbol was seen\n"
    assert (result.stdout, result.exit_code) == (said, 1)


def test_a_patch_that_breaks_the_shape_of_a_classic_claim_is_refused(tmp_path: Path) -> None:
    scenario = yaml.safe_load(CLASSIC.read_text(encoding="utf-8"))
    patch = {"status": {"allocation": {"resourceHandles": "none"}}}
    step = {"do": "patch", "kind": "ResourceClaim", "name": "@p/c", "patch": patch, "subresource": "status"}
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({**scenario, "steps": [*scenario["steps"][:2], step]}))
    (refusal,) = json.loads(_run(str(path), "-o", "json").stdout)["scenarios"][0]["refusals"]
    assert (refusal["step"], refusal["code"], refusal["reason"]) == (2, 422, "Invalid")
    assert "status.allocation.resourceHandles: must be a list, not a string" in refusal["message"]
