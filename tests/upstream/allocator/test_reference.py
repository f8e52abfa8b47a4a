"""Ours against the reference allocator of Kubernetes v0.37.2, over random problems of every feature.

Needs Go and its modules; skips otherwise. Each run has a new seed, which is printed: `ALLOCATOR_SEED=N` repeats it,
`ALLOCATOR_CASES=N` asks more. For long runs: ``make conformance``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.upstream.allocator.compare import Outcome, compare, described, problems, shrunk
from tests.upstream.allocator.decided import decided
from tests.upstream.allocator.reference import NotAvailable, Reference, built

_SAMPLE = 200
"""Problems that are asked again without each feature."""


@pytest.fixture(scope="module")
def running() -> Iterator[Reference]:
    try:
        with built() as binary, Reference(binary) as process:
            yield process
    except NotAvailable as missing:
        pytest.skip(str(missing))


def test_same_answers_as_the_reference(running: Reference) -> None:
    cases = int(os.environ.get("ALLOCATOR_CASES", "5000"))
    seed = int(os.environ.get("ALLOCATOR_SEED") or random.SystemRandom().randrange(2**32))
    outcome = Outcome()
    for batch in problems(seed, cases):
        outcome.merge(compare(running, batch))
        if outcome.unexplained:
            break
    print(f"ALLOCATOR_SEED={seed}: {dict(sorted(outcome.counts.items()))}")  # noqa: T201 - the seed repeats the run
    print(decided(running, next(problems(seed, _SAMPLE))).table())  # noqa: T201 - what the comparison is worth
    if outcome.unexplained:
        pytest.fail(f"ALLOCATOR_SEED={seed}, e.g.\n{described(shrunk(running, outcome.unexplained[0]))}")
    assert {"allocated", "none", "error", "node error"} <= outcome.counts.keys()
    assert outcome.undecided <= 5 + outcome.total // 500, f"ALLOCATOR_SEED={seed}: too many problems are too hard to compare"
