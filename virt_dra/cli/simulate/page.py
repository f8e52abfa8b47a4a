"""The page of ``virt-dra simulate -o html``: one file, which loads nothing, with charts to point at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from string import Template
from typing import Final

from virt_dra.api.wire import Json
from virt_dra.cli.simulate.comparison import ComparedPolicy, Comparison, best_cells, columns, conclusion
from virt_dra.cli.simulate.report import broken_claims
from virt_dra.cli.simulate.series import PlottedLine, PlottedMeasure, plotted, points, resampled
from virt_dra.html.frame import PageForm, asset, data_element, form, framed, text
from virt_dra.simulator.experiment.durations import shown

_MAIN: Final = Template("""<p class="conclusion">$conclusion</p>
$notes<section class="panel" id="policies" data-searched="policies">
<table class="data"><thead><tr>$head</tr></thead>
<tbody>
$rows
</tbody></table>
<p class="quiet">Waiting counts VMs that still wait at the end with the time so far. Fragmented is the part of all $unit
that is free and that a typical VM of the workload can't use. $ranges Bold: the best.</p>
</section>
<div class="charts">$charts</div>
<noscript>The charts need JavaScript.</noscript>
$data
""")


@cache
def _form() -> PageForm:
    return form(asset("uplot/uPlot.min.css"), "uplot/uPlot.iife.min.js", "page.js", "charts.js")


def page(comparison: Comparison) -> str:
    """The page: the table of all policies, and the plots."""
    shown_columns = columns(comparison)
    best = [best_cells(column, comparison.policies) for column in shown_columns]
    rows = []
    for number, of in enumerate(comparison.policies):
        cells = "".join(
            _cell(column.heading, column.cell(of.measures), best=of_column[number])
            for column, of_column in zip(shown_columns, best, strict=True)
        )
        label = text(_label(of, comparison))
        rows.append(f'<tr class="item"><td data-label="policy">{label}</td>{cells}</tr>')
    measures = comparison.measures
    lasted = f", {shown(max(of.ended for of in measures))}" if all(of.timed for of in measures) else ""
    notes = "; ".join([*comparison.notes, *broken_claims(measures)])
    series = plotted(comparison)
    main = _MAIN.substitute(
        conclusion=text(conclusion(comparison)),
        notes=f"<p>{text(notes)}</p>\n" if notes else "",
        head='<th scope="col">policy</th>'
        + "".join(f'<th scope="col">{text(_name(column.heading))}</th>' for column in shown_columns),
        rows="\n".join(rows),
        ranges="Of several seeds the least and the most." if len(comparison.seeds) > 1 else "",
        unit=text(comparison.unit),
        charts="".join(_figure(number, measure) for number, measure in enumerate(series.measures)),
        data=data_element("charts-data", {"across": series.across, "plots": [_plot(of) for of in series.measures]}),
    )
    title = f"{comparison.source}: {comparison.size_text}, {comparison.seeds_text}"
    return framed(_form(), main, title, f"{comparison.arrivals} arrivals{lasted}")


def _figure(number: int, measure: PlottedMeasure) -> str:
    title = text(measure.title)
    return f'<figure class="panel"><figcaption>{title}</figcaption><div id="chart-{number}"></div></figure>'


def _plot(measure: PlottedMeasure) -> Json:
    """The data of a chart: all lines on the same points."""
    end = max(line.across[-1] for line in measure.lines)
    across = points(measure.begin or min(line.across[0] for line in measure.lines), end)
    return {
        "fromZero": measure.begin is None,
        "x": _rounded(across),
        "lines": [_chart_line(line, across) for line in measure.lines],
    }


def _chart_line(line: PlottedLine, across: Sequence[float]) -> Json:
    mean, low, high = map(_rounded, resampled(line, across))
    return {"label": line.label, "mean": mean, **({"low": low, "high": high} if line.of_several else {})}


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]


def _label(of: ComparedPolicy, comparison: Comparison) -> str:
    return of.label if of.size is None else f"{of.label}, {of.size} {comparison.part}"


def _cell(heading: str, said: str, *, best: bool) -> str:
    mark = " best" if best else ""
    return f'<td class="number{mark}" data-label="{text(_name(heading))}">{text(said)}</td>'


_NAMES: Final = {"p95": "wait p95", "p99": "wait p99", "end": "used, end", "USED mean": "used, mean"}


def _name(heading: str) -> str:
    """A column's heading where it stands alone."""
    if words := _NAMES.get(heading):
        return words
    first, _, rest = heading.partition(" ")
    return f"{first.lower()} {rest if rest == 'VM' else rest.lower() if rest.isupper() else rest}".strip()
