"""Where everything of a diagram is, in pixels. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from devtools.site.diagrams.drawing import Arrow, Box, Drawing, Group, Side

TITLE_SIZE: Final = 14
TEXT_SIZE: Final = 12
LINE: Final = 17
PADDING: Final = 14
MARGIN: Final = 24
_FRAME: Final = 16
"""Between a group's frame and its boxes."""
_FRAME_TITLE: Final = 24
_NARROW: Final = frozenset("fijlrtI.,:;|'()[]/ -!")
_WIDE: Final = frozenset("mwMWGOQ@%")

Point = tuple[float, float]


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(frozen=True)
class Path:
    """An arrow's corners from its start to its end; ``label_at``: the middle of its label."""

    arrow: Arrow
    points: tuple[Point, ...]
    label_at: Point


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    boxes: Mapping[str, Rectangle]
    groups: tuple[tuple[Group, Rectangle], ...]
    paths: tuple[Path, ...]


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """What a line of a sans-serif font takes at most, estimated: a font's own measures depend on where the picture is
    seen."""
    ems = sum(0.32 if char in _NARROW else 0.88 if char in _WIDE else 0.68 if char.isupper() else 0.57 for char in text)
    return ems * size * (1.14 if bold else 1.0)


def lay_out(drawing: Drawing) -> Layout:
    columns = _extents(drawing, 0)
    rows = _extents(drawing, 1)
    frames = 2 * _FRAME if drawing.groups else 0
    top = MARGIN + (_FRAME_TITLE + _FRAME if drawing.groups else 0)
    starts_x = _starts(columns, MARGIN + frames / 2, drawing.gaps[0])
    starts_y = _starts(rows, top, drawing.gaps[1])
    boxes = {name: _rectangle(box, starts_x, starts_y, columns, rows) for name, box in drawing.boxes.items()}
    groups = tuple((group, _frame([boxes[name] for name in group.boxes])) for group in drawing.groups)
    width = max([box.right for box in boxes.values()] + [frame.right for _, frame in groups]) + MARGIN
    height = max([box.bottom for box in boxes.values()] + [frame.bottom for _, frame in groups]) + MARGIN
    return Layout(width, height, boxes, groups, _paths(drawing.arrows, boxes))


def _extents(drawing: Drawing, axis: int) -> list[float]:
    """The width of each column, or the height of each row: that of the largest box that is in it alone."""
    count = max(box.at[axis] + box.span[axis] for box in drawing.boxes.values())
    extents = [0.0] * count
    for box in drawing.boxes.values():
        if box.span[axis] == 1:
            extents[box.at[axis]] = max(extents[box.at[axis]], _wanted(box)[axis])
    for box in drawing.boxes.values():  # what spans several widens the last of them
        within = range(box.at[axis], box.at[axis] + box.span[axis])
        has = sum(extents[position] for position in within) + drawing.gaps[axis] * (len(within) - 1)
        extents[within[-1]] += max(0.0, _wanted(box)[axis] - has)
    return extents


def _wanted(box: Box) -> tuple[float, float]:
    lines = [text_width(box.title, TITLE_SIZE, bold=True), *(text_width(line, TEXT_SIZE) for line in box.lines)]
    return round(max(lines) + 2 * PADDING), 2 * PADDING + LINE * (1 + len(box.lines))


def _starts(extents: Sequence[float], first: float, gap: float) -> list[float]:
    starts = [first]
    for extent in extents:
        starts.append(starts[-1] + extent + gap)
    return starts


def _rectangle(box: Box, xs: list[float], ys: list[float], columns: list[float], rows: list[float]) -> Rectangle:
    last_column, last_row = box.at[0] + box.span[0] - 1, box.at[1] + box.span[1] - 1
    x, y = xs[box.at[0]], ys[box.at[1]]
    return Rectangle(x, y, xs[last_column] + columns[last_column] - x, ys[last_row] + rows[last_row] - y)


def _frame(boxes: Sequence[Rectangle]) -> Rectangle:
    x, y = min(box.x for box in boxes) - _FRAME, min(box.y for box in boxes) - _FRAME - _FRAME_TITLE
    return Rectangle(x, y, max(box.right for box in boxes) + _FRAME - x, max(box.bottom for box in boxes) + _FRAME - y)


def _paths(arrows: Sequence[Arrow], boxes: Mapping[str, Rectangle]) -> tuple[Path, ...]:
    """Arrows that share a side of a box are spread over it, in the order of what they lead to."""
    sides = [arrow.sides or _facing(boxes[arrow.start], boxes[arrow.end]) for arrow in arrows]
    users: dict[tuple[str, Side], list[tuple[float, int]]] = defaultdict(list)
    for number, (arrow, (start, end)) in enumerate(zip(arrows, sides, strict=True)):
        users[arrow.start, start].append((_middle(boxes[arrow.end], start), number))
        users[arrow.end, end].append((_middle(boxes[arrow.start], end), number))
    paths: list[Path] = []
    for number, (arrow, (start, end)) in enumerate(zip(arrows, sides, strict=True)):
        first, last = boxes[arrow.start], boxes[arrow.end]
        at_first = _port(first, start, users[arrow.start, start], number)
        at_last = _port(last, end, users[arrow.end, end], number)
        if {start, end} in ({"left", "right"}, {"top", "bottom"}):
            at_first, at_last = _aligned(
                first, last, start, at_first, at_last, len(users[arrow.start, start]), len(users[arrow.end, end])
            )
        points = _route(_point(first, start, at_first), start, _point(last, end, at_last), end)
        paths.append(Path(arrow, points, _label_place(points)))
    return tuple(paths)


def _facing(start: Rectangle, end: Rectangle) -> tuple[Side, Side]:
    if end.x >= start.right:
        return "right", "left"
    if end.right <= start.x:
        return "left", "right"
    return ("bottom", "top") if end.y >= start.bottom else ("top", "bottom")


def _middle(box: Rectangle, side: Side) -> float:
    return box.y + box.height / 2 if side in ("left", "right") else box.x + box.width / 2


def _port(box: Rectangle, side: Side, users: list[tuple[float, int]], number: int) -> float:
    """The coordinate along the side at which this arrow touches it."""
    place = [user for _, user in sorted(users)].index(number)
    start, length = (box.y, box.height) if side in ("left", "right") else (box.x, box.width)
    return start + length * (place + 1) / (len(users) + 1)


def _aligned(
    first: Rectangle, last: Rectangle, side: Side, at_first: float, at_last: float, many: int, others: int
) -> tuple[float, float]:
    """One coordinate for both ends where a straight line is possible: that of the shorter side, or of the one with more
    arrows."""
    upright = side in ("top", "bottom")
    low = max(first.x, last.x) if upright else max(first.y, last.y)
    high = min(first.right, last.right) if upright else min(first.bottom, last.bottom)
    shorter = _extent(first, upright) - _extent(last, upright)
    wanted = at_first if shorter < 0 or (shorter == 0 and many >= others) else at_last
    return (wanted, wanted) if low + 6 <= wanted <= high - 6 else (at_first, at_last)


def _extent(box: Rectangle, upright: bool) -> float:
    return box.width if upright else box.height


def _point(box: Rectangle, side: Side, along: float) -> Point:
    match side:
        case "left":
            return box.x, along
        case "right":
            return box.right, along
        case "top":
            return along, box.y
        case "bottom":
            return along, box.bottom


def _route(start: Point, leaves: Side, end: Point, arrives: Side) -> tuple[Point, ...]:
    """Straight lines with right angles: at most one bend more than the sides demand."""
    level, flat = leaves in ("left", "right"), arrives in ("left", "right")
    if level and flat:
        if start[1] == end[1]:
            return start, end
        middle = (start[0] + end[0]) / 2
        return start, (middle, start[1]), (middle, end[1]), end
    if not level and not flat:
        if start[0] == end[0]:
            return start, end
        middle = (start[1] + end[1]) / 2
        return start, (start[0], middle), (end[0], middle), end
    return (start, (end[0], start[1]), end) if level else (start, (start[0], end[1]), end)


def _label_place(points: Sequence[Point]) -> Point:
    """The middle of the longest part."""
    parts = list(pairwise(points))
    (x, y), (to_x, to_y) = max(parts, key=lambda part: abs(part[0][0] - part[1][0]) + abs(part[0][1] - part[1][1]))
    return (x + to_x) / 2, (y + to_y) / 2
