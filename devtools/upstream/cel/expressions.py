"""Random expressions of the language: mostly well typed, of every kind of value and function."""

from __future__ import annotations

from random import Random

from devtools.cel.answers import Question
from devtools.upstream.cel.grammar import Grammar, templates

KINDS = (
    "int", "uint", "double", "string", "bytes", "bool", "list", "map", "dyn", "optional", "duration", "timestamp",
    "quantity", "semver", "ip", "cidr", "url", "type",
)  # fmt: skip


LEAVES, BRANCHES = templates("language.yaml")

LANGUAGE = Grammar(LEAVES, BRANCHES, KINDS)
_LONGEST = 300


def expression(random: Random) -> Question:
    """A question in mode "language"."""
    while True:
        text = LANGUAGE.draw(random, random.choice(KINDS), random.randint(1, 3))
        if len(text) < _LONGEST:
            return {"expression": text, "mode": "language"}
