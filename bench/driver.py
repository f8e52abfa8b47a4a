"""The node driver: how long it takes to see, decide and publish a node's devices, to prepare and release claims, and
the memory of its process."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.driver_process import (
    DRIVER,
    NODE,
    POLICY,
    DriverProcess,
    Kubelet,
    allocated_claims,
    install,
    machine_of_files,
)
from devtools.cluster.control_plane import ControlPlane
from node_driver.hardware.reading import HardwareRoots, read_hardware
from node_driver.policy.deciding import published_set
from node_driver.publishing import Publisher
from node_driver.slices import slice_contents
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.node_policy_v1alpha1 import NodePolicySpec, VirtDraNodePolicy
from virt_dra.cluster.memory.embedded import embedded_cluster

COUNTS: Final = (8, 64, 256, 1024)
SAMPLES: Final = 256
"""Claims that are prepared one after the other: those of a small node several times, while all others of a large one
are prepared."""
AT_ONCE: Final = 64
GOALS: Final = (
    "Goals: 256 functions read, decided and published within 1 s; start to published within 1 s; 60 MiB resident; a "
    "claim prepared within 100 ms (p99) beside the kernel's own time, which is none here; 64 functions for 32 pods "
    "within 2 s."
)

Claims = Sequence[dict[str, Any]]
KubeletCall = Callable[[Claims], Callable[[], None]]
"""Sends a call for a pod's claims; what is returned waits for its answer."""


def main(*, quick: bool = False) -> None:
    seen = _table(
        "Node driver: PCI functions, each in a group of its own",
        "functions", "read, ms", "decide, ms", "publish, ms", "start to published, s", "resident, MiB",
        "after prepares, MiB",
    )  # fmt: skip
    prepared = _table(
        "Node driver: claims of one function each, over the kubelet's socket",
        "functions", "prepare, median ms", "p99 ms", "release, median ms", "p99 ms", "64 at once, 2 a pod, s",
        "released, s",
    )  # fmt: skip
    with ControlPlane() as plane:
        install(plane)
        counts = COUNTS[:2] if quick else COUNTS
        claims = allocated_claims(plane, counts[-1])
        for count in counts:
            with tempfile.TemporaryDirectory(prefix="driver-") as folder:
                machine_of_files(count, Path(folder) / "host")
                steps = asyncio.run(_steps(Path(folder) / "host", count))
                with DriverProcess(plane, Path(folder), count) as driver:
                    time.sleep(1)
                    resident = driver.resident()
                    with closing(driver.kubelet()) as kubelet:
                        for first in range(SAMPLES, count, AT_ONCE):
                            _at_once(kubelet.prepare, claims[first : first + AT_ONCE])
                        one_by_one = _one_by_one(kubelet, claims[: min(count, SAMPLES)])
                        at_once = _at_once(kubelet.prepare, claims[: min(count, AT_ONCE)])
                        fully = driver.resident()
                        at_once += _at_once(kubelet.unprepare, claims[: min(count, AT_ONCE)])
            milliseconds = (f"{step * 1000:.0f}" for step in steps)
            seen.add_row(str(count), *milliseconds, f"{driver.seconds:.2f}", f"{resident:.0f}", f"{fully:.0f}")
            prepared.add_row(str(count), *one_by_one, *at_once)
    console = Console()
    console.print(seen, prepared, GOALS, sep="\n")
    console.print("Read to publish: in one process, to the embedded cluster. The rest: the process, a real API server.")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="right")
    return table


async def _steps(host: Path, count: int) -> tuple[float, float, float]:
    """Seconds to read, to decide and to publish."""
    cluster = embedded_cluster()
    await cluster.create(Node(metadata=ObjectMeta(name=NODE)))
    policy = VirtDraNodePolicy(metadata=ObjectMeta(name="all"), spec=NodePolicySpec.from_wire(POLICY))
    began = time.perf_counter()
    hardware = read_hardware(HardwareRoots(str(host / "sys"), str(host / "proc")))
    read = time.perf_counter()
    published = published_set(hardware, (policy,))
    decided = time.perf_counter()
    assert len(published.devices) == count
    publisher = Publisher(cluster, DRIVER, NODE)
    publisher.publish(slice_contents(published, {}))
    task = asyncio.create_task(publisher.run())
    await publisher.published()
    ended = time.perf_counter()
    task.cancel()
    return read - began, decided - read, ended - decided


def _one_by_one(kubelet: Kubelet, claims: Claims) -> list[str]:
    """Median and 99th percentile of preparing, and of releasing: all are prepared, then all are released."""
    prepares: list[float] = []
    releases: list[float] = []
    while len(prepares) < SAMPLES:
        prepares += [_seconds(kubelet.prepare, [claim]) for claim in claims]
        releases += [_seconds(kubelet.unprepare, [claim]) for claim in claims]
    figures = [(median(seconds), quantiles(seconds, n=100)[-1]) for seconds in (prepares, releases)]
    return [f"{seconds * 1000:.0f}" for pair in figures for seconds in pair]


def _at_once(call: KubeletCall, claims: Claims) -> list[str]:
    """Pods of two claims."""
    return [f"{_seconds(call, *(claims[first : first + 2] for first in range(0, len(claims), 2))):.2f}"]


def _seconds(call: KubeletCall, *pods: Claims) -> float:
    """Until calls for pods are answered that are sent at once."""
    began = time.perf_counter()
    for answered in [call(claims) for claims in pods]:
        answered()
    return time.perf_counter() - began
