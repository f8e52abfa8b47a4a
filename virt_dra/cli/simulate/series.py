"""What the plots of ``virt-dra simulate`` show: four measures over the load or the time, a line for each policy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from virt_dra.cli.simulate.comparison import ComparedPolicy, Comparison
from virt_dra.simulator.experiment.measures import ClusterSample, Measures

_POINTS: Final = 200

PlottedValue = Callable[[Measures, ClusterSample], float]


@dataclass(frozen=True)
class PlottedLine:
    """A measure of one policy: of several seeds the mean, the least and the most, on points that they share."""

    label: str
    across: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    @property
    def of_several(self) -> bool:
        return self.low is not self.mean

    def at(self, across: float) -> float:
        return _between(across, self.across, self.mean)

    def since(self, begin: float) -> list[float]:
        """All values from there on."""
        first = bisect_left(self.across, begin)
        return [*self.low[first:], *self.high[first:], self.at(begin)]


@dataclass(frozen=True)
class PlottedMeasure:
    """``begin``: where the policies begin to differ, if the plot should begin there."""

    title: str
    lines: tuple[PlottedLine, ...]
    begin: float | None


@dataclass(frozen=True)
class PlottedSeries:
    """``across``: what the axis is."""

    across: str
    measures: tuple[PlottedMeasure, ...]


def plotted(comparison: Comparison) -> PlottedSeries:
    """Over the load, if nothing ever leaves, else over time."""
    unit = comparison.unit
    of_load = all(of.last.asked > 0 and _only_grows(of) for of in comparison.measures)
    values: list[tuple[str, PlottedValue]] = [
        (f"unused {unit}", lambda of, sample: (1 - sample.used) * of.cards),
        (
            f"fragmented: free, and of no use to the typical VM (% of {unit})",
            lambda _, sample: sample.fragmentation * 100,
        ),
        ("VMs that wait", lambda of, sample: sample.waiting),
        (f"whole {unit} of the largest VM that still fits", lambda of, sample: sample.largest_vm),
    ]
    measures = []
    for title, value in values:
        lines = tuple(_line(of, value, comparison, of_load) for of in comparison.policies)
        begin = _where_they_part(lines) if of_load else None
        measures.append(PlottedMeasure(title if begin is None else f"{title}, from {begin:.0f} % on", lines, begin))
    return PlottedSeries("asked for (% of the cluster)" if of_load else "hours", tuple(measures))


def resampled(line: PlottedLine, across: Sequence[float]) -> tuple[list[float | None], ...]:
    """Mean, least and most at these points; None before the line begins and after it has ended."""
    return tuple(
        [_between(at, line.across, values) if line.across[0] <= at <= line.across[-1] else None for at in across]
        for values in (line.mean, line.low, line.high)
    )


def points(begin: float, end: float) -> list[float]:
    """The points of a plot, evenly spread."""
    return [begin + (end - begin) * number / (_POINTS - 1) for number in range(_POINTS)]


def _only_grows(of: Measures) -> bool:
    return all(earlier.used <= later.used + 1e-9 for earlier, later in pairwise(of.samples))


def _line(of: ComparedPolicy, value: PlottedValue, comparison: Comparison, of_load: bool) -> PlottedLine:
    label = of.policy if of.size is None else f"{of.policy}, {of.size} {comparison.part}"
    series = [
        (
            [sample.asked * 100 if of_load else sample.at / 3600 for sample in measures.samples],
            [float(value(measures, sample)) for sample in measures.samples],
        )
        for measures in of.measures
    ]
    if len(series) == 1:
        across, mean = series[0]
        return PlottedLine(label, across, mean, mean, mean)
    common = points(0, min(across[-1] for across, _ in series))
    seeds = [[_between(at, across, values) for at in common] for across, values in series]
    by_point = list(zip(*seeds, strict=True))
    mean = [sum(values) / len(values) for values in by_point]
    return PlottedLine(label, common, mean, [min(values) for values in by_point], [max(values) for values in by_point])


def _between(at: float, across: Sequence[float], values: Sequence[float]) -> float:
    """The value there, between those of the points beside it on a straight line."""
    right = bisect_left(across, at)
    if right == 0 or right == len(across):
        return values[min(right, len(across) - 1)]
    left = right - 1
    part = (at - across[left]) / (across[right] - across[left])
    return values[left] + part * (values[right] - values[left])


def _where_they_part(lines: Sequence[PlottedLine]) -> float | None:
    """The load from which on the policies differ, a little before it: the axis begins there, so that the
    difference is seen; None if that leaves nothing out."""
    if len(lines) < 2:
        return None
    end = min(line.across[-1] for line in lines)
    largest = max(max(line.high) for line in lines)
    for load in points(0, end):
        values = [line.at(load) for line in lines]
        if max(values) - min(values) > 0.01 * largest:
            begin = max(load - 0.05 * end, 0.0)
            return begin if begin > 0.1 * end else None
    return None
