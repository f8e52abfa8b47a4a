"""The page of ``virt-dra simulate -o html``: one file, which loads nothing."""

from __future__ import annotations

import base64
from html import escape
from string import Template
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.cli.simulate.comparison import ComparedPolicy, Comparison, best_cells, columns, conclusion
from virt_dra.cli.simulate.report import broken_claims
from virt_dra.html.policy import policy_element
from virt_dra.simulator.experiment.durations import shown

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
.conclusion { font-size: 1.15rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; border-bottom: 1px solid var(--line); text-align: right; overflow-wrap: anywhere; }
th { font-weight: 500; vertical-align: bottom; overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; overflow-wrap: normal; }
td.best { font-weight: 700; }
figure { margin: 2rem 0; }
figure img { width: 100%; height: auto; }
@media (max-width: 60rem) {
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { padding: .6rem 0; border-bottom: 1px solid var(--line); }
  td { border: 0; padding: .1rem 0; display: flex; justify-content: space-between; gap: 1rem; }
  td:first-child { font-weight: 700; }
  td:not(:first-child)::before { content: attr(data-name); opacity: .8; font-weight: 400; text-align: left; }
}
@media print { body { margin: 0; } }
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
<p class="conclusion">$conclusion</p>
<p>$facts</p>
$notes<table>
<thead><tr>$head</tr></thead>
<tbody>
$rows
</tbody></table>
<p>Waiting counts VMs that still wait at the end with the time so far. Fragmented is the part of all $unit that is free
and that a typical VM of the workload can't use. $ranges Bold: the best.</p>
$figure
</body>
</html>
""")

_FIGURE: Final = """<figure><img alt="Plots of the measures over the load or the time"
src="data:image/svg+xml;base64,{}"></figure>"""
_NO_FIGURE: Final = "<p>Without plots: matplotlib isn't installed (pip install 'virt-dra[plots]').</p>"


def page(comparison: Comparison, plot: str | None) -> str:
    """``plot``: an SVG, which is embedded as a picture: it has styles of its own, and the page allows none in its
    elements. None: matplotlib isn't there."""
    shown_columns = columns(comparison)
    best = [best_cells(column, comparison.policies) for column in shown_columns]
    cells = [
        [
            _cell(column.heading, column.cell(of.measures), best=best[position][number])
            for position, column in enumerate(shown_columns)
        ]
        for number, of in enumerate(comparison.policies)
    ]
    rows = [
        f"<tr><td>{escape(_label(of, comparison))}</td>{''.join(of_policy)}</tr>"
        for of, of_policy in zip(comparison.policies, cells, strict=True)
    ]
    measures = comparison.measures
    lasted = f", {shown(max(of.ended for of in measures))}" if all(of.timed for of in measures) else ""
    notes = visible("; ".join([*comparison.notes, *broken_claims(measures)]))
    source = visible(comparison.source)
    return _PAGE.substitute(
        title=escape(f"{source}: {comparison.size_text}, {comparison.seeds_text}"),
        conclusion=escape(conclusion(comparison)),
        facts=escape(f"{comparison.arrivals} arrivals{lasted}."),
        notes=f"<p>{escape(notes)}</p>\n" if notes else "",
        head="<th>policy</th>" + "".join(f"<th>{escape(_name(column.heading))}</th>" for column in shown_columns),
        rows="\n".join(rows),
        ranges="Of several seeds the least and the most." if len(comparison.seeds) > 1 else "",
        unit=escape(comparison.unit),
        figure=_NO_FIGURE if plot is None else _FIGURE.format(base64.b64encode(plot.encode()).decode()),
        policy=policy_element(_STYLE, more="img-src data:"),
        style=_STYLE,
    )


def _label(of: ComparedPolicy, comparison: Comparison) -> str:
    return of.label if of.size is None else f"{of.label}, {of.size} {comparison.part}"


def _cell(heading: str, text: str, *, best: bool) -> str:
    mark = ' class="best"' if best else ""
    return f'<td data-name="{escape(_name(heading))}"{mark}>{escape(text)}</td>'


_NAMES: Final = {"p95": "wait p95", "p99": "wait p99", "end": "used, end", "USED mean": "used, mean"}


def _name(heading: str) -> str:
    """A column's heading where it stands alone."""
    words = _NAMES.get(heading)
    if words is not None:
        return words
    first, _, rest = heading.partition(" ")
    return f"{first.lower()} {rest if rest == 'VM' else rest.lower() if rest.isupper() else rest}".strip()
