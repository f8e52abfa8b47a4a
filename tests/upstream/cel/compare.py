"""Ours against the reference over random questions: ``python -m tests.upstream.cel.compare N [--seed S]``."""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.cel.answers import Answer, Question, answer
from tests.upstream.cel.differences import reason
from tests.upstream.cel.expressions import expression
from tests.upstream.cel.reference import Reference, temporary
from tests.upstream.cel.selectors import selector

_BATCH = 5000


def questions(seed: int, count: int) -> Iterator[Question]:
    """Half expressions of the language, half selectors; the same for the same seed."""
    source = random.Random(seed)
    for number in range(count):
        yield expression(source) if number % 2 else selector(source)


def compare(reference: Reference, asked: Sequence[Question]) -> tuple[Counter[str], list[tuple[Question, Answer, Answer]]]:
    """How often which outcome and which documented difference occurred, and the unexplained ones (question, theirs, ours)."""
    outcomes: Counter[str] = Counter()
    unexplained: list[tuple[Question, Answer, Answer]] = []
    for question, theirs in zip(asked, reference.ask(asked), strict=True):
        mine = answer(question)
        outcomes[next(key for key in ("compile_error", "error", "result") if key in theirs or key == "result")] += 1
        if mine != theirs:
            why = reason(question, theirs, mine)
            if why is None:
                unexplained.append((question, theirs, mine))
            else:
                outcomes[why] += 1
    return outcomes, unexplained


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--show", type=int, default=20, help="how many differences to print")
    options = parser.parse_args()
    print(f"seed {options.seed}")  # noqa: T201 - a command's output
    reference, _folder = temporary()
    asked = list(questions(options.seed, options.count))
    outcomes: Counter[str] = Counter()
    differing = 0
    for start in range(0, len(asked), _BATCH):
        found, unexplained = compare(reference, asked[start : start + _BATCH])
        outcomes += found
        for question, theirs, mine in unexplained:
            differing += 1
            if differing <= options.show:
                print(json.dumps({**question, "reference": theirs, "ours": mine}, ensure_ascii=False))  # noqa: T201
    print(dict(outcomes), f"{differing} unexplained of {len(asked)}")  # noqa: T201
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
