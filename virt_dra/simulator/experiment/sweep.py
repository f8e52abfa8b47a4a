"""A sweep: one workload under several policies, seeds and sizes of the cluster; and the smallest size that will do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from operator import ge, gt, le, lt
from typing import Final, Protocol

from virt_dra.api.counting import counted
from virt_dra.api.nearest import did_you_mean
from virt_dra.simulator.experiment.durations import seconds_of, shown
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.journal import Stay
from virt_dra.simulator.experiment.measures import Measures
from virt_dra.simulator.experiment.model import Experiment


class SweptWorkload(Protocol):
    """The input of a sweep's experiments. It is sent to other processes."""

    def experiment(self, seed: int, size: int | None) -> Experiment:
        """The experiment of a seed. ``size``: of the part that is varied; None: as it is. Raises BadExperiment."""


@dataclass(frozen=True, order=True)
class Run:
    """One simulation of a sweep."""

    policy: str
    seed: int
    size: int | None = None


@dataclass(frozen=True)
class Sweep:
    """A workload, and how it is simulated in every run."""

    workload: SweptWorkload
    until: float | None = None
    """Seconds; None: as the workload says."""
    nodes_only: bool = False
    whole_per_cent: bool = False
    warm_up: float = 0.0
    keeps_stays: bool = False

    def experiment(self, seed: int, size: int | None = None) -> Experiment:
        """The experiment of one run. Raises BadExperiment."""
        experiment = self.workload.experiment(seed, size)
        if self.warm_up >= (experiment.end if self.until is None else self.until) and self.warm_up:
            raise BadExperiment(f"it ends before the warm-up of {shown(self.warm_up)} does")
        return replace(
            experiment,
            until=experiment.until if self.until is None else self.until,
            nodes_only=self.nodes_only,
            whole_per_cent=self.whole_per_cent,
            warm_up=self.warm_up,
            keeps_stays=self.keeps_stays,
        )


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    run: Run
    measures: Measures
    stays: tuple[Stay, ...] = ()


RunAll = Callable[[Sequence[Run]], Sequence[RunResult]]
"""Simulates runs, and gives their results in their order; fewer, if it was interrupted."""


# --- the smallest size that will do -----------------------------------------------------------------------------------

_MEASURED: Final[dict[str, Callable[[Measures], float]]] = {
    "p50 wait": lambda measures: measures.pending_p50,
    "p95 wait": lambda measures: measures.pending_p95,
    "p99 wait": lambda measures: measures.pending_p99,
    "waiting": lambda measures: measures.waiting,
    "evicted": lambda measures: measures.evictions,
    "unused": lambda measures: measures.unallocated,
    "used": lambda measures: measures.used_mean,
    "fragmented": lambda measures: measures.last.fragmentation,
    "largest vm": lambda measures: measures.last.largest_vm,
}
_COMPARED: Final[dict[str, Callable[[float, float], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_PARTS: Final = frozenset({"used", "fragmented"})


@dataclass(frozen=True)
class Target:
    """What a cluster must achieve: ``p95 wait < 10m``."""

    measure: str
    comparison: str
    limit: float

    def __str__(self) -> str:
        return f"{self.measure} {self.comparison} {self.value_text(self.limit)}"

    def value(self, measures: Measures) -> float:
        return _MEASURED[self.measure](measures)

    def met(self, results: Iterable[RunResult]) -> bool:
        """Whether every run met it."""
        return all(_COMPARED[self.comparison](self.value(result.measures), self.limit) for result in results)

    def value_text(self, value: float) -> str:
        if self.measure.endswith("wait"):
            return shown(value) if value else "0s"
        return f"{value:.1%}" if self.measure in _PARTS else f"{value:g}"

    def range_text(self, results: Sequence[RunResult]) -> str:
        """The least and the most of the runs."""
        values = [self.value(result.measures) for result in results]
        low, high = (self.value_text(value) for value in (min(values), max(values)))
        return f"{self.measure} {low}" if low == high else f"{self.measure} {low} to {high}"


def parse_target(text: str) -> Target:
    """``MEASURE < VALUE``, with durations for waits and parts of 1 or per cent for parts. Raises ValueError."""
    matched = re.fullmatch(r"\s*([A-Za-z0-9 ]+?)\s*(<=|>=|<|>)\s*(\S.*?)\s*", text)
    if matched is None:
        raise ValueError(f"{text!r} is no target; write such as 'p95 wait < 10m'")
    measure, comparison, value = " ".join(matched[1].lower().split()), matched[2], matched[3]
    if measure not in _MEASURED:
        hint = did_you_mean(measure, _MEASURED) or f"; the measures are {', '.join(_MEASURED)}"
        raise ValueError(f"there is no measure {measure!r}{hint}")
    if measure.endswith("wait"):
        return Target(measure, comparison, seconds_of("".join(value.split()).replace("min", "m")))
    is_part = measure in _PARTS
    try:
        limit = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    except ValueError:
        limit = nan
    if not isfinite(limit):
        raise ValueError(f"{value!r} is no number")
    if is_part and not 0 <= limit <= 1:
        raise ValueError(f"{value!r}: {measure} is a part of the whole; write such as 0.8 or 80%")
    if not is_part and value.endswith("%"):
        raise ValueError(f"{value!r}: {measure} is a number, not a part of the whole")
    return Target(measure, comparison, limit)


@dataclass(frozen=True)
class SizeRange:
    """Sizes of a part of the cluster: ``NAME=4..12`` or ``NAME=4,8,12``. ``part``: what the workload calls it."""

    part: str
    sizes: tuple[int, ...]


MOST_SIZES: Final = 100_001


def parse_sizes(text: str) -> SizeRange:
    """The sizes in a text. Raises ValueError."""
    part, _, listed = text.rpartition("=")
    sizes: set[int] = set()
    for item in listed.split(","):
        matched = re.fullmatch(r"\s*(\d{1,6})\s*(?:\.\.\s*(\d{1,6})\s*)?", item)
        if matched is None or not part:
            raise ValueError(f"{text!r} is no range of sizes; write such as gpu-node=4..12 or gpu-node=4,8,12")
        low, high = int(matched[1]), int(matched[2] or matched[1])
        if high < low:
            raise ValueError(f"{text!r}: {low}..{high} ends before it begins")
        sizes.update(range(low, high + 1))
    if len(sizes) > MOST_SIZES:
        raise ValueError(f"{text!r}: more than {MOST_SIZES} sizes")
    return SizeRange(part.strip(), tuple(sorted(sizes)))


@dataclass(frozen=True)
class FewestNodes:
    """The smallest size with which a policy meets the target, by bisection: a larger size is taken to do no worse."""

    policy: str
    size: int | None
    """None: the largest doesn't do."""
    results: tuple[RunResult, ...]
    """By seed, with this size; with the largest if none will do."""
    below: tuple[RunResult, ...]
    """By seed, with the next smaller size, which doesn't do; empty: there is none."""


def fewest_nodes(
    run_all: RunAll, policies: Sequence[str], seeds: Sequence[int], sizes: Sequence[int], target: Target
) -> list[FewestNodes]:
    """The smallest size that meets the target, for each policy. The runs of a round, of all policies and seeds, are
    given to ``run_all`` together. Raises KeyboardInterrupt if runs were interrupted."""
    tried: dict[tuple[str, int], tuple[RunResult, ...]] = {}

    def met(policy: str, position: int) -> bool:
        return target.met(tried[policy, position])

    def attempt(positions: Iterable[tuple[str, int]]) -> None:
        new = [(policy, position) for policy, position in dict.fromkeys(positions) if (policy, position) not in tried]
        runs = [Run(policy, seed, sizes[position]) for policy, position in new for seed in seeds]
        results = run_all(runs)
        if len(results) < len(runs) or not all(result.measures.complete for result in results):
            raise KeyboardInterrupt
        for number, key in enumerate(new):
            tried[key] = tuple(results[number * len(seeds) : (number + 1) * len(seeds)])

    last = len(sizes) - 1
    attempt((policy, last) for policy in policies)
    bounds = {policy: (-1, last) for policy in policies if met(policy, last)}
    """By policy: the largest position known not to do, and the smallest known to do."""
    while any(high - low > 1 for low, high in bounds.values()):
        middles = {policy: (low + high) // 2 for policy, (low, high) in bounds.items() if high - low > 1}
        attempt(middles.items())
        for policy, middle in middles.items():
            low, high = bounds[policy]
            bounds[policy] = (low, middle) if met(policy, middle) else (middle, high)
    answers = []
    for policy in policies:
        low, high = bounds.get(policy, (last, last))
        size = sizes[high] if policy in bounds else None
        below = tried[policy, low] if policy in bounds and low >= 0 else ()
        answers.append(FewestNodes(policy, size, tried[policy, high], below))
    return answers


def sentence(fewest: FewestNodes, sizes: SizeRange, target: Target) -> str:
    """The answer in one line."""
    seeds = len(fewest.results)
    of_seeds = f", in {seeds} of {seeds} seeds" if seeds > 1 else ""
    reached = target.range_text(fewest.results)
    if fewest.size is None:
        most = counted(sizes.sizes[-1], "node")
        return f"{fewest.policy}: {target} isn't reached with {most} of {sizes.part} ({reached})"
    below = f"; with {fewest.below[0].run.size}: {target.range_text(fewest.below)}" if fewest.below else ""
    nodes = f"{counted(fewest.size, 'node')} of {sizes.part} {'is' if fewest.size == 1 else 'are'} the fewest"
    return f"{fewest.policy}: {nodes} with {target}{of_seeds} ({reached}{below})"


def runs_of(policies: Sequence[str], seeds: Sequence[int], sizes: Sequence[int | None] = (None,)) -> Iterator[Run]:
    """Every combination, by size, then policy, then seed."""
    return (Run(policy, seed, size) for size in sizes for policy in policies for seed in seeds)
