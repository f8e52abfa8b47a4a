"""``virt-dra explain``, ``get``, ``topology`` and ``report`` as a user runs them on a dump of a large cluster: time and
memory.

The peer of the same run is ``json.load`` of the dump: what any program needs that looks at it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.process_cost import measured

Json = dict[str, Any]
DRIVER = "gpu.example.com"
DEVICES = 8
VMS_PER_NODE = 1
GOALS = {"explain": 2.0, "topology": 3.0, "report": 5.0}
"""Seconds on 5,000 nodes with 40,000 devices; all within ``MEMORY`` MiB."""
MEMORY = 1024


def main(*, quick: bool = False) -> None:
    """Print a row for each command; for explain one more on devices that all differ, of which less is shared."""
    nodes = 500 if quick else 5000
    table = Table(
        title=f"Looking at a dump of {nodes:,} nodes with {nodes * DEVICES:,} "
        f"devices and {nodes * VMS_PER_NODE:,} VMs, best of 3"
    )
    for column in ("command", "s", "× json.load", "MiB", "goal"):
        table.add_column(column, justify="left" if column in ("command", "goal") else "right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump = folder / "dump.json"
        different = folder / "different.json"
        for path, uuids in ((dump, False), (different, True)):
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(nodes, uuids=uuids)}))
        peer, memory = _best([sys.executable, "-c", "import json, sys; json.load(open(sys.argv[1]))", str(dump)])
        table.add_row("json.load (peer)", f"{peer:.2f}", "1.0", f"{memory:.0f}", "")
        program = [sys.executable, "-c", "from virt_dra.cli.start import main; main()"]
        commands = {
            "explain": ["explain", "vmi", "default/waiting", "-f", str(dump)],
            "get devices": ["get", "devices", "-f", str(dump), "-o", "json"],
            "topology": ["topology", "-f", str(dump)],
            "topology -o svg": ["topology", "-f", str(dump), "-o", "svg"],
            "report": ["report", "-f", str(dump), "--out", str(folder / "report.html")],
            "explain, UUIDs": ["explain", "vmi", "default/waiting", "-f", str(different)],
        }
        for title, arguments in commands.items():
            seconds, memory = _best([*program, *arguments])
            goal = GOALS.get(title.split()[0].rstrip(","))
            met = goal is not None and seconds < goal and memory < MEMORY
            said = "" if goal is None or quick else f"{'met' if met else 'missed'}: {goal:g} s and {MEMORY:,} MiB"
            table.add_row(title, f"{seconds:.2f}", f"{seconds / peer:.1f}", f"{memory:.0f}", said)
    Console().print(table)


def _best(command: Sequence[str]) -> tuple[float, float]:
    """Of three runs the shortest, and its memory."""
    return min(measured(command, endings=(0, 1)) for _ in range(3))


def cluster(nodes: int, *, uuids: bool = False) -> list[Json]:
    """A cluster whose nodes have GPUs of two NUMA nodes and a running VM that holds one; one VM waits for a model that
    nobody has.

    ``uuids``: each device has an attribute that no other has."""
    objects: list[Json] = [_device_class(), _template("some", "A100"), _template("none", "H200")]
    for number in range(nodes):
        node = f"node-{number}"
        objects += [_node(node), _slice(node, number, uuids)]
        objects += _running(f"vm-{number}", node, number % DEVICES)
    return [*objects, _vmi("waiting", "none", {"phase": "Scheduling"})]


def _device_class() -> Json:
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    return _object("resource.k8s.io/v1", "DeviceClass", {"name": "gpu"}, spec={"selectors": selectors})


def _template(name: str, model: str) -> Json:
    expression = f"device.attributes['{DRIVER}'].model == '{model}'"
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    return _object("resource.k8s.io/v1", "ResourceClaimTemplate", {"name": name, "namespace": "default"}, spec=spec)


def _node(name: str) -> Json:
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "devices.kubevirt.io/kvm": "1k"}
    conditions = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "kubevirt.io/schedulable": "true"}}
    return _object(
        "v1", "Node", metadata, status={"allocatable": allocatable, "capacity": allocatable, "conditions": conditions}
    )


def _slice(node: str, number: int, uuids: bool) -> Json:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "model": {"string": "A100" if number % 2 else "L40S"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{16 * (1 + index):02x}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{16 * (1 + index // 2):02x}"},
                "numaNode": {"int": index // 4},
                **({"uuid": {"string": f"GPU-{number * DEVICES + index:032x}"}} if uuids else {}),
            },
        }
        for index in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return _object("resource.k8s.io/v1", "ResourceSlice", {"name": f"{node}-{DRIVER}"}, spec=spec)


def _running(name: str, node: str, index: int) -> list[Json]:
    """A VMI, its pod and its claim, which holds the device of that index."""
    pod, claim = f"virt-launcher-{name}", f"virt-launcher-{name}-gpu"
    results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{index}"}]
    since = "2026-01-02T03:04:05Z"
    vmi = _vmi(name, "some", {"phase": "Running", "nodeName": node, "activePods": {f"pod-{name}": node}})
    return [
        vmi,
        _object(
            "v1", "Pod",
            _namespaced(pod, f"pod-{name}", _owner(vmi),
                {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": f"vmi-{name}"}),
            spec={"nodeName": node, "containers": [{"name": "compute", "image": "launcher"}],
                  "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "some"}]},
            status={"phase": "Running", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]},
        ),
        _object(
            "resource.k8s.io/v1", "ResourceClaim",
            _namespaced(claim, f"claim-{name}", _reference("v1", "Pod", pod, f"pod-{name}"), {}),
            spec=_template("some", "A100")["spec"]["spec"],
            status={"allocation": {"devices": {"results": results}, "allocationTimestamp": since},
                    "reservedFor": [{"resource": "pods", "name": pod, "uid": f"pod-{name}"}]},
        ),
    ]  # fmt: skip


def _vmi(name: str, template: str, status: Json) -> Json:
    devices = {"gpus": [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]}
    domain = {"devices": devices, "memory": {"guest": "4Gi"}, "cpu": {"cores": 2}}
    spec = {"domain": domain, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}]}
    return _object(
        "kubevirt.io/v1",
        "VirtualMachineInstance",
        {"name": name, "namespace": "default", "uid": f"vmi-{name}"},
        spec=spec,
        status=status,
    )


def _owner(vmi: Json) -> Json:
    return _reference(vmi["apiVersion"], vmi["kind"], vmi["metadata"]["name"], vmi["metadata"]["uid"])


def _reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _namespaced(name: str, uid: str, owner: Json, labels: Json) -> Json:
    return {"name": name, "namespace": "default", "uid": uid, "labels": labels, "ownerReferences": [owner]}


def _object(api_version: str, kind: str, metadata: Json, **members: Json) -> Json:
    """An object as a dump of a cluster has it."""
    stored = {"uid": f"{kind}-{metadata['name']}", "resourceVersion": "1", "creationTimestamp": "2026-01-02T03:04:05Z"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**stored, **metadata}, **members}
