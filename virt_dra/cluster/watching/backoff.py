"""The delay before a retry."""

from __future__ import annotations


def backoff(attempt: int, chance: float, *, first: float, longest: float) -> float:
    """Seconds to wait after failure ``attempt`` (1, 2, …): doubling, the upper half of it by chance (0 to 1), so that
    callers that failed together don't retry together."""
    # Beyond 60 doublings every delay is at its longest; the power alone would overflow.
    return min(first * 2.0 ** min(attempt - 1, 60), longest) * (0.5 + chance / 2)
