"""How long the command line takes: ``--help``, and the run of one example, against starting Python alone."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
GOALS = {
    "virt-dra --help": 0.3,
    "virt-dra run (one example)": 1.0,
    "virt-dra lint (one example)": 0.3,
    "virt-dra allocate (one example)": 0.3,
}
ROUNDS = 7
EXAMPLE = str(ROOT / "examples" / "gpu-pci")


def main() -> None:
    virt_dra = [sys.executable, "-c", "from virt_dra.cli.main import main; main()"]
    commands = {
        "python -c pass (peer)": [sys.executable, "-c", "pass"],
        "virt-dra --help": [*virt_dra, "--help"],
        "virt-dra run (one example)": [*virt_dra, "run", EXAMPLE],
        "virt-dra lint (one example)": [*virt_dra, "lint", "-f", EXAMPLE],
        "virt-dra allocate (one example)": [*virt_dra, "allocate", "-f", EXAMPLE],
    }
    medians = {name: statistics.median(_seconds(command) for _ in range(ROUNDS)) for name, command in commands.items()}
    table = Table("command", "median s", "× Python alone", "goal s", title=f"Start-up, {ROUNDS} rounds")
    peer = medians["python -c pass (peer)"]
    for name, seconds in medians.items():
        table.add_row(name, f"{seconds:.3f}", f"{seconds / peer:.1f}", str(GOALS.get(name, "")))
    Console().print(table)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
