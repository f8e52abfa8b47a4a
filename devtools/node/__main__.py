"""``python -m devtools.node N [--seed S]``: N random histories, on all processors. A broken promise is printed with the
history that led to it, and its seed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time

from devtools.node.histories import broken, without_logs

CHUNK = 200
TENTHS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    end = options.seed + options.count
    chunks = [range(start, min(start + CHUNK, end)) for start in range(options.seed, end, CHUNK)]
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), without_logs) as pool:
        for played, story in enumerate(pool.imap_unordered(broken, chunks), start=1):
            if story:
                print(story)  # noqa: T201 - a command's output
                raise SystemExit(1)
            if played * TENTHS // len(chunks) > (played - 1) * TENTHS // len(chunks):
                print(f"{played * CHUNK} histories of a node", file=sys.stderr)  # noqa: T201
    seconds = time.monotonic() - began
    print(f"{options.count} histories of a node from seed {options.seed} in {seconds:.0f} s: no promise was broken")  # noqa: T201


if __name__ == "__main__":
    main()
