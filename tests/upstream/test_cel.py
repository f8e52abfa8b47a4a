"""Ours against the reference over random questions of every kind.

Needs Go and its modules; skips otherwise. The seed changes with every run and is printed; ``CEL_SEED=N`` repeats one,
``CEL_CASES=N`` asks another number of questions. ``make conformance`` asks 200,000.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

from devtools.cel.answers import Question
from devtools.upstream.cel.compare import report, run
from devtools.upstream.cel.questions import CHUNK, chunk_of, questions
from devtools.upstream.cel.reference import NoReference, Reference, build
from devtools.upstream.cel.shrink import shrunk
from virt_dra.cel import STORED_EXPRESSIONS

pytestmark = pytest.mark.go(seconds=10)

COVERED = (
    *(
        f"{kind}: {outcome}"
        for kind in ("language", "selector", "derived")
        for outcome in ("result", "error", "compile_error")
    ),
    *(f"new: {gates}" for gates in ("no gate", "consumable", "list", "consumable+list")),
)
"""What a run must have met to say something."""


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    try:
        return build(tmp_path_factory.mktemp("reference"))
    except NoReference as error:
        pytest.skip(str(error))


def test_same_answers_as_the_reference(reference: Reference, capfd: pytest.CaptureFixture[str]) -> None:
    given = os.environ.get("CEL_SEED")
    seed = int(given) if given else random.SystemRandom().randrange(2**32)
    count = int(os.environ.get("CEL_CASES", "8000"))
    total = run(reference, seed, count, os.cpu_count() or 1)
    with capfd.disabled():
        print(f"\nCEL_SEED={seed}: {total}")  # noqa: T201 - the seed repeats the run
    shown = "\n".join(report(reference, total.unexplained, 5))
    assert not total.unexplained, f"{len(total.unexplained)} of {count} differ; CEL_SEED={seed} repeats this:\n{shown}"
    assert [name for name in COVERED if not total.outcomes[name]] == []


TRANSLATED = frozenset(
    ("@not_strictly_false", "__not_strictly_false__", "_&&_", "_||_", "_?._", "_in_", "in", "cel.@mapInsert")
)
"""Functions that are nodes of their own in our tree, or only in upstream's expansion of macros."""


def test_overloads_are_declared_as_upstream_in_its_order(reference: Reference) -> None:
    """What the checker doesn't know, such as an element of ``[]``, it takes for what the first overload wants."""
    ours: dict[tuple[str, bool], list[str]] = {}
    for overloads in STORED_EXPRESSIONS.functions.functions.values():
        for overload in overloads:
            text = f"({', '.join(map(str, overload.params))}) -> {overload.result}"
            ours.setdefault((overload.function, overload.member), []).append(text)
    assert ours == {key: texts for key, texts in reference.declarations().items() if key[0] not in TRANSLATED}


def test_the_same_seed_asks_the_same_however_the_work_is_divided() -> None:
    count = CHUNK + 50
    assert list(questions(7, count)) == [*chunk_of(7, 0, CHUNK), *chunk_of(7, 1, 50)]
    assert list(questions(7, 50)) != list(questions(8, 50))


def test_a_difference_shrinks_to_what_makes_it() -> None:
    """The difference of this test: the text divides by zero, and the device has an attribute x."""

    def differs(candidate: Question) -> bool:
        return "/ 0" in candidate["expression"].replace("/0", "/ 0") and "x" in candidate.get("device", {}).get(
            "attributes", {}
        )

    def first_of(candidates: Sequence[Question]) -> Question | None:
        return next(filter(differs, candidates), None)

    found = {
        "expression": '[1, 2].exists(v, size("abc") + v / 0 > 1) || device.driver == "d"',
        "device": {"driver": "d", "attributes": {"x": {"int": 1}, "y": {"int": 2}}, "capacity": {"m": {"value": "1"}}},
        "new": True,
    }
    assert shrunk(found, first_of) == {"expression": "/0", "device": {"driver": "d", "attributes": {"x": {"int": 1}}}}
