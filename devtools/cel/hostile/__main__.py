"""Searches for expressions that hurt: ``python -m devtools.cel.hostile [--minutes M] [--seed S] [--objective NAME …]``.

Prints the best finds of each objective with their times. Fails where one exceeds the bounds of ``bounds``; then it
shall be mended, and its expression be kept in a ``*.txt`` beside this file.
"""

from __future__ import annotations

import argparse
import random
import sys

from devtools.cel.hostile import worst
from devtools.cel.hostile.bounds import exceeded
from devtools.cel.hostile.search import OBJECTIVES, search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--objective", nargs="*", choices=sorted(OBJECTIVES), default=sorted(OBJECTIVES))
    parser.add_argument("--show", type=int, default=5)
    options = parser.parse_args()
    out = sys.stdout
    out.write(f"seed {options.seed}\n")
    bad = 0
    for objective in options.objective:
        finds = search(objective, options.seed, 60 * options.minutes / len(options.objective), worst())
        for find in finds[: options.show]:
            times = find.times
            why = exceeded(times)
            bad += bool(why)
            out.write(
                f"{objective} {find.score:.3f}: compiling {times.compiling * 1e3:.0f} "
                f"+ {times.estimating * 1e3:.0f} ms, watched"
                f" {times.watched * 1e3:.0f} ms for {times.charged * 1e3:.0f} ms, "
                f"longest stretch {times.stretch * 1e3:.0f} ms,"
                f" unwatched {times.free * 1e3:.0f} ms, {times.outcome}{' EXCEEDS ' + why if why else ''}\n "
                f"   {find.expression}\n"
            )
        out.flush()
    out.write("BOUNDS EXCEEDED, see above\n" if bad else "no bound exceeded\n")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
