"""A VM whose pod was refused, or whose pod can't give it its devices: ``explain``, ``report``, ``get`` and ``describe``
say so, and ``explain`` ends with 1 (K-5.34, K-12.9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from tests.controllers.beside_kubevirt.test_readiness import NOT_SYNCHRONIZED, RECORD, recorded, shim
from tests.controllers.published_world import objects
from virt_dra.cli.main import cli

CREATE: Final = "failed to create virtual machine pod: "
BY_NOBODY_KNOWN: Final = (
    'Pod "virt-launcher-fedora-x" is invalid: spec.containers[0].resources.claims[0].request: Invalid'
)
REFUSED: Final = {
    "by the API server": (CREATE + BY_NOBODY_KNOWN, "the API server refuses its pod: "),
    "by a webhook": (
        CREATE + 'admission webhook "pods.example.com" denied the request: no GPUs today',
        'admission webhook "pods.example.com" refuses its pod: ',
    ),
    "for a webhook": (
        CREATE + 'Internal error occurred: failed calling webhook "pods.example.com": connection refused',
        'the API server, which gets no answer of webhook "pods.example.com", refuses its pod: ',
    ),
    "by a policy": (
        CREATE + "pods is forbidden: ValidatingAdmissionPolicy 'no-gpus' with binding 'b' denied request: no",
        "ValidatingAdmissionPolicy no-gpus refuses its pod: ",
    ),
    "by a quota": (CREATE + 'pods "x" is forbidden: exceeded quota: small, requested: pods=1', "quota small refuses"),
    "by KubeVirt": ("failed to render launch manifest: no such PVC", "virt-controller refuses its pod: "),
}
NATIVE: Final = {"claim": "gpus", "request": "gpu", "path": "native", "reason": "AskedFor"}
STUCK: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "the driver mounts a file in our volume": (
        {
            RECORD: recorded(shim()),
            "classes": [{"metadata": {"name": "c", "annotations": {"virt-dra.io/writes-metadata": "gpu.example.com"}}}],
        },
        "MetadataClash",
    ),
    "native on a KubeVirt that looks elsewhere": (
        {RECORD: recorded({**NATIVE, "path": "none", "reason": "NativeNotRead"})},
        "NoIntegrationPath",
    ),
    "native and a driver that writes nothing": ({RECORD: recorded(NATIVE)}, "NoMetadataFile"),
    "a launcher that finds no device": (
        {"vmi.status": {"phase": "Scheduled", "conditions": [NOT_SYNCHRONIZED]}},
        "GuestNotStarted",
    ),
    "a device that its driver has withdrawn": ({"slices.0.spec.devices.0.name": "other"}, "DeviceNotPublished"),
    "a pool of which a slice is missing": ({"slices.0.spec.pool.resourceSliceCount": 2}, "PoolIncomplete"),
    "a claim that another VM's pod had first": (
        {
            "claims.0.status.reservedFor": [
                {"resource": "pods", "name": "virt-launcher-other-x", "uid": "other"},
                {"resource": "pods", "name": "virt-launcher-fedora-x7k2p", "uid": "pod-1"},
            ]
        },
        "ClaimInUse",
    ),
}
UNPROCESSED: Final[dict[str, Any]] = {"pod": None, "claims": []}


def _dump(folder: Path, changes: dict[str, Any]) -> str:
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump_all([obj.to_wire() for obj in objects(changes)]))
    return str(path)


def _with_template(folder: Path, changes: dict[str, Any]) -> str:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "single-gpu", "namespace": "lab"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c"}}]}}},
    }
    dump = _dump(folder, changes)
    Path(dump).write_text(f"{Path(dump).read_text()}---\n{yaml.safe_dump(template)}")
    return dump


def _run(*arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(cli, [*arguments, "-o", "json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


def _answer(document: dict[str, Any]) -> dict[str, Any]:
    """As it is part of another document."""
    return {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}


def _reported(folder: Path, dump: str) -> Any:
    out = folder / "report.json"
    result = CliRunner().invoke(cli, ["report", "-f", dump, "-o", str(out)])
    assert result.exit_code == 0, result.output
    return json.loads(out.read_text())


def _refused(message: str) -> dict[str, Any]:
    condition = {**NOT_SYNCHRONIZED, "reason": "FailedCreate", "message": message}
    return {**UNPROCESSED, "vmi.status": {"phase": "Pending", "conditions": [condition]}}


@pytest.mark.parametrize("case", REFUSED)
def test_explain_says_who_refused_the_pod_and_why(tmp_path: Path, case: str) -> None:
    message, by = REFUSED[case]
    dump = _with_template(tmp_path, _refused(message))
    code, document = _run("explain", "vmi", "lab/fedora", "-f", dump)
    assert (code, document["verdict"], document["reason"]) == (1, "broken", "PodNotCreated")
    assert document["headline"].startswith(f"VMI lab/fedora can't start: {by}")
    assert message in document["headline"]
    answer = _answer(document)
    code, listed = _run("explain", "-f", dump)
    assert (code, listed["kind"], listed["subjects"], listed["leftOut"]) == (1, "ExplanationList", [answer], 0)
    assert _reported(tmp_path, dump)["waiting"] == [answer]
    (row,) = _run("get", "vms", "-A", "-f", dump)[1]["items"]
    assert (row["ready"], row["reason"]) == ("0/1", "PodNotCreated")
    assert message in row["message"]


@pytest.mark.parametrize("case", STUCK)
def test_all_say_what_keeps_a_device_from_its_vm(tmp_path: Path, case: str) -> None:
    changes, reason = STUCK[case]
    dump = _dump(tmp_path, changes)
    (row,) = _run("get", "vms", "-A", "-f", dump)[1]["items"]
    assert (row["ready"], row["reason"]) == ("0/1", reason)
    (described,) = _run("describe", "vm", "fedora", "-n", "lab", "-f", dump)[1]["items"]
    assert (described["ready"], described["reason"], described["message"]) == ("0/1", reason, row["message"])
    code, document = _run("explain", "vmi", "lab/fedora", "-f", dump)
    assert (code, document["verdict"], document["reason"]) == (1, "broken", reason)
    assert document["headline"] == f"VMI lab/fedora can't start: {row['message']}"
    code, of_pod = _run("explain", "pod", "virt-launcher-fedora-x7k2p", "-n", "lab", "-f", dump)
    assert (code, of_pod["verdict"], of_pod["reason"]) == (1, "broken", reason)
    contents = _reported(tmp_path, dump)
    assert contents["waiting"] == [_answer(document)]
    assert [(vm["ready"], vm["reason"]) for vm in contents["vms"]] == [("0/1", reason)]


@pytest.mark.parametrize(
    "reason", ["FailedPvcNotFound", "FailedDataVolumeImport", "BackendStorageNotReady", "FailedGuaranteeResources"]
)
def test_explain_says_why_kubevirt_creates_no_pod(tmp_path: Path, reason: str) -> None:
    """It isn't refused: something else is missing."""
    changes = _refused("PVC lab/root isn't there")
    changes["vmi.status"]["conditions"][0]["reason"] = reason
    dump = _with_template(tmp_path, changes)
    code, document = _run("explain", "vmi", "lab/fedora", "-f", dump)
    assert (code, document["verdict"], document["reason"]) == (1, "broken", "PodNotCreated")
    text = f"VMI lab/fedora can't start: KubeVirt doesn't create its pod ({reason}): PVC lab/root isn't there. "
    assert document["headline"].startswith(text)


PATHS: Final = {
    # path, driver -> verdict, reason, exit code, what isn't known
    ("native", "gpu.example.com"): ("fits", None, 0, ["PathMayNotWork"]),
    ("native", "gpu.intel.com"): ("fits", None, 0, []),
    ("native", "silent.example.com"): ("broken", "path-does-not-work", 1, []),
    ("metadata-shim", "gpu.example.com"): ("fits", None, 0, []),
    ("metadata-shim", "gpu.intel.com"): ("broken", "path-does-not-work", 1, []),
    ("device-plugin", "gpu.intel.com"): ("broken", "path-does-not-work", 1, []),
}
CLUSTER: Final = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu}
spec:
  driver: DRIVER
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {resource.kubernetes.io/pciBusID: {string: "0000:01:00.0"}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any, annotations: {virt-dra.io/writes-no-metadata: silent.example.com}}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: team}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: any}}]}}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm, namespace: team}
spec:
  runStrategy: Always
  template:
    metadata: {annotations: {virt-dra.io/integration-path: PATH}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      domain:
        resources: {requests: {memory: 1Gi}}
        devices: {gpus: [{name: gpu, claimName: gpu, requestName: gpu}], interfaces: []}
"""


@pytest.mark.parametrize(("path", "driver"), PATHS)
def test_explain_says_of_a_new_vm_whether_its_path_works(tmp_path: Path, path: str, driver: str) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text(CLUSTER.replace("DRIVER", driver).replace("PATH", path))
    code, document = _run("explain", "vm", "team/vm", "-f", str(dump))
    unknown = [fact["code"] for fact in document["unknown"] if fact["code"] == "PathMayNotWork"]
    assert (document["verdict"], document["reason"], code, unknown) == PATHS[path, driver]


@pytest.mark.parametrize(("path", "driver"), PATHS)
def test_explain_says_of_a_pod_that_waits_whether_its_path_works(tmp_path: Path, path: str, driver: str) -> None:
    """As it does of the VM before there is a pod."""
    *others, vm = yaml.safe_load_all(CLUSTER.replace("DRIVER", driver).replace("PATH", path))
    template = vm["spec"]["template"]
    there = {"name": "vm", "namespace": "team", "uid": "u"}
    vmi = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "status": {"phase": "Scheduling"},
        "metadata": {**there, **template["metadata"]},
        "spec": template["spec"],
    }
    owner = {"apiVersion": "kubevirt.io/v1", "kind": vmi["kind"], "name": "vm", "uid": "u", "controller": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "status": {"phase": "Pending"},
        "metadata": {
            "name": "launcher",
            "namespace": "team",
            "uid": "p",
            "ownerReferences": [owner],
            "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "u"},
        },
        "spec": {
            "resourceClaims": template["spec"]["resourceClaims"],
            "containers": [{"name": "compute", "resources": {"claims": [{"name": "gpu", "request": "gpu"}]}}],
        },
    }
    dump = tmp_path / "cluster.yaml"
    dump.write_text(yaml.safe_dump_all([*others, vm, vmi, pod]))
    for kind, name in (("vm", "team/vm"), ("vmi", "team/vm"), ("pod", "team/launcher")):
        code, document = _run("explain", kind, name, "-f", str(dump))
        unknown = [fact["code"] for fact in document["unknown"] if fact["code"] == "PathMayNotWork"]
        assert (document["verdict"], document["reason"], code, unknown) == PATHS[path, driver]


def test_a_running_vm_has_its_devices_whatever_was_in_the_way(tmp_path: Path) -> None:
    dump = _dump(tmp_path, {RECORD: recorded(NATIVE), "vmi.status": {"phase": "Running", "nodeName": "node-a"}})
    (row,) = _run("get", "vms", "-A", "-f", dump)[1]["items"]
    assert (row["ready"], row.get("reason")) == ("1/1", None)
    code, document = _run("explain", "vmi", "lab/fedora", "-f", dump)
    assert (code, document["verdict"]) == (0, "placed")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_vm_has_released_its_devices(tmp_path: Path, phase: str) -> None:
    """Also where no object of the operator says which they were."""
    dump = _dump(tmp_path, {"vmi.status": {"phase": phase, "nodeName": "node-a"}, "pod.status": {"phase": phase}})
    (row,) = _run("get", "vms", "-A", "-f", dump)[1]["items"]
    message = f"gpus/g0: the VMI has finished ({phase})"
    assert (row["ready"], row["reason"], row["message"]) == ("0/1", "VMIFinished", message)
    (described,) = _run("describe", "vm", "fedora", "-n", "lab", "-f", dump)[1]["items"]
    assert (described["ready"], described["reason"], described["message"]) == ("0/1", "VMIFinished", message)


DELETED: Final = {
    "the VM": ({"kind": "VirtualMachine"}, "vm"),
    "a VMI alone": ({"kind": "VirtualMachineInstance"}, "vmi"),
}


@pytest.mark.parametrize("case", DELETED)
def test_every_command_says_that_a_vm_is_being_deleted(tmp_path: Path, case: str) -> None:
    """A finalizer keeps it, and no pod is made for it any more."""
    changes, word = DELETED[case]
    *others, vm = yaml.safe_load_all(CLUSTER.replace("DRIVER", "gpu.intel.com").replace("PATH", "native"))
    spec = vm["spec"] if word == "vm" else vm["spec"]["template"]["spec"]
    vm = {**vm, **changes, "metadata": {**vm["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec}
    dump = tmp_path / "cluster.yaml"
    dump.write_text(yaml.safe_dump_all([*others, vm]))
    code, document = _run("explain", word, "team/vm", "-f", str(dump))
    why = f"{changes['kind']} team/vm is being deleted; until it is gone, its claims keep their devices"
    assert (code, document["verdict"], document["reason"]) == (1, "broken", "Terminating")
    assert document["headline"] == f"{word.upper()} team/vm can't start: {why}"
    code, ran = _run("run", str(dump))
    failure = ran["vms"][0]["failure"]
    assert (code, failure["reason"], failure["message"]) == (1, "Terminating", why)
    code, listed = _run("get", "vms", "-f", str(dump), "--all-namespaces")
    assert (code, [(row["reason"], row["message"]) for row in listed["items"]]) == (0, [("Terminating", why)])
    (described,) = _run("describe", "vm", "team/vm", "-f", str(dump))[1]["items"]
    assert (described["reason"], described["message"]) == ("Terminating", why)


@pytest.mark.parametrize("deleted", ["VirtualMachine", "VirtualMachineInstance"])
def test_a_vmi_without_a_pod_waits_for_none_while_it_or_its_vm_is_being_deleted(tmp_path: Path, deleted: str) -> None:
    """Nobody waits for a launcher pod: KubeVirt makes none."""
    *others, vm = yaml.safe_load_all(CLUSTER.replace("DRIVER", "gpu.intel.com").replace("PATH", "native"))
    owner = {"apiVersion": vm["apiVersion"], "kind": vm["kind"], "name": "vm", "uid": "vm-uid", "controller": True}
    vm["metadata"]["uid"] = "vm-uid"
    vmi = {
        "apiVersion": vm["apiVersion"],
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "team", "uid": "vmi-uid", "ownerReferences": [owner]},
        "spec": vm["spec"]["template"]["spec"],
        "status": {"phase": "Pending"},
    }
    gone = vm if deleted == "VirtualMachine" else vmi
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    dump = tmp_path / "cluster.yaml"
    dump.write_text(yaml.safe_dump_all([*others, vm, vmi]))
    why = f"{deleted} team/vm is being deleted; until it is gone, its claims keep their devices"
    (row,) = _run("get", "vms", "-f", str(dump), "-A")[1]["items"]
    (described,) = _run("describe", "vm", "team/vm", "-f", str(dump))[1]["items"]
    explained = _run("explain", "vm", "team/vm", "-f", str(dump))[1]
    ran = _run("run", str(dump))[1]["vms"][0]["failure"]
    reasons = [row["reason"], described["reason"], explained["reason"], ran["reason"]]
    assert (reasons, row["message"], described["message"]) == (["Terminating"] * 4, why, why)
    assert explained["headline"] == f"VM team/vm can't start: {why}"
    assert ran["message"] == why


KUBEVIRT_1_7: Final = """---
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {configuration: {developerConfiguration: {featureGates: [GPUsWithDRA, HostDevicesWithDRA, HostDevices]}}}
status: {observedKubeVirtVersion: v1.7.2}
"""
OF_NO_DEVICE: Final = (
    "spec.template.spec.domain.devices.gpus[0].requestName: "
    'request "gpu": no device that it may get, such as gpu-0 (driver gpu.example.com, pool node-1), has an address '
    "where KubeVirt 1.7.2 looks for it: resource.kubernetes.io/mDevUUID or resource.kubernetes.io/pcieRoot in a slice "
    "of one node, and KubeVirt 1.7.2 reads no metadata files; use KubeVirt 1.8.0 or newer, or devices with deviceName "
    "and the annotation virt-dra.io/device-claims"
)


def _on_1_7(folder: Path, devices: str) -> tuple[str, str]:
    """A dump without the VM, and the VM."""
    text = CLUSTER.replace("DRIVER", "gpu.example.com").replace(
        '[{name: gpu-0, attributes: {resource.kubernetes.io/pciBusID: {string: "0000:01:00.0"}}}]', devices
    )
    cluster, _, vm = text.replace("    metadata: {annotations: {virt-dra.io/integration-path: PATH}}\n", "").rpartition(
        "---\n"
    )
    (folder / "cluster.yaml").write_text(cluster + KUBEVIRT_1_7)
    (folder / "vm.yaml").write_text(vm)
    return str(folder / "cluster.yaml"), str(folder / "vm.yaml")


STANDARD: Final = 'resource.kubernetes.io/pciBusID: {string: "0000:0N:00.0"}'
READ: Final = f'{STANDARD}, resource.kubernetes.io/pcieRoot: {{string: "0000:0N:00.0"}}'


def test_all_say_that_kubevirt_1_7_finds_no_device(tmp_path: Path) -> None:
    cluster, vm = _on_1_7(tmp_path, f"[{{name: gpu-0, attributes: {{{STANDARD.replace('N', '1')}}}}}]")
    code, linted = _run("lint", "-f", cluster, "-f", vm)
    denials = [f"{finding['field']}: {finding['message']}" for obj in linted["objects"] for finding in obj["findings"]]
    assert (code, denials) == (1, [OF_NO_DEVICE])
    code, ran = _run("run", "-f", cluster, "-f", vm)
    (outcome,) = ran["vms"]
    assert (code, outcome["ready"], outcome["failure"]["reason"]) == (1, False, "NoIntegrationPath")
    code, explained = _run("explain", "vm", "team/vm", "-f", cluster, "-f", vm)
    assert (code, explained["verdict"], explained["reason"]) == (1, "broken", "no-integration-path")
    assert explained["headline"] == f"VM team/vm can't start: {OF_NO_DEVICE}"
    both = tmp_path / "both.yaml"
    both.write_text(f"{Path(cluster).read_text()}---\n{Path(vm).read_text()}")
    assert [waiting["reason"] for waiting in _reported(tmp_path, str(both))["waiting"]] == ["no-integration-path"]
    code, planned = _run("plan", "--dump", cluster, "-f", vm)
    assert (code, [(effect["effect"], effect["why"]) for effect in planned["vms"]]) == (1, [("waits", OF_NO_DEVICE)])
    refused = CliRunner().invoke(cli, ["simulate", cluster, "--what-if", f"add {vm}"])
    assert (refused.exit_code, OF_NO_DEVICE in refused.stderr) == (2, True)


def test_run_says_that_kubevirt_1_7_does_not_find_the_device_that_was_allocated(tmp_path: Path) -> None:
    unread = f"{{name: gpu-0, attributes: {{{STANDARD.replace('N', '1')}}}}}"
    read = f"{{name: gpu-1, attributes: {{{READ.replace('N', '2')}}}}}"
    devices = f"[{unread}, {read}]"
    cluster, vm = _on_1_7(tmp_path, devices)
    code, ran = _run("run", "-f", cluster, "-f", vm)
    (outcome,) = ran["vms"]
    assert (code, outcome["ready"], outcome["failure"]["reason"]) == (1, False, "NoIntegrationPath")
    code, explained = _run("explain", "vm", "team/vm", "-f", cluster, "-f", vm)
    assert (code, explained["verdict"]) == (0, "fits")
    assert "PathMayNotWork" in [fact["code"] for fact in explained["unknown"]]
    cluster, vm = _on_1_7(tmp_path, f"[{read}]")
    code, ran = _run("run", "-f", cluster, "-f", vm)
    assert (code, [outcome["ready"] for outcome in ran["vms"]]) == (0, [True])
