"""The README's recording: a command typed into a terminal, and what it prints, as an SVG that moves by CSS alone.

``python -m devtools.site.recording`` runs the command and writes docs/recordings/contention.svg. What is shown is what
was printed, but for generated names: their random ends become counted ones, so that the same output gives the same
file. Where nothing moves (a reader who wants less motion, a program that ignores animations), the end of the output
stands there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rich.style import Style
from rich.text import Text

from virt_dra.cluster.memory.names import ALPHABET, SUFFIX_LENGTH, counted_suffixes

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = ROOT / "docs" / "recordings" / "contention.svg"
COMMAND: Final = ("virt-dra", "run", "examples/contention")
COLUMNS: Final = 144
ROWS: Final = 26
"""Lines of the terminal's window."""

_CELL: Final = 8.1
_LINE: Final = 18
_TOP: Final = 52
_LEFT: Final = 20
_TYPING: Final = 0.05
"""Seconds for a character of the command."""
_PAUSE: Final = 0.6
_PER_LINE: Final = 0.22
_END: Final = 6.0
"""Seconds that the end stays before it begins anew."""

_STYLE: Final = """\
text {
  font: 13.5px ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  white-space: pre; fill: #1f2328;
}
.window { fill: #fbfcfd; stroke: #c9d1d9; }
.bar { fill: #eef1f4; }
.dot { fill: #c9d1d9; }
.name { font-size: 12px; fill: #57606a; }
.prompt { fill: #0969da; }
.dim { fill: #6e7781; }
.green { fill: #1a7f37; }
.red { fill: #c62828; }
.bold { font-weight: 700; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.window { fill: #0d1117; stroke: #3d444d; }
.bar { fill: #161b22; }
.dot { fill: #3d444d; }
.name { fill: #9198a1; }
.prompt { fill: #58a6ff; }
.dim { fill: #9198a1; }
.green { fill: #3fb950; }
.red { fill: #ff7b72; }
}
@media (prefers-reduced-motion: reduce) { * { animation: none !important; } }
"""


@dataclass(frozen=True)
class Span:
    """Text in one look; ``looks``: classes of the style sheet."""

    text: str
    looks: tuple[str, ...] = ()


Line = tuple[Span, ...]


def run(command: Sequence[str] = COMMAND) -> str:
    """What the command prints on a terminal, with its colors. Raises RuntimeError where it ends with another code than
    0 or 1."""
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    environment |= {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONUTF8": "1"}
    program = Path(sys.executable).parent / command[0]
    ran = subprocess.run(
        [program, *command[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode not in (0, 1):
        said = [line for line in Text.from_ansi(ran.stderr).plain.splitlines() if line.strip()]
        raise RuntimeError(f"{' '.join(command)} ended with {ran.returncode}: {said[-1] if said else 'no message'}")
    return ran.stdout + "".join(f"{line}\n" for line in _notes(ran.stderr))


def _notes(err: str) -> Iterator[str]:
    """What stays on a terminal of standard error, after the progress is removed."""
    return (line for line in Text.from_ansi(err).plain.splitlines() if line.startswith("Not known: "))


def steady(printed: str) -> str:
    """The output with generated names' random ends replaced by counted ones, in the order in which they appear."""
    suffixes: dict[str, str] = {}
    counted = counted_suffixes()
    ends = re.compile(rf"(?<=-)[{ALPHABET}]{{{SUFFIX_LENGTH}}}(?![\w.])")
    names = re.compile(r"virt-launcher-[a-z0-9-]+")

    def replaced(end: re.Match[str]) -> str:
        if end[0] not in suffixes:
            suffixes[end[0]] = counted()
        return suffixes[end[0]]

    return names.sub(lambda name: ends.sub(replaced, name[0]), printed)


def lines_of(printed: str) -> list[Line]:
    """The lines with their looks."""
    lines: list[Line] = []
    for line in Text.from_ansi(printed).split("\n", allow_blank=True):
        spans: list[Span] = []
        edges = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
        for start, end in pairwise(edges):
            styles = [span.style for span in line.spans if span.start <= start and span.end >= end]
            spans.append(
                Span(line.plain[start:end], tuple(dict.fromkeys(look for style in styles for look in _looks(style))))
            )
        lines.append(tuple(spans))
    while lines and not lines[-1]:
        lines.pop()
    return lines


def animated(command: str, lines: Sequence[Line]) -> str:
    """The SVG document: the command is typed, then line after line appears, and the window scrolls."""
    typed = _PAUSE + _TYPING * len(command)
    appears = [typed + _PAUSE + _PER_LINE * number for number in range(len(lines))]
    total = appears[-1] + _END
    prompt = Span("$ ", ("prompt",))
    width, height = _LEFT * 2 + _CELL * COLUMNS, _TOP + _LINE * ROWS + 10
    last = max(0, len(lines) + 1 - ROWS)
    rules = [
        f".lines {{ transform: translateY({-_LINE * last}px); animation: scroll {total:.2f}s step-end infinite; }}",
        f"@keyframes scroll {{ {_scrolling(appears, total)} }}",
        f".typed {{ animation: typed {total:.2f}s linear infinite; }}",
        f"@keyframes typed {{ 0%, {_part(_PAUSE, total)} {{ clip-path: inset(0 100% 0 0); }} "
        f"{_part(typed, total)}, 100% {{ clip-path: inset(0 0 0 0); }} }}",
    ]
    for number, time in enumerate(appears):
        rules.append(f".l{number} {{ animation: l{number} {total:.2f}s step-end infinite; }}")
        rules.append(f"@keyframes l{number} {{ 0% {{ opacity: 0; }} {_part(time, total)}, 100% {{ opacity: 1; }} }}")
    # It begins with its end, so that nobody sees an empty window first.
    rules.append(f"* {{ animation-delay: {_END - total:.2f}s !important; }}")
    texts = [_text((prompt,), 0, ""), _text((Span(command),), 0, "typed", after=prompt)]
    texts += [_text(line, number + 1, f"l{number}") for number, line in enumerate(lines)]
    w, h = f"{width:.1f}", f"{height}"
    dots = "".join(f'<circle class="dot" cx="{_LEFT + 18 * number}" cy="18" r="5"/>' for number in range(3))
    return "\n".join(
        [
            '<svg xml:space="preserve" xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
            'role="img" aria-labelledby="name">',
            f'<title id="name">{escape(command)}</title>',
            f"<style>\n{_STYLE}{chr(10).join(rules)}\n</style>",
            f'<defs><clipPath id="screen"><rect x="0" y="{_TOP - 16}" width="{w}" '
            f'height="{_LINE * ROWS + 16}"/></clipPath></defs>',
            f'<rect class="window" x="0.5" y="0.5" width="{width - 1:.1f}" height="{height - 1}" rx="10"/>',
            f'<path class="bar" d="M1 36V11a10 10 0 0 1 10-10h{width - 22:.1f}a10 10 0 0 1 10 10v25z"/>{dots}',
            f'<text class="name" x="{width / 2:.1f}" y="22" text-anchor="middle">virt-dra</text>',
            '<g clip-path="url(#screen)"><g class="lines">',
            *texts,
            "</g></g>",
            "</svg>",
            "",
        ]
    )


def recording() -> str:
    """The SVG of :data:`COMMAND`, run now."""
    return animated(" ".join(COMMAND), lines_of(steady(run())))


def _looks(style: str | Style) -> list[str]:
    if isinstance(style, str):
        style = Style.parse(style)
    color = style.color.number if style.color is not None else None
    return [
        look
        for look, holds in (("bold", style.bold), ("dim", style.dim), ("red", color == 1), ("green", color == 2))
        if holds
    ]


def _scrolling(appears: Sequence[float], total: float) -> str:
    """Keyframes: how far the lines are moved up from when on."""
    frames = ["0% { transform: translateY(0); }"]
    for number, time in enumerate(appears):
        moved = max(0, number + 2 - ROWS)
        if moved:
            frames.append(f"{_part(time, total)} {{ transform: translateY({-_LINE * moved}px); }}")
    frames.append(f"100% {{ transform: translateY({-_LINE * max(0, len(appears) + 1 - ROWS)}px); }}")
    return " ".join(frames)


def _part(time: float, total: float) -> str:
    return f"{100 * time / total:.2f}%"


def _text(line: Line, number: int, look: str, after: Span | None = None) -> str:
    spans = "".join(
        f'<tspan class="{" ".join(span.looks)}">{escape(span.text)}</tspan>' if span.looks else escape(span.text)
        for span in line
    )
    cells = sum(len(span.text) for span in line)
    left = _LEFT + (_CELL * len(after.text) if after is not None else 0)
    kind = f'class="{look}" ' if look else ""
    return (
        f'<text {kind}x="{left:.1f}" y="{_TOP + _LINE * number}" textLength="{_CELL * cells:.1f}">{spans}</text>'
        if cells
        else ""
    )


def main() -> int:
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(recording(), encoding="utf-8")
    sys.stdout.write(f"{TARGET}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
