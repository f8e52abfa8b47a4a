"""The colours of devices by state, of pages and pictures alike: which differ without red and green, and signs besides.

Light to import: the process that serves the live report reads it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class StateColour(NamedTuple):
    """``ink``: of the sign on it."""

    fill: str
    ink: str


COLOURS: Final = {
    "free": StateColour("#e3f4ea", "#0b4a1c"),
    "allocated": StateColour("#0072b2", "#ffffff"),
    "shared": StateColour("#b5d8f0", "#0c2a5c"),
    "tainted": StateColour("#f0c040", "#3d2c00"),
    "unhealthy": StateColour("#b84500", "#ffffff"),
    "blocked": StateColour("#d9d9df", "#33333b"),
    "unavailable": StateColour("#6b6b78", "#ffffff"),
    "unpublished": StateColour("#e3b1d0", "#43135a"),
    "unknown": StateColour("#ececf1", "#33333b"),
}
"""By Okabe and Ito's palette, darker where white text stands on it."""

STATE_STYLE: Final = "".join(
    f".s-{word} {{ background: {colour.fill}; color: {colour.ink}; }}\n" for word, colour in COLOURS.items()
)
