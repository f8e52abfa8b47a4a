"""``python -m devtools.fit COUNT [--seed S]``: asks everyone about COUNT random cases on all processors. Fails where
somebody contradicts the scheduler's filters."""

from __future__ import annotations

import argparse
import os
import random
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from devtools.fit.comparing import contradictions

SHOWN = 10
"""Cases that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    options = parser.parse_args()
    print(f"seed {options.seed}: {options.count} questions whether a pod fits", flush=True)  # noqa: T201 - a command's output
    began, differing = time.monotonic(), 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for report in pool.map(_report, range(options.seed, options.seed + options.count), chunksize=16):
            differing += bool(report)
            if report and differing <= SHOWN:
                print(report, flush=True)  # noqa: T201
    agreed = options.count - differing
    print(f"{agreed} of {options.count} questions have one answer, {time.monotonic() - began:.0f} s")  # noqa: T201
    raise SystemExit(1 if differing else 0)


def _report(seed: int) -> str:
    """The contradictions about a case, or the fault of somebody who was asked."""
    try:
        return contradictions(seed)
    except Exception:  # noqa: BLE001 - a fault is no answer, and the other cases are asked all the same
        return f"seed {seed}: {traceback.format_exc()}"


if __name__ == "__main__":
    main()
