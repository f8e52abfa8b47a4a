"""How a device looks: by its state, and by what an allocation says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from virt_dra.cli.topology.colours import LOOKS, StateLook
from virt_dra.inventory.topology import CHOSEN, REFUSED, PlacedDevice

VERDICTS: Final = {
    CHOSEN: StateLook("✔", "#0d7f37", "#ffffff", "bold green"),
    REFUSED: StateLook("✘", "#ffffff", "#8a1510", "red"),
}
_ORDER: Final = ("unhealthy", "tainted", "unpublished", "allocated", "shared", "blocked", "unavailable", "unknown")
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
