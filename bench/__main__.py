"""``make bench``: speed and memory, as tables, each against a peer in the same run. ``python -m bench load`` runs one of them."""

from __future__ import annotations

import importlib
import sys

BENCHES = ("cel", "load", "startup")


def main() -> None:
    chosen = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in chosen if name not in BENCHES]
    if unknown:
        sys.exit(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    for name in chosen:
        importlib.import_module(f"bench.{name}").main()


main()
