"""Makes a trace of a GPU cluster in the shape of the FGD paper's (USENIX ATC 2023): ``python -m
devtools.experiments.traces FOLDER``.

The shape, not the data: as many nodes and GPUs of as many models, and as large parts of tasks that share a GPU, take
one, or several (section 2 and table 1 of the paper). Everything else is drawn by the seed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
TASK_COLUMNS: Final = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"),
    *("qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
)


@dataclass(frozen=True)
class _Machine:
    model: str
    gpus: int
    cpu: int
    memory_gib: int
    count: int


_MACHINES: Final = (
    _Machine("G2", 8, 96, 768, 549),
    _Machine("T4", 2, 64, 256, 303),
    _Machine("T4", 4, 96, 384, 59),
    _Machine("P100", 2, 64, 256, 131),
    _Machine("G3", 8, 128, 768, 39),
    _Machine("V100M16", 4, 64, 256, 21),
    _Machine("V100M16", 8, 64, 512, 14),
    _Machine("V100M32", 4, 64, 512, 33),
    _Machine("V100M32", 8, 96, 768, 9),
    _Machine("A10", 1, 128, 512, 2),
    _Machine("", 0, 94, 256, 310),
)
_SHARES: Final = (50, 100, 100, 150, 200, 250, 300, 330, 400, 450, 460, 500, 500, 600, 650, 700, 770, 800, 900)
_KINDS: Final = ((0.133, 0), (0.511, -1), (0.991, 1), (0.993, 2), (0.995, 4), (1.0, 8))
"""Cumulative parts of tasks by their GPUs; -1: a part of one."""


def nodes(scale: float = 1.0) -> Iterator[tuple[object, ...]]:
    """Rows. ``scale``: of the number of nodes of each kind, at least one."""
    number = 0
    for machine in _MACHINES:
        for _ in range(max(1, round(machine.count * scale))):
            yield f"node-{number:04}", machine.cpu * 1000, machine.memory_gib * 1024, machine.gpus, machine.model
            number += 1


def tasks(seed: int, count: int = 8152, constrained: float = 0.0) -> Iterator[tuple[object, ...]]:
    """Rows. ``constrained``: the part of the tasks with a GPU that ask for a model."""
    random = Random(seed)
    at = 0.0
    for number in range(count):
        at += random.expovariate(1 / 1500)
        drawn = random.random()
        gpus = next(gpus for part, gpus in _KINDS if drawn <= part)
        milli = random.choice(_SHARES) if gpus < 0 else 1000 if gpus else 0
        gpus = abs(gpus)
        if milli == 1000:
            cpu, memory = (
                gpus * random.choice((4, 6, 8, 8, 10, 12, 12, 16)),
                gpus * random.choice((8, 12, 16, 24, 32, 48)),
            )
        elif gpus:
            cpu, memory = random.choice((1, 2, 4, 4, 6, 8, 8)), random.choice((4, 8, 12, 16, 32))
        else:
            cpu, memory = random.choice((1, 2, 4, 8, 16, 32)), random.choice((4, 8, 16, 32, 64))
        spec = (
            random.choice(("G2", "G2", "T4", "T4", "P100", "V100M16|V100M32"))
            if gpus and gpus < 4 and random.random() < constrained
            else ""
        )
        ends = at + random.expovariate(1 / 40_000)
        yield (
            f"task-{number:04}",
            cpu * 1000,
            memory * 1024,
            gpus,
            milli,
            spec,
            "LS",
            "Running",
            int(at),
            int(ends),
            int(at),
        )


def write_trace(
    folder: Path, seed: int = 1, count: int = 8152, scale: float = 1.0, constrained: float = 0.0
) -> tuple[Path, Path]:
    """``nodes.csv`` and ``tasks.csv``."""
    files = folder / "nodes.csv", folder / "tasks.csv"
    for path, columns, rows in zip(
        files, (NODE_COLUMNS, TASK_COLUMNS), (nodes(scale), tasks(seed, count, constrained)), strict=True
    ):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of nodes and tasks")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for path in write_trace(given.folder, given.seed, round(8152 * given.scale), given.scale):
        print(path)  # noqa: T201 - a command's output


if __name__ == "__main__":
    main()
