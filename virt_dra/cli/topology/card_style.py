"""The style of cards in pages: light to import, as the process that serves the live report reads it."""

from __future__ import annotations

from typing import Final

CARD_STYLE: Final = """.card svg { display: block; }
.card svg .frame { fill: light-dark(#fafafc, #1e1e24); stroke: light-dark(#c4c4d0, #4a4a58); }
.card svg .title { fill: light-dark(#14141c, #f2f2f6); } .card svg .line { fill: light-dark(#4a4a58, #b8b8c6); }
.card svg .place { fill: light-dark(#5c5c6b, #a6a6b6); }"""
"""CSS of pages with cards: they follow light and dark, which a picture of its own doesn't."""
