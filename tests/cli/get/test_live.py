"""``virt-dra get --live`` on a real API server: with a user's own rights, where there is no KubeVirt, and as rows
change."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.operator import Vms
from virt_dra.cli.main import cli

pytestmark = pytest.mark.control_plane

GPU, OTHER = "0000:41:00.0", "0000:42:00.0"
NO_KUBEVIRT = (
    "left out, as this cluster doesn't serve them: VirtualMachine "
    "(kubevirt.io/v1), VirtualMachineInstance (kubevirt.io/v1), "
    "VirtualMachineInstanceDevices (virt-dra.io/v1alpha1)\n"
)


def get(kubeconfig: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["get", *arguments, "--live", "--kubeconfig", str(kubeconfig)])


def test_a_vm_and_its_device_are_shown(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    vms.create("vm")
    vms.allocate("vm")
    result = get(control_plane.kubeconfig, "vms", "-n", namespace, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    (row,) = json.loads(result.stdout)["items"]
    assert (row["metadata"]["name"], row["object"], row["ready"]) == ("vm", "VirtualMachineInstance", "1/1")
    (device,) = row["devices"]
    assert (device["address"], device["resolved"], device.get("reason")) == (GPU, True, None)
    held_here = get(control_plane.kubeconfig, "devices", "--field-selector", f"namespace={namespace}", "-o", "json")
    (held,) = json.loads(held_here.stdout)["items"]
    assert (held["address"], held["states"], held["heldBy"][0]["vm"]) == (GPU, ["allocated"], "vm")
    (claim,) = json.loads(get(control_plane.kubeconfig, "claims", "-n", namespace, "-o", "json").stdout)["items"]
    assert (claim["state"], claim["for"][0]["vm"]) == ("reserved", "vm")


def test_without_kubevirt_it_says_so_and_shows_the_launcher_pod(control_plane: ControlPlane, namespace: str) -> None:
    labels = {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": "old"}
    containers = [{"name": "compute", "image": "launcher"}]
    pod = {"metadata": {"name": "virt-launcher-old-x7k2p", "labels": labels}, "spec": {"containers": containers}}
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    result = get(control_plane.kubeconfig, "vms", "-n", namespace, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, NO_KUBEVIRT)
    assert [(row["metadata"]["name"], row["object"], row["phase"]) for row in json.loads(result.stdout)["items"]] == [
        ("old", "Pod", "Pending")
    ]


def test_a_user_sees_what_they_may_read_and_is_told_what_not(
    control_plane: ControlPlane, namespace: str, vms: Vms
) -> None:
    vms.create("vm")
    vms.allocate("vm")
    rules = [{"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["list"]}]
    kubeconfig = account(control_plane, namespace, rules)
    result = get(kubeconfig, "claims", "-n", namespace, "-o", "json")
    assert result.exit_code == 0
    assert result.stderr == (
        "left out, as you may not list them: ResourceSlice, Pod, DeviceTaintRule, VirtualMachine, KeepPolicy\n"
        f"only of namespace {namespace}, as you may not list those of others: ResourceClaim\n"
    )
    (row,) = json.loads(result.stdout)["items"]
    assert row["state"] == "reserved"
    none = get(kubeconfig, "devices", "-n", namespace)
    assert (none.exit_code, none.stdout) == (1, "")
    assert "ResourceSlice" in none.stderr


def account(plane: ControlPlane, namespace: str, rules: list[dict[str, Any]]) -> Path:
    """The kubeconfig of a service account with these rights in its namespace."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    plane.request("POST", f"{rbac}/roles", {"metadata": {"name": "tenant"}, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    plane.request(
        "POST", f"{rbac}/rolebindings", {"metadata": {"name": "tenant"}, "subjects": subjects, "roleRef": role}
    )
    return plane.kubeconfig_of_service_account(namespace, "tenant")


def test_rows_are_shown_as_they_change_until_it_is_interrupted(
    control_plane: ControlPlane, namespace: str, vms: Vms
) -> None:
    vms.create("vm")
    command = [
        sys.executable,
        "-c",
        "from virt_dra.cli.main import main; main()",
        "get",
        "vms",
        "--live",
        "-w",
        "-o",
        "json",
    ]
    options = ["-n", namespace, "--kubeconfig", str(control_plane.kubeconfig)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        try:
            added = change(watching.stdout)
            assert (added["type"], added["object"]["metadata"]["name"], added["object"]["ready"]) == (
                "ADDED",
                "vm",
                "0/1",
            )
            vms.allocate("vm")
            while (resolved := change(watching.stdout))["object"]["ready"] != "1/1":
                assert resolved["type"] == "MODIFIED"
            assert resolved["object"]["devices"][0]["address"] == GPU
            vms.create("second")
            assert change(watching.stdout)["object"]["metadata"]["name"] == "second"
            watching.send_signal(signal.SIGINT)
            assert watching.wait(10) == 130
            assert watching.stderr.read() == "error: interrupted\n"
        finally:
            watching.kill()


def change(stream: IO[str]) -> dict[str, Any]:
    """The next change."""
    line = stream.readline()
    assert line, "the command has ended"
    document: dict[str, Any] = json.loads(line)
    return document


def test_describe_shows_events_and_what_lint_says(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    vms.create("vm")
    vms.allocate("vm")
    about = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "namespace": namespace, "name": "vm"}
    for number, name in enumerate(("vm", "other")):
        event = {
            "metadata": {"name": f"e-{number}"},
            "involvedObject": {**about, "name": name},
            "reason": "Started",
            "message": f"of {name}",
        }
        control_plane.request("POST", f"/api/v1/namespaces/{namespace}/events", event)
    arguments = ["describe", "vm", "vm", "--live", "-n", namespace, "-o", "json", "--kubeconfig"]
    result = CliRunner().invoke(cli, [*arguments, str(control_plane.kubeconfig)])
    assert (result.exit_code, result.stderr) == (0, "")
    (document,) = json.loads(result.stdout)["items"]
    assert document["devices"][0]["address"] == GPU
    assert [event["message"] for event in document["events"] if event["reason"] == "Started"] == ["of vm"]
    assert any(line.endswith("[template-missing]") for line in document["lint"])

    rules = [
        {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachineinstances"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    result = CliRunner().invoke(cli, [*arguments, str(account(control_plane, namespace, rules))])
    assert result.exit_code == 0
    (document,) = json.loads(result.stdout)["items"]
    assert (document["ready"], document["reason"], document["events"]) == ("0/1", "NotRead", [])
    assert [line.partition(":")[0] for line in document["lint"]] == ["events can't be read", "not checked"]
