"""``virt-dra describe``: everything that is known of one VM, device, claim, pool or driver, of files or of a live
cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Final

import click

from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.collector import collector_paused
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.cli.describe.sections import section_lines
from virt_dra.cli.documents.heads import output_list
from virt_dra.cli.get.arguments import KIND_METAVAR, asked_kinds
from virt_dra.cli.get.command import GetRequest
from virt_dra.cli.shared.cluster_options import NoCluster
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.inventory_input import InventoryInput, inventory_options
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE, output_option
from virt_dra.cli.shared.output import print_document, refusing
from virt_dra.cli.shared.suggestions import suggesting
from virt_dra.cluster.port import ApiError, Reader
from virt_dra.inventory.details import DetailSources, ObjectId, details_of, event_lines, subjects_of
from virt_dra.inventory.document_types import EventJson
from virt_dra.inventory.fields import BadFilter, RowFilter
from virt_dra.inventory.kinds import ROW_KINDS, RowOptions
from virt_dra.live.reading import read_cluster
from virt_dra.model.kinds import READ
from webhooks.lint import LintSettings, ObjectFindings, lint_documents
from webhooks.lint.inputs import EVERYTHING

FORMATS: Final = ("text", "json", "yaml")
MOST_EVENTS_READ: Final = 20
"""Objects whose events are asked for."""
_EVENT: Final = unknown_kind("v1", "Event")

HELP = """Show everything that is known of a vm, device, claim, pool or driver.

Of a VM: its device entries with their claims, devices, addresses, taints and health; pods, conditions. Of a device: who
holds it since when, its attributes and capacity, taints, and the DeviceClasses that select it. Of a claim: its
requests, what it was allocated, whom it is for. Of a pool and a driver: slices and their generations, devices, who
holds them, classes. Of all: what virt-dra lint says, and events (of a cluster, or those of a dump).

NAME is as virt-dra get -o name writes it, or a part of that (DEVICE, POOL/DEVICE; NAME of a VM): everything that has
the name is shown. KIND/NAME names the kind of each.

-o json and yaml are a list (items) with the same members for every object of a kind.
"""

EPILOG = """\b
Examples:
  virt-dra describe vm desktop -f examples/inventory
  virt-dra describe device node-1/gpu-0 -f examples/inventory -o json
  virt-dra describe pool node-2 -f examples/inventory             is it whole?
  virt-dra describe driver gpu.example.com -f examples/inventory
  virt-dra describe vm desktop --live -n team-a                   with its events
  virt-dra describe claim team-a/desktop-gpu-5xw7l --live -A

\b
Exit codes: 0 shown, 1 a NAME isn't there, 2 bad usage or unreadable input.
"""


@dataclass(frozen=True)
class _Remarks:
    """What the lint and events say. ``notes``: in place of findings, why there are none."""

    event_objects: Sequence[TypedObject]
    checked: Sequence[ObjectFindings]
    notes: tuple[str, ...] = ()

    def events(self, objects: Iterable[ObjectId]) -> list[EventJson]:
        return event_lines(self.event_objects, objects)

    def findings(self, objects: Iterable[ObjectId]) -> list[str]:
        wanted = dict.fromkeys(objects)
        findings = [
            f"{obj.title}: {finding}"
            for obj in self.checked
            if (obj.kind, obj.namespace, obj.name) in wanted
            for finding in obj.findings
        ]
        return [*self.notes, *findings]


@click.command(name="describe", help=HELP, epilog=EPILOG)
@click.argument("kind", metavar=KIND_METAVAR, shell_complete=suggesting(kind.removesuffix("s") for kind in ROW_KINDS))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@inventory_options(arguments=False)
@output_option(*FORMATS)
def command(kind: str, names: tuple[str, ...], source: InventoryInput, output: str) -> None:
    if not names and "/" not in kind:
        raise click.UsageError("Missing argument 'NAME...'.")
    now = datetime.now(UTC)
    options = RowOptions(now, source.address_keys)
    with refusing(output, BadFilter):
        requests = [
            GetRequest(chosen, RowFilter(asked, source.scope), list, lambda: options)
            for chosen, asked in asked_kinds(kind, names).items()
        ]
    with collector_paused():
        documents = source.documents(output)
        kinds = reduce(or_, (READ[f"describe {request.kind}"] for request in requests))
        model, _ = source.read(kinds, output, documents)
        answers = [request.rows(model) for request in requests]
        rows = [row for listed, _ in answers for row in listed]
        subjects = [subject for row in rows for subject in subjects_of(row, model)]
        remarks = _live_remarks(source, subjects) if source.live else _remarks_of(documents, source)
        details = [details_of(row, DetailSources(model, options, remarks)) for row in rows]
    if output != "text":
        print_document(output_list("InventoryDetailsList", details), output)
    elif details:
        click.echo("\n\n".join("\n".join(section_lines(document, now)) for document in details))
    missing = [name for _, absent in answers for name in absent]
    for name in missing:
        say(f"error: {name}", err=True)
    sys.exit(1 if missing else 0)


def _remarks_of(documents: Sequence[Document], source: InventoryInput) -> _Remarks:
    """Of files: the lint as ``virt-dra lint -f`` with the same files, and the events among them."""
    judged = lint_documents(
        documents,
        LintSettings.for_command(),
        namespace=source.namespace or DEFAULT_NAMESPACE,
        address_keys=source.address_keys,
    )
    events = [
        manifest.object
        for manifest, _ in judged.manifests
        if manifest.object is not None and manifest.object.kind == "Event"
    ]
    return _Remarks(events, judged.checked)


def _live_remarks(source: InventoryInput, subjects: Sequence[ObjectId]) -> _Remarks:
    """Of a cluster: the lint as ``virt-dra lint --live``, where the user may read all that it needs; events of the
    subjects."""
    try:
        return source.cluster.ask(lambda connected: live_remarks(connected, subjects, source))
    except (ApiError, NoCluster) as error:
        return _Remarks((), (), (f"not checked: {error}",))


async def live_remarks(cluster: Reader, subjects: Sequence[ObjectId], source: InventoryInput) -> _Remarks:
    """What lint and events say of these objects. What can't be read is left out, and said in place of findings."""
    events: list[TypedObject] = []
    notes: list[str] = []
    for namespace, name in list(dict.fromkeys((namespace, name) for _, namespace, name in subjects))[:MOST_EVENTS_READ]:
        try:
            events += (await cluster.list(_EVENT, namespace, fields=f"involvedObject.name={name}")).items
        except ApiError as error:
            notes.append(f"events can't be read: {error}")
            break
    try:
        objects, scope = await read_cluster(cluster, READ["lint"])
    except ApiError as error:
        return _Remarks(events, (), (*notes, f"not checked: {error}"))
    wanted = {(kind, namespace, name) for kind, namespace, name in subjects}
    judged = lint_documents(
        (), LintSettings.for_command(), known_kinds=EVERYTHING - {kind.KIND for kind in scope.unread},
        beside_kubevirt=KubeVirt in scope.unread, address_keys=source.address_keys, existing=objects,
        also=[Sourced(obj, DocumentSource("cluster", 0)) for obj in objects if (obj.KIND, obj.namespace,
            obj.name) in wanted],
    )  # fmt: skip
    return _Remarks(events, judged.checked, tuple(notes))
