"""The page of ``virt-dra report``: one HTML file that loads nothing. At the top what matters, below it what waits
beside the map of devices, everything else collapsed. Its live form is the same page (`page_forms`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import Template
from typing import Final
from urllib.parse import quote

from virt_dra.allocator.model import DeviceId
from virt_dra.api.counting import counted
from virt_dra.cli.report.contents import SIZES, KeptDevice, ModelFree, ReportContents
from virt_dra.cli.report.page_forms import FILE
from virt_dra.cli.report.reason_notes import reason_note
from virt_dra.cli.topology.map_data import Lights, LitAnswer, LitWay
from virt_dra.cli.topology.map_html import map_html
from virt_dra.html.frame import PageForm, framed, text
from virt_dra.inventory.vm_rows import RUNNING, Readiness, VmRow, and_stopped, of_those_to_run
from virt_dra.scheduling.why.groups import RefusalGroup, group_text
from virt_dra.simulator.explaining.answer import ExplainedAnswer
from virt_dra.simulator.explaining.ways_out import WayOut

_VMS, _FINDINGS, _KEPT, _DAYS, _GROUPS = 5000, 2000, 2000, 60, 5
"""What a page has at most of each; the document of -o json has all."""
_WAITING: Final = "waits"

_MAIN: Final = Template("""<nav class="tiles" aria-label="Summary">$tiles</nav>
$notes
<div class="beside both">
<section class="panel" id="waiting" data-searched="what waits"><h2>What waits</h2>
$waiting
</section>
<section class="panel" id="devices"><h2>Devices by node</h2>
$map
</section>
</div>
$parts
""")


def report_page(contents: ReportContents, source: str) -> str:
    """The page as a file. ``source``: what was read, and when."""
    return report_frame(report_main(contents), headline(contents), source, FILE)


def report_frame(main: str, title: str, source: str, form: PageForm, version: str = "") -> str:
    """A whole page around what :func:`report_main` made. ``version``: names what it made, for the live page."""
    return framed(form, main, title, source, "VM, node, model, finding", version)


def headline(contents: ReportContents) -> str:
    """``1 waiting, 2 of 5 devices in use``."""
    used, _, all_devices = _use(contents)
    return f"{_waiting_number(contents):,} waiting, {used:,} of {counted(all_devices, 'device')} in use"


def report_main(contents: ReportContents) -> str:
    """What the page says, as HTML."""
    codes = dict.fromkeys(
        code
        for answer in contents.waiting.answers
        for code in (answer.reason, *(reason.code for group in answer.groups[:_GROUPS] for reason in group.reasons))
    )
    explained = {code: note for code in codes if (note := reason_note(code))}
    answers = {answer.title: answer for answer in contents.waiting.answers}
    readiness = Counter(row.readiness for row in contents.vms)
    ready = f"{len(contents.vms):,}, {readiness[Readiness.READY]:,} {RUNNING}{and_stopped(readiness)}"
    findings = sum(len(obj.findings) for obj in contents.findings)
    parts = [
        _part("vms", "VMs", ready, _vms(contents.vms, answers)),
        _part("models", "Models", "how many are in use, and how the free ones lie", _models(contents.models)),
        _part("findings", "Findings", f"{findings:,}", _findings(contents)),
        _part("taken", "Since when devices are held", "", _taken(contents.taken)),
    ]
    if contents.kept:
        namespaces = counted(len({kept.namespace for kept in contents.kept}), "namespace")
        said = f"{counted(len(contents.kept), 'device')}, {namespaces}"
        parts.insert(2, _part("kept", "Kept by stopped VMs", said, _kept(contents.kept)))
    if explained:
        notes = "".join(
            f'<section class="item" id="reason/{text(code)}"><h3>{text(code)}</h3>{note}</section>'
            for code, note in explained.items()
        )
        parts.append(_part("reasons", "Reasons", ", ".join(explained), notes))
    return _MAIN.substitute(
        tiles=_tiles(contents, readiness, findings),
        notes="".join(f'<p class="quiet">{text(note)}</p>' for note in contents.notes),
        waiting=_waiting(contents, explained),
        map=map_html(contents.topology, [_lit(answer) for answer in contents.waiting.answers]),
        parts="\n".join(parts),
    )


# --- what matters -----------------------------------------------------------------------------------------------------


def _tiles(contents: ReportContents, readiness: Mapping[Readiness, int], findings: int) -> str:
    waiting = _waiting_number(contents)
    used, out, all_devices = _use(contents)
    free = sum(device.row.free for node in contents.topology for device in node.devices)
    closed = sum(bool(node.closed) for node in contents.topology)
    shut = f", {closed:,} closed" if closed else ""
    tiles = [
        _tile("waiting", f"{waiting:,}", "waiting", alarm=waiting > 0),
        _tile(
            "vms",
            of_those_to_run(readiness),
            f"VMs {RUNNING}{and_stopped(readiness)}",
            alarm=readiness[Readiness.NOT_READY] > 0,
        ),
        _tile("models", f"{used:,} of {all_devices:,}", "devices in use", bar=_meter(used, free, all_devices)),
        _tile("devices", f"{out:,}", "devices not fit for use", alarm=out > 0),
        _tile("devices", f"{contents.nodes:,}", f"{_plural('node', contents.nodes)}{shut}"),
        _tile("findings", f"{findings:,}", _plural("finding", findings), alarm=findings > 0),
    ]
    return "".join(tiles)


def _tile(part: str, number: str, said: str, *, alarm: bool | None = None, bar: str = "") -> str:
    style = {None: "", True: " alarm", False: " fine"}[alarm]
    return f'<a class="tile{style}" href="#{part}"><b>{number}</b>{text(said)}{bar}</a>'


def _plural(thing: str, number: int) -> str:
    return thing if number == 1 else f"{thing}s"


def _waiting_number(contents: ReportContents) -> int:
    return len(contents.waiting.answers) + contents.waiting.left_out


def _use(contents: ReportContents) -> tuple[int, int, int]:
    """Devices in use, those that aren't fit for use, and all."""
    devices = [device.row for node in contents.topology for device in node.devices]
    return sum(row.held for row in devices), sum(not row.sound for row in devices), len(devices)


def _meter(used: int, free: int, everything: int) -> str:
    """A bar of what is in use, and of what is neither in use nor free."""
    if not everything:
        return ""
    held = 100 * used / everything
    neither = 100 * (everything - used - free) / everything
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="meter-free" width="100" height="10"/>'
        f'<rect class="meter-held" width="{held:.1f}" height="10"/>'
        f'<rect class="meter-out" x="{held:.1f}" width="{neither:.1f}" height="10"/></svg>'
    )


# --- what waits -------------------------------------------------------------------------------------------------------


def _waiting(contents: ReportContents, explained: Iterable[str]) -> str:
    if not contents.waiting.answers:
        return '<p class="good">Nothing waits.</p>'
    more = f"<p>and {contents.waiting.left_out:,} more, not explained</p>" if contents.waiting.left_out else ""
    hint = '<p class="quiet">Choose one: what is in its way lights up on the map.</p>'
    return hint + "\n".join(_answer(answer, explained) for answer in contents.waiting.answers) + more


def _answer(answer: ExplainedAnswer, explained: Iterable[str]) -> str:
    held = [f"{_device_link(device)}: {text(holder.description)}" for device, holder in answer.held]
    ways = [
        f'<button type="button" data-way="{number}">{text(way.text)}</button>' for number, way in enumerate(answer.ways)
    ]
    parts = [
        ("In the way, the nearest first", [_group(group, explained) for group in answer.groups[:_GROUPS]]),
        ("Held by", held),
        ("Ways out, each tried on a copy of this cluster", ways),
        ("Not known", [text(fact.text) for fact in answer.unknown]),
    ]
    body = "".join(
        f"<h3>{head}</h3><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>" for head, items in parts if items
    )
    if not answer.groups and answer.reason in explained:
        body += f'<p class="links">{_reason_link(answer.reason)}</p>'
    said = answer.headline.removeprefix(answer.title).lstrip()
    return (
        f'<details class="wait item" id="{text(_key(answer))}"><summary><b>{text(answer.title)}</b>'
        f"{text(said)}</summary>{body}</details>"
    )


def _group(group: RefusalGroup, explained: Iterable[str]) -> str:
    terms = "".join(f"<br>false: <code>{text(reason.term)}</code>" for reason in group.reasons if reason.term)
    details = "".join(f"<br>{text(reason.detail)}" for reason in group.reasons if reason.detail)
    codes = dict.fromkeys(reason.code for reason in group.reasons)
    links = ", ".join(_reason_link(code) for code in codes if code in explained)
    return f"{text(group_text(group))}{terms}{details}{f' <span class=links>({links})</span>' if links else ''}"


def _key(answer: ExplainedAnswer) -> str:
    """``waits/VMI/team-a/late``: the answer's fragment."""
    return f"{_WAITING}/{answer.title.replace(' ', '/', 1)}"


def _lit(answer: ExplainedAnswer) -> LitAnswer:
    in_way = [
        Lights(
            "; ".join(dict.fromkeys(reason.text for reason in group.reasons)),
            group.nodes,
            [device for devices in group.refused.values() for device in devices],
        )
        for group in answer.groups
    ]
    return LitAnswer(_key(answer), in_way, ways=[_lit_way(way) for way in answer.ways])


def _lit_way(way: WayOut) -> LitWay:
    claims = [holder.claim for step in way.changes for holder in step.frees]
    allocations = [claim.status.allocation for claim in claims if claim.status.allocation is not None]
    results = [result for allocation in allocations for result in allocation.devices.results]
    frees = [DeviceId(result.driver, result.pool, result.device) for result in results]
    return LitWay(way.text, way.node, way.takes, frees)


# --- everything else --------------------------------------------------------------------------------------------------


def _part(id: str, title: str, said: str, body: str) -> str:
    return (
        f'<details class="part" id="{id}" data-searched="{text(title)}"><summary><h2>{text(title)}</h2> '
        f'<span class="count" data-of="{text(said)}" data-said="{text(said)}">{text(said)}</span></summary>'
        f"{body}</details>"
    )


def _table(heads: Sequence[str], rows: Sequence[str], most: int) -> str:
    """``rows``: of :func:`_row`; no more than ``most`` are shown."""
    head = "".join(f'<th scope="col">{text(said)}</th>' for said in heads)
    more = f'<p class="quiet">and {len(rows) - most:,} more; -o json has all</p>' if len(rows) > most else ""
    body = "\n".join(rows[:most])
    return f'<table class="data"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>{more}'


def _row(heads: Sequence[str], cells: Sequence[str], id: str = "") -> str:
    """``cells``: HTML."""
    made = "".join(f'<td data-label="{head}">{cell}' for head, cell in zip(heads, cells, strict=True))
    return f'<tr class="item"{f" id={chr(34)}{text(id)}{chr(34)}" if id else ""}>{made}</tr>'


_VM_HEADS: Final = ("VM", "Phase", "Node", "Devices", "Missing")


def _vms(vms: Sequence[VmRow], answers: dict[str, ExplainedAnswer]) -> str:
    rows = []
    for row in vms[: _VMS + 1]:
        why = text((f"{row.reason}: {row.message}" if row.message else row.reason)[:300])
        answer = answers.get(f"VMI {row.identity}") or answers.get(f"VM {row.identity}")
        if answer is not None:
            why += f" {_link(_key(answer), 'Why it waits')}"
        devices = ", ".join(
            text(str(device)) if device.id is None else _device_link(device.id, str(device)) for device in row.devices
        )
        node = _link(f"node/{row.node}", row.node) if row.node else ""
        cells = (text(row.identity), text(row.phase), node, devices, why)
        rows.append(_row(_VM_HEADS, cells, f"vm/{row.identity}"))
    return _table(_VM_HEADS, [*rows, *[""] * (len(vms) - len(rows))], _VMS)


def _models(models: Sequence[ModelFree]) -> str:
    bars = "".join(map(_use_of_model, models))
    heads = ("Model", "Free", "Of", "Most on one node", *(f"Nodes for {size}" for size in SIZES))
    rows = [
        _row(heads, [text(model.model), *(f"{number:,}" for number in (model.free, model.total, model.largest))]
             + [f"{number:,}" for number in model.nodes_for])
        for model in models
    ]  # fmt: skip
    said = "A VM's devices must be of one node: the last columns say on how many nodes so many are free."
    return f'<div class="use">{bars}</div><p class="quiet">{said}</p>{_table(heads, rows, len(rows))}'


def _use_of_model(model: ModelFree) -> str:
    other = model.total - model.held - model.free
    unfit = f", {other:,} not available" if other else ""
    said = f"{model.held:,} of {model.total:,} in use, {model.free:,} free{unfit}"
    return f"<span>{text(model.model)}</span>{_meter(model.held, model.free, model.total)}<span>{said}</span>"


def _findings(contents: ReportContents) -> str:
    heads = ("Object", "Severity", "Finding", "Field", "What")
    rows = [
        _row(heads, [text(said) for said in (obj.title, finding.severity, finding.id, finding.field, finding.message)])
        for obj in contents.findings
        for finding in obj.findings
    ]
    return _table(heads, rows, _FINDINGS) if rows else '<p class="good">No finding.</p>'


def _taken(taken: Sequence[tuple[str, int]]) -> str:
    if not taken:
        return "<p>No allocation says since when.</p>"
    most = max(number for _, number in taken)
    heads = ("Day", "Devices")
    rows = [
        _row(heads, (text(day), f'<svg class="bar" width="{max(number * 200 // most, 2)}" height="12" '
             f'aria-hidden="true"><rect width="100%" height="100%" rx="2"/></svg>{number:,}'))
        for day, number in taken[-_DAYS:]
    ]  # fmt: skip
    return _table(heads, rows, _DAYS)


def _kept(kept: Sequence[KeptDevice]) -> str:
    heads = ("Device", "VM", "Claim", "Stopped since", "Kept until")
    rows = []
    for item in kept[: _KEPT + 1]:
        until = str(item.until).removeprefix("until ") if item.until is not None else "it is released"
        said = (f"{item.namespace}/{item.vm}", item.claim, item.stopped_since or "not known", until)
        rows.append(_row(heads, (_device_link(item.device), *map(text, said))))
    note = "Nobody else gets these devices until they are released: virt-dra release vm NAME."
    return f'<p class="quiet">{note}</p>{_table(heads, [*rows, *[""] * (len(kept) - len(rows))], _KEPT)}'


def _device_link(device: DeviceId, said: str = "") -> str:
    return _link(f"device/{device}", said or str(device))


def _reason_link(code: str) -> str:
    return _link(f"reason/{code}", code)


def _link(name: str, said: str) -> str:
    """A link to an object of the page."""
    return f'<a href="#{text(quote(name, safe="/:"))}">{text(said)}</a>'
