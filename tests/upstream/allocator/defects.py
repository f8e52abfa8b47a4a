"""The reference's defects that the rules correct (allocation.md, section 28.2): which of them explain a difference.

The plain allocator (tests/allocator/plain) has every correction as a switch. A difference is excused only if it gives our answer with
all corrections and the reference's with none; it is blamed on those corrections that can't be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.allocator.plain import CORRECTIONS, TooLong, plain_answer
from tests.upstream.allocator.problems import Json

_STEPS = 2_000_000
_FEW_STEPS = 200_000
"""To leave a correction out; where that takes longer it is blamed too."""


def blamed(problem: Json, is_ours: Callable[[Json], bool], is_theirs: Callable[[Json], bool]) -> tuple[str, ...] | None:
    """The corrections that explain the two answers; None if none do. Raises TooLong for a problem too big to tell."""
    if not is_ours(plain_answer(problem, step_limit=_STEPS)) or not is_theirs(plain_answer(problem, (), step_limit=_STEPS)):
        return None
    corrected: set[str] = set()
    for name in CORRECTIONS:
        with suppress(TooLong):
            if is_theirs(plain_answer(problem, corrected | {name}, step_limit=_FEW_STEPS)):
                corrected.add(name)
    return tuple(name for name in CORRECTIONS if name not in corrected)
