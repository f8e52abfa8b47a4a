"""``virt-dra explain`` as a user meets it: on files, on a real API server, pages, bad input, hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from devtools.cluster.control_plane import ControlPlane
from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod
from virt_dra.cli.main import cli

CLUSTER = str(Path(__file__).parents[3] / "examples" / "explain" / "cluster.yaml")


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["explain", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_vm_that_would_wait_is_explained_the_nearest_first() -> None:
    result = _run("vmi", "vm-late", "-n", "team-a", "-f", CLUSTER)
    assert result.stdout == (
        "VMI team-a/vm-late would wait: none of 4 nodes can take it. Nearest: node-1, request gpu: 2 devices: in use\n"
        "\n"
        "In the way, the nearest first:\n"
        "  node-1, request gpu: 2 devices: in use\n"
        "  node-2, request gpu: 1 device: taint example.com/maintenance:NoSchedule isn't tolerated\n"
        "  node-3: cordoned (unschedulable)\n"
        '  node-4, request gpu: 1 device: model is "L40S"\n'
        '    false: device.attributes["gpu.example.com"].model == "H100"\n'
        "\n"
        "Held by:\n"
        "  gpu.example.com/node-1/gpu-0: VM team-a/vm-a (claim vm-a-gpu) since 2026-11-20T10:00:00Z\n"
        "  gpu.example.com/node-1/gpu-1: VM team-a/vm-b (claim vm-b-gpu) since 2026-11-21T08:30:00Z\n"
        "\n"
        "Ways out, each tried on a copy of this cluster:\n"
        "  * with gpu-1 of VM team-a/vm-b freed it would start on node-1\n"
        "  * with a toleration of the device taint example.com/maintenance:NoSchedule "
        "in request gpu it would start on node-2\n"
        "  * with node node-3 uncordoned it would start on node-3\n"
        '  * if request gpu accepted a device whose model is "L40S" it would start on node-4\n'
        "\n"
        "More about it: virt-dra explain DeviceInUse\n"
    )
    assert (result.exit_code, result.stderr) == (1, "")


@pytest.mark.parametrize(
    ("spec", "awaited"),
    [
        ({}, "its pod waits for its turn, or for what isn't checked here, such as volumes"),
        (
            {"schedulingGates": [{"name": "quota"}]},
            "its pod isn't scheduled before its scheduling gate quota is removed",
        ),
        (
            {"schedulingGates": [{"name": "a"}, {"name": "b"}]},
            "its pod isn't scheduled before its scheduling gates a, b are removed",
        ),
        ({"schedulerName": "volcano"}, "its pod waits for another scheduler, volcano"),
    ],
)
def test_it_says_what_a_pod_that_fits_waits_for(spec: dict[str, Any], awaited: str, tmp_path: Path) -> None:
    asker = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec}, "status": {"phase": "Pending"},
    }  # fmt: skip
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*node("n1", []), asker]}))
    result = _run("pod", "p", "-f", str(file))
    assert result.stdout.splitlines()[0] == f"pod default/p fits on 1 of 1 node (n1): {awaited}"


def test_a_request_for_an_extended_resource_is_named_by_the_resource(tmp_path: Path) -> None:
    name = "example.com/gpu"
    asked = {name: "1"}
    served = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "served"},
        "spec": {"extendedResourceName": name, "selectors": [{"cel": {"expression": "device.driver == 'a.b'"}}]},
    }  # fmt: skip
    asker = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {
            "containers": [{"name": "train", "image": "i", "resources": {"requests": asked, "limits": asked}}]
        },
        "status": {"phase": "Pending"},
    }  # fmt: skip
    file = tmp_path / "cluster.json"
    items = [served, *node("n1", [gpu("g0")]), asker]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert _run("pod", "p", "-f", str(file)).stdout.splitlines()[0] == (
        "pod default/p waits: the one node can't take it. Nearest: n1, request example.com/gpu of container train: "
        "1 device: driver is gpu.example.com"
    )


def test_a_claim_that_fits_waits_for_a_pod(tmp_path: Path) -> None:
    waiting = {**claim("c"), "metadata": {"name": "c", "namespace": "default", "uid": "c"}}
    file = tmp_path / "cluster.json"
    items = [*classes(), *node("n1", [gpu("g0")]), waiting]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert _run("claim", "c", "-f", str(file)).stdout.splitlines()[0] == (
        "claim default/c fits on 1 of 1 node (n1): it gets devices when a pod that names it is scheduled"
    )


def test_an_instance_is_found_as_a_vm_and_has_ended(tmp_path: Path) -> None:
    parts = [*classes(), *node("n1", [gpu("g0")])]
    for name, phase in (("new", "Pending"), ("old", "Succeeded")):
        metadata = {"name": name, "namespace": "default"}
        parts.append({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata,
            "spec": {"domain": {"devices": {}}},
            "status": {"phase": phase},
        })  # fmt: skip
    path = tmp_path / "dump.json"
    path.write_text("\n".join(map(json.dumps, parts)))
    answers = {name: _run("vm", name, "-f", str(path)).output.splitlines()[0] for name in ("new", "old", "gone")}
    assert answers == {
        "new": "VMI default/new fits on 1 of 1 node (n1): it isn't created yet",
        "old": "VMI default/old fits on 1 of 1 node (n1): it has ended (Succeeded)",
        "gone": "error: there is no VM gone in namespace default; there are default/new, default/old",
    }


def test_the_same_as_a_document() -> None:
    result = _run("vmi/team-a/vm-late", "-f", CLUSTER, "-o", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {name: document[name] for name in ("kind", "subject", "verdict", "reason", "nodes", "unjudged",
        "fitting")} == {
        "kind": "Explanation", "subject": "VMI team-a/vm-late", "verdict": "waits", "reason": "DeviceInUse", "nodes": 4,
        "unjudged": 0, "fitting": [],
    }  # fmt: skip
    assert document["misses"][0] == {
        "nodes": ["node-1"], "claim": "team-a/generated-0", "request": "gpu", "wanted": 1, "placed": 0, "node": [],
        "lacking": None, "devices": [
            {"reason": "DeviceInUse", "text": "in use", "detail": None, "term": None, "count": 2,
             "examples": ["gpu.example.com/node-1/gpu-0", "gpu.example.com/node-1/gpu-1"]},
        ],
    }  # fmt: skip
    assert document["held"][0] == {
        "device": "gpu.example.com/node-1/gpu-0", "claim": "team-a/vm-a-gpu", "vm": "team-a/vm-a",
        "pod": "team-a/virt-launcher-vm-a-abcde", "since": "2026-11-20T10:00:00Z",
    }  # fmt: skip
    assert document["waysOut"][0] == {
        "text": "with gpu-1 of VM team-a/vm-b freed it would start on node-1", "node": "node-1",
        "changes": [{"kind": "free", "text": "with gpu-1 of VM team-a/vm-b freed"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("vmi", "vm-a", "-n", "team-a"), 0, "VMI team-a/vm-a has its place on node node-1 with gpu-0\n"),
        (("claim", "team-a/vm-a-gpu"), 0, "claim team-a/vm-a-gpu is allocated with gpu-0, used by VM team-a/vm-a\n"),
        (("vmi", "vm-lat", "-n", "team-a"), 2, "error: there is no VMI vm-lat in namespace "
"team-a; did you mean vm-late?\n"),
        (("vmi", "vm-late"), 2, "error: there is no VMI vm-late in namespace default, "
"but in team-a: name it with -n\n"),
        (("pod", "x"), 2, "error: there is no pod x in namespace default; there are team-a/virt-launcher-vm-a-abcde, "
         "team-a/virt-launcher-vm-b-fghij\n"),
    ],
)  # fmt: skip
def test_what_is_said_about(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = _run(*arguments, "-f", CLUSTER)
    assert (result.exit_code, result.output) == (code, said)


def test_everything_that_waits_has_a_line() -> None:
    result = _run("-f", CLUSTER)
    assert result.stdout == (
        "VMI team-a/vm-late would wait: none of 4 nodes can take it. Nearest: node-1, request gpu: 2 devices: in use\n"
        "  with gpu-1 of VM team-a/vm-b freed it would start on node-1\n"
        "1 without a place, 0 that could start\n"
    )
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("vm", "x"), "name the files of the cluster with -f, or read one with --live"),
        (("vmi",), "which vmi? Write e.g. virt-dra explain vmi NAME"),
        (("deviceinus",), "there is no finding, reason or alert 'deviceinus'; did you mean DeviceInUse?"),
        (("a", "b"), "'a b': write vm, vmi, pod or claim and a name, or the name of a finding, reason or alert"),
        (("vm", "x", "-f", CLUSTER, "--context", "c"), "--kubeconfig and --context go with --live"),
        (("vm", "x", "-f", "/nowhere.yaml"), "/nowhere.yaml: no such file or folder"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], said: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_page_as_text_and_as_a_document() -> None:
    text = _run("DeviceInUse")
    assert text.exit_code == 0
    assert text.stdout.startswith("# DeviceInUse\n")
    assert json.loads(_run("deviceinuse", "-o", "json").stdout)["page"].rstrip("\n") == text.stdout.rstrip("\n")


def test_names_that_drivers_and_tenants_chose_cannot_control_the_terminal(tmp_path: Path) -> None:
    """An API server would refuse them; a file may have them."""
    late = claim("late-gpu", selectors=['device.attributes["gpu.example.com"].model == "H100"'])
    objects = [*classes(), *node("n1", [gpu("g0", "\x1b]0;owned\x07" + "x" * 500)]), late, pod("late", ["late-gpu"])]
    (tmp_path / "dump.json").write_text("\n".join(json.dumps(obj) for obj in objects))
    result = _run("pod", "late", "-n", "team-a", "-f", str(tmp_path / "dump.json"))
    assert result.exit_code == 1
    assert all(line.isprintable() for line in result.stdout.splitlines())
    assert all(len(line) < 400 for line in result.stdout.splitlines())


def test_an_answer_about_many_nodes_is_short(tmp_path: Path) -> None:
    nodes = [obj for number in range(300) for obj in node(f"n{number}", [gpu(f"g{place}", "T4") for place in range(8)])]
    late = [
        claim("late-gpu", selectors=['device.attributes["gpu.example.com"].model == "A100"']),
        pod("late", ["late-gpu"]),
    ]
    (tmp_path / "dump.json").write_text("\n".join(json.dumps(obj) for obj in (*classes(), *nodes, *late)))
    result = _run("pod", "late", "-n", "team-a", "-f", str(tmp_path / "dump.json"))
    assert result.stdout.splitlines()[0] == (
        "pod team-a/late waits: none of 300 nodes can take it. Nearest: 300 "
        'nodes, request gpu: 2,400 devices: model is "T4"'
    )
    assert len(result.stdout.splitlines()) < 12


@pytest.mark.control_plane
def test_a_live_cluster_without_kubevirt_is_read_by_the_users_own_rights(control_plane: ControlPlane) -> None:
    """The user may list claims, classes, slices and nodes, and nothing else. Kinds that the cluster doesn't have are
    refused, too."""
    plane, namespace = control_plane, control_plane.create_namespace("explain-")
    rules = [
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "deviceclasses", "resourceslices"],
            "verbs": ["list"],
        },
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    ]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": namespace}}
    plane.request(
        "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {**rbac, "kind": "ClusterRole", "rules": rules}
    )
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": namespace}],
    }
    plane.request(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {**rbac, "kind": "ClusterRoleBinding", **binding},
    )
    device_class = f"{namespace}.example.com"
    plane.request(
        "POST", "/apis/resource.k8s.io/v1/deviceclasses", {**classes()[0], "metadata": {"name": device_class}}
    )
    wanted = claim("late-gpu")
    wanted["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = device_class
    wanted["metadata"] = {"name": "late-gpu", "namespace": namespace}
    plane.request("POST", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", wanted)
    try:
        result = _run(
            "claim", "late-gpu", "-n", namespace, "--live", "--kubeconfig", str(plane.kubeconfig_of_user(namespace))
        )
        assert result.exit_code == 1, result.output
        assert result.stdout.startswith(f"claim {namespace}/late-gpu waits: ")
        assert result.stderr == (
            "left out, as you may not list them: "
            "DeviceTaintRule, Pod, ResourceClaimTemplate, KubeVirt, VirtualMachine, VirtualMachineInstance, "
            "DeviceProfile, KeepPolicy, PersistentVolumeClaim, PersistentVolume, StorageClass, Namespace, "
            "VirtualMachineInstancetype, VirtualMachineClusterInstancetype, "
            "VirtualMachinePreference, VirtualMachineClusterPreference, ControllerRevision\n"
        )
    finally:
        plane.request("DELETE", f"/apis/resource.k8s.io/v1/deviceclasses/{device_class}")
