"""``virt-dra node-check``: whole outputs by node, its exit codes, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.json_schema import faults, schema_named
from tests.node_driver.machine_trees import MACHINES, described_machine
from virt_dra.cli.main import cli

HERE = Path(__file__).parent
NODES = sorted(path.stem for path in (HERE / "nodes").glob("*.yaml"))
LEVELS = {"ok": 0, "info": 0, "warning": 1, "error": 2}
SWEPT = """\
{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: kv}, status: {observedKubeVirtVersion: v1.8.2}}
"""


def node_check(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["node-check", *arguments], input=text)


def node(name: str, folder: Path) -> list[str]:
    """The arguments that examine a described node, whose tree is written to the folder."""
    described: dict[str, Any] = yaml.load((HERE / f"nodes/{name}.yaml").read_text(), yaml.BaseLoader)
    machine = described
    if "machine" in described:
        machine = yaml.load((MACHINES / f"{described['machine']}.yaml").read_text(), yaml.BaseLoader)
    described_machine({**machine, "files": machine.get("files", {}) if machine is not described else {}}, folder)
    for path, text in described["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{text}\n")
    arguments = ["--host-root", str(folder)]
    if "policy" in described:
        arguments += ["--node-policy", str(HERE / described["policy"])]
    if "kubevirt" in described:
        (folder / "kubevirt.yaml").write_text(described["kubevirt"])
        arguments += ["--filename", str(folder / "kubevirt.yaml")]
    return arguments


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("output", ["text", "json"])
def test_all_that_is_said_of_a_node(name: str, output: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    result = node_check(*node(name, tmp_path), "-o", output)
    golden = HERE / f"golden/{name}.{output}"
    if request.config.getoption("--update-golden"):
        golden.write_text(result.output, encoding="utf-8")
    assert result.output == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NODES)
def test_the_exit_code_is_of_the_worst_finding_whichever_are_shown(name: str, tmp_path: Path) -> None:
    arguments = node(name, tmp_path)
    whole, quiet = (node_check(*arguments, "-o", "json", *more) for more in ((), ("-q",)))
    findings = json.loads(whole.output)["findings"]
    assert faults(json.loads(whole.output), schema_named("check")) == []
    worst = max(LEVELS[finding["level"]] for finding in findings)
    assert (whole.exit_code, quiet.exit_code) == (worst, worst)
    assert json.loads(quiet.output)["findings"] == [finding for finding in findings if LEVELS[finding["level"]]]


def test_what_needs_doing_has_a_cure(tmp_path: Path) -> None:
    without = [
        finding
        for number, name in enumerate(NODES)
        for finding in json.loads(node_check(*node(name, tmp_path / str(number)), "-o", "json").output)["findings"]
        if LEVELS[finding["level"]] and not finding.get("advice")
    ]
    assert {finding["id"] for finding in without} <= {"policy"}, "its messages end with the cure"
    assert all(";" in finding["message"] for finding in without)


def test_nothing_is_written(tmp_path: Path) -> None:
    arguments = node("workstation", tmp_path)
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    node_check(*arguments)
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ((), None, "sys holds nothing of what /sys holds: there is no folder bus"),
        (("-f", "-"), "{apiVersion: v1, kind: Node, metadata: {name: worker}}", "-: it has no KubeVirt"),
        (("-f", "-"), "a: [", "not YAML"),
        (("-f", "-"), "{apiVersion: kubevirt.io/v1, kind: KubeVirt, spec: 3}", "must be an object"),
        (("--node-policy", "-"), "", "-: it has no VirtDraNodePolicy"),
        (("--label", "a"), None, "isn't KEY=VALUE"),
        (("--kubevirt-version", "one"), None, "is no KubeVirt version"),
    ],
    ids=["root", "node", "broken", "spec", "policy", "label", "version"],
)
def test_input_that_can_not_be_used_ends_with_2(
    arguments: tuple[str, ...], text: str | None, message: str, tmp_path: Path
) -> None:
    result = node_check("--host-root", str(tmp_path), *arguments, text=text)
    assert (result.exit_code, message in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    ("machine", "version", "levels"),
    [
        ("mdev-card", (), ["error"]),
        ("mdev-card", ("--kubevirt-version", "main"), ["ok"]),
        ("pci-bridge", (), []),
    ],
)
def test_a_sweep_matters_where_there_are_mediated_devices(
    machine: str, version: tuple[str, ...], levels: list[str], tmp_path: Path
) -> None:
    described = yaml.load((MACHINES / f"{machine}.yaml").read_text(), yaml.BaseLoader)
    described_machine(described, tmp_path)
    result = node_check("--host-root", str(tmp_path), "-f", "-", *version, "-o", "json", text=SWEPT)
    findings = json.loads(result.output)["findings"]
    assert [finding["level"] for finding in findings if finding["id"] == "mdev-sweep"] == levels


@pytest.mark.parametrize(
    ("labels", "level"), [((), "ok"), (("--label", "gpu=t4"), "ok"), (("--label", "gpu=a10"), "error")]
)
def test_a_sweep_is_judged_by_the_nodes_labels(labels: tuple[str, ...], level: str, tmp_path: Path) -> None:
    described = yaml.load((MACHINES / "mdev-card.yaml").read_text(), yaml.BaseLoader)
    described_machine(described, tmp_path)
    kubevirt = yaml.safe_load(SWEPT)
    types = ["nvidia-222", "nvidia-231", "nvidia-232", "nvidia-233", "mtty-1"]
    made = {"nodeMediatedDeviceTypes": [{"nodeSelector": {"gpu": "t4"}, "mediatedDeviceTypes": types}]}
    kubevirt["spec"] = {"configuration": {"mediatedDevicesConfiguration": made}}
    arguments = ("--host-root", str(tmp_path), "-f", "-", *labels, "-o", "json")
    findings = json.loads(node_check(*arguments, text=yaml.safe_dump(kubevirt)).output)["findings"]
    assert [finding["level"] for finding in findings if finding["id"] == "mdev-sweep"] == [level]


def test_this_machine_can_be_examined() -> None:
    result = node_check("-o", "json")
    assert {"iommu", "vfio", "kvm", "devices"} <= {finding["id"] for finding in json.loads(result.output)["findings"]}
    assert result.exit_code in LEVELS.values()
