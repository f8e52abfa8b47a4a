"""``virt-dra get --watch``: rows of a live cluster as they change, until interrupted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from virt_dra.cli.get.columns import columns_of
from virt_dra.cli.get.tables import RowTable, csv_lines
from virt_dra.cli.shared.cluster_options import NoCluster
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.inventory_input import InventoryInput
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE
from virt_dra.cli.shared.output import document_text, json_text, refuse
from virt_dra.cluster.port import ApiError
from virt_dra.cluster.watching.informer import Informer, ListerWatcher, running
from virt_dra.inventory.changes import RowChange, WatchedRows
from virt_dra.inventory.kinds import RowKind
from virt_dra.live.reading import ReadScope, read_cluster
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import with_devices_of_lines
from virt_dra.model.kinds import READ

if TYPE_CHECKING:
    from virt_dra.cli.get.command import GetRequest

SETTLE_SECONDS: Final = 0.2
"""From a change until rows are made anew: a scheduler writes claim and pod one after the other."""


def watch_rows(request: GetRequest, source: InventoryInput, output: str) -> None:
    """Shows rows until interrupted. Ends the command if nothing can be read."""

    async def watch() -> None:
        async with source.cluster.connected() as connected:
            kinds = READ[f"get {request.kind}"]
            _, scope = await read_cluster(connected, kinds, source.namespace or DEFAULT_NAMESPACE)
            for note in scope.notes:
                say(note, err=True)
            if not scope.serves(kinds):
                refuse([f"nothing of which {request.kind} are made can be read"], "text")
            await follow_rows(request, connected, scope, change_printer(request.kind, output))

    try:
        asyncio.run(watch())
    except (ApiError, NoCluster) as error:
        refuse([error.message if isinstance(error, NoCluster) else str(error)], "text")


async def follow_rows(
    request: GetRequest, cluster: ListerWatcher, scope: ReadScope, show: Callable[[list[RowChange]], None]
) -> None:
    """Calls ``show`` with the rows at first, and then with each batch of changes, until cancelled."""
    changed = asyncio.Event()
    informers = tuple(
        Informer[Any](cluster, kind, namespace, optional=True) for kind, namespace in scope.namespaces.items()
    )
    shown = WatchedRows()
    async with running(*informers):
        for informer in informers:
            informer.on_change(lambda old, new: changed.set())
        changed.set()
        while True:
            await changed.wait()
            changed.clear()
            model = ClusterModel(
                (obj for informer in informers for obj in informer.store.values()),
                unread=scope.unread,
                partial=scope.partial,
            )
            rows, _ = request.rows(with_devices_of_lines(model))
            changes = list(shown.changes(rows))
            if changes:
                show(changes)
            await asyncio.sleep(SETTLE_SECONDS)


def change_printer(kind: RowKind, output: str) -> Callable[[list[RowChange]], None]:
    """Prints changes in one of the formats of ``virt-dra get``. CSV and names leave out deleted rows."""
    columns = columns_of(kind, wide=output in ("wide", "csv"))
    table = RowTable(columns)
    if output == "csv":
        click.echo(csv_lines(columns, ()), nl=False)

    def show(changes: list[RowChange]) -> None:
        now = datetime.now(UTC)
        for change in changes:
            deleted = change.type == "DELETED"
            if output in ("json", "yaml"):
                click.echo(_document(change, output), nl=output == "json")
            elif output == "name":
                if not deleted:
                    say(change.row.identity)
            elif output != "csv":
                click.echo("\n".join(table.lines([change.row], now, "(deleted)" if deleted else "")))
            elif not deleted:
                click.echo(csv_lines(columns, [change.row], titles=False), nl=False)
        sys.stdout.flush()

    return show


def _document(change: RowChange, output: str) -> str:
    return json_text(change.to_json()) if output == "json" else f"---\n{document_text(change.to_json(), output)}"
