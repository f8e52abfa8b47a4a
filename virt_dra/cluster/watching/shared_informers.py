"""One informer for each kind, shared by all loops of a process: each kind is listed, watched and held once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.informer import Informer


class SharedInformers:
    """Informers by kind. A loop asks for its own when it is made, before :meth:`run`; each index has one name and
    owner. ``make``: by default an informer over the whole cluster that waits for kinds the cluster doesn't serve."""

    def __init__(self, cluster: Cluster, make: Callable[[Cluster, type[Any]], Informer[Any]] | None = None) -> None:
        self._cluster = cluster
        self._make = make or (lambda cluster, kind: Informer(cluster, kind, optional=True))
        self._informers: dict[type[TypedObject], Informer[Any]] = {}

    def of(self, kind: type[ObjectT]) -> Informer[ObjectT]:
        """The informer of a kind."""
        if kind not in self._informers:
            self._informers[kind] = self._make(self._cluster, kind)
        return cast("Informer[ObjectT]", self._informers[kind])

    @property
    def kinds(self) -> tuple[type[TypedObject], ...]:
        return tuple(self._informers)

    async def synced(self) -> None:
        """Return when every kind was listed."""
        for informer in tuple(self._informers.values()):
            await informer.synced()

    async def run(self) -> None:
        """List and watch all kinds, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, informer in self._informers.items():
                group.create_task(informer.run(), name=f"informer {kind.KIND}")
