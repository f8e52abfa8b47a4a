"""``virt-dra get --watch``: rows of a live cluster as they change, until interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from virt_dra.cli.shared.cluster_options import NoCluster
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.inventory_input import InventoryInput
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE
from virt_dra.cli.shared.output import refuse, refusing
from virt_dra.cli.templates.applying import NotApplicable
from virt_dra.cluster.port import ApiError
from virt_dra.cluster.watching.informer import Informer, ListerWatcher, running
from virt_dra.inventory.changes import RowChange, WatchedRows
from virt_dra.inventory.fields import BadFilter
from virt_dra.live.reading import ReadScope, read_cluster
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import as_admitted
from virt_dra.model.kinds import READ

if TYPE_CHECKING:
    from virt_dra.cli.get.command import GetRequest
    from virt_dra.cluster.kube.cluster import KubeCluster

SETTLE_SECONDS: Final = 0.2
"""From a change until rows are made anew: a scheduler writes claim and pod one after the other."""


def watch_rows(request: GetRequest, source: InventoryInput, show: Callable[[list[RowChange]], None]) -> None:
    """Shows rows until interrupted. Ends the command if nothing can be read, or a template can't be applied."""

    async def watch(connected: KubeCluster) -> None:
        kinds = READ[f"get {request.kind}"]
        _, scope = await read_cluster(connected, kinds, source.namespace or DEFAULT_NAMESPACE)
        for note in scope.notes:
            say(note, err=True)
        if not scope.serves(kinds):
            refuse([f"nothing of which {request.kind} are made can be read"], "text")
        await follow_rows(request, connected, scope, show)

    with refusing("text", BadFilter, NotApplicable, ApiError, NoCluster):
        source.cluster.ask(watch)


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
            rows, _ = request.rows(as_admitted(model))
            changes = list(shown.changes(rows))
            if changes:
                show(changes)
            await asyncio.sleep(SETTLE_SECONDS)
