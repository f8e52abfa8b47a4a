"""``python -m devtools.domains N [--seed S]``: the domains of N random VMIs, on all processors. The first that isn't as
it must be is printed with its seed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections import Counter

from devtools.domains.judging import outcomes
from launcher import LauncherError
from launcher.schema import schema_faults

CHUNK = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    end = options.seed + options.count
    try:
        schema_faults("<domain/>")
    except LauncherError as error:
        raise SystemExit(str(error)) from None
    chunks = [range(start, min(start + CHUNK, end)) for start in range(options.seed, end, CHUNK)]
    began = time.monotonic()
    total: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for counts, fault in pool.imap_unordered(outcomes, chunks):
            total += counts
            if fault:
                print(fault)  # noqa: T201 - a command's output
                raise SystemExit(1)
    listed = ", ".join(f"{number} {outcome}" for outcome, number in total.most_common())
    print(f"{options.count} VMIs from seed {options.seed} in {time.monotonic() - began:.0f} s: {listed}")  # noqa: T201


if __name__ == "__main__":
    main()
