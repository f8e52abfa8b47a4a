"""``python -m devtools.keeping N [--seed S]``: plays N histories on all processors; fails where one finds something.
``--faults``: puts each fault into the keeper, and says how many of N histories detect it."""

from __future__ import annotations

import argparse
import logging
import os
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from devtools.keeping.faults import FAULTS
from devtools.keeping.playing import found_out, played

CHUNK = 100
MISSED = 2
"""Faults that 240 histories don't detect: a start takes the mark of the stop before a lease could end while the VM
runs, and of marks that a set clock leaves in the future the judge knows too little."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--faults", action="store_true")
    options = parser.parse_args()
    if options.faults and options.seed is not None:
        parser.error("--faults plays histories of its own: leave out --seed")
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    began, failed, missed = time.monotonic(), False, 0
    with ProcessPoolExecutor(os.cpu_count(), initializer=logging.disable, initargs=(logging.WARNING,)) as pool:
        if options.faults:
            counts = [options.count] * len(FAULTS)
            for name, failing in zip(FAULTS, pool.map(found_out, FAULTS, counts), strict=True):
                print(f"{name}: {failing} of {options.count}", flush=True)  # noqa: T201 - a command's output
                missed += not failing
            failed = missed > MISSED
        else:
            print(f"seed {seed}: {options.count} histories of VMs that keep devices", flush=True)  # noqa: T201
            chunks = -(-options.count // CHUNK)
            sizes = [min(CHUNK, options.count - CHUNK * index) for index in range(chunks)]
            reasons: Counter[str] = Counter()
            for story, seen in pool.map(played, sizes, range(seed, seed + chunks)):
                reasons.update(seen)
                if story:
                    failed = True
                    print(story, flush=True)  # noqa: T201
            print(", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())))  # noqa: T201
    if options.faults:
        print(f"{len(FAULTS) - missed} of {len(FAULTS)} faults were detected, {time.monotonic() - began:.0f} s")  # noqa: T201
    else:
        print(f"{'SOMETHING WAS FOUND' if failed else 'nothing was found'}, {time.monotonic() - began:.0f} s")  # noqa: T201
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
