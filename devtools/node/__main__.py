"""``python -m devtools.node N [--seed S]``: N random histories, on all processors. A broken promise is printed with the
history that led to it, and its seed. ``--mistakes``: makes each mistake in the driver, and says which of N histories
finds it out; fails where none does but of those that are :data:`~devtools.node.mistakes.HARMLESS`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from functools import partial

from devtools.node.histories import broken, without_logs
from devtools.node.mistakes import HARMLESS, MISTAKES, found_out

CHUNK = 200
TENTHS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--mistakes", action="store_true")
    options = parser.parse_args()
    if options.mistakes:
        raise SystemExit(_make_mistakes(range(options.seed, options.seed + options.count)))
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


def _make_mistakes(seeds: range) -> int:
    """1 if one isn't found out."""
    began, missed = time.monotonic(), []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), without_logs) as pool:
        for mistake, number in zip(MISTAKES, pool.imap(partial(found_out, seeds=seeds), MISTAKES), strict=True):
            finding = f"history {number}" if number else f"none of {len(seeds)}: {HARMLESS.get(mistake, 'WHY?')}"
            print(f"{mistake}: {finding}", flush=True)  # noqa: T201
            if not number:
                missed.append(mistake)
    seconds = time.monotonic() - began
    print(f"{len(MISTAKES) - len(missed)} of {len(MISTAKES)} mistakes were found out, {seconds:.0f} s")  # noqa: T201
    return int(not HARMLESS.keys() >= {*missed})


if __name__ == "__main__":
    main()
