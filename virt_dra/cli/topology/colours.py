"""How each state of a device looks, on pages, in pictures and terminals alike: a sign and a colour, so that states
differ without colours, and colours without red and green.

Light to import: the process that serves the live report reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class StateLook:
    """``fill``: the colour of a box in pictures, with text of ``ink``; ``style``: in terminals."""

    sign: str
    fill: str
    ink: str
    style: str


LOOKS: Final = {
    "free": StateLook("○", "#e3f4ea", "#0b4a1c", "green"),
    "allocated": StateLook("●", "#0072b2", "#ffffff", "blue"),
    "shared": StateLook("◐", "#b5d8f0", "#0c2a5c", "blue"),
    "tainted": StateLook("▲", "#f0c040", "#3d2c00", "yellow"),
    "unhealthy": StateLook("◆", "#b84500", "#ffffff", "red"),
    "blocked": StateLook("◌", "#d9d9df", "#33333b", "bright_black"),
    "unavailable": StateLook("⊘", "#6b6b78", "#ffffff", "bright_black"),
    "unpublished": StateLook("!", "#e3b1d0", "#43135a", "magenta"),
    "unknown": StateLook("?", "#ececf1", "#33333b", "bright_black"),
}
"""By Okabe and Ito's palette, darker where white text stands on it."""
STATE_STYLE: Final = "".join(
    f".s-{word} {{ background: {look.fill}; color: {look.ink}; }}\n" for word, look in LOOKS.items()
)
