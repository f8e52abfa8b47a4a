"""The reference's defects that the rules correct (allocation.md, section 28.2): which of them explain a difference.

The plain allocator (devtools/allocator/plain) has every correction as a switch. A difference is excused only if it
gives our answer with all corrections and the reference's with none; it is blamed on those corrections that can't be
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from devtools.allocator.plain import CORRECTIONS, TooLong, plain_answer
from devtools.upstream.allocator.problems import Json

_STEPS = 300_000
_FEW_STEPS = 100_000
"""To tell which corrections matter; where that takes longer more of them are blamed than need be."""


def blamed(problem: Json, is_ours: Callable[[Json], bool], is_theirs: Callable[[Json], bool]) -> tuple[str, ...] | None:
    """The corrections that explain the two answers; None if none do. Raises TooLong for a problem too big to tell."""
    if not is_ours(plain_answer(problem, step_limit=_STEPS)) or not is_theirs(
        plain_answer(problem, (), step_limit=_STEPS)
    ):
        return None

    def suffices(defects: frozenset[str]) -> bool:
        with suppress(TooLong):
            return is_theirs(plain_answer(problem, set(CORRECTIONS) - defects, step_limit=_FEW_STEPS))
        return False

    needed = _needed(suffices, CORRECTIONS, frozenset())
    return tuple(name for name in CORRECTIONS if name in needed)


def _needed(suffices: Callable[[frozenset[str]], bool], among: Sequence[str], given: frozenset[str]) -> frozenset[str]:
    """As few as possible ``among`` some defects that suffice together with the ``given`` ones, as all of them do: found
    by halves."""
    if suffices(given):
        return frozenset()
    if len(among) == 1:
        return frozenset(among)
    left, right = among[: len(among) // 2], among[len(among) // 2 :]
    of_right = _needed(suffices, right, given | set(left))
    return of_right | _needed(suffices, left, given | of_right)
