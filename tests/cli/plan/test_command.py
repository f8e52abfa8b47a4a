"""``virt-dra plan``: its text, document and comment, exit codes, and inputs that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.json_schema import faults, schema_named
from virt_dra.cli.main import cli
from virt_dra.cli.plan.command import PlannedFiles, planned
from virt_dra.model.cluster import ClusterModel

EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTER, CHANGE = str(EXAMPLES / "explain/cluster.yaml"), str(EXAMPLES / "plan/change.yaml")


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def test_the_plan_says_what_is_made_and_what_that_does_to_vms() -> None:
    made = asked("-f", CHANGE, "--dump", CLUSTER)
    assert made.exit_code == 1
    assert made.stdout == (
        "  + VirtualMachine team-a/vm-new\n"
        "  + DeviceTaintRule repair-node-1\n"
        "\n"
        "VMs\n"
        "  ! VM team-a/vm-a loses a device: gpu-0 of gpu.example.com/node-1: "
        "example.com/repair:NoExecute evicts its pod\n"
        "  ! VM team-a/vm-new would wait: 0/4 nodes are available: 1 node(s) were unschedulable, 3 cannot allocate all "
        "claims.\n"
        "\n"
        "Plan: 2 to create, 0 to change, 0 to delete; VMs: 1 would wait, 1 loses a device; 0 denials, 0 warnings\n"
    )


def test_a_change_without_losses_ends_with_0(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3"}, "spec": {"unschedulable": False}}
    (tmp_path / "node.yaml").write_text(yaml.safe_dump(node))
    made = asked(str(tmp_path / "node.yaml"), "--dump", CLUSTER)
    assert (made.exit_code, made.stdout) == (
        0,
        "  ~ Node node-3\n\nVMs\n    VM team-a/vm-late starts on node-3\n\n"
        "Plan: 0 to create, 1 to change, 0 to delete; VMs: 1 starts; 0 denials, 0 warnings\n",
    )


def test_a_denied_manifest_is_said_with_its_finding(tmp_path: Path) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "bad", "namespace": "team-a"},
        "spec": {
            "spec": {"devices": {"requests": [{"name": "Gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
        },
    }
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(template))
    made = asked("-f", str(tmp_path / "bad.yaml"), "--dump", CLUSTER, "-o", "json")
    document = json.loads(made.stdout)
    assert faults(document, schema_named("plan")) == []
    assert (made.exit_code, document["objects"], document["summary"]["denials"]) == (1, [], 1)
    assert [(finding["id"], finding["field"]) for finding in document["findings"]] == [
        ("invalid-object", "spec.spec.devices.requests[0].name")
    ]


def test_every_document_is_as_its_schema_says() -> None:
    for extra in ((), ("--delete", CHANGE), ("-f", CLUSTER)):
        made = asked("-f", CHANGE, *extra, "--dump", CLUSTER, "-o", "json")
        assert faults(json.loads(made.stdout), schema_named("plan")) == []


def test_the_cluster_itself_is_no_change() -> None:
    made = asked("-f", CLUSTER, "--dump", CLUSTER)
    assert (made.exit_code, made.stdout.splitlines()[-1]) == (
        0,
        "Plan: 0 to create, 0 to change, 0 to delete; VMs: none is concerned; 0 denials, 0 warnings",
    )


@pytest.mark.parametrize(("complete", "ids"), [(True, ["class-missing"]), (False, [])])
def test_what_a_cluster_that_was_read_lacks_does_not_exist(complete: bool, ids: list[str], tmp_path: Path) -> None:
    """As `lint --live` judges; a dump may lack what nobody dumped."""
    template = yaml.safe_load(Path(CLUSTER).read_text().split("kind: ResourceClaimTemplate")[1].split("---")[0])
    template |= {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    vm = next(iter(yaml.safe_load_all(Path(CHANGE).read_text())))
    (tmp_path / "change.yaml").write_text(yaml.safe_dump_all([template, vm]))
    change = PlannedFiles((str(tmp_path / "change.yaml"),), (), "default")
    report = planned(ClusterModel([]), change, 10.0, "json", complete=complete)
    assert [f.id for checked in report.findings for f in checked.findings if f.id == "class-missing"] == ids


@pytest.mark.parametrize("name", ["[x](http://evil)", "@everyone", "<img src=x>", "a|b", "`code`", "::error::x"])
def test_a_comment_shows_hostile_names_as_text(name: str, tmp_path: Path) -> None:
    vm = yaml.safe_load(Path(CHANGE).read_text().split("---")[0])
    vm["spec"]["template"]["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = name
    (tmp_path / "vm.yaml").write_text(yaml.safe_dump(vm))
    made = asked("-f", str(tmp_path / "vm.yaml"), "--dump", CLUSTER, "-o", "github")
    assert made.exit_code == 1
    assert "### What this change does to the cluster" in made.stdout
    assert name not in made.stdout
    assert not any(line.startswith("::") for line in made.stdout.splitlines())
    rows = [line for line in made.stdout.splitlines() if line.startswith("| ") and line != "| | VM |"]
    assert all(line.count("|") == 3 for line in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dump", CLUSTER), "name the manifests, e.g. virt-dra plan -f vm.yaml --live"),
        (("-f", CHANGE), "say which cluster: --live, or a dump with --dump"),
        (("-f", CHANGE, "--live", "--dump", CLUSTER), "say which cluster: --live, or a dump with --dump"),
        (("-f", "nowhere.yaml", "--dump", CLUSTER), "nowhere.yaml"),
        (("-f", CHANGE, "--dump", "nowhere.yaml"), "nowhere.yaml"),
        (("--delete", "nowhere.yaml", "--dump", CLUSTER), "nowhere.yaml"),
    ],
)
def test_bad_usage_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    made = asked(*arguments)
    assert made.exit_code == 2
    assert message in made.stderr
