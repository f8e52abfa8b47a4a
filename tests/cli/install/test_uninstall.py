"""What a removal removes and keeps, and how ``virt-dra uninstall`` is used; on a real API server: test_cluster.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from virt_dra.cli.main import cli
from virt_dra.installation.plan import ObjectKey
from virt_dra.installation.removal import Removal, namespaces_of, removal

Json = dict[str, Any]
OURS = {"app.kubernetes.io/part-of": "virt-dra"}
VMIS = "virtualmachineinstances.kubevirt.io"
DEVICES = "virtualmachineinstancedevices.virt-dra.io"


def obj(kind: str, name: str, namespace: str = "", *, labels: dict[str, str] | None = None, **metadata: Any) -> Json:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": OURS if labels is None else labels, **metadata},
    }


def vmi(name: str, **annotations: str) -> Json:
    return {"metadata": {"name": name, "namespace": "tenant", "annotations": annotations}}


THERE = [
    obj("Namespace", "virt-dra"),
    obj("Namespace", "older"),
    obj("CustomResourceDefinition", VMIS),
    obj("CustomResourceDefinition", DEVICES),
    obj("ClusterRole", "virt-dra-view"),
    obj("Deployment", "virt-dra-operator", "virt-dra"),
    obj("ValidatingWebhookConfiguration", "virt-dra"),
    obj("Lease", "virt-dra-operator", "virt-dra"),
    obj("Secret", "of-a-pod", "virt-dra", ownerReferences=[{"name": "x"}]),
    obj("Secret", "foreign", "virt-dra", labels={}),
]
STORED = {VMIS: [vmi("a", **{"virt-dra.io/device-status": "{}"}), vmi("b", mine="1")], DEVICES: [vmi("a")]}


def test_vms_stay_and_lose_only_what_the_operator_wrote() -> None:
    assert removal("virt-dra", THERE, STORED, delete_vms=False) == Removal(
        "virt-dra",
        (
            ObjectKey("Lease", "virt-dra", "virt-dra-operator"),
            ObjectKey("ValidatingWebhookConfiguration", "", "virt-dra"),
            ObjectKey("Deployment", "virt-dra", "virt-dra-operator"),
            ObjectKey("ClusterRole", "", "virt-dra-view"),
            ObjectKey("CustomResourceDefinition", "", DEVICES),
            ObjectKey("Namespace", "", "virt-dra"),
        ),
        (ObjectKey("VirtualMachineInstance", "tenant", "a"),),
        (VMIS,),
        {DEVICES: 1},
    )


def test_vms_go_with_their_definition_where_that_is_asked_for() -> None:
    plan = removal("virt-dra", THERE, STORED, delete_vms=True)
    assert ObjectKey("CustomResourceDefinition", "", VMIS) in plan.keys
    assert (plan.annotated, plan.kept, plan.lost) == ((), (), {DEVICES: 1, VMIS: 2})
    assert f"to be deleted with it: 2 objects of {VMIS}" in plan.sentences()


def test_vmis_of_kubevirt_are_never_touched_but_for_the_annotation() -> None:
    without_ours = [obj for obj in THERE if obj["metadata"]["name"] != VMIS]
    plan = removal("virt-dra", without_ours, STORED, delete_vms=True)
    assert plan.annotated == (ObjectKey("VirtualMachineInstance", "tenant", "a"),)
    assert VMIS not in plan.lost


@pytest.mark.parametrize("name", ["virt-dra.io/device-status", "virt-dra.io/pod-retry"])
def test_each_annotation_of_the_operator_leaves_kubevirts_vmis(name: str) -> None:
    annotated = {"metadata": {"name": "b", "namespace": "tenant", "annotations": {name: "x", "of/another": "y"}}}
    plan = removal("virt-dra", [], {VMIS: (annotated,)}, delete_vms=False)
    key = ObjectKey("VirtualMachineInstance", "tenant", "b")
    assert plan.annotated == (key,)
    assert plan.sentences()[-1] == (
        f"annotations virt-dra.io/device-status and virt-dra.io/pod-retry to be removed: {key}"
    )


def test_it_is_found_by_its_deployments_and_namespaces() -> None:
    assert namespaces_of([obj("Deployment", "o", "a"), obj("Deployment", "w", "a")], [obj("Namespace", "b")]) == (
        "a",
        "b",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "json"), "-o yaml and json go with --yes or --dry-run"),
        (("--own-namespace", "kube-system"), "'kube-system' belongs to the cluster"),
    ],
)
def test_bad_usage_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(cli, ["uninstall", *arguments])
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["uninstall", "--kubeconfig", str(tmp_path / "none"), "--yes"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
