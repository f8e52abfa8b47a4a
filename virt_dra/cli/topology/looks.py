"""How each state of a device looks: a sign and a colour, so that states differ without colours, too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from virt_dra.cli.topology.colours import COLOURS
from virt_dra.inventory.device_rows import (
    ALLOCATED,
    BLOCKED,
    FREE,
    SHARED,
    TAINTED,
    UNAVAILABLE,
    UNHEALTHY,
    UNKNOWN,
    UNPUBLISHED,
)
from virt_dra.inventory.topology import CHOSEN, REFUSED, PlacedDevice


@dataclass(frozen=True)
class StateLook:
    """``fill``: the colour of a box in pictures, with text of ``ink``; ``style``: in terminals."""

    sign: str
    fill: str
    ink: str
    style: str


LOOKS: Final = {
    FREE: StateLook("○", *COLOURS[FREE], "green"),
    ALLOCATED: StateLook("●", *COLOURS[ALLOCATED], "blue"),
    SHARED: StateLook("◐", *COLOURS[SHARED], "blue"),
    TAINTED: StateLook("▲", *COLOURS[TAINTED], "yellow"),
    UNHEALTHY: StateLook("◆", *COLOURS[UNHEALTHY], "red"),
    BLOCKED: StateLook("◌", *COLOURS[BLOCKED], "bright_black"),
    UNAVAILABLE: StateLook("⊘", *COLOURS[UNAVAILABLE], "bright_black"),
    UNPUBLISHED: StateLook("!", *COLOURS[UNPUBLISHED], "magenta"),
    UNKNOWN: StateLook("?", *COLOURS[UNKNOWN], "bright_black"),
}
VERDICTS: Final = {
    CHOSEN: StateLook("✔", "#0d7f37", "#ffffff", "bold green"),
    REFUSED: StateLook("✘", "#ffffff", "#8a1510", "red"),
}
_ORDER: Final = (UNHEALTHY, TAINTED, UNPUBLISHED, ALLOCATED, SHARED, BLOCKED, UNAVAILABLE, UNKNOWN, FREE)
"""Which state of a device with several is shown."""


def state_shown(device: PlacedDevice) -> str:
    return next((state for state in _ORDER if state in device.row.states), device.state)


def look_of(device: PlacedDevice) -> StateLook:
    """Of a device that is refused, its state's colours with the sign for that."""
    state = LOOKS[state_shown(device)]
    if device.verdict is None:
        return state
    verdict = VERDICTS[device.verdict.word]
    return verdict if device.verdict.word == CHOSEN else replace(state, sign=verdict.sign, style=verdict.style)


def words_of(device: PlacedDevice) -> str:
    """The state in words, with who holds the device and what an allocation says."""
    said = ", ".join(device.row.states)
    if device.holder:
        said += f": {device.holder}"
    if device.verdict is not None:
        said += f"; {device.verdict.word}{f': {device.verdict.why}' if device.verdict.why else ''}"
    return said
