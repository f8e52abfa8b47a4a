"""``python -m devtools.interleavings COUNT [--seed S]``: plays COUNT histories on all processors. Fails if one finds
something."""

from __future__ import annotations

import argparse
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor

from devtools.interleavings.histories import Finding, compared, quietly

SHOWN = 10
"""Failing histories that are printed."""


def _played(seed: int) -> tuple[int, tuple[Finding, ...]]:
    return seed, quietly(lambda: compared(seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}: {options.count} histories of the control loops", flush=True)  # noqa: T201 - a command's output
    began, failed = time.monotonic(), 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seed, findings in pool.map(_played, range(options.seed, options.seed + options.count), chunksize=8):
            failed += bool(findings)
            if findings and failed <= SHOWN:
                repeat = f"python -m devtools.interleavings 1 --seed {seed}"
                print(f"history {seed} ({repeat}):", *findings, sep="\n  ", flush=True)  # noqa: T201 - a command's output
    print(f"{options.count - failed} of {options.count} histories end as undisturbed, {time.monotonic() - began:.0f} s")  # noqa: T201
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
