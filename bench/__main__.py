"""``make bench``: speed and memory, as tables, each against a peer in the same run.

``python -m bench load`` runs one of them; ``python -m bench faults --help`` lists its scenarios.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

WITH_QUICK = (
    "operator", "large", "loops", "simulate", "extender", "inspection", "report_server", "driver", "launcher",
    "kopf_watches", "profiles",
)  # fmt: skip
BENCHES = (
    "cel", "allocator", "load", "startup", "image", "webhook", "operator", "large", "loops", "simulate", "extender",
    "inspection", "report_server", "driver", "launcher", "kopf_watches", "profiles", "faults",
)  # fmt: skip


def main() -> None:
    if sys.argv[1:2] == ["faults"]:
        importlib.import_module("bench.faults").command(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"{', '.join(BENCHES)}; without: all")
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("out/bench-allocator.json"),
        help="where allocator saves its figures [%(default)s]",
    )
    quick = ", ".join(("allocator", *WITH_QUICK, "faults"))
    parser.add_argument("--quick", action="store_true", help=f"{quick}: a tenth, for a look")
    options = parser.parse_args()
    unknown = [name for name in options.benches if name not in BENCHES]
    if unknown:
        parser.error(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    for name in options.benches or BENCHES:
        module = importlib.import_module(f"bench.{name}")
        if name == "allocator":
            module.main(options.json, quick=options.quick)
        elif name in (*WITH_QUICK, "faults"):
            module.main(quick=options.quick)
        else:
            module.main()


main()
