"""How many random inputs a test tries."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

_STEADY: Final = 100
"""Hypothesis' own number of examples, which ``make test`` has."""


def sample(count: int) -> int:
    """The number of random inputs where ``make test`` tries ``count``: with the profile ``quick`` (``make check``) a
    fifth, but 5 if there are as many. Hypothesis ignores a profile's number where a test gives its own, and a loop
    knows no profile, so both ask here."""
    return max(min(count, 5), count * settings().max_examples // _STEADY)
