"""Questions about which devices of ResourceSlices a list of selectors matches, their answers, and the cache of answers.
These are kept by version of a slice, so that after a change only its devices are evaluated again; partial answers
count, too."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Protocol

from virt_dra.api.counting import cut_after
from virt_dra.matching.positions import Moment, SlicePositions
from virt_dra.matching.published_slice import PublishedSlice

MAX_SELECTORS: Final = 255
"""Limit of one question. The API allows 64 (32 of a class and 32 of a request); a depth is one byte."""
MAX_MESSAGE: Final = 500
"""Characters of a fault's message that are kept: it contains text that users and drivers choose."""
KEPT_WEIGHT: Final = 48 * 1024 * 1024
"""Limit of the cache, in estimated bytes."""
_PER_LIST: Final = 1000
_PER_DEPTHS: Final = 100
"""Bytes (measured) of a list of selectors in the cache, and of the depths on one slice."""


@dataclass(frozen=True)
class SliceFault:
    """An error of the selector at position ``selector``. ``device``: the position of that on which it failed; None: it
    doesn't compile."""

    selector: int
    message: str
    device: int | None = None

    @classmethod
    def truncated(cls, selector: int, message: str, device: int | None = None) -> SliceFault:
        """A fault with its message truncated."""
        return cls(selector, cut_after(message, MAX_MESSAGE), device)


@dataclass(frozen=True)
class SelectorDepths:
    """For each device of a slice the position of the first selector that doesn't match or fails, or their number.
    ``fault``: of the first failing device."""

    depths: bytes
    fault: SliceFault | None = None


@dataclass(frozen=True, eq=False)
class SelectorQuestion(ABC):
    """A list of selectors (``expressions``, all of which must hold) to evaluate on slices that have no answer yet."""

    expressions: tuple[str, ...]

    @property
    def characters(self) -> int:
        return sum(map(len, self.expressions))

    @property
    @abstractmethod
    def unknown(self) -> int:
        """How many slices have no answer yet."""


@dataclass(frozen=True, eq=False)
class DepthsQuestion(SelectorQuestion):
    """How many of the selectors match each device of the slices."""

    slices: tuple[PublishedSlice, ...]

    @property
    def unknown(self) -> int:
        return len(self.slices)


@dataclass(frozen=True, eq=False)
class DriversQuestion(SelectorQuestion):
    """The question which drivers have a matching device: for each, a slice of a mask with a device that all match."""

    positions: int

    @property
    def unknown(self) -> int:
        return self.positions.bit_count()


SlicesAt = Callable[[int], Sequence[PublishedSlice]]
"""Returns the slices of a mask."""


class SelectorEvaluator(Protocol):
    """Port that answers questions within the limits of one review. One implementation evaluates in this process
    (:mod:`virt_dra.matching.evaluating`), another collects questions for a worker process."""

    def refuses(self, expressions: Sequence[str]) -> str:
        """Why these selectors may not be evaluated, "" if they may. Called before anything is done with their texts."""

    def visits(self, count: int) -> None:
        """Called before so many devices and slices are looked at. May raise what ends the review's decision."""

    def find(self, question: SelectorQuestion, answers: AnswerCache, slices: SlicesAt) -> str:
        """Put the answers into the cache. Returns "" if it has all of them now, else why not."""


@dataclass(eq=False)
class CachedAnswers:
    """The cache entry of a list of selectors. ``fault``: one doesn't compile; ``valid``: all do. ``depths``: by
    position. ``answered``, ``matching``: masks of slices known to match or not, and to match."""

    since: Moment
    fault: SliceFault | None = None
    valid: bool = False
    depths: dict[int, SelectorDepths] = field(default_factory=dict)
    answered: int = 0
    matching: int = 0
    weight: int = 0


class AnswerCache:
    """An LRU cache of answers by list of selectors, limited in bytes because users choose the texts. Thread-safe. Keys
    are digests of the texts. An entry drops what has become void when it is used the next time."""

    def __init__(self, positions: SlicePositions | None = None, limit: int = KEPT_WEIGHT) -> None:
        self.positions = positions or SlicePositions()
        self._limit = limit
        self._kept: OrderedDict[bytes, CachedAnswers] = OrderedDict()
        self._same: dict[bytes, SelectorDepths] = {}
        self._lock = threading.RLock()
        self.weight = 0

    def of(self, digest: bytes) -> CachedAnswers:
        """The cache entry of a list of selectors, made if it is missing. Changed by the methods below only."""
        with self._lock:
            kept = self._kept.get(digest)
            if kept is None:
                kept = self._kept[digest] = CachedAnswers(self.positions.now)
                self._weigh(kept)
            else:
                self._kept.move_to_end(digest)
                self._follow(kept)
            return kept

    def put_depths(self, digest: bytes, answers: Iterable[tuple[PublishedSlice, SelectorDepths]]) -> None:
        with self._lock:
            kept = self.of(digest)
            for slice_, depths in answers:
                if len(self._same) > 10_000:
                    self._same.clear()
                # Most slices have the same answer to a selector: they share one value.
                shared = depths if depths.fault is not None else self._same.setdefault(depths.depths, depths)
                kept.depths[slice_.position] = shared
            self._weigh(kept)

    def put_matching(self, digest: bytes, answered: int, matching: int) -> None:
        """Record which slices have a device that matches, of those that are answered (masks)."""
        with self._lock:
            kept = self.of(digest)
            kept.matching |= matching
            kept.answered |= answered
            self._weigh(kept)

    def put_valid(self, digest: bytes) -> None:
        """Record that all selectors compile."""
        with self._lock:
            self.of(digest).valid = True

    def put_fault(self, digest: bytes, fault: SliceFault) -> None:
        with self._lock:
            kept = self.of(digest)
            kept.fault = fault
            self._weigh(kept)

    def keep_depths(self, digest: bytes, positions: Iterable[int]) -> None:
        """Drop the depths at other positions."""
        with self._lock:
            kept = self.of(digest)
            kept.depths = {position: kept.depths[position] for position in positions if position in kept.depths}
            self._weigh(kept)

    def still_open(self, question: SelectorQuestion) -> bool:
        """False if another review has had the question answered meanwhile."""
        kept = self.of(digest(question.expressions))
        if kept.fault is not None or not kept.valid:
            return kept.fault is None
        if isinstance(question, DepthsQuestion):
            return any(slice_.position not in kept.depths for slice_ in question.slices)
        return not isinstance(question, DriversQuestion) or bool(question.positions & ~kept.answered)

    def _follow(self, kept: CachedAnswers) -> None:
        """Drop what isn't about the same slices any more."""
        since, kept.since = kept.since, self.positions.now
        if since != kept.since:
            kept.matching = self.positions.unchanged(kept.matching, since)
            kept.answered = self.positions.unchanged(kept.answered, since)
            unchanged = self.positions.unchanged((1 << max(kept.depths, default=0) + 1) - 1, since)
            kept.depths = {at: depths for at, depths in kept.depths.items() if unchanged >> at & 1}
            self._weigh(kept)

    def _weigh(self, kept: CachedAnswers) -> None:
        """Set the weight of an entry, and drop others if all weigh too much."""
        masks = (kept.answered.bit_length() + kept.matching.bit_length()) // 8
        weight = _PER_LIST + masks + sum(map(_weight, kept.depths.values())) + _fault_weight(kept.fault)
        self.weight += weight - kept.weight
        kept.weight = weight
        while self.weight > self._limit and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self.weight -= oldest.weight


def _weight(depths: SelectorDepths) -> int:
    """The bytes that depths are charged; those without a fault are shared by most slices."""
    return _PER_DEPTHS + (0 if depths.fault is None else len(depths.depths) + _fault_weight(depths.fault))


def _fault_weight(fault: SliceFault | None) -> int:
    return 0 if fault is None else 4 * len(fault.message)


def digest(expressions: Iterable[str]) -> bytes:
    """The cache key of a list of selectors: a collision-resistant hash of their texts and lengths."""
    hashed = blake2b(digest_size=20)
    for text in expressions:
        encoded = text.encode("utf-8", "surrogatepass")
        hashed.update(len(encoded).to_bytes(8))
        hashed.update(encoded)
    return hashed.digest()
