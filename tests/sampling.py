"""How many random inputs a test tries."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

_STEADY: Final = 100
"""Hypothesis' own number of examples, which ``make test`` has."""


def sample(count: int) -> int:
    """The number of random inputs where ``make test`` tries ``count``: with the profile ``quick`` (``make check``) a
    fifth, at least 2. Hypothesis ignores a profile's number where a test gives its own, and a loop or a list of seeds
    knows no profile, so they ask here."""
    return max(2, count * settings().max_examples // _STEADY)
