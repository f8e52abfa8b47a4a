"""The reports of ``virt-dra simulate``: tables, documents, CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import count, takewhile
from typing import Final, NotRequired, TypedDict

from rich.table import Table

from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.simulate.comparison import (
    ComparedPolicy,
    Comparison,
    columns,
    conclusion,
    in_range,
    per_cent,
    wait_text,
)
from virt_dra.model.unknown import UnknownFactJson
from virt_dra.simulator.experiment.journal import Stay
from virt_dra.simulator.experiment.measures import ClusterSample, Measures, MeasuresJson
from virt_dra.simulator.experiment.sweep import FewestNodes, RunResult, SizeRange, Target

_LOAD_STEPS = 10
"""Rows of the table over the load, up to the whole cluster."""


def summary(comparison: Comparison) -> Table:
    """A row for each policy, and size."""
    shown_columns = columns(comparison)
    table = _table([*([comparison.part] if comparison.sized else []), "POLICY"], [of.heading for of in shown_columns])
    for of in comparison.policies:
        size = [str(of.size)] if comparison.sized else []
        table.add_row(*size, of.label, *(column.cell(of.measures) for column in shown_columns))
    return table


def by_kind(comparison: Comparison) -> Table:
    """Waits and use of each kind of VM, a row for each policy."""
    table = _table(["KIND OF VM", "POLICY"], ["VMS", "STARTED", "WAITING", "WAIT p50", "p95", "p99", "USED mean"])
    for kind in _names(of.kind for measures in comparison.measures for of in measures.kinds)[:_MOST_KINDS]:
        for of in comparison.policies:
            runs = [of_kind for measures in of.measures for of_kind in measures.kinds if of_kind.kind == kind]
            if runs:
                counted = ("vms", "started", "waiting")
                numbers = [in_range([getattr(run, name) for run in runs], str) for name in counted]
                used = in_range([run.used for run in runs], per_cent)
                table.add_row(kind, _labelled(of, comparison), *numbers, *_waits([run.waits for run in runs]), used)
    return table


def of_stopped_vms(comparison: Comparison) -> Table:
    """How long stopped VMs waited to start again, and what was kept for them, a row for each policy."""
    headings = ["RESTARTS", "WAIT p50", "p95", "p99", f"KEPT, {comparison.unit[:-1].upper()} HOURS", "RELEASED"]
    table = _table(["POLICY"], headings)
    for of in comparison.policies:
        runs = [measures.keeping for measures in of.measures if measures.keeping is not None]
        if runs:
            hours = in_range([run.kept_hours for run in runs], lambda hours: f"{hours:,.0f}")
            restarts = in_range([run.restarts for run in runs], str)
            released = in_range([run.released for run in runs], str)
            table.add_row(_labelled(of, comparison), restarts, *_waits([run.waits for run in runs]), hours, released)
    return table


def by_model(comparison: Comparison) -> Table:
    """Waits and use of each model of device, a row for each policy."""
    table = _table(["MODEL", "POLICY"], [comparison.unit.upper(), "WAIT p50", "p95", "p99", "USED mean", "end"])
    for model in _names(of.model for measures in comparison.measures for of in measures.models):
        for of in comparison.policies:
            runs = [of_model for measures in of.measures for of_model in measures.models if of_model.model == model]
            if runs:
                cards, waits = in_range([run.cards for run in runs], str), _waits([run.waits for run in runs])
                used = [in_range([getattr(run, name) for run in runs], per_cent) for name in ("used_mean", "used_end")]
                table.add_row(model, _labelled(of, comparison), cards, *waits, *used)
    return table


def _waits(runs: Sequence[Sequence[float]]) -> list[str]:
    """The percentiles of each run, as ranges."""
    return [in_range(values, wait_text) for values in zip(*runs, strict=True)]


_MOST_KINDS = 40
"""Kinds of VMs in a table; -o json has all."""


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def _names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _labelled(of: ComparedPolicy, comparison: Comparison) -> str:
    return f"{of.policy} with {of.size} {comparison.part}" if of.size is not None else of.policy


def broken_claims(results: Sequence[Measures]) -> list[str]:
    """A sentence for the policies that met VMs with the same broken claims."""
    by_error: dict[str, list[Measures]] = {}
    for of in results:
        if of.first_error is not None:
            by_error.setdefault(of.first_error, []).append(of)
    return [
        f"{', '.join(_names(of.policy for of in broken))}: {in_range([of.errors for of in broken], str)} "
        f"{'VM' if all(of.errors == 1 for of in broken) else 'VMs'} with broken claims, the first: {error}"
        for error, broken in by_error.items()
    ]


def over_load(comparison: Comparison) -> Table:
    """Unused cards, and the fragmented part of all, a row for each tenth of the cluster that was asked for."""
    table = _table([], ["ASKED", *(of.policy for of in comparison.policies)])
    highest = max((measures.last.asked for measures in comparison.measures), default=0.0)
    for step in takewhile(lambda step: step / _LOAD_STEPS <= highest + 0.005, count(1)):
        load = step / _LOAD_STEPS
        table.add_row(f"{load:.0%}", *(_at_load(of.measures, load) for of in comparison.policies))
    return table


def _at_load(measures: Sequence[Measures], load: float) -> str:
    reached = [(of, next((sample for sample in of.samples if sample.asked >= load - 0.005), None)) for of in measures]
    samples = [(of, sample) for of, sample in reached if sample is not None]
    if not samples:
        return ""
    unused = in_range([(1 - sample.used) * of.cards for of, sample in samples], lambda cards: f"{cards:.1f}")
    return f"{unused} / {in_range([sample.fragmentation for _, sample in samples], per_cent)}"


class PolicyRunJson(MeasuresJson):
    """A run of a policy."""

    seed: int
    size: int | None
    """How many there are of what --size counts; null without --size."""


class ComparisonJson(TypedDict):
    """Policies compared on one workload."""

    input: str
    seed: NotRequired[int]
    """Where there is one alone."""
    seeds: NotRequired[list[int]]
    nodes: int
    unit: str
    """What is counted: cards, or what they are called in the input."""
    notes: NotRequired[list[str]]
    conclusion: NotRequired[str]
    unknown: list[UnknownFactJson]
    policies: list[PolicyRunJson]
    """A run for each policy, seed and size."""


class SizedRunJson(TypedDict):
    """A run with a size of the cluster."""

    size: int | None
    seed: int
    value: float
    """Of the target's measure."""
    met: bool
    errors: NotRequired[int]
    """VMs whose claims are broken."""
    firstError: NotRequired[str]


class FewestNodesJson(TypedDict):
    """The smallest size with which a policy reaches the target."""

    policy: str
    fewest: int | None
    """null if it doesn't with any."""
    runs: list[SizedRunJson]


class SizeReportJson(TypedDict):
    """How large a cluster must be."""

    part: str
    """What --size counts."""
    target: str
    measure: str
    """The target's."""
    answers: list[FewestNodesJson]


def document(comparison: Comparison) -> ComparisonJson:
    seeds, sentence = comparison.seeds, conclusion(comparison)
    shown: ComparisonJson = {
        "input": comparison.source,
        "nodes": comparison.nodes,
        "unit": comparison.unit,
        "unknown": [fact.to_json() for fact in comparison.unknown],
        "policies": [
            {"seed": result.run.seed, "size": result.run.size, **result.measures.to_json()}
            for of in comparison.policies
            for result in of.results
        ],
    }
    if len(seeds) == 1:
        shown["seed"] = seeds[0]
    else:
        shown["seeds"] = list(seeds)
    if comparison.notes:
        shown["notes"] = comparison.notes
    if sentence:
        shown["conclusion"] = sentence
    return shown


def answers_document(answers: Sequence[FewestNodes], sizes: SizeRange, target: Target) -> SizeReportJson:
    """Of the smallest sizes that reach a target."""
    return {
        "part": sizes.part,
        "target": str(target),
        "measure": target.measure,
        "answers": [
            {
                "policy": of.policy,
                "fewest": of.size,
                "runs": [_attempt(result, target) for result in (*of.below, *of.results)],
            }
            for of in answers
        ],
    }


def _attempt(result: RunResult, target: Target) -> SizedRunJson:
    run: SizedRunJson = {
        "size": result.run.size,
        "seed": result.run.seed,
        "value": round(target.value(result.measures), 6),
        "met": target.met([result]),
    }
    if result.measures.first_error is not None:
        run["errors"] = result.measures.errors
        run["firstError"] = result.measures.first_error
    return run


_MEMBERS: Final = {"vm_kind": "vmKind"}
"""Fields of a stay that are called otherwise in documents."""


def placements_text(results: Sequence[RunResult], format: str) -> str:
    """Where each VM ran, a row or line for each run and VM. ``format``: csv or jsonl."""
    rows = [
        {"policy": result.run.policy, "seed": result.run.seed, "size": result.run.size, **stay.to_json()}
        for result in results
        for stay in result.stays
    ]
    if format == "jsonl":
        return "".join(json.dumps(output_document("Stay", row), ensure_ascii=False) + "\n" for row in rows)
    text = io.StringIO()
    names = ["policy", "seed", "size", *(_MEMBERS.get(field.name, field.name) for field in fields(Stay))]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "devices": " ".join(row["devices"]), "evicted": int(row["evicted"])} for row in rows)
    return text.getvalue()


def samples_csv(results: Sequence[RunResult]) -> str:
    """A row for each run and moment."""
    swept = len({(result.run.seed, result.run.size) for result in results}) > 1
    values: dict[str, Callable[[Measures, ClusterSample], object]] = {
        "policy": lambda of, sample: of.policy,
        "at": lambda of, sample: f"{sample.at:.3f}" if of.timed else "",
        "arrived": lambda of, sample: sample.arrived,
        "asked": lambda of, sample: f"{sample.asked:.6f}",
        "used": lambda of, sample: f"{sample.used:.6f}",
        "unallocated": lambda of, sample: f"{(1 - sample.used) * of.cards:.3f}",
        "waiting": lambda of, sample: sample.waiting,
        "fragmentation": lambda of, sample: f"{sample.fragmentation:.6f}",
        "largest_vm": lambda of, sample: sample.largest_vm,
        "largest_share": lambda of, sample: f"{sample.largest_share:.3f}",
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(("seed", "size") if swept else ()), *values])
    for result in results:
        run, measures = result.run, result.measures
        of_run = [run.seed, "" if run.size is None else run.size] if swept else []
        writer.writerows(
            [*of_run, *(value(measures, sample) for value in values.values())] for sample in measures.samples
        )
    return text.getvalue()
