""" "Did you mean": the existing name most similar to one that doesn't exist, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

from virt_dra.api.go_text import quoted

COMPARED = 1000
"""The most names that one is compared with, by their letters: both sides are users' texts."""
CLOSELY = 16
"""The most of these that are compared by the order of their letters, too, which takes up to a millisecond."""
SIMILAR = 0.7
LENGTH_MAX = 100
"""The most characters of a name to suggest; longer names are rarely typed by hand."""
LISTED = 5


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of ``names`` that is most similar to ``name``; None if none is similar.

    >>> nearest("gpuclaim", ["net-claim", "gpu-claim"])
    'gpu-claim'
    >>> nearest("x", ["gpu-claim"])
    """
    if not name or len(name) > LENGTH_MAX:
        return None
    by_fold: dict[str, str] = {}
    for candidate in islice(names, COMPARED):
        if len(candidate) <= LENGTH_MAX:
            by_fold.setdefault(_folded(candidate), candidate)
    folded = _folded(name)
    if folded in by_fold:
        return by_fold[folded]
    matcher = SequenceMatcher()
    matcher.set_seq2(folded)
    likely: list[tuple[float, str]] = []
    for candidate in by_fold:
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() >= SIMILAR and (at_most := matcher.quick_ratio()) >= SIMILAR:
            likely.append((at_most, candidate))
    similar: list[tuple[float, str]] = []
    for _, candidate in nlargest(CLOSELY, likely):
        matcher.set_seq1(candidate)
        if (ratio := matcher.ratio()) >= SIMILAR:
            similar.append((ratio, candidate))
    return by_fold[max(similar)[1]] if similar else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``; did you mean gpu-claim?``, the end of a sentence about a name that doesn't exist; "" if none is similar."""
    meant = nearest(name, names)
    return f"; did you mean {meant}?" if meant is not None else ""


def _folded(name: str) -> str:
    """The name without what is mistaken most often: case and separators."""
    return name.lower().replace("_", "-")


def listed(names: Iterable[str]) -> str:
    """``"a", "b"``: the first few names, quoted; empty for none.

    >>> listed(["a", "b"])
    '"a", "b"'
    """
    first = list(islice(names, LISTED + 1))
    return ", ".join(map(quoted, first[:LISTED])) + (", …" if len(first) > LISTED else "")


def nearest_first(name: str, candidates: Iterable[str]) -> list[str]:
    """The candidates, at most :data:`COMPARED`, with the one that was probably meant in front.

    >>> nearest_first("gpuclaim", ["net-claim", "gpu-claim"])
    ['gpu-claim', 'net-claim']
    """
    names = list(islice(candidates, COMPARED))
    meant = nearest(name, names)
    return names if meant is None else [meant, *(other for other in names if other != meant)]
