"""The picture: SVG with its own background and colors for light and dark, which loads nothing."""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from devtools.site.diagrams.drawing import Drawing, lines_of
from devtools.site.diagrams.layout import LINE, TEXT_SIZE, Layout, Path, Rectangle, lay_out, text_width

_STYLE: Final = """\
svg { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
.page { fill: #ffffff; stroke: #d8dee4; }
.title { font-size: 14px; font-weight: 600; fill: #1f2328; }
.text { font-size: 12px; fill: #4d5661; }
.frame { fill: #f6f8fa; stroke: #c4ccd5; stroke-dasharray: 5 4; }
.frame-title { font-size: 12px; font-weight: 600; fill: #4d5661; letter-spacing: .03em; }
.line { fill: none; stroke: #57606a; stroke-width: 1.5; }
.dashed { stroke-dasharray: 5 4; }
.head { fill: #57606a; }
.label { font-size: 12px; fill: #3d444d; }
.behind { fill: #ffffff; }
.plain { fill: #ffffff; stroke: #8c959f; }
.object { fill: #eaf2fd; stroke: #3b7ddd; }
.ours { fill: #f1ebfd; stroke: #7c4ddb; }
.kubernetes { fill: #e9f6ee; stroke: #2c8a54; }
.kubevirt { fill: #fdf3e3; stroke: #bf7a12; }
.driver { fill: #fbebee; stroke: #c2405a; }
@media (prefers-color-scheme: dark) {
.page { fill: #14181d; stroke: #30363d; }
.title { fill: #f0f3f6; }
.text { fill: #b6bfc9; }
.frame { fill: #1b2027; stroke: #4a525c; }
.frame-title { fill: #b6bfc9; }
.line { stroke: #9aa4af; }
.head { fill: #9aa4af; }
.label { fill: #d0d7de; }
.behind { fill: #14181d; }
.plain { fill: #1b2027; stroke: #7d8590; }
.object { fill: #15263d; stroke: #5b9bf3; }
.ours { fill: #261c3d; stroke: #a98bf0; }
.kubernetes { fill: #13291d; stroke: #4fb07a; }
.kubevirt { fill: #33250f; stroke: #dba14a; }
.driver { fill: #351a20; stroke: #e5738a; }
}
"""


def picture(drawing: Drawing) -> str:
    """The SVG document; the same drawing gives the same text."""
    place = lay_out(drawing)
    width, height = _number(place.width), _number(place.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        'aria-labelledby="title description">',
        f'<title id="title">{escape(drawing.title)}</title>',
        f'<desc id="description">{escape(drawing.description)}</desc>',
        f"<style>\n{_STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{_number(place.width - 1)}" '
        f'height="{_number(place.height - 1)}" rx="10"/>',
        *_frames(place),
        *(_line(path) for path in place.paths),
        *_boxes(drawing, place),
        *(_label(path) for path in place.paths if path.arrow.label),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _frames(place: Layout) -> list[str]:
    return [
        f'{_rectangle(frame, "frame", 10)}<text class="frame-title" '
        f'x="{_number(frame.x + 14)}" y="{_number(frame.y + 22)}">'
        f"{escape(group.title)}</text>"
        for group, frame in place.groups
    ]


def _boxes(drawing: Drawing, place: Layout) -> list[str]:
    shapes: list[str] = []
    for name, box in drawing.boxes.items():
        at = place.boxes[name]
        x = _number(at.x + at.width / 2)
        first = at.y + (at.height - LINE * (1 + len(box.lines))) / 2 + LINE * 0.75
        lines = [("title", box.title), *(("text", line) for line in box.lines)]
        texts = (
            f'<text class="{kind}" x="{x}" y="{_number(first + LINE * number)}" '
            f'text-anchor="middle">{escape(line)}</text>'
            for number, (kind, line) in enumerate(lines)
        )
        shapes.append(f"{_rectangle(at, box.look, 8)}{''.join(texts)}")
    return shapes


def _line(path: Path) -> str:
    corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in path.points)
    look = "line dashed" if path.arrow.dashed else "line"
    heads = [_head(path.points[-2], path.points[-1])]
    if path.arrow.both:
        heads.append(_head(path.points[1], path.points[0]))
    return f'<polyline class="{look}" points="{corners}"/>{"".join(heads)}'


def _head(before: tuple[float, float], tip: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = before, tip
    along = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    back = to_x - 9 * along[0], to_y - 9 * along[1]
    wings = ((back[0] + sign * 4.5 * along[1], back[1] + sign * 4.5 * along[0]) for sign in (1, -1))
    corners = " ".join(f"{_number(px)},{_number(py)}" for px, py in (tip, *wings))
    return f'<polygon class="head" points="{corners}"/>'


def _label(path: Path) -> str:
    """Its lines in the middle of the arrow, on the color of the page."""
    lines = lines_of(path.arrow.label)
    width, height = max(text_width(line, TEXT_SIZE) for line in lines) + 8, LINE * len(lines)
    x, y = path.label_at
    behind = Rectangle(x - width / 2, y - height / 2, width, height)
    texts = (
        f'<text class="label" x="{_number(x)}" y="{_number(behind.y + LINE * (number + 0.74))}" '
        f'text-anchor="middle">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return f"{_rectangle(behind, 'behind', 3)}{''.join(texts)}"


def _rectangle(place: Rectangle, look: str, round_by: int) -> str:
    x, y, width, height = map(_number, (place.x, place.y, place.width, place.height))
    return f'<rect class="{look}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_by}"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
