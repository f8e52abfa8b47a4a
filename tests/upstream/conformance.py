"""Both comparisons with the references, for long: ``python -m tests.upstream.conformance N [--seed S]`` (``make conformance N=… SEED=…``).

N allocation problems and ten times as many expressions, on all processors. Fails where a difference is unexplained. Then, for as many
seconds as a tenth of N, a search for the selector that holds up the webhook longest (:mod:`tests.webhooks.worker.search`).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys

EXPRESSIONS_PER_CASE = 10
SEARCHED = 10
"""Cases for each second of the search."""


def _run(module: str, count: int, seed: int) -> bool:
    """Whether it ended well."""
    return subprocess.run([sys.executable, "-m", module, str(count), "--seed", str(seed)], check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    seed, expressions = options.seed, options.count * EXPRESSIONS_PER_CASE
    print(f"seed {seed}: {options.count} allocation cases, {expressions} expressions", flush=True)  # noqa: T201 - a command's output
    good = [_run("tests.upstream.allocator.compare", options.count, seed), _run("tests.upstream.cel.compare", expressions, seed)]
    harmless = _run("tests.webhooks.worker.search", max(options.count // SEARCHED, 60), seed)
    print("no selector holds up the webhook" if harmless else "A SELECTOR HOLDS UP THE WEBHOOK, see above")  # noqa: T201
    print("no unexplained difference" if all(good) else "UNEXPLAINED DIFFERENCES, see above")  # noqa: T201
    raise SystemExit(0 if all(good) and harmless else 1)


if __name__ == "__main__":
    main()
