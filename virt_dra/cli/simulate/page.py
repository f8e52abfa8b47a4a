"""The page of ``virt-dra simulate -o html``: one file, which loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.cli.simulate.report import broken_claims
from virt_dra.report_server.content_policy import policy_element
from virt_dra.simulator.experiment.durations import shown
from virt_dra.simulator.experiment.measures import Measures

_STYLE: Final = """
:root { color-scheme: light dark; } body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem
auto; padding: 0 1rem; } table { border-collapse: collapse; width: 100%; } th, td { padding: .35rem .6rem;
border-bottom: 1px solid #8886; text-align: right; white-space: nowrap; } th:first-child, td:first-child {
text-align: left; } td.best { font-weight: 700; } .wide { overflow-x: auto; } figure { margin: 2rem 0; background:
#fff; padding: .5rem; } figure img { width: 100%; height: auto; } @media print { body { margin: 0; } }
"""

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$policy
<title>virt-dra simulate: $title</title>
<style>$style</style>
</head>
<body>
<h1>$title</h1>
<p>$facts</p>
$notes<div class="wide"><table>
<thead><tr>$head</tr></thead>
<tbody>
$rows
</tbody></table></div>
<p>Started counts a VM once, however often it was evicted. Waits count VMs that still wait at the end with the time so
far. Fragmented is the part of all $unit that is free
and that a typical VM of the workload can't use. Bold: the best.</p>
<figure><img alt="Plots of the measures over the load or the time"
src="data:image/svg+xml;base64,$plot"></figure>
</body>
</html>
""")

_BEST: Final = ' class="best"'


def page(results: Sequence[Measures], unit: str, seed: int, plot: str) -> str:
    """``plot``: an SVG, which is embedded as a picture: it has styles of its own, and the page allows none in its
    elements."""
    timed = all(result.timed for result in results)
    columns: list[tuple[str, list[float], list[str]]] = [
        ("started", [-result.started for result in results], [str(result.started) for result in results]),
        ("waiting", [result.waiting for result in results], [str(result.waiting) for result in results]),
        *[
            (
                f"wait {name}",
                [getattr(result, f"pending_{name}") for result in results],
                [shown(getattr(result, f"pending_{name}")) for result in results],
            )
            for name in ("p50", "p95", "p99")
            if timed
        ],
        ("used, mean", [-result.used_mean for result in results], [f"{result.used_mean:.1%}" for result in results]),
        (
            f"unused {unit}",
            [result.unallocated for result in results],
            [f"{result.unallocated:.1f}" for result in results],
        ),
        (
            "fragmented",
            [result.last.fragmentation for result in results],
            [f"{result.last.fragmentation:.1%}" for result in results],
        ),
        (
            "largest VM",
            [-result.last.largest_vm for result in results],
            [str(result.last.largest_vm) for result in results],
        ),
        ("evicted", [result.evictions for result in results], [str(result.evictions) for result in results]),
    ]
    if any(result.gangs for result in results):
        columns.append(
            (
                "gangs waiting",
                [result.gangs_waiting for result in results],
                [f"{result.gangs_waiting}/{result.gangs}" for result in results],
            )
        )
    best_texts = [_best_text(results, values, texts) for _, values, texts in columns]
    rows = []
    for number, result in enumerate(results):
        cells = [f"<td>{escape(result.policy)}{'' if result.complete else ' (interrupted)'}</td>"]
        for (_, _, texts), best in zip(columns, best_texts, strict=True):
            mark = _BEST if result.complete and texts[number] == best else ""
            cells.append(f"<td{mark}>{escape(texts[number])}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    notes = list(dict.fromkeys(note for result in results for note in (*result.notes, *broken_claims([result]))))
    lasted = f", {shown(results[0].ended)}" if timed else ""
    return _PAGE.substitute(
        title=f"{len(results)} policies" if len(results) > 1 else escape(results[0].policy),
        facts=f"{results[0].cards} {escape(unit)}, {results[0].vms} arrivals{lasted}, seed {seed}.",
        notes=f"<p>{escape(visible('; '.join(notes)))}</p>\n" if notes else "",
        head="<th>policy</th>" + "".join(f"<th>{escape(name)}</th>" for name, _, _ in columns),
        rows="\n".join(rows),
        unit=escape(unit),
        plot=base64.b64encode(plot.encode()).decode(),
        policy=policy_element(_STYLE, more="img-src data:"),
        style=_STYLE,
    )


def _best_text(results: Sequence[Measures], values: Sequence[float], texts: Sequence[str]) -> str | None:
    """What the best of the complete results shows; None where all of them show the same."""
    shown_by = {text: value for result, value, text in zip(results, values, texts, strict=True) if result.complete}
    return min(shown_by, key=lambda text: shown_by[text]) if len(shown_by) > 1 else None
