"""VMs that ask for their devices by a line (``virt-dra.io/devices``), beside the same VMs that name templates: how long
the operator takes until all are settled, and how long the webhook's answers take.

Run: ``python -m bench profiles`` (``--quick``: a tenth). The operator makes a template for each VM with a line; its
peer in the same run, on a real API server of its own, has none to make. Goals: settled within 1.3 x of the peer; the
webhook's p99 for VMIs with a line as for VMIs with templates, and not changed by a thousand profiles.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.operator import NODES, VMIS, operator, populate, settled_after
from bench.webhook import at_rate, percentile
from bench.webhook import cluster as webhook_cluster
from devtools.cluster.control_plane import ControlPlane
from devtools.webhooks.asking import Question, server_process
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.kube.limits import ClientLimits

Json = dict[str, Any]
PROFILES: Final = 1_000
SECONDS: Final = 10
RATE: Final = 250
GOAL: Final = 1.3


def main(*, quick: bool = False) -> None:
    """Print both tables."""
    _settling(*((VMIS // 10, NODES // 10) if quick else (VMIS, NODES)))
    _admitting(SECONDS // 5 if quick else SECONDS)


# --- the operator -------------------------------------------------------------------------------------------------


def _settling(vmis: int, nodes: int) -> None:
    plain = asyncio.run(_settled(vmis, nodes, None))
    asking = asyncio.run(_settled(vmis, nodes, _profile(0)))
    table = Table(
        "measured", "templates", "lines", "ratio", f"goal: {GOAL} x", title=f"{vmis:,} VMs, {nodes * 8:,} devices"
    )
    for figure, without, having in zip(("settled, s", "settled again after a restart, s"), plain, asking, strict=True):
        ratio = having / without
        table.add_row(figure, f"{without:.1f}", f"{having:.1f}", f"{ratio:.2f}", "met" if ratio <= GOAL else "missed")
    Console(width=120).print(table)


async def _settled(vmis: int, nodes: int, profile: DeviceProfile | None) -> list[float]:
    """Seconds from the operator's start until all VMs are settled: for the first time, and once more."""
    with ControlPlane() as plane:
        async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster:
            await populate(cluster, vmis, 0, nodes, profile)
            seconds = []
            for _ in range(2):
                began = time.monotonic()
                with operator(plane) as (port, _):
                    seconds.append(await settled_after(port, vmis, began))
            return seconds


def _profile(number: int) -> DeviceProfile:
    name = f"gpu-{number}"
    return DeviceProfile.from_wire(
        {
            "apiVersion": DeviceProfile.API_VERSION,
            "kind": DeviceProfile.KIND,
            "metadata": {"name": name},
            "spec": {"devices": [{"name": "gpu", "deviceClassName": "gpu"}]},
        }
    )


# --- the webhook --------------------------------------------------------------------------------------------------


def _admitting(seconds: int) -> None:
    table = Table("cluster", "VMIs", "p50, ms", "p99, ms", "slowest, ms", title=f"Webhook: {RATE} VMIs a second")
    for profiles in (0, PROFILES):
        objects = [*webhook_cluster(), *(_profile(number).to_wire() for number in range(profiles))]
        with tempfile.TemporaryDirectory() as folder, server_process(Path(folder), objects) as (port, trust, _):
            for asking in (False, True) if profiles else (False,):
                asyncio.run(at_rate(port, trust, list(islice(_questions(asking), RATE))))  # what is kept at first use
                asked = list(islice(_questions(asking), RATE * seconds))
                answers, _ = asyncio.run(at_rate(port, trust, asked))
                cells = [f"{percentile(answers, percent):.2f}" for percent in (50, 99, 100)]
                table.add_row(f"{profiles:,} profiles", "lines" if asking else "templates", *cells)
    Console(width=120).print(table)


def _questions(asking: bool) -> Iterator[Question]:
    """Each VMI as it is created: to the webhook that writes out lines, then to the one that judges; without end."""
    made: list[Question] = []
    for number in range(500):
        body = _review(number, asking)
        made += [("/mutate-vmi", body), ("/validate-vmi", body)]
    yield from cycle(made)


def _review(number: int, asking: bool) -> bytes:
    disks = [{"name": f"disk{n}", "disk": {"bus": "virtio"}} for n in range(3)]
    devices: Json = {"disks": disks, "interfaces": [{"name": "default", "masquerade": {}}]}
    spec: Json = {
        "domain": {"cpu": {"cores": 8}, "memory": {"guest": "32Gi"}, "devices": devices},
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [
            {"name": f"disk{n}", "containerDisk": {"image": "registry.example.com/fedora:42"}} for n in range(3)
        ],
    }
    metadata: Json = {"name": f"vm-{number}", "namespace": f"team-{number % 100}"}
    if asking:
        metadata["annotations"] = {DEVICES_ANNOTATION: f"gpu-{number * 7 % PROFILES}"}
    else:
        devices["gpus"] = [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": f"t-{number}"}]
    vmi = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec}
    request = {
        "uid": f"{number:08x}-0000-4000-8000-000000000000",
        "kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"},
        "operation": "CREATE",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "userInfo": {"username": "system:serviceaccount:kubevirt:virt-controller", "groups": []},
        "object": vmi,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
