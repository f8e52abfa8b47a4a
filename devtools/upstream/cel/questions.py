"""Random questions of every kind, each with stored and new text and all gates: language, patterns, selectors, derived
attributes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from devtools.cel.answers import Question
from devtools.upstream.cel.expressions import expression
from devtools.upstream.cel.patterns import pattern_question
from devtools.upstream.cel.selectors import derived_attribute, selector

CHUNK = 2500
"""Questions that one seed is used for; more questions are more chunks."""


def questions(seed: int, count: int) -> Iterator[Question]:
    """The first ``count`` questions of a seed; the same ones for the same seed, however the work is divided."""
    for chunk in range(-(-count // CHUNK)):
        yield from chunk_of(seed, chunk, min(CHUNK, count - chunk * CHUNK))


def chunk_of(seed: int, chunk: int, count: int) -> Iterator[Question]:
    """The first ``count`` questions of a seed's chunk."""
    random = Random(f"{seed}/{chunk}")
    kinds = (expression, selector, selector, expression, derived_attribute, expression, selector, pattern_question)
    for number in range(count):
        yield {**kinds[number % len(kinds)](random), **_environment(random)}


def _environment(random: Random) -> Question:
    """Stored text for three in five, as the scheduler sees it; the gates matter for new text only."""
    if random.random() < 0.6:
        return {}
    given: Question = {"new": random.random() < 0.9}
    if random.random() < 0.9:
        given["features"] = {"consumable": random.random() < 0.5, "list": random.random() < 0.5}
    return given
