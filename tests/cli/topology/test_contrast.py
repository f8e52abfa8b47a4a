"""Text of pictures and cards can be read: a contrast of 4.5 to 1 at least (WCAG 2.2, success criterion 1.4.3), in light
and dark."""

from __future__ import annotations

import re

import pytest

from virt_dra.api.core_v1 import Node
from virt_dra.cli.topology.colours import LOOKS
from virt_dra.cli.topology.drawing import topology_svg
from virt_dra.cli.topology.looks import VERDICTS
from virt_dra.html.frame import tokens
from virt_dra.inventory.topology import folded, topology

ENOUGH = 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of the relative luminances of two colours, ``#rrggbb``."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("word", [*LOOKS, *VERDICTS])
def test_the_sign_in_a_box(word: str) -> None:
    look = (LOOKS | VERDICTS)[word]
    assert contrast(look.ink, look.fill) >= ENOUGH


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "panel", "shade"])
@pytest.mark.parametrize("ink", ["ink", "quiet", "link", "bad", "good", "mark"])
def test_the_text_of_a_page(ink: str, ground: str, mode: int) -> None:
    assert contrast(tokens()[ink][mode], tokens()[ground][mode]) >= ENOUGH


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("line", [f"series-{number}" for number in range(1, 9)])
def test_the_lines_of_a_chart(line: str, mode: int) -> None:
    assert contrast(tokens()[line][mode], tokens()["panel"][mode]) >= 3  # criterion 1.4.11


def test_the_text_of_a_picture() -> None:
    (fold,) = folded(topology([], [Node.from_wire({"metadata": {"name": "node-1"}})]))
    frames = set(re.findall(r'class="frame" fill="(#\w{6})"', topology_svg([fold])))
    inks = set(re.findall(r'<text [^>]*fill="(#\w{6})"', topology_svg([fold])))
    assert len(frames) == 1
    assert inks
    assert {ink for ink in inks for frame in frames if contrast(ink, frame) < ENOUGH} == set()
