"""The reports of ``virt-dra simulate``: tables, documents, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from rich.table import Table

from virt_dra.api.counting import counted
from virt_dra.api.wire import Json
from virt_dra.simulator.experiment.durations import shown
from virt_dra.simulator.experiment.measures import ClusterSample, Measures
from virt_dra.simulator.experiment.model import Experiment

_LOAD_STEPS = 10
"""Rows of the table over the load, up to the whole cluster."""


def summary(results: Sequence[Measures], unit: str) -> Table:
    """A row for each policy."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("POLICY")
    gangs = any(result.gangs for result in results)
    timed = all(result.timed for result in results)
    headings = [
        "STARTED",
        "WAITING",
        *(("WAIT p50", "p95", "p99") if timed else ()),
        "USED mean",
        "end",
        f"UNUSED {unit}",
        "FRAGMENTED",
        "LARGEST VM",
        "EVICTED",
    ]
    for heading in (*headings, *(("GANGS WAITING",) if gangs else ())):
        table.add_column(heading, justify="right")
    for result in results:
        row = [
            result.policy + ("" if result.complete else " (interrupted)"),
            str(result.started),
            str(result.waiting),
            *(
                shown(seconds) if seconds else "0s"
                for seconds in (result.pending_p50, result.pending_p95, result.pending_p99)
                if timed
            ),
            f"{result.used_mean:.1%}",
            f"{result.last.used:.1%}",
            f"{result.unallocated:.1f}",
            f"{result.last.fragmentation:.1%}",
            str(result.last.largest_vm),
            str(result.evictions),
        ]
        table.add_row(*row, *((f"{result.gangs_waiting}/{result.gangs}",) if gangs else ()))
    return table


def broken_claims(results: Sequence[Measures]) -> list[str]:
    """A sentence for each policy that met VMs with broken claims."""
    return [
        f"{result.policy}: {counted(result.errors, 'VM')} with broken claims, the first: {result.first_error}"
        for result in results
        if result.first_error is not None
    ]


def over_load(results: Sequence[Measures]) -> Table:
    """Unused cards, and the fragmented part of all, a row for each tenth of the cluster that was asked for."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("ASKED", justify="right")
    for result in results:
        table.add_column(result.policy, justify="right")
    for load, samples in _at_loads(results):
        cells = [
            "" if sample is None else f"{(1 - sample.used) * result.cards:.1f} / {sample.fragmentation:.1%}"
            for sample, result in samples
        ]
        table.add_row(f"{load:.0%}", *cells)
    return table


def _at_loads(results: Sequence[Measures]) -> Iterator[tuple[float, list[tuple[ClusterSample | None, Measures]]]]:
    highest = max((result.last.asked for result in results), default=0.0)
    step = 1
    while step / _LOAD_STEPS <= highest + 0.005:
        load = step / _LOAD_STEPS
        yield (
            load,
            [
                (next((sample for sample in result.samples if sample.asked >= load - 0.005), None), result)
                for result in results
            ],
        )
        step += 1


def document(results: Sequence[Measures], experiment: Experiment, seed: int) -> Json:
    notes = list(dict.fromkeys(note for result in results for note in result.notes))
    return {
        "seed": seed,
        "unit": experiment.unit,
        **({"notes": notes} if notes else {}),
        "unknown": [fact.to_json() for fact in experiment.unknown],
        "policies": [result.to_json() for result in results],
    }


def samples_csv(results: Sequence[Measures]) -> str:
    """A row for each policy and moment."""
    columns: dict[str, Callable[[Measures, ClusterSample], object]] = {
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
    writer.writerow(columns)
    for result in results:
        writer.writerows([column(result, sample) for column in columns.values()] for sample in result.samples)
    return text.getvalue()
