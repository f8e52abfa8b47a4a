"""What selectors say of devices, as values: the questions, their answers, and the answers that are kept.

A list of selectors, all of which must hold, is asked of slices. An answer belongs to one slice, so a changed slice costs its own devices.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, Protocol

from webhooks.selectors.parts import Part

MAX_SELECTORS: Final = 255
"""Of one question: 64 can be stored, 32 of a class and 32 of a request; a depth is one byte."""
MAX_MESSAGE: Final = 500
"""Characters of a fault's message that are kept: attributes and selectors of others are in it."""
KEPT_WEIGHT: Final = 48 * 1024 * 1024
"""Bytes that the kept answers of all questions may take together, as estimated."""
_PER_LIST: Final = 1000
_PER_ANSWER: Final = 100
"""Bytes, measured: of a question, of one slice's answer to it."""

Kind = Literal["each", "any"]
"""``each``: what the selectors say of every device of the slices. ``any``: whether a driver has a device that they match."""
KINDS: Final[tuple[Kind, ...]] = ("each", "any")


@dataclass(frozen=True)
class Failure:
    """A selector that can't be used: ``selector`` is its position; ``device`` is that of the device in its slice, None where the text
    itself is wrong."""

    selector: int
    message: str
    device: int | None = None

    @classmethod
    def of(cls, selector: int, message: str, device: int | None = None) -> Failure:
        """With as much of the message as is kept."""
        return cls(selector, message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…", device)


@dataclass(frozen=True)
class Depths:
    """For each device of a slice how many selectors match, one after the other: all of them, or the position of the first that doesn't,
    or that fails. ``fault``: of the first device on which one fails."""

    depths: bytes
    fault: Failure | None = None


Answer = Depths | bool
"""Of a slice to a question: :class:`Depths` to ``each``; to ``any`` whether one of its devices matches."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be found out: of ``expressions``, all of which must hold, about the slices whose answers aren't known."""

    kind: Kind
    expressions: tuple[str, ...]
    parts: Sequence[Part]

    @property
    def characters(self) -> int:
        return sum(map(len, self.expressions))


class Evaluator(Protocol):
    """Finds answers, within the limits of one review. Two implementations: in this process (:mod:`webhooks.selectors.evaluating`), and by
    a process that may be killed (:mod:`webhooks.worker`)."""

    def refuses(self, expressions: Sequence[str]) -> str:
        """Why nothing more can be found out about these selectors, "" where it can: asked before anything is done with their texts."""

    def find(self, question: Question, answers: Answers) -> str:
        """Puts the answers in; "" where all of them are there now, else why not: what is missing is not checked."""


@dataclass(eq=False)
class Kept:
    """What is known of one list of selectors. ``fault``: of a text, so nothing is asked of devices. ``valid``: there is none."""

    fault: Failure | None = None
    valid: bool = False
    of: dict[Part, Answer] = field(default_factory=dict)
    weight: int = _PER_LIST


class Answers:
    """Answers that are kept, the least recently used questions going first. Its texts come from users, so it has an end in bytes.

    Questions are known by a digest of their texts, so that the texts themselves aren't kept. May be used by several threads.
    """

    def __init__(self, limit: int = KEPT_WEIGHT) -> None:
        self._limit = limit
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._same: dict[bytes, Depths] = {}
        self._lock = threading.RLock()
        self.weight = 0

    def of(self, kind: Kind, digest: bytes) -> Kept:
        """What is known; what is put into it must go through :meth:`put` and :meth:`put_fault`."""
        with self._lock:
            key = _key(kind, digest)
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = Kept()
                self._add(kept, 0)
                self.weight += kept.weight
            else:
                self._kept.move_to_end(key)
            return kept

    def put(self, kind: Kind, digest: bytes, part: Part, answer: Answer) -> None:
        with self._lock:
            kept = self.of(kind, digest)
            if isinstance(answer, Depths) and answer.fault is None:
                # Most slices are alike for a selector: one value stands for all of them.
                if len(self._same) > 10_000:
                    self._same.clear()
                answer = self._same.setdefault(answer.depths, answer)
                cost = _PER_ANSWER
            elif isinstance(answer, Depths):
                assert answer.fault is not None
                cost = _PER_ANSWER + len(answer.depths) + 4 * len(answer.fault.message)
            else:
                cost = _PER_ANSWER
            if part not in kept.of:
                self._add(kept, cost)
            kept.of[part] = answer

    def put_valid(self, kind: Kind, digest: bytes) -> None:
        """The texts are without fault."""
        with self._lock:
            self.of(kind, digest).valid = True

    def put_fault(self, kind: Kind, digest: bytes, fault: Failure) -> None:
        with self._lock:
            kept = self.of(kind, digest)
            if kept.fault is None:
                self._add(kept, 4 * len(fault.message))
            kept.fault = fault

    def forget(self, parts: Iterable[Part]) -> None:
        """Slices that are gone."""
        with self._lock:
            gone = tuple(parts)
            for kept in self._kept.values():
                for part in gone:
                    if kept.of.pop(part, None) is not None:
                        kept.weight -= _PER_ANSWER
                        self.weight -= _PER_ANSWER

    def _add(self, kept: Kept, weight: int) -> None:
        kept.weight += weight
        self.weight += weight
        while self.weight > self._limit and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self.weight -= oldest.weight


def digest(expressions: Iterable[str]) -> bytes:
    """Of a list of texts; no two lists have the same."""
    found = blake2b(digest_size=20)
    for text in expressions:
        encoded = text.encode("utf-8", "surrogatepass")
        found.update(len(encoded).to_bytes(8))
        found.update(encoded)
    return found.digest()


def _key(kind: Kind, digest: bytes) -> bytes:
    return kind.encode() + digest
