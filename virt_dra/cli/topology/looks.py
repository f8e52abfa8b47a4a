"""How each state of a device looks: a sign and a colour, so that states differ without colours, too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

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
    FREE: StateLook("○", "#d7f0dd", "#0b4a1c", "green"),
    ALLOCATED: StateLook("●", "#2f5fb3", "#ffffff", "blue"),
    SHARED: StateLook("◐", "#a9c4ee", "#0c2a5c", "blue"),
    TAINTED: StateLook("▲", "#f6d98a", "#4a3600", "yellow"),
    UNHEALTHY: StateLook("✖", "#c8372d", "#ffffff", "red"),
    BLOCKED: StateLook("◌", "#d9d9df", "#33333b", "bright_black"),
    UNAVAILABLE: StateLook("?", "#d9d9df", "#33333b", "bright_black"),
    UNPUBLISHED: StateLook("!", "#e2c2ef", "#43135a", "magenta"),
    UNKNOWN: StateLook("?", "#ececf1", "#33333b", "bright_black"),
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
