"""The plots of ``virt-dra simulate``, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from virt_dra.simulator.experiment.measures import ClusterSample, Measures

_COLOURS: Final = ("#0b62a3", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#00868b", "#8b5a2b", "#555555")
"""Distinguishable also with few colours, by the dashes."""
_DASHES: Final = ("-", "--", "-.", ":", "-", "--", "-.", ":")
_FIXED_IDS: Final[dict[Any, Any]] = {"svg.hashsalt": "virt-dra", "svg.fonttype": "none"}
"""So that equal results make equal files; text stays text."""


def draw(results: Sequence[Measures], unit: str, format: str) -> bytes:
    """Four plots over the load, if nothing ever leaves, else over time. ``format``: svg or png."""
    of_load = all(not result.timed or (result.last.asked > 0 and _only_grows(result)) for result in results)
    with mpl.rc_context(_FIXED_IDS):
        figure = Figure(figsize=(11, 7.2), layout="constrained")
        axes = figure.subplots(2, 2)
        plots: list[tuple[str, Callable[[Measures, ClusterSample], float]]] = [
            (f"unused {unit}", lambda of, sample: (1 - sample.used) * of.cards),
            (
                f"fragmented: free, and of no use to the typical VM (% of {unit})",
                lambda of, sample: sample.fragmentation * 100,
            ),
            ("VMs that wait", lambda of, sample: sample.waiting),
            (f"whole {unit} of the largest VM that still fits", lambda of, sample: sample.largest_vm),
        ]
        for axis, (title, value) in zip(axes.flat, plots, strict=True):
            _plot(axis, title, value, results, of_load)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(results), 4), frameon=False)
        file = io.BytesIO()
        figure.savefig(file, format=format, dpi=130, metadata={"Date": None} if format == "svg" else None)
    return file.getvalue()


def _only_grows(of: Measures) -> bool:
    return all(a.used <= b.used + 1e-9 for a, b in zip(of.samples, of.samples[1:], strict=False))


def _plot(
    axis: Axes,
    title: str,
    value: Callable[[Measures, ClusterSample], float],
    results: Sequence[Measures],
    of_load: bool,
) -> None:
    for number, result in enumerate(results):
        across = [sample.asked * 100 if of_load else sample.at / 3600 for sample in result.samples]
        axis.plot(
            across,
            [value(result, sample) for sample in result.samples],
            label=result.policy,
            color=_COLOURS[number % len(_COLOURS)],
            linestyle=_DASHES[number % len(_DASHES)],
            linewidth=1.4,
        )
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel("asked for (% of the cluster)" if of_load else "hours", fontsize=9)
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
