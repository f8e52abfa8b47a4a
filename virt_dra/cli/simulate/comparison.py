"""What is compared: the runs of each policy, what is shown of them, and the sentence that sums it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from virt_dra.api.counting import counted
from virt_dra.model.unknown import UnknownFact
from virt_dra.simulator.experiment.durations import shown
from virt_dra.simulator.experiment.measures import Measures
from virt_dra.simulator.experiment.sweep import RunResult

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class ComparedPolicy:
    """The runs of one policy, one for each seed, with one size of the cluster."""

    policy: str
    size: int | None
    results: tuple[RunResult, ...]

    @property
    def measures(self) -> list[Measures]:
        return [result.measures for result in self.results]

    @property
    def complete(self) -> bool:
        return all(of.complete for of in self.measures)

    @property
    def label(self) -> str:
        return self.policy + ("" if self.complete else " (interrupted)")


@dataclass(frozen=True)
class Comparison:
    """``source``: the input's name; ``loaded``: VMs arrive until the cluster is full, and stay; ``part``: whose number
    the sizes are."""

    source: str
    nodes: int
    unit: str
    loaded: bool
    part: str
    policies: tuple[ComparedPolicy, ...]
    unknown: tuple[UnknownFact, ...] = ()

    @property
    def measures(self) -> list[Measures]:
        return [of for compared in self.policies for of in compared.measures]

    @property
    def stops(self) -> bool:
        """Whether VMs are stopped and started again."""
        return any(of.keeping is not None for of in self.measures)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(result.run.seed for compared in self.policies for result in compared.results))

    @property
    def sized(self) -> bool:
        return any(compared.size is not None for compared in self.policies)

    @property
    def seeds_text(self) -> str:
        seeds = self.seeds
        if len(seeds) == 1:
            return f"seed {seeds[0]}"
        consecutive = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
        return f"seeds {seeds[0]} to {seeds[-1]}" if consecutive else f"seeds {', '.join(map(str, seeds))}"

    @property
    def size_text(self) -> str:
        nodes = "" if self.sized else f"{counted(self.nodes, 'node')}, "
        return f"{nodes}{in_range([of.cards for of in self.measures], str)} {self.unit}"

    @property
    def arrivals(self) -> str:
        """The number of VMs that arrive, which may differ between seeds."""
        whole = [of.vms for of in self.measures if of.complete]
        return in_range(whole or [max(of.vms for of in self.measures)], lambda number: f"{number:,}")

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys(note for of in self.measures for note in of.notes))


def compared(results: Sequence[RunResult]) -> tuple[ComparedPolicy, ...]:
    """By size and policy, in the order of the runs."""
    by_policy: dict[tuple[int | None, str], list[RunResult]] = {}
    for result in results:
        by_policy.setdefault((result.run.size, result.run.policy), []).append(result)
    return tuple(ComparedPolicy(policy, size, tuple(of)) for (size, policy), of in by_policy.items())


@dataclass(frozen=True)
class ComparedColumn:
    """One measure of all policies. ``sign``: 1 if less is better, -1 if more is."""

    heading: str
    value: Callable[[Measures], float]
    text: Callable[[float], str]
    sign: int = 1

    def cell(self, of: Sequence[Measures]) -> str:
        """Of several seeds the least and the most."""
        return in_range([self.value(measures) for measures in of], self.text)

    def rank(self, of: Sequence[Measures]) -> float:
        """The less, the better."""
        return self.sign * sum(self.value(measures) for measures in of) / len(of)


def in_range(values: Sequence[N], text: Callable[[N], str]) -> str:
    """The least and the most, which may be the same."""
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low}–{high}"


def wait_text(seconds: float) -> str:
    return shown(seconds) if seconds else "0s"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def per_cent(part: float) -> str:
    return f"{part:.1%}"


def columns(comparison: Comparison) -> list[ComparedColumn]:
    """What is shown of each policy."""
    timed = all(of.timed for of in comparison.measures)
    waits = [
        ComparedColumn("WAIT p50", lambda of: of.pending_p50, wait_text),
        ComparedColumn("p95", lambda of: of.pending_p95, wait_text),
        ComparedColumn("p99", lambda of: of.pending_p99, wait_text),
    ]
    gangs = ComparedColumn("GANGS WAITING", lambda of: of.gangs_waiting, _whole)
    return [
        ComparedColumn("STARTED", lambda of: of.started, _whole, -1),
        _WAITING,
        *(waits if timed else ()),
        ComparedColumn("USED mean", lambda of: of.used_mean, per_cent, -1),
        ComparedColumn("end", lambda of: of.last.used, per_cent, -1),
        ComparedColumn(f"UNUSED {comparison.unit}", lambda of: of.unallocated, lambda value: f"{value:.1f}"),
        ComparedColumn("FRAGMENTED", lambda of: of.last.fragmentation, per_cent),
        ComparedColumn("LARGEST VM", lambda of: of.last.largest_vm, _whole, -1),
        ComparedColumn("EVICTED", lambda of: of.evictions, _whole),
        *([gangs] if any(of.gangs for of in comparison.measures) else ()),
    ]


_WAITING: Final = ComparedColumn("WAITING", lambda of: of.waiting, _whole)


def best_cells(column: ComparedColumn, policies: Sequence[ComparedPolicy]) -> list[bool]:
    """By policy, whether its cell is the best of those of complete runs, which aren't all the same."""
    cells = [column.cell(of.measures) for of in policies]
    ranks = {cell: column.rank(of.measures) for of, cell in zip(policies, cells, strict=True) if of.complete}
    best = min(ranks, key=lambda cell: ranks[cell]) if len(ranks) > 1 else None
    return [of.complete and cell == best for of, cell in zip(policies, cells, strict=True)]


# --- the conclusion ---------------------------------------------------------------------------------------------------

_SAME: Final = 1e-9


_Criterion = tuple[Callable[[Measures], float], str]
"""A measure of which less is better, and the sentence: of the best, by how much on average, the next."""

_UNUSED: Final[_Criterion] = (
    lambda of: of.unallocated,
    "{best} place{s} {by} more of {cards:,} {unit} than {other}",
)
_BY_TIME: Final[tuple[_Criterion, ...]] = (
    (lambda of: of.waiting, "with {best} {by} fewer of {arrivals} VMs wait at the end than with {other}"),
    (lambda of: of.pending_p95, "with {best} the 95th percentile of the waits is {wait} shorter than with {other}"),
    (
        lambda of: of.last.fragmentation,
        "{best} leave{s} {by_cards} fewer of {cards:,} {unit} in fragments than {other}",
    ),
)


def conclusion(comparison: Comparison) -> str:
    """One sentence: the best policy, by how much, and in how many of the seeds; of several sizes, what the number of
    nodes changes."""
    policies = [of for of in comparison.policies if of.complete]
    if not policies:
        return ""
    if comparison.sized:
        return _over_sizes(policies, comparison)
    if len(policies) == 1:
        of_end = ComparedColumn("", lambda of: of.last.used, per_cent)
        measures = policies[0].measures
        return (
            f"With {policies[0].policy} {_WAITING.cell(measures)} of {comparison.arrivals} VMs wait at the end, and "
            f"{of_end.cell(measures)} of the {measures[0].cards:,} {comparison.unit} are in use."
        )
    for criterion in (_UNUSED,) if comparison.loaded else _BY_TIME:
        sentence = _told_apart(criterion, policies, comparison)
        if sentence is not None:
            return sentence[0].upper() + sentence[1:] + "."
    return "No policy is better than another here."


def _over_sizes(policies: Sequence[ComparedPolicy], comparison: Comparison) -> str:
    """With the fewest nodes and the most: ``With 3 and 6 gpu 90 and 4 of 100 VMs wait at the end with pack, …``."""
    sizes = list(dict.fromkeys([of.size for of in (policies[0], policies[-1])]))
    waiting: dict[str, list[str]] = {}
    for of in policies:
        if of.size in sizes:
            waiting.setdefault(of.policy, []).append(_WAITING.cell(of.measures))
    of_policies = [(policy, " and ".join(cells)) for policy, cells in waiting.items() if len(cells) == len(sizes)]
    if not of_policies:
        return ""
    (first, cells), *others = of_policies
    return (
        f"With {' and '.join(map(str, sizes))} {comparison.part} {cells} of {comparison.arrivals} VMs wait at the end "
        f"with {first}{''.join(f', {cells} with {policy}' for policy, cells in others)}."
    )


def _told_apart(criterion: _Criterion, policies: Sequence[ComparedPolicy], comparison: Comparison) -> str | None:
    value, sentence = criterion
    means = {of.policy: sum(map(value, of.measures)) / len(of.measures) for of in policies}
    least = min(means.values())
    best = [name for name, mean in means.items() if mean - least <= _SAME]
    others = {name: mean for name, mean in means.items() if mean - least > _SAME}
    if not others:
        return None
    next_best = min(others, key=others.__getitem__)
    by_policy = {of.policy: {result.run.seed: result.measures for result in of.results} for of in policies}
    seeds = by_policy[next_best].keys() & by_policy[best[0]].keys()
    better = sum(
        all(value(by_policy[name][seed]) < value(by_policy[next_best][seed]) for name in best) for seed in seeds
    )
    by, cards = others[next_best] - least, comparison.measures[0].cards
    said = sentence.format(
        best=best[0] if len(best) == 1 else f"{', '.join(best[:-1])} and {best[-1]}",
        s="s" if len(best) == 1 else "",
        by=_number(by),
        by_cards=_number(by * cards),
        wait=wait_text(by),
        cards=cards,
        other=next_best,
        unit=comparison.unit,
        arrivals=comparison.arrivals,
    )
    return f"{said}, in {better} of {len(seeds)} seeds" if len(seeds) > 1 else f"{said} ({comparison.seeds_text})"


def _number(value: float) -> str:
    """Whole, or with a digit if it is small."""
    return f"{value:,.0f}" if value >= 10 or abs(value - round(value)) < 0.05 else f"{value:.1f}"
