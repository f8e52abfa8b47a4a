"""``virt-dra simulate`` as a user runs it: time and memory of a policy, for a cluster and for one of ten times its
size."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from bench.process_cost import measured

Json = dict[str, Any]
GOALS = {(1000, 20_000): (60.0, 1024.0), (10_000, 200_000): (900.0, None)}
"""(Nodes, VMs) -> seconds and MiB."""
_SIMULATE = (sys.executable, "-c", "from virt_dra.cli.main import main; main()", "simulate")
POLICIES = ("first-fit", "least-fragmentation")


def main(*, quick: bool = False) -> None:
    """Print a row for each size and policy."""
    sizes = [(100, 2000), (1000, 20_000)] if quick else list(GOALS)
    table = Table(title="Simulations: nodes of 8 GPUs, VMs of 1, 2 and 8 that come and go")
    for column in ("nodes", "VMs", "policy", "s", "VMs/s", "MiB", "goal"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for nodes, vms in sizes:
            path = Path(folder) / "fleet.yaml"
            path.write_text(yaml.safe_dump(description(nodes, vms)))
            for policy in POLICIES:
                seconds, memory = measured([*_SIMULATE, str(path), "--policy", policy, "-o", "json"])
                most, room = GOALS.get((nodes, vms), (None, None))
                wanted = " and ".join(
                    f"{limit:.0f} {unit}" for limit, unit in ((most, "s"), (room, "MiB")) if limit is not None
                )
                met = (most is None or seconds < most) and (room is None or memory < room)
                said = f"{'met' if met else 'missed'}: {wanted}" if wanted else ""
                table.add_row(
                    f"{nodes:,}", f"{vms:,}", policy, f"{seconds:.1f}", f"{vms / seconds:,.0f}", f"{memory:.0f}", said
                )
    Console().print(table)


def description(nodes: int, vms: int) -> Json:
    """A fleet that is nearly full all the time, with failures, a drain and a taint."""

    def kind(name: str, cpu: int, memory: str, count: int, share: float, rate: float) -> Json:
        exactly = {"deviceClassName": "gpu.example.com", "count": count}
        return {
            "name": name,
            "cpu": cpu,
            "memory": memory,
            "devices": {"requests": [{"name": "gpu", "exactly": exactly}]},
            "lifetime": {"mean": "10h"},
            "arrivals": {"count": int(vms * share), "rate": f"{int(rate * nodes / 1000)}/h"},
        }

    gpus = {
        "driver": "gpu.example.com",
        "count": 8,
        "name": "gpu",
        "attributes": {"model": "A100"},
        "capacity": {"memory": "80Gi"},
        "perRoot": 2,
        "perNumaNode": 4,
    }
    return {
        "kind": "Simulation",
        "seed": 3,
        "cluster": {"nodes": [{"name": "gpu", "count": nodes, "cpu": 96, "memory": "768Gi", "devices": [gpus]}]},
        "vms": [
            kind("one", 8, "32Gi", 1, 0.6, 450),
            kind("two", 16, "64Gi", 2, 0.3, 220),
            kind("eight", 64, "512Gi", 8, 0.1, 70),
        ],
        "events": [
            {"at": "5h", "fail": ["gpu-3", "gpu-4"], "for": "1h"},
            {"at": "6h", "drain": ["gpu-7"]},
            {"at": "7h", "taint": {"driver": "gpu.example.com", "pool": "gpu-9"}, "for": "1h"},
        ],
    }
