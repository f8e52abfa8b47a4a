"""Ours against the reference over random expressions and selectors.

Needs Go and its modules; skips otherwise. The seed is fixed, so that a run says something about a change and not about luck;
`CEL_SEED=random` explores, `CEL_SEED=N` repeats, `CEL_CASES=N` asks more.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from tests.upstream.cel.compare import compare, questions
from tests.upstream.cel.reference import NoReference, Reference


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    try:
        return Reference(tmp_path_factory.mktemp("reference"))
    except NoReference as error:
        pytest.skip(str(error))


def test_same_answers_as_the_reference(reference: Reference) -> None:
    asked = os.environ.get("CEL_SEED", "37")
    seed = random.SystemRandom().randrange(2**32) if asked == "random" else int(asked)
    outcomes, unexplained = compare(reference, list(questions(seed, int(os.environ.get("CEL_CASES", "2000")))))
    print(f"seed {seed}: {dict(outcomes)}")  # noqa: T201 - the seed repeats the run
    shown = "\n".join(json.dumps({**question, "reference": theirs, "ours": mine}) for question, theirs, mine in unexplained[:5])
    assert not unexplained, f"seed {seed}:\n{shown}"
    assert {"result", "error", "compile_error"} <= outcomes.keys()


def test_the_same_seed_asks_the_same(tmp_path: Path) -> None:
    assert list(questions(7, 50)) == list(questions(7, 50)) != list(questions(8, 50))
