"""The plots of ``virt-dra simulate``, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from virt_dra.cli.simulate.comparison import ComparedPolicy, Comparison
from virt_dra.simulator.experiment.measures import ClusterSample, Measures

_LIGHT: Final = ("#0b62a3", "#c2334a", "#217a48", "#96690a", "#6a4c93", "#00767a", "#8b5a2b", "#555555")
"""Distinguishable also with few colours, by the dashes."""
_DARK: Final = ("#6fb7f0", "#ff8a9b", "#6fd19a", "#e8b84a", "#c3a6ee", "#4fd0d6", "#d9a877", "#c0c0c0")
"""The same in a reader's dark mode."""
_DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 3)))
_INK: Final = ("#1b1f24", "#e6e8ea")
"""Text and axes, light and dark."""
_PAPER: Final = ("#ffffff", "#15181b")
_FIXED: Final[dict[Any, Any]] = {
    "svg.hashsalt": "virt-dra",
    "svg.fonttype": "none",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK[0]),
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), _PAPER[0]),
}
"""So that equal results make equal files; text stays text."""
_POINTS: Final = 200

PlottedValue = Callable[[Measures, ClusterSample], float]


def draw(comparison: Comparison, format: str) -> bytes:
    """Four plots over the load, if nothing ever leaves, else over time; of several seeds the mean, and the range behind
    it. An SVG is dark where its reader prefers that. ``format``: svg or png."""
    unit = comparison.unit
    of_load = all(of.last.asked > 0 and _only_grows(of) for of in comparison.measures)
    with mpl.rc_context(_FIXED):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        axes = figure.subplots(2, 2)
        plots: list[tuple[str, PlottedValue]] = [
            (f"unused {unit}", lambda of, sample: (1 - sample.used) * of.cards),
            (
                f"fragmented: free, and of no use to the typical VM (% of {unit})",
                lambda of, sample: sample.fragmentation * 100,
            ),
            ("VMs that wait", lambda of, sample: sample.waiting),
            (f"whole {unit} of the largest VM that still fits", lambda of, sample: sample.largest_vm),
        ]
        for axis, (title, value) in zip(axes.flat, plots, strict=True):
            _plot(axis, title, value, comparison, of_load)
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


def _only_grows(of: Measures) -> bool:
    return all(a.used <= b.used + 1e-9 for a, b in zip(of.samples, of.samples[1:], strict=False))


def _plot(axis: Axes, title: str, value: PlottedValue, comparison: Comparison, of_load: bool) -> None:
    lines = [_Line(of, value, of_load) for of in comparison.policies]
    for number, (of, line) in enumerate(zip(comparison.policies, lines, strict=True)):
        colour = _LIGHT[number % len(_LIGHT)]
        label = of.policy if of.size is None else f"{of.policy}, {of.size} {comparison.part}"
        axis.plot(
            line.across, line.mean, label=label, color=colour, linestyle=_DASHES[number % len(_DASHES)], linewidth=1.5
        )
        if len(of.results) > 1:
            axis.fill_between(line.across, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    begin = _where_they_part(lines) if of_load else None
    if begin is not None:
        title += f", from {begin:.0f} % on"
        seen = [line for line in lines if line.across[-1] >= begin]
        axis.set_xlim(begin, max(line.across[-1] for line in seen))
        low, high = min(line.least(begin) for line in seen), max(line.most(begin) for line in seen)
        axis.set_ylim(low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1))
    else:
        axis.set_ylim(bottom=0)
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel("asked for (% of the cluster)" if of_load else "hours", fontsize=9)
    axis.grid(visible=True, alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


class _Line:
    """A measure of one policy, on points that its seeds have in common."""

    def __init__(self, of: ComparedPolicy, value: PlottedValue, of_load: bool) -> None:
        series = [
            (
                [sample.asked * 100 if of_load else sample.at / 3600 for sample in measures.samples],
                [value(measures, sample) for sample in measures.samples],
            )
            for measures in of.measures
        ]
        if len(series) == 1:
            self.across, self.mean = np.array(series[0][0]), np.array(series[0][1], dtype=float)
            self.low = self.high = self.mean
            return
        self.across = np.linspace(0, min(across[-1] for across, _ in series), _POINTS)
        values = np.array([np.interp(self.across, across, values) for across, values in series])
        self.mean, self.low, self.high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)

    def at(self, across: float) -> float:
        return float(np.interp(across, self.across, self.mean))

    def least(self, begin: float) -> float:
        return float(min([*self.low[self.across >= begin], self.at(begin)]))

    def most(self, begin: float) -> float:
        return float(max([*self.high[self.across >= begin], self.at(begin)]))


def _where_they_part(lines: Sequence[_Line]) -> float | None:
    """The load from which on the policies differ, a little before it: the axis begins there, so that the
    difference is seen; None if that leaves nothing out."""
    if len(lines) < 2:
        return None
    end = min(line.across[-1] for line in lines)
    largest = max(float(line.high.max()) for line in lines)
    for load in np.linspace(0, end, _POINTS):
        values = [line.at(load) for line in lines]
        if max(values) - min(values) > 0.01 * largest:
            begin = max(load - 0.05 * end, 0.0)
            return begin if begin > 0.1 * end else None
    return None
