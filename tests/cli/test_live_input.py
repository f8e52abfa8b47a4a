"""``--live`` of run, allocate and cel on a real API server: the cluster's objects, beside those of files, and nothing
written to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.operator import DRIVER, Vms
from virt_dra.cli.main import cli

pytestmark = pytest.mark.control_plane

GPU = "0000:41:00.0"


def _run(plane: ControlPlane, *arguments: str, objects: list[Any] | None = None) -> Result:
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}) if objects else None
    return CliRunner().invoke(cli, [*arguments, "--live", "--kubeconfig", str(plane.kubeconfig)], input=stdin)


def _template(name: str, namespace: str) -> Any:
    """A template of one device of the pool that is called like the namespace: other tests have pools of their own."""
    expression = f'device.driver == "{DRIVER}" && device.attributes["resource.kubernetes.io"].pciBusID == "{GPU}"'
    exactly = {"deviceClassName": namespace, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata,
        "spec": {"spec": spec},
    }


def _device_class(name: str) -> Any:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}


def _vmi(name: str, namespace: str) -> Any:
    domain = {
        "devices": {"gpus": [{"name": "gpu1", "claimName": "gpu", "requestName": "gpu"}]},
        "memory": {"guest": "1Gi"},
    }
    spec = {"domain": domain, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec}


def test_run_shows_what_a_vm_of_a_file_would_get_beside_those_of_the_cluster(
    control_plane: ControlPlane, namespace: str, vms: Vms
) -> None:
    given = [_device_class(namespace), _template("one", namespace), _vmi("mine", namespace)]
    result = _run(control_plane, "run", "-", "-o", "json", objects=given)
    (mine,) = [vm for vm in json.loads(result.stdout)["vms"] if vm["name"] == "mine"]
    assert (mine["ready"], [device["pciAddress"] for device in mine["devices"]]) == (True, [GPU])
    vms.create("other")
    vms.allocate("other")
    result = _run(control_plane, "run", "-", "-o", "json", objects=given)
    report = {vm["name"]: vm for vm in json.loads(result.stdout)["vms"] if vm["namespace"] == namespace}
    assert (report["other"]["takenOver"], report["other"]["source"]) == (
        True,
        f"cluster: VirtualMachineInstance {namespace}/other",
    )
    assert (report["mine"]["ready"], report["mine"]["failure"]["step"]) == (False, "placement")
    assert result.exit_code == 1
    stored = control_plane.request("GET", vms.path("virtualmachineinstances"))["items"]
    assert [obj["metadata"]["name"] for obj in stored] == ["other"]


def test_allocate_finds_the_device_that_is_free_there(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    given = [_device_class(namespace), _template("one", namespace)]
    arguments = ("allocate", "-f", "-", "--claim", f"{namespace}/one", "-o", "json")
    free = _run(control_plane, *arguments, objects=given)
    assert free.exit_code == 0, free.stderr
    (answer,) = json.loads(free.stdout)["answers"]
    (taken,) = [node["results"] for node in answer["nodes"] if node["results"]]
    assert taken[0]["devices"]["results"][0]["pool"] == namespace
    vms.create("other")
    vms.allocate("other")
    held = _run(control_plane, *arguments, objects=given)
    assert (held.exit_code, "device in use" in json.loads(held.stdout)["answers"][0]["message"]) == (1, True)


def test_cel_evaluates_on_the_devices_of_the_cluster(control_plane: ControlPlane, namespace: str, vms: Vms) -> None:
    expression = f'device.driver == "{DRIVER}"'
    result = _run(control_plane, "cel", expression, "-o", "name")
    assert f"{DRIVER}/{namespace}/gpu-0" in result.stdout.splitlines()
    vms.withdraw()
    assert f"{DRIVER}/{namespace}/gpu-0" not in _run(control_plane, "cel", expression, "-o", "name").stdout.splitlines()
    vms.publish(GPU)


@pytest.mark.parametrize("arguments", [("run",), ("allocate",), ("cel", "true")])
def test_a_cluster_that_cannot_be_reached_is_said_in_one_line(arguments: tuple[str, ...], tmp_path: Any) -> None:
    missing = tmp_path / "none"
    result = CliRunner().invoke(cli, [*arguments, "--live", "--kubeconfig", str(missing)])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert str(missing) in line


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("run", "x.yaml", "--context", "c"), "--kubeconfig and --context go with --live"),
        (("run", "--live", "--separate", "x.yaml"), "--separate goes with files alone"),
        (("allocate", "--jsonl", "--live"), "--live does not go with --jsonl"),
        (
            ("cel", "--jsonl", "--live"),
            "--jsonl goes with a file of requests only; each request contains what the options say",
        ),
    ],
)
def test_contradicting_options_are_refused(arguments: tuple[str, ...], error: str) -> None:
    result = CliRunner().invoke(cli, list(arguments))
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {error}")
