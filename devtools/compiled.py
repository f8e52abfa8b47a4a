"""``python -m devtools.compiled [FOLDER]``: a copy of the packages whose hot modules are compiled by mypyc, and what
that gains.

The pure Python is the default, and the witness: both must choose the same devices. Needs a C compiler. Use the copy
with ``PYTHONPATH=FOLDER``. Decision 0009 has the figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
PACKAGES = ("virt_dra", "webhooks", "launcher", "node_driver")
# Not the search and the table of features: tests, and who has features of his own, inherit from them; compiling them
# gains nothing.
MODULES = (
    "virt_dra/allocator/attempt.py",
    "virt_dra/allocator/result.py",
    "virt_dra/allocator/usage.py",
    "virt_dra/allocator/snapshot.py",
    "virt_dra/allocator/counter_sets.py",
    "virt_dra/allocator/reuse/batch.py",
    "virt_dra/allocator/reuse/pod_classes.py",
    "virt_dra/allocator/reuse/node_classes.py",
    "virt_dra/allocator/features/selectors.py",
    "virt_dra/allocator/features/in_use.py",
    "virt_dra/allocator/features/counters.py",
    "virt_dra/allocator/features/capacity.py",
    "virt_dra/allocator/features/consumption.py",
    "virt_dra/api/persistent_map.py",
)
_BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup

module, sys.argv = sys.argv[1], ["setup.py", "-q", "build_ext", "--inplace"]
options = ["--config-file", "", "--ignore-missing-imports", "--follow-imports=silent"]
setup(name="compiled", packages=[], ext_modules=mypycify([*options, module], opt_level="3"))
"""
_RUN = "from virt_dra.cli.main import main; main()"
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devtools.compiled", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "out" / "compiled", help="[out/compiled]")
    parser.add_argument(
        "--workload",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="measure virt-dra allocate --workload FILE",
    )
    options = parser.parse_args()
    build(options.folder)
    if options.workload:
        compare(options.folder, options.workload)


def build(folder: Path) -> None:
    """Copy the packages and compile the modules in the copy. Raises CalledProcessError."""
    if folder.exists():
        shutil.rmtree(folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in MODULES:
        print(f"compiling {module}", flush=True)  # noqa: T201 - a command's output
        subprocess.run([sys.executable, "-c", _BUILD, module], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(folder / "build")


def compare(folder: Path, workloads: list[Path]) -> None:
    """Print pods per second of both for each workload. Raises AssertionError if they choose other devices."""
    table = Table("workload", "pure, pods/s", "compiled", "×")
    for workload in workloads:
        pure = [_placed(ROOT, workload) for _ in range(ROUNDS)]
        compiled = [_placed(folder, workload) for _ in range(ROUNDS)]
        if len({digest for _, digest in (*pure, *compiled)}) != 1:
            raise AssertionError(f"{workload}: the compiled allocator chooses other devices")
        before, after = max(pure)[0], max(compiled)[0]
        table.add_row(workload.stem, f"{before:,.0f}", f"{after:,.0f}", f"{after / before:.2f}")
    Console().print(table)


def _placed(folder: Path, workload: Path) -> tuple[float, str]:
    """Pods per second, and the digest of what was chosen."""
    command = [sys.executable, "-c", _RUN, "allocate", "--workload", str(workload.resolve())]
    answer = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)
    return float(answer["pods_per_s"]), str(answer["digest"])


if __name__ == "__main__":
    main()
