"""The live report on a real API server: memory and processor time of its two processes, and how soon a change is shown.

Run: ``python -m bench report_server`` (``--quick``: a tenth). API server, etcd, both processes and this one share the
machine's cores. The peer is a bare watch of this process: when it hears of a change, the report could hear of it, too.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.operator import DEVICES_PER_NODE, DRIVER, NAMESPACE, each, populate
from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.report_server import RunningReport, bind, report_server, token_of
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import packaged

NODES, VMIS, WAITING, CHANGES = 5_000, 5_000, 20, 5
_PAUSE = 15.0
"""Seconds without a change before each of those that are measured, so that none waits for the pause after the one
before."""


def main(*, quick: bool = False) -> None:
    """Print the table."""
    nodes, vmis, waiting = (NODES // 10, VMIS // 10, WAITING // 4) if quick else (NODES, VMIS, WAITING)
    with ControlPlane() as plane:
        asyncio.run(_run(plane, nodes, vmis, waiting, 5.0 if quick else _PAUSE))


async def _run(plane: ControlPlane, nodes: int, vmis: int, waiting: int, pause: float) -> None:
    console = Console(width=120)
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster:
        began = time.monotonic()
        await populate(cluster, vmis, 0, nodes)
        await cluster.create(DeviceClass.from_wire({"metadata": {"name": "gpu"}, "spec": {"selectors": [_selector()]}}))
        await each(range(nodes), lambda number: cluster.create(_node(number)))
        await each(range(waiting), lambda number: _waits(cluster, number))
        for obj in build(packaged(), "report"):
            if obj["kind"] == "ClusterRole":
                await cluster.apply(obj, field_manager="bench")
        console.print(
            f"{nodes:,} nodes, {nodes * DEVICES_PER_NODE:,} devices, {vmis:,} "
            f"VMIs made in {time.monotonic() - began:.0f} s"
        )
        token = await asyncio.to_thread(token_of, plane, NAMESPACE, "default")
        await asyncio.to_thread(bind, plane, "virt-dra-report-viewer", NAMESPACE, "default")
        with tempfile.TemporaryDirectory() as folder, report_server(plane.kubeconfig, Path(folder)) as running:
            await _measured(console, cluster, running, token, pause)


async def _measured(console: Console, cluster: KubeCluster, running: RunningReport, token: str, pause: float) -> None:
    began = time.monotonic()
    while (await asyncio.to_thread(running.plain, "/readyz"))[0] != 200:
        await asyncio.sleep(0.5)
        if time.monotonic() - began > 600:
            raise TimeoutError(f"no page: {running.log[-5:]}")
    ready = time.monotonic() - began
    parent, child = running.process.pid, _child(running.process.pid)
    page, packed, document = [
        await asyncio.to_thread(running.ask, path, token=token, **headers)
        for path, headers in (("/", {}), ("/", {"Accept_Encoding": "gzip"}), ("/report.json", {}))
    ]
    seconds: list[float] = []
    with _shown(running, token) as versions:
        for number in range(CHANGES):
            await asyncio.sleep(pause)
            seen, at = len(versions), time.monotonic()
            status = {"status": {"phase": "Running" if number % 2 else "Scheduled"}}
            await cluster.patch(VirtualMachineInstance, "vm-0", NAMESPACE, merge=status)
            while len(versions) == seen:
                await asyncio.sleep(0.02)
                if time.monotonic() - at > 300:
                    raise TimeoutError("the change isn't shown")
            seconds.append(versions[-1] - at)
    busy = _processor(child), time.monotonic()
    await asyncio.sleep(pause)
    quiet = (_processor(child) - busy[0]) / (time.monotonic() - busy[1])
    served = _processor(parent)
    for _ in range(100):
        await asyncio.to_thread(running.ask, "/", token=token, Accept_Encoding="gzip")
    served = (_processor(parent) - served) / 100
    metrics = await asyncio.to_thread(running.metrics)
    rendering = metrics["virt_dra_report_rendering_seconds_sum"] / metrics["virt_dra_report_rendering_seconds_count"]
    table = Table("measured", "", title="The live report on a real API server")
    table.add_row("from the start until the first page", f"{ready:.1f} s")
    table.add_row("memory of the serving process, most", f"{_peak_mib(parent):.0f} MiB")
    table.add_row(
        "memory of the rendering process, most",
        f"{_peak_mib(child):.0f} MiB, address space {_peak_mib(child, 'VmPeak'):.0f} MiB",
    )
    table.add_row("a rendering", f"{rendering:.1f} s")
    table.add_row("from a change to its event", f"{min(seconds):.1f} to {max(seconds):.1f} s")
    table.add_row("processor time of rendering where nothing changes", f"{100 * quiet:.1f}%")
    table.add_row("processor time of serving one page", f"{served * 1000:.1f} ms")
    sizes = [f"{len(body) / 2**20:.2f} MiB" for body in (page.body, document.body)]
    table.add_row(
        "page, compressed, document", f"{sizes[0]}, {int(packed.headers['Content-Length']) / 1024:.0f} KiB, {sizes[1]}"
    )
    console.print(table)


@contextmanager
def _shown(running: RunningReport, token: str) -> Iterator[list[float]]:
    """The times at which ``changed`` arrived, after the first, as they come."""
    times: list[float] = []
    with running.events(token=token, seconds=600) as events:
        next(events)

        def read() -> None:
            try:
                for kind, _ in events:
                    if kind == "changed":
                        times.append(time.monotonic())
            except (OSError, ValueError, AttributeError):
                return  # the measurement is over, and its connection closed

        threading.Thread(target=read, daemon=True).start()
        yield times


def _selector() -> dict[str, Any]:
    return {"cel": {"expression": f"device.driver == '{DRIVER}'"}}


def _node(number: int) -> Node:
    name, room = f"node-{number}", {"cpu": "128", "memory": "512Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return Node.from_wire(
        {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
    )


async def _waits(cluster: KubeCluster, number: int) -> None:
    """A pod that wants nine devices of one node, which has eight."""
    name = f"waits-{number}"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": DEVICES_PER_NODE + 1}}
    await cluster.create(
        ResourceClaim.from_wire(
            {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": {"requests": [request]}}}
        )
    )
    container = {"name": "compute", "image": "launcher", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}], "containers": [container]}
    await cluster.create(Pod.from_wire({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}))


def _child(parent: int) -> int:
    """The rendering process of the serving one."""
    children = Path(f"/proc/{parent}/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    return next(pid for pid in pids if b"virt_dra.sandbox" in Path(f"/proc/{pid}/cmdline").read_bytes())


def _processor(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pid: int, name: str = "VmHWM") -> float:
    match_ = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match_[1]) / 1024 if match_ else 0.0
