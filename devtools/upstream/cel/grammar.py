"""Random text from a grammar of templates.

A template is text with ``$int`` for an expression of that kind, ``$int|uint`` for one of either, ``$any`` for any
value; ``«x …»`` brings the variable ``x`` into scope for the expressions within, ``«k,v …»`` two of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import yaml

_PIECE = re.compile(r"\$(?P<kinds>[a-z]+(?:\|[a-z]+)*)|«(?P<names>[a-z,]+) |(?P<end>»)")
_STRAY = 0.03
"""How often an expression of another kind stands where one is wanted."""
_LOCAL = 0.2
"""How often a variable in scope is used instead of a new expression."""


def templates(file: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The leaves and branches that a file beside this module lists by kind."""
    content = yaml.load((Path(__file__).parent / file).read_text(encoding="utf-8"), yaml.CSafeLoader)
    return content["leaves"], content["branches"]


class Grammar:
    """``leaves`` are the templates at the bottom of a tree, ``branches`` those above; ``anything`` is what ``$any``
    draws from."""

    def __init__(
        self, leaves: Mapping[str, Sequence[str]], branches: Mapping[str, Sequence[str]], anything: Sequence[str]
    ) -> None:
        self._leaves = leaves
        self._branches = branches
        self._anything = anything

    def draw(self, random: Random, kind: str, depth: int) -> str:
        """A random expression of a kind whose tree is at most ``depth`` high."""
        return self._draw(random, kind, depth, [])

    def _draw(self, random: Random, kind: str, depth: int, scope: list[str]) -> str:
        if kind == "any":
            kind = random.choice(self._anything)
        if kind in self._anything:
            if scope and random.random() < _LOCAL:
                return random.choice(scope)
            if random.random() < _STRAY:
                kind = random.choice(self._anything)
        templates = self._branches.get(kind) if depth > 0 else None
        return self._fill(random, random.choice(templates or self._leaves[kind]), depth - 1, scope)

    def _fill(self, random: Random, template: str, depth: int, scope: list[str]) -> str:
        inner: list[int] = []

        def replace(piece: re.Match[str]) -> str:
            if piece["kinds"]:
                return self._draw(random, random.choice(piece["kinds"].split("|")), depth, scope)
            if piece["names"]:
                names = piece["names"].split(",")
                scope.extend(names)
                inner.append(len(names))
            else:
                del scope[-inner.pop() :]
            return ""

        return _PIECE.sub(replace, template)
