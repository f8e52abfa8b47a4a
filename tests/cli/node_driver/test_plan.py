"""``virt-dra node-driver --plan``: whole outputs by machine, errors of policies, and that it changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.json_schema import faults, schema_named
from tests.node_driver.machine_trees import MACHINES, MachineTree, machine
from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.api.validation import Rules, validate_create
from virt_dra.cli.node_driver.command import command

HERE = Path(__file__).parent
POLICIES = sorted(path.stem for path in (HERE / "policies").glob("*.yaml"))


def plan(tree: MachineTree, policy: Path | str, *more: str, text: str | None = None) -> Result:
    arguments = ["--plan", "--sysfs", str(tree.sysfs), "--proc", str(tree.folder / "proc")]
    arguments += ["--node-policy", str(policy)]
    return CliRunner().invoke(command, [*arguments, "--modules", str(tree.folder / "modules"), *more], input=text)


def policy_of(*sets: dict[str, Any], **spec: Any) -> str:
    return json.dumps({
        "apiVersion": "virt-dra.io/v1alpha1", "kind": "VirtDraNodePolicy", "metadata": {"name": "p"},
        "spec": {"deviceSets": list(sets), **spec},
    })  # fmt: skip


def test_every_machine_has_a_policy() -> None:
    assert sorted(path.stem for path in MACHINES.glob("*.yaml")) == POLICIES


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("output", ["yaml", "table"])
def test_the_whole_plan_of_a_machine(name: str, output: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    result = plan(machine(name, tmp_path), HERE / f"policies/{name}.yaml", "-o", output, "-v")
    golden = HERE / f"golden/{name}.{output}"
    if request.config.getoption("--update-golden"):
        golden.write_text(result.output, encoding="utf-8")
    assert result.output == golden.read_text(encoding="utf-8")
    assert result.exit_code == 0


@pytest.mark.parametrize("name", POLICIES)
def test_slices_are_as_an_api_server_takes_them_and_the_document_as_its_schema_says(name: str, tmp_path: Path) -> None:
    document = json.loads(plan(machine(name, tmp_path), HERE / f"policies/{name}.yaml", "-o", "json", "-v").output)
    assert faults(document, schema_named("node-driver-plan")) == []
    published = set()
    for raw in document["resourceSlices"]:
        named = {**raw, "metadata": {"name": "slice", "ownerReferences": []}}
        obj = read_object({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **named})
        assert isinstance(obj, ResourceSlice)
        assert validate_create(obj, Rules(gates=FeatureGates.all())) == ()
        published |= {device.name for device in obj.spec.devices}
    assert {device["name"] for device in document["devices"]} == published


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    tree = machine("sriov-nic", tmp_path)
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    plan(tree, HERE / "policies/sriov-nic.yaml")
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_all_errors_of_a_policy_come_at_once_with_their_paths(tmp_path: Path) -> None:
    wrong = policy_of({"name": "gpus", "selects": [{}], "select": [{"vendr": "10de", "class": "3"}], "sanitize": 1})
    result = plan(machine("pci-bridge", tmp_path), "-", "-o", "table", text=wrong)
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        'error: -:1: spec.deviceSets[0].selects: unknown field, did you mean "select"?',
        'error: -:1: spec.deviceSets[0].select[0].vendr: unknown field, did you mean "vendor"?',
        "error: -:1: spec.deviceSets[0].sanitize: must be a string, not an integer",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "-: it has no VirtDraNodePolicy"),
        ("[]", "-:1: it isn''t an object"),
        ("{kind: VirtDraNodePolicies, apiVersion: virt-dra.io/v1alpha1}", "did you mean VirtDraNodePolicy?"),
        ("{kind: Pod, apiVersion: v1}", "-:1: Pod is no VirtDraNodePolicy"),
        ("a: [", "line 2, column 1, document 1: not YAML"),
        (policy_of({"name": "x", "select": [{"class": "3"}]}), "spec.deviceSets[0].select[0].class: Invalid value"),
    ],
    ids=["empty", "list", "kind", "pod", "broken", "class"],
)
def test_what_isnt_a_policy_is_refused(text: str, message: str, tmp_path: Path) -> None:
    result = plan(machine("pci-bridge", tmp_path), "-", text=text)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_nothing_to_publish_ends_with_1_and_says_why(tmp_path: Path) -> None:
    none = policy_of({"name": "none", "select": [{"vendor": "1022"}]})
    result = plan(machine("pci-bridge", tmp_path), "-", "-o", "table", text=none)
    assert result.exit_code == 1
    assert "p/none: no function has vendor 1022 (there are 1234, 1b36, 8086)" not in result.output
    assert "p/none: no function has vendor 1022 (there are 1234, 1b36)" in result.output


def test_labels_choose_policies(tmp_path: Path) -> None:
    labelled = policy_of({"name": "all", "select": [{}]}, nodeSelector={"matchLabels": {"gpu": "yes"}})
    tree = machine("pci-bridge", tmp_path)
    assert plan(tree, "-", text=labelled).exit_code == 1
    assert plan(tree, "-", "--label", "gpu=yes", text=labelled).exit_code == 0


def test_a_copy_without_proc_counts_every_disk_as_needed(tmp_path: Path) -> None:
    tree = machine("gpu-workstation", tmp_path)
    result = CliRunner().invoke(
        command,
        [
            *["--plan", "-o", "table"],
            "--sysfs",
            str(tree.sysfs),
            "--node-policy",
            str(HERE / "policies/gpu-workstation.yaml"),
        ],
    )
    assert "0000:06:00.0: it has the disk nvme1n1, and which disks the node uses isn't known" in result.output


def test_a_folder_that_isnt_sysfs_is_refused(tmp_path: Path) -> None:
    result = plan(MachineTree(tmp_path), HERE / "policies/pci-bridge.yaml", "-o", "json")
    assert result.exit_code == 2
    assert "holds nothing of what /sys holds" in json.loads(result.output)["error"]


@pytest.mark.parametrize("arguments", [[], ["--plan"], ["--plan", "--node-policy", "-", "--label", "gpu"]])
def test_usage_errors(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2
