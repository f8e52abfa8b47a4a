"""The page of ``virt-dra simulate -o html``: one file, which loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.simulator.experiment.durations import shown
from virt_dra.simulator.experiment.measures import Measures

_PAGE: Final = Template("""<!doctype html> <html lang="en"> <head> <meta charset="utf-8"> <meta name="viewport"
content="width=device-width, initial-scale=1"> <meta http-equiv="Content-Security-Policy" content="default-src 'none';
style-src 'unsafe-inline'; img-src data:"> <title>virt-dra simulate: $title</title> <style> :root { color-scheme: light
dark; } body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; } table {
border-collapse: collapse; width: 100%; } th, td { padding: .35rem .6rem; border-bottom: 1px solid #8886; text-align:
right; white-space: nowrap; } th:first-child, td:first-child { text-align: left; } td.best { font-weight: 700; } .wide {
overflow-x: auto; } figure { margin: 2rem 0; background: #fff; padding: .5rem; } figure svg { width: 100%; height: auto;
} @media print { body { margin: 0; } } </style> </head> <body> <h1>$title</h1> <p>$facts</p> $notes<div
class="wide"><table> <thead><tr>$head</tr></thead> <tbody> $rows </tbody> </table></div> <p>Waiting counts VMs that
still wait at the end with the time so far. Fragmented is the part of all $unit that is free and that a typical VM of
the workload can't use. Bold: the best.</p> <figure>$plot</figure> </body> </html> """)

_BEST: Final = ' class="best"'


def page(found: Sequence[Measures], unit: str, seed: int, plot: str) -> str:
    """``plot``: an SVG."""
    columns: list[tuple[str, list[float], list[str]]] = [
        ("started", [-each.started for each in found], [str(each.started) for each in found]),
        ("waiting", [each.waiting for each in found], [str(each.waiting) for each in found]),
        *[
            (
                f"wait {name}",
                [getattr(each, f"pending_{name}") for each in found],
                [shown(getattr(each, f"pending_{name}")) for each in found],
            )
            for name in ("p50", "p95", "p99")
        ],
        ("used, mean", [-each.used_mean for each in found], [f"{each.used_mean:.1%}" for each in found]),
        (f"unused {unit}", [each.unallocated for each in found], [f"{each.unallocated:.1f}" for each in found]),
        (
            "fragmented",
            [each.last.fragmentation for each in found],
            [f"{each.last.fragmentation:.1%}" for each in found],
        ),
        ("largest VM", [-each.last.largest_vm for each in found], [str(each.last.largest_vm) for each in found]),
        ("evicted", [each.evictions for each in found], [str(each.evictions) for each in found]),
    ]
    if any(each.gangs for each in found):
        columns.append(
            (
                "gangs waiting",
                [each.gangs_waiting for each in found],
                [f"{each.gangs_waiting}/{each.gangs}" for each in found],
            )
        )
    rows = []
    for number, each in enumerate(found):
        cells = [f"<td>{escape(each.policy)}{'' if each.complete else ' (interrupted)'}</td>"]
        for _, values, texts in columns:
            best = len(set(values)) > 1 and values[number] == min(values)
            cells.append(f"<td{_BEST if best else ''}>{escape(texts[number])}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    notes = list(dict.fromkeys(note for each in found for note in each.notes))
    return _PAGE.substitute(
        title=f"{len(found)} policies" if len(found) > 1 else escape(found[0].policy),
        facts=f"{found[0].cards} {escape(unit)}, {found[0].vms} arrivals, {shown(found[0].ended)}, seed {seed}.",
        notes=f"<p>{escape(visible('; '.join(notes)))}</p>\n" if notes else "",
        head="<th>policy</th>" + "".join(f"<th>{escape(name)}</th>" for name, _, _ in columns),
        rows="\n".join(rows),
        unit=escape(unit),
        plot=plot[plot.index("<svg") :],
    )
