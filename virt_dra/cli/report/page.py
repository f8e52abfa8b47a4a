"""The page of ``virt-dra report``: one HTML file that loads nothing, to filter, for light and dark, keyboard and print.

Its live form (``virt-dra report-server``) differs in three things: its policy comes as a header, a line says when it is
stale, and the script swaps ``<main>`` when the server says that the content changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.cli.report.contents import SIZES, ReportContents
from virt_dra.cli.report.page_forms import FILE, STYLE, PageForm
from virt_dra.cli.topology.looks import LOOKS
from virt_dra.cli.topology.page import fold_card
from virt_dra.inventory.topology import NodeFold
from virt_dra.inventory.vm_rows import VmRow
from virt_dra.scheduling.why.groups import group_text
from virt_dra.simulator.explaining.answer import ExplainedAnswer

_CARDS, _VMS, _FINDINGS, _DAYS, _GROUPS = 500, 5000, 2000, 60, 5
"""What a page has at most of each; the document of -o json has all."""

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$policy
<title>$title</title>
<style>$style</style>
</head>
<body>
<header><h1>$title</h1> <label>Filter <input id="filter" type="search"
placeholder="VM, node, model, state, finding"></label> <span id="count" role="status"></span> <nav><a
href="#waiting">Waiting</a><a href="#vms">VMs</a><a href="#devices">Devices</a><a href="#free">Free</a><a
href="#findings">Findings</a><a href="#taken">Taken</a></nav>$live</header>
<main>
$main</main>
<script>$script</script>
</body>
</html>
""")

_MAIN: Final = Template("""<div class="numbers">$numbers</div>
$notes
<h2 id="waiting">What waits</h2>
$waiting
<h2 id="vms">VMs</h2>
<div class="wide"><table><thead><tr><th>VM<th>Phase<th>Node<th>Devices<th>Why not ready</tr></thead><tbody>
$vms
</tbody></table></div>
<h2 id="devices">Devices by node</h2>
<p>$legend. Nodes that are alike are one card. Point at a box for its device.</p>
<div class="cards">
$cards
</div>
<h2 id="free">How the free devices lie</h2>
<div class="wide"><table><thead><tr><th>Model<th>Free<th>Of<th>Most on one node$sizes</tr></thead><tbody>
$free
</tbody></table></div>
<p>A VM's devices must be of one node: the last columns say on how many nodes so many are free.</p>
<h2 id="findings">Findings</h2>
$findings
<h2 id="taken">Since when devices are held</h2>
$taken
""")


def report_page(contents: ReportContents, title: str) -> str:
    """The page as a file. ``title``: what was read, and when."""
    return framed(report_main(contents), title, FILE)


def framed(main: str, title: str, form: PageForm, version: str = "") -> str:
    """A whole page around what :func:`report_main` made. ``version``: names what it made, for the live page."""
    return _PAGE.substitute(
        title=_text(title),
        style=STYLE,
        policy=form.policy,
        main=main,
        script=form.script,
        live=Template(form.live).substitute(version=_text(version)),
    )  # fmt: skip


def report_main(contents: ReportContents) -> str:
    """What the page says, as HTML."""
    ready = sum(not row.reason for row in contents.vms)
    numbers = [("nodes", contents.nodes), *contents.states, ("VMs", len(contents.vms)), ("ready", ready)]
    return _MAIN.substitute(
        numbers="".join(f'<div class="number"><b>{number:,}</b>{_text(word)}</div>' for word, number in numbers),
        notes="".join(f"<p>{_text(note)}</p>" for note in contents.notes),
        waiting=_waiting(contents),
        vms=_some([_vm(row) for row in contents.vms], _VMS, 5),
        legend=", ".join(f"{look.sign} {word}" for word, look in LOOKS.items()),
        cards=_cards(contents.folds),
        sizes="".join(f"<th>Nodes for {size}" for size in SIZES),
        free="\n".join(
            f"<tr><td>{_text(model.model)}<td>{model.free:,}<td>{model.total:,}<td>{model.largest}"
            f"{''.join(f'<td>{number:,}' for number in model.nodes_for)}</tr>"
            for model in contents.models
        ),
        findings=_findings(contents),
        taken=_taken(contents.taken),
    )


def _waiting(contents: ReportContents) -> str:
    if not contents.waiting.answers:
        return '<p class="good">Nothing waits.</p>'
    more = f"<p>and {contents.waiting.left_out:,} more, not explained</p>" if contents.waiting.left_out else ""
    return "\n".join(map(_answer, contents.waiting.answers)) + more


def _answer(answer: ExplainedAnswer) -> str:
    groups = "".join(f"<li>{_text(group_text(group))}</li>" for group in answer.groups[:_GROUPS])
    held = "".join(f"<li>{_text(f'{device}: {holder.description}')}</li>" for device, holder in answer.held)
    ways = "".join(f"<li>{_text(way.text)}</li>" for way in answer.ways)
    parts = [
        ("In the way, the nearest first", groups),
        ("Held by", held),
        ("Ways out, each tried on a copy of this cluster", ways),
        ("Not known", "".join(f"<li>{_text(fact.text)}</li>" for fact in answer.unknown)),
    ]
    body = "".join(f"<p>{head}</p><ul>{listed}</ul>" for head, listed in parts if listed)
    return (
        f'<details data-text="{_searched(answer.headline)}"><summary>{_text(answer.headline)}</summary>{body}</details>'
    )


def _vm(row: VmRow) -> str:
    name = f"{row.namespace}/{row.name}"
    devices = ", ".join(map(str, row.devices))
    why = f"{row.reason}: {row.message}" if row.message else row.reason
    searched = _searched(f"{name} {row.phase} {row.node} {devices} {why}")
    return (
        f'<tr data-text="{searched}"><td>{_text(name)}<td>{_text(row.phase)}<td '
        f'class="short">{_text(row.node)}<td>{_text(devices)}'
        f'<td class="bad">{_text(why[:300])}</tr>'
    )


def _cards(folds: Sequence[NodeFold]) -> str:
    cards = [fold_card(fold) for fold in folds[:_CARDS]]
    if len(folds) > _CARDS:
        cards.append(f"<p>and {counted(len(folds) - _CARDS, 'more group')} of nodes; virt-dra topology shows all</p>")
    return "\n".join(cards)


def _findings(contents: ReportContents) -> str:
    rows = [
        f'<tr data-text="{_searched(f"{obj.title} {finding}")}"><td>{_text(obj.title)}<td>{_text(finding.severity)}'
        f"<td>{_text(finding.id)}<td>{_text(finding.field)}<td>{_text(finding.message)}</tr>"
        for obj in contents.findings
        for finding in obj.findings
    ]
    if not rows:
        return '<p class="good">No finding.</p>'
    head = "<thead><tr><th>Object<th>Severity<th>Finding<th>Field<th>What</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{_some(rows, _FINDINGS, 5)}</tbody></table></div>'


def _taken(taken: Sequence[tuple[str, int]]) -> str:
    if not taken:
        return "<p>No allocation says since when.</p>"
    most = max(number for _, number in taken)
    rows = [
        f'<tr><td>{_text(day)}<td><svg class="bar" width="{max(number * 400 // most, 2)}" height="13">'
        f'<rect width="100%" height="100%" rx="2"/></svg>{number:,}</tr>'
        for day, number in taken[-_DAYS:]
    ]
    return f"<table><thead><tr><th>Day<th>Devices</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _some(rows: Sequence[str], most: int, columns: int) -> str:
    more = (
        [f'<tr><td colspan="{columns}">and {len(rows) - most:,} more; -o json has all</tr>'] if len(rows) > most else []
    )
    return "\n".join([*rows[:most], *more])


def _searched(text: str) -> str:
    return _text(text.lower()[:4000])


def _text(text: str) -> str:
    return escape(visible(text))
