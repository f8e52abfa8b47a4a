"""Commands that say whether a VM fits say alike, in text and as JSON, what they couldn't take into account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from tests.json_schema import faults, schema_named
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced, read_document
from virt_dra.cli.main import cli
from virt_dra.live.reading import ReadScope

Json = dict[str, Any]
VM: Final = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm", "namespace": "default"},
    "spec": {
        "domain": {
            "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
            "devices": {"gpus": [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]},
        },
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    },
}
DEVICES: Final = (
    {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}},
                }
            ],
        },
    },
)
KVM: Final = {f"devices.kubevirt.io/{device}": "1k" for device in ("kvm", "tun", "vhost-net")}
RUNNING: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "running", "namespace": "default", "uid": "running"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Running"},
}


def _node(name: str, allocatable: Json | None = None) -> Json:
    labels = {"kubevirt.io/schedulable": "true"}
    status = {"allocatable": allocatable} if allocatable is not None else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


SIZED: Final = _node("n1", {"cpu": "4", "memory": "16Gi", "pods": "110", **KVM})
DUMPS: Final[dict[str, tuple[tuple[Json, ...], list[str]]]] = {
    "everything is known": ((SIZED, RUNNING), []),
    "no Pods": ((SIZED,), ["PodsNotGiven"]),
    "no Nodes": ((RUNNING,), ["NodesNotGiven"]),
    "manifests alone": ((), ["NodesNotGiven", "PodsNotGiven"]),
    "a node that lists nothing": ((SIZED, _node("n2"), RUNNING), ["RoomNotKnown"]),
    "a resource that no node lists": (
        (_node("n1", {"cpu": "4", "memory": "16Gi", "pods": "110"}), RUNNING),
        ["ResourceNotListed"],
    ),
}


def _asked(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize("given", DUMPS)
def test_what_is_not_known_is_said_alike(given: str, tmp_path: Path) -> None:
    objects, codes = DUMPS[given]
    others, vm, both = (str(tmp_path / name) for name in ("others.json", "vm.json", "both.json"))
    for path, items in ((others, (*DEVICES, *objects)), (vm, (VM,)), (both, (*DEVICES, *objects, VM))):
        Path(path).write_text("\n".join(map(json.dumps, items)))
    commands = {
        "run": ("run", both),
        "lint": ("lint", both),
        "explain": ("explain", "vmi", "vm", "-f", both),
        "explain all": ("explain", "-f", both),
        "diff": ("diff", others, both),
        "topology": ("topology", "--vmi", "default/vm", "-f", both),
    }
    if "NodesNotGiven" not in codes:
        commands["simulate"] = ("simulate", others, "--what-if", f"add {vm}")
    documents = {name: json.loads(_asked(*command, "-o", "json").stdout) for name, command in commands.items()}
    documents["explain all"] = documents["explain all"]["subjects"][0]
    said = {name: document["unknown"] for name, document in documents.items()}
    assert said == dict.fromkeys(commands, said["explain"])
    assert [fact["code"] for fact in said["explain"]] == codes
    schema = schema_named("explain")
    assert faults(said["explain"], schema, schema["properties"]["unknown"]) == []
    lines = [f"Not known: {fact['text']}" for fact in said["explain"]]
    printed = {
        name: [line for line in _asked(*command).output.splitlines() if line.startswith("Not known: ")]
        for name, command in commands.items()
    }
    assert printed == dict.fromkeys(commands, lines)


def test_nothing_is_said_where_no_node_was_tried(tmp_path: Path) -> None:
    path = tmp_path / "vm.json"
    path.write_text(json.dumps({**VM, "spec": {"domain": {"devices": {}}}}))
    assert json.loads(_asked("lint", str(path), "-o", "json").stdout)["unknown"] == []
    assert _asked("run", str(path), "-q").output == ""


def test_what_is_not_known_does_not_stand_among_names(tmp_path: Path) -> None:
    path = tmp_path / "vm.json"
    path.write_text("\n".join(map(json.dumps, (*DEVICES, VM))))
    result = _asked("run", str(path), "-o", "name")
    assert result.stdout == "virtualmachineinstance/default/vm\n"
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == ["Not known", "Not known"]


def test_pods_of_one_namespace_are_not_all_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cluster that lets its user read the pods of one namespace alone."""
    wire = (*DEVICES, SIZED, RUNNING)
    documents = (Document(raw, DocumentSource("cluster", number)) for number, raw in enumerate(wire))
    objects = [sourced for sourced in map(read_document, documents) if isinstance(sourced, Sourced)]
    scope = ReadScope({Pod: "default", Node: ""})
    monkeypatch.setattr("virt_dra.cli.run.command.live_sourced", lambda *_: (objects, scope))
    path = tmp_path / "vm.json"
    path.write_text(json.dumps(VM))
    document = json.loads(_asked("run", "--live", str(path), "-o", "json").stdout)
    assert [fact["code"] for fact in document["unknown"]] == ["PodsNotGiven"]
