"""What no expression may take, in processor time; several times what is measured, for loaded machines."""

from __future__ import annotations

from devtools.cel.hostile.measure import Times

COMPILING = 0.5
WATCHED = 1.0
STRETCH = 0.25
FREE = 20.0
RATIO = 8.0


def exceeded(times: Times) -> str:
    """Which bound is exceeded; empty if none is."""
    bounds = []
    if times.compiling + times.estimating > COMPILING:
        bounds.append("compiling")
    if times.watched > WATCHED:
        bounds.append("watched")
    if times.stretch > STRETCH:
        bounds.append("stretch")
    if times.free > FREE:
        bounds.append("unwatched")
    if times.watched > 0.05 and times.ratio > RATIO:  # what takes less is measured too roughly on a loaded machine
        bounds.append("ratio")
    return ", ".join(bounds)
