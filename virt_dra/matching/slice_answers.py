"""Questions about which devices selectors match, their answers, and the cache of answers.

A question asks a list of selectors, all of which must hold, about some ResourceSlices. An answer is about one slice, so
that after a change only the devices of the changed slice are evaluated again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, Protocol

from virt_dra.matching.published_slice import PublishedSlice

MAX_SELECTORS: Final = 255
"""Limit of one question. The API allows 64 (32 of a class and 32 of a request); a depth is one byte."""
MAX_MESSAGE: Final = 500
"""Characters of a fault's message that are kept: it contains text that users and drivers choose."""
KEPT_WEIGHT: Final = 48 * 1024 * 1024
"""Limit of the cache, in estimated bytes."""
_PER_LIST: Final = 1000
_PER_ANSWER: Final = 100
"""Bytes (measured) of a question in the cache, and of one slice's answer to it."""

QuestionKind = Literal["each", "any"]
"""``each``: how many of the selectors match each device of the slices. ``any``: whether a driver has a device that all
match."""
QUESTION_KINDS: Final[tuple[QuestionKind, ...]] = ("each", "any")


@dataclass(frozen=True)
class SliceFault:
    """An error of the selector at position ``selector``. ``device``: the position in its slice of the device on which
    it failed; None if the selector doesn't compile."""

    selector: int
    message: str
    device: int | None = None

    @classmethod
    def truncated(cls, selector: int, message: str, device: int | None = None) -> SliceFault:
        """A fault with its message truncated."""
        return cls(selector, message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…", device)


@dataclass(frozen=True)
class SelectorDepths:
    """For each device of a slice the position of the first selector that doesn't match or fails, or their number if all
    match. ``fault``: of the first device on which a selector fails."""

    depths: bytes
    fault: SliceFault | None = None


SliceAnswer = SelectorDepths | bool
"""A slice's answer to a question: :class:`SelectorDepths` for ``each``; for ``any`` whether one of its devices
matches."""


@dataclass(frozen=True, eq=False)
class SelectorQuestion:
    """A list of selectors (``expressions``, all of which must hold) to evaluate on the slices that have no cached
    answer."""

    kind: QuestionKind
    expressions: tuple[str, ...]
    slices: Sequence[PublishedSlice]

    @property
    def characters(self) -> int:
        return sum(map(len, self.expressions))


class SelectorEvaluator(Protocol):
    """Port that answers questions within the limits of one review. One implementation evaluates in this process
    (:mod:`virt_dra.matching.evaluating`), another collects questions for a worker process."""

    def refuses(self, expressions: Sequence[str]) -> str:
        """Why these selectors may not be evaluated, "" if they may. Called before anything is done with their texts."""

    def find(self, question: SelectorQuestion, answers: AnswerCache) -> str:
        """Put the answers into the cache. Returns "" if it has all of them now, else why not: what is missing is not
        checked."""


@dataclass(eq=False)
class CachedAnswers:
    """The cache entry of a list of selectors. ``fault``: one doesn't compile, so none is evaluated; ``valid``: all
    compile."""

    fault: SliceFault | None = None
    valid: bool = False
    of: dict[PublishedSlice, SliceAnswer] = field(default_factory=dict)
    weight: int = 0


class AnswerCache:
    """An LRU cache of answers by question, limited in bytes because users choose the texts. Thread-safe.

    The keys are digests of the selectors, so that the texts themselves aren't kept.
    """

    def __init__(self, limit: int = KEPT_WEIGHT) -> None:
        self._limit = limit
        self._kept: OrderedDict[bytes, CachedAnswers] = OrderedDict()
        self._same: dict[bytes, SelectorDepths] = {}
        self._lock = threading.RLock()
        self.weight = 0

    def of(self, kind: QuestionKind, digest: bytes) -> CachedAnswers:
        """The cache entry of a list of selectors, made if it is missing. Change it by :meth:`put` and its siblings
        only."""
        with self._lock:
            key = _key(kind, digest)
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = CachedAnswers()
                self._add(kept, _PER_LIST)
            else:
                self._kept.move_to_end(key)
            return kept

    def put(self, kind: QuestionKind, digest: bytes, slice_: PublishedSlice, answer: SliceAnswer) -> None:
        with self._lock:
            kept = self.of(kind, digest)
            if isinstance(answer, SelectorDepths) and answer.fault is None:
                # Most slices have the same answer to a selector: they share one value.
                if len(self._same) > 10_000:
                    self._same.clear()
                answer = self._same.setdefault(answer.depths, answer)
            replaced = kept.of.get(slice_)
            kept.of[slice_] = answer
            self._add(kept, _weight(answer) - (0 if replaced is None else _weight(replaced)))

    def put_valid(self, kind: QuestionKind, digest: bytes) -> None:
        """Record that all selectors compile."""
        with self._lock:
            self.of(kind, digest).valid = True

    def put_fault(self, kind: QuestionKind, digest: bytes, fault: SliceFault) -> None:
        with self._lock:
            kept = self.of(kind, digest)
            if kept.fault is None:
                self._add(kept, 4 * len(fault.message))
            kept.fault = fault

    def forget(self, slices: Iterable[PublishedSlice]) -> None:
        """Drop the answers of slices that are gone."""
        with self._lock:
            gone = tuple(slices)
            for kept in self._kept.values():
                for slice_ in gone:
                    dropped = kept.of.pop(slice_, None)
                    if dropped is not None:
                        self._weigh(kept, -_weight(dropped))

    def _add(self, kept: CachedAnswers, weight: int) -> None:
        self._weigh(kept, weight)
        while self.weight > self._limit and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self.weight -= oldest.weight

    def _weigh(self, kept: CachedAnswers, weight: int) -> None:
        kept.weight += weight
        self.weight += weight


def _weight(answer: SliceAnswer) -> int:
    """The bytes that an answer is charged; answers without a fault are shared by most slices."""
    if isinstance(answer, SelectorDepths) and answer.fault is not None:
        return _PER_ANSWER + len(answer.depths) + 4 * len(answer.fault.message)
    return _PER_ANSWER


def digest(expressions: Iterable[str]) -> bytes:
    """The cache key of a list of selectors: a collision-resistant hash of their texts and lengths."""
    hashed = blake2b(digest_size=20)
    for text in expressions:
        encoded = text.encode("utf-8", "surrogatepass")
        hashed.update(len(encoded).to_bytes(8))
        hashed.update(encoded)
    return hashed.digest()


def _key(kind: QuestionKind, digest: bytes) -> bytes:
    return kind.encode() + digest
