"""The plots of ``virt-dra simulate``, drawn by matplotlib."""

from __future__ import annotations

import io
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from virt_dra.cli.simulate.comparison import Comparison
from virt_dra.cli.simulate.series import PlottedMeasure, plotted
from virt_dra.html.frame import tokens

_TOKENS: Final = tokens()
_LIGHT, _DARK = zip(*(_TOKENS[f"series-{number}"] for number in range(1, 9)), strict=True)
_DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
"""Distinguishable also with few colours."""
_INK, _PAPER = _TOKENS["ink"], _TOKENS["panel"]
"""Text and axes, and what is behind them, light and dark."""
_FIXED: Final[dict[Any, Any]] = {
    "svg.hashsalt": "virt-dra",
    "svg.fonttype": "none",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK[0]),
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), _PAPER[0]),
}
"""So that equal results make equal files; text stays text."""


def draw(comparison: Comparison, format: str) -> bytes:
    """Four plots over the load, if nothing ever leaves, else over time; of several seeds the mean, and the range behind
    it. An SVG is dark where its reader prefers that. ``format``: svg or png."""
    series = plotted(comparison)
    with mpl.rc_context(_FIXED):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        axes = figure.subplots(2, 2)
        for axis, measure in zip(axes.flat, series.measures, strict=True):
            _plot(axis, measure, series.across)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
        figure.suptitle(f"{comparison.source}: {comparison.size_text}, {comparison.seeds_text}", fontsize=11)
        file = io.BytesIO()
        figure.savefig(file, format=format, dpi=130, metadata={"Date": None} if format == "svg" else None)
    return _readable_in_the_dark(file.getvalue()) if format == "svg" else file.getvalue()


def _readable_in_the_dark(svg: bytes) -> bytes:
    """The colours as properties, which a reader's preference changes."""
    text = svg.decode()
    light, dark = (_INK[0], _PAPER[0], *_LIGHT), (_INK[1], _PAPER[1], *_DARK)
    for number, colour in enumerate(light):
        text = text.replace(colour, f"var(--c{number})")
    properties = [
        " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours)) for colours in (light, dark)
    ]
    style = f"<style>:root {{ {properties[0]} }} @media (prefers-color-scheme: dark) {{ :root {{ {properties[1]} }} }}"
    begin = text.index(">", text.index("<svg")) + 1
    return f"{text[:begin]}{style} text {{ fill: var(--c0); }}</style>{text[begin:]}".encode()


def _plot(axis: Axes, measure: PlottedMeasure, across: str) -> None:
    for number, line in enumerate(measure.lines):
        colour = _LIGHT[number % len(_LIGHT)]
        dashes = _DASHES[number % len(_DASHES)]
        axis.plot(line.across, line.mean, label=line.label, color=colour, linestyle=dashes, linewidth=1.5)
        if line.of_several:
            axis.fill_between(line.across, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    if measure.begin is not None:
        seen = [line for line in measure.lines if line.across[-1] >= measure.begin]
        axis.set_xlim(measure.begin, max(line.across[-1] for line in seen))
        values = [value for line in seen for value in line.since(measure.begin)]
        low, high = min(values), max(values)
        axis.set_ylim(low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1))
    else:
        axis.set_ylim(bottom=0)
    axis.set_title(measure.title, fontsize=10, loc="left")
    axis.set_xlabel(across, fontsize=9)
    axis.grid(visible=True, alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
