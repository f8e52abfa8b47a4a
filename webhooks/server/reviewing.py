"""The evaluator for reviews whose selectors have no cached answer yet, and its limits: decide, ask the worker, decide
again.

Deciding is pure and immediate (:func:`webhooks.validation.verdict_on`); it uses the answers that are cached and
collects the questions that are open. What is still unknown at the last decision is reported as not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from virt_dra.matching.slice_answers import AnswerCache, SelectorQuestion, SlicesAt

MAX_CHARACTERS: Final = 1024 * 1024
"""Total length of the selectors that one decision may look up."""
MAX_QUESTION_CHARACTERS: Final = 256 * 1024
MAX_QUESTIONS: Final = 64
"""Limits of the questions of one decision: their total length and their number."""
ROUNDS: Final = 3
"""How often a review may ask the worker: an answer can open another question."""

TOO_LONG: Final = "the selectors of one VM are too long together"
TOO_MANY: Final = "a VM has too many different selectors that were not seen before"
NOT_IN_TIME: Final = "one answer led to the next question, too often for one review"
OPEN: Final = "they are being evaluated"


class TooMuchAtOnce(Exception):
    """The decision looks at so many devices that it must not run on the event loop: decide again in a thread."""


class Collecting:
    """A :class:`virt_dra.matching.slice_answers.SelectorEvaluator` that collects the questions of one decision, to be
    evaluated later. What isn't collected is left unknown, and counted.

    ``why``: set for the last decision, the reason why what is still open is not checked. ``at_once``: how many devices
    and slices may be looked at before :class:`TooMuchAtOnce` is raised; None for any number.
    """

    def __init__(self, why: str = "", at_once: int | None = None) -> None:
        self.asked: list[tuple[SelectorQuestion, AnswerCache]] = []
        self.unknown_lists = 0
        """Lists of selectors that are decided about without all answers."""
        self.unknown_slices = 0
        """ResourceSlices whose answers to them aren't known, each once for each list."""
        self._why = why
        self._at_once = at_once
        self._visited = 0
        self._looked_up = 0
        self._characters = 0

    def refuses(self, expressions: Sequence[str]) -> str:
        self._looked_up += sum(map(len, expressions))
        return TOO_LONG if self._looked_up > MAX_CHARACTERS else ""

    def visits(self, count: int) -> None:
        self._visited += count
        if self._at_once is not None and self._visited > self._at_once:
            raise TooMuchAtOnce

    def find(self, question: SelectorQuestion, answers: AnswerCache, slices: SlicesAt) -> str:
        refusal = self._why
        if not refusal and self._characters + question.characters > MAX_QUESTION_CHARACTERS:
            refusal = TOO_LONG
        if not refusal and len(self.asked) >= MAX_QUESTIONS:
            refusal = TOO_MANY
        if refusal:
            self.unknown_lists += 1
            self.unknown_slices += question.unknown
            return refusal
        self._characters += question.characters
        self.asked.append((question, answers))
        return OPEN
