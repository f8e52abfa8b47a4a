"""``virt-dra report``: a cluster's devices, VMs, what waits and why, findings, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from virt_dra.api.core_v1 import Node
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.cli.report.contents import ReportContents, contents_json, free_of_models, state_counts, taken_by_day
from virt_dra.cli.report.page import report_page
from virt_dra.cli.shared.console import progress, say, status
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE, output_option
from virt_dra.cli.shared.output import json_text, refuse
from virt_dra.inventory.device_rows import device_rows
from virt_dra.inventory.known_objects import KnownObjects
from virt_dra.inventory.topology import folded, topology
from virt_dra.inventory.vm_rows import VmRow, vm_rows
from virt_dra.simulator.collector import kept_for_good

HELP = """Write one page about a cluster: what waits and what would help, VMs, devices by node, how the free ones lie, findings.

The page is one HTML file that loads nothing: it can be mailed, and opened without a network. It has a filter (/), follows light and dark,
and prints. The objects are read as by virt-dra get: from files or, with --live, from a cluster by your own rights.

At most 50 waiting VMs are explained (--most changes that), each within a second.
"""

EPILOG = """\b
Examples:
  virt-dra report -f examples/inventory --out /tmp/out/report.html
  virt-dra report -f examples/explain -o json --out /tmp/out/report.json
  virt-dra report --live --out report.html

\b
Exit codes: 0 written, 2 bad usage or unreadable input, or the file can't be written.
"""

_READ_SECONDS: Final = 1.0
"""For judging the nodes of one waiting VM, and again for its ways out."""


_LINTED: Final = 50
"""VMs that are checked: on 40,000 devices a check takes some ten milliseconds."""


@click.command(name="report", help=HELP, epilog=EPILOG)
@inventory_options
@click.option("--out", metavar="FILE", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Write there.")
@output_option("html", "json")
@click.option("--most", "most", metavar="NUMBER", type=click.IntRange(0, 10_000), default=50, show_default=True,
              help="How many waiting VMs are explained.")  # fmt: skip
def command(source: InventoryInput, out: Path, output: str, most: int) -> None:
    now = datetime.now(UTC)
    with kept_for_good():
        from virt_dra.inventory.reading import READ
        from virt_dra.simulator.explaining.state import READ as EXPLAINED

        kinds: tuple[type[TypedObject], ...] = tuple(dict.fromkeys((*READ["vms"], *READ["drivers"], *EXPLAINED)))
        with status("reading"):
            known, _ = source.read(kinds, "text")
        contents = _contents(known, source, now, most)
        title = f"{'cluster' if source.live else ', '.join(source.paths)} on {now:%Y-%m-%d %H:%M} UTC"
        text = report_page(contents, title) if output == "html" else json_text(contents_json(contents), indent=2) + "\n"
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse([f"{out}: {error.strerror or error}"], "text")
    say(f"written to {out}")


def _linted(known: KnownObjects, rows: Sequence[VmRow]) -> tuple[list[TypedObject], int]:
    """The VMs and VMIs to check, those first that aren't ready, and how many are left out."""
    unready = {(row.namespace, row.name) for row in rows if row.reason}
    found: list[TypedObject] = [*known.of(VirtualMachine), *known.of(VirtualMachineInstance)]
    found.sort(key=lambda each: (each.namespace, each.name) not in unready)
    return found[:_LINTED], max(len(found) - _LINTED, 0)


def _contents(known: KnownObjects, source: InventoryInput, now: datetime, most: int) -> ReportContents:
    from virt_dra.allocator import FatalError
    from virt_dra.simulator.deadline import AllocationDeadline
    from virt_dra.simulator.explaining.state import ClusterState
    from virt_dra.simulator.explaining.waiting import WaitingAnswers, waiting_answers
    from webhooks.lint import LintSettings, lint_documents
    from webhooks.lint.inputs import EVERYTHING

    objects, namespace = known.objects, source.namespace or DEFAULT_NAMESPACE
    rows = device_rows(known, source.address_keys)
    nodes = topology(rows, [node.name for node in known.of(Node)])
    deadline = AllocationDeadline(_READ_SECONDS)
    notes: tuple[str, ...] = ()
    waiting = WaitingAnswers(())
    try:
        with progress("explaining what waits") as report:
            state = ClusterState.of(objects, interrupt=deadline)
            waiting = waiting_answers(objects, namespace, state, most, report, deadline.start)
    except FatalError as error:
        notes = (f"What waits can't be explained: {error}",)
    vms = tuple(vm_rows(known, now, source.address_keys))
    chosen, left_out = _linted(known, vms)
    if left_out:
        notes += (f"Findings are those of {len(chosen):,} VMs, the ones that aren't ready first; virt-dra lint checks all.",)
    with progress("checking VMs") as report:
        judged = lint_documents(
            (), LintSettings.for_command(), known=EVERYTHING, address_keys=source.address_keys, existing=objects, namespace=namespace,
            also=[Sourced(each, DocumentSource("cluster", 0)) for each in chosen], progress=report,
        )  # fmt: skip
    started = [holder.since for holders in state.holders.values() for holder in holders if holder.since] if not notes else []
    own = {holder.since for row in rows for holder in row.holders if holder.since}
    return ReportContents(
        nodes=len([node for node in nodes if node.name]),
        states=state_counts(rows),
        vms=vms,
        folds=tuple(folded(nodes)),
        waiting=waiting,
        models=free_of_models(nodes),
        findings=tuple(obj for obj in judged.checked if obj.findings),
        taken=taken_by_day(() if started else rows, started) if started or own else (),
        notes=notes,
    )
