"""The topology as SVG: a card per fold, with a box per device. Deterministic text; everything that users wrote is
escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.cli.topology.colours import LOOKS, StateLook
from virt_dra.cli.topology.looks import VERDICTS, look_of, state_shown, words_of
from virt_dra.inventory.topology import DeviceGroup, NodeFold, PlacedDevice

DRAWN: Final = 200
"""Folds that a picture has at most."""
_CARD: Final = 300
_GAP: Final = 16
_COLUMNS: Final = 4
_BOX, _STEP = 26, 32
_PER_ROW: Final = (_CARD - 24) // _STEP
_LINE: Final = 18
_FONT: Final = "font-family=\"system-ui, 'DejaVu Sans', sans-serif\""


def topology_svg(folds: Sequence[NodeFold]) -> str:
    """The picture of all folds, in columns, each card below the shortest column; with a legend."""
    columns = min(_COLUMNS, max(len(folds), 1))
    heights = [0] * columns
    cards: list[str] = []
    for fold in folds[:DRAWN]:
        column = heights.index(min(heights))
        card, height = _card(fold)
        cards.append(f'<g transform="translate({column * (_CARD + _GAP)} {heights[column]})">{card}</g>')
        heights[column] += height + _GAP
    width = max(columns * (_CARD + _GAP) - _GAP, 2 * _CARD + _GAP)
    legend, below = _legend(width, folds)
    more = f"and {len(folds) - DRAWN:,} more" if len(folds) > DRAWN else ""
    height = max(heights) + below + (_LINE if more else 0)
    note = f'<text x="0" y="{max(heights) + below + 12}" font-size="12" fill="#667">{more}</text>' if more else ""
    wide, high = width + 24, height + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -12 {wide} {high}" '
        f'width="{wide}" height="{high}" role="img" {_FONT}>'
        f'<title>Devices by node</title><rect x="-12" y="-12" width="{wide}" height="{high}" fill="#ffffff"/>'
        f'{"".join(cards)}<g transform="translate(0 {max(heights)})">{legend}</g>{note}</svg>'
    )


def _card(fold: NodeFold) -> tuple[str, int]:
    """The elements of a card, and its height."""
    title, rest = _title_lines(fold)
    parts = [f'<text x="12" y="24" font-size="14" font-weight="600" class="title" fill="#14141c">{_text(title)}</text>']
    y = 42
    for line in rest:
        parts.append(f'<text x="12" y="{y}" font-size="12" class="line" fill="#4a4a58">{_text(line)}</text>')
        y += _LINE
    for group in fold.example.groups:
        drawn, height = _group(group, y)
        parts.append(drawn)
        y += height
    height = y + 8
    frame = (
        f'<rect x="0.5" y="0.5" width="{_CARD - 1}" height="{height - 1}" rx="8" '
        'class="frame" fill="#fafafc" stroke="#c4c4d0"/>'
    )
    return frame + "".join(parts), height


def _title_lines(fold: NodeFold) -> tuple[str, list[str]]:
    name, _, facts = fold.title.partition(": ")
    models, _, free = facts.rpartition(", ")
    return _short(name, 34), [_short(f"{free} of {models}" if models else facts, 40)]


def _group(group: DeviceGroup, top: int) -> tuple[str, int]:
    """A PCIe root's devices in rows of boxes, with the place above them."""
    place = " · ".join(word for word in (f"NUMA {group.numa}" if group.numa else "", group.root) if word)
    parts: list[str] = []
    y = top
    if place:
        parts.append(
            f'<text x="12" y="{y + 4}" font-size="11" class="place" fill="#5c5c6b">{_text(_short(place, 46))}</text>'
        )
        y += 12
    for number, device in enumerate(group.devices):
        row, column = divmod(number, _PER_ROW)
        parts.append(_box(device, 12 + column * _STEP, y + row * _STEP))
    rows = (len(group.devices) + _PER_ROW - 1) // _PER_ROW
    return "".join(parts), y - top + rows * _STEP + 6


def _box(device: PlacedDevice, x: int, y: int) -> str:
    look = look_of(device)
    address = f" {device.row.address}" if device.row.address else ""
    title = f"{device.row.id.device} · {device.label}{address} · {words_of(device)}"
    return f"<g><title>{_text(_short(title, 300))}</title>{_square(look, x, y)}</g>"


def _square(look: StateLook, x: int, y: int) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_BOX}" rx="4" fill="{look.fill}" '
        f'stroke="{look.ink}" stroke-opacity="0.45"/>'
        f'<text x="{x + _BOX // 2}" y="{y + 18}" font-size="14" text-anchor="middle" '
        f'fill="{look.ink}">{look.sign}</text>'
    )


def _legend(width: int, folds: Sequence[NodeFold]) -> tuple[str, int]:
    """The looks that the picture has, and the legend's height."""
    devices = [device for fold in folds for device in fold.example.devices]
    words = {state_shown(device) for device in devices} | {
        device.verdict.word for device in devices if device.verdict is not None
    }
    looks = {word: look for word, look in (VERDICTS | LOOKS).items() if word in words}
    parts: list[str] = []
    per_row = max(width // 130, 1)
    for number, (word, look) in enumerate(looks.items()):
        row, column = divmod(number, per_row)
        x, y = column * 130, 8 + row * 36
        parts.append(
            f'{_square(look, x, y)}<text x="{x + _BOX + 8}" y="{y + 18}" font-size="12" fill="#14141c">{word}</text>'
        )
    rows = (len(looks) + per_row - 1) // per_row
    return "".join(parts), 8 + rows * 36


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(text: str) -> str:
    return escape(visible(text))
