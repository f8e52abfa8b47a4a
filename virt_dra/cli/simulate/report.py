"""The reports of ``virt-dra simulate``: tables, documents, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from rich.table import Table

from virt_dra.api.wire import Json
from virt_dra.simulator.experiment.durations import shown
from virt_dra.simulator.experiment.measures import ClusterSample, Measures

_LOAD_STEPS = 10
"""Rows of the table over the load, up to the whole cluster."""


def summary(found: Sequence[Measures], unit: str) -> Table:
    """A row for each policy."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("POLICY")
    gangs = any(each.gangs for each in found)
    headings = [
        "STARTED",
        "WAITING",
        "WAIT p50",
        "p95",
        "p99",
        "USED mean",
        "end",
        f"UNUSED {unit}",
        "FRAGMENTED",
        "LARGEST VM",
        "EVICTED",
    ]
    for heading in (*headings, *(("GANGS WAITING",) if gangs else ())):
        table.add_column(heading, justify="right")
    for each in found:
        row = [
            each.policy + ("" if each.complete else " (interrupted)"),
            str(each.started),
            str(each.waiting),
            *(
                shown(seconds) if seconds else "0s"
                for seconds in (each.pending_p50, each.pending_p95, each.pending_p99)
            ),
            f"{each.used_mean:.1%}",
            f"{each.last.used:.1%}",
            f"{each.unallocated:.1f}",
            f"{each.last.fragmentation:.1%}",
            str(each.last.largest_vm),
            str(each.evictions),
        ]
        table.add_row(*row, *((f"{each.gangs_waiting}/{each.gangs}",) if gangs else ()))
    return table


def over_load(found: Sequence[Measures]) -> Table:
    """Unused cards, and the fragmented part of all, a row for each tenth of the cluster that was asked for."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("ASKED", justify="right")
    for each in found:
        table.add_column(each.policy, justify="right")
    for load, samples in _at_loads(found):
        cells = [
            "" if each is None else f"{(1 - each.used) * of.cards:.1f} / {each.fragmentation:.1%}"
            for each, of in samples
        ]
        table.add_row(f"{load:.0%}", *cells)
    return table


def _at_loads(found: Sequence[Measures]) -> Iterator[tuple[float, list[tuple[ClusterSample | None, Measures]]]]:
    highest = max((each.last.asked for each in found), default=0.0)
    step = 1
    while step / _LOAD_STEPS <= highest + 0.005:
        load = step / _LOAD_STEPS
        yield (
            load,
            [(next((sample for sample in each.samples if sample.asked >= load - 0.005), None), each) for each in found],
        )
        step += 1


def document(found: Sequence[Measures], unit: str, seed: int) -> Json:
    notes = list(dict.fromkeys(note for each in found for note in each.notes))
    return {
        "seed": seed,
        "unit": unit,
        **({"notes": notes} if notes else {}),
        "policies": [each.to_json() for each in found],
    }


def samples_csv(found: Sequence[Measures]) -> str:
    """A row for each policy and moment."""
    columns: dict[str, Callable[[Measures, ClusterSample], object]] = {
        "policy": lambda of, sample: of.policy,
        "at": lambda of, sample: f"{sample.at:.3f}",
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
    for each in found:
        writer.writerows([column(each, sample) for column in columns.values()] for sample in each.samples)
    return text.getvalue()
