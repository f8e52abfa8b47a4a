"""Random regular expressions: pieces of the syntax, right and wrong, put together without a grammar."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import yaml

from devtools.cel.answers import Question

_PIECES: list[str] = yaml.safe_load((Path(__file__).parent / "patterns.yaml").read_text(encoding="utf-8"))
_TEXTS = ("", "a", "ab", "aAb", "a\nb", "é", "K", "ſ", "0_ ", "日本", "aaaa", "]-\\", "ǅß", "͸")
_CALLS = (
    "{text}.find({pattern})",
    "{text}.findAll({pattern})",
    "{text}.matches({pattern})",
    "[{text}].map(t, t.find({pattern} + ''))",
)


def pattern_question(random: Random) -> Question:
    """A question of the language: a function of regular expressions on some text."""
    pattern = "".join(random.choices(_PIECES, k=random.randint(1, 5)))
    text, quoted = json.dumps(random.choice(_TEXTS)), json.dumps(pattern)
    return {"expression": random.choice(_CALLS).format(text=text, pattern=quoted), "mode": "language"}
