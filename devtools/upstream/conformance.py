"""All comparisons, for long: ``python -m devtools.upstream.conformance N [--seed S] [--hostile-minutes M] [--histories
H] [--kept-histories K] [--questions Q] [--node-histories D] [--domains V]`` (``make conformance N=… SEED=…``).

N allocation problems and ten times as many expressions against the references, on all processors; H histories of the
control loops under turbulence against undisturbed ones (:mod:`devtools.interleavings`); K histories of VMs that keep
their devices against a model, which must find out faults in the keeper, too (:mod:`devtools.keeping`); Q questions
whether a pod fits to everyone who answers them (:mod:`devtools.fit`); D histories of claims on a node with faults at
every write, which must find out mistakes in the driver, too (:mod:`devtools.node`); the domains of V random VMIs
against libvirt's schema (:mod:`devtools.domains`); the scenarios of classic DRA, and random ones, on control planes
1.30.14 and 1.31.14 (:mod:`devtools.classic`).
Then two searches: M minutes for expressions that hurt (:mod:`devtools.cel.hostile`), and for as many seconds as a tenth
of N for the selector that holds up the webhook longest (:mod:`devtools.webhooks.search`). Fails where a difference is
unexplained, or an expression exceeds what it may take.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys

EXPRESSIONS_PER_CASE = 10
FAULTY = 240
"""Histories with each fault that is put into the keeper."""
MISTAKEN = 3000
"""Histories with each mistake that is made in the node driver, at most."""
CLASSIC_STORIES = 10
"""Random scenarios of classic DRA for each release: a minute or two each."""
SEARCHED = 10
"""Cases for each second of the search."""


def _run(module: str, *arguments: str) -> bool:
    """Whether it ended well."""
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--hostile-minutes", type=float, default=20.0)
    parser.add_argument("--histories", type=int, default=20_000)
    parser.add_argument("--kept-histories", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=20_000)
    parser.add_argument("--node-histories", type=int, default=100_000)
    parser.add_argument("--domains", type=int, default=100_000)
    options = parser.parse_args()
    seed, expressions = options.seed, options.count * EXPRESSIONS_PER_CASE
    print(f"seed {seed}: {options.count} allocation cases, {expressions} expressions", flush=True)  # noqa: T201 - a command's output
    good = [
        _run("devtools.upstream.allocator.compare", str(options.count), "--seed", str(seed)),
        _run("devtools.upstream.cel.compare", str(expressions), "--seed", str(seed)),
        _run("devtools.interleavings", str(options.histories), "--seed", str(seed)),
        _run("devtools.keeping", str(options.kept_histories), "--seed", str(seed % 2**31)),
        _run("devtools.keeping", str(FAULTY), "--faults"),
        _run("devtools.fit", str(options.questions), "--seed", str(seed)),
        _run("devtools.node", str(options.node_histories), "--seed", str(seed)),
        _run("devtools.node", str(MISTAKEN), "--seed", "1", "--mistakes"),
        _run("devtools.domains", str(options.domains), "--seed", str(seed)),
        _run("devtools.classic"),
        _run("devtools.classic", "--random", str(CLASSIC_STORIES), "--seed", str(seed % 2**31)),
    ]
    harmless = [
        _run("devtools.cel.hostile", "--minutes", str(options.hostile_minutes), "--seed", str(seed)),
        _run("devtools.webhooks.search", str(max(options.count // SEARCHED, 60)), "--seed", str(seed)),
    ]
    print("no expression hurts" if all(harmless) else "AN EXPRESSION HURTS OR HOLDS UP THE WEBHOOK, see above")  # noqa: T201
    print("no unexplained difference" if all(good) else "UNEXPLAINED DIFFERENCES, see above")  # noqa: T201
    raise SystemExit(0 if all(good) and all(harmless) else 1)


if __name__ == "__main__":
    main()
