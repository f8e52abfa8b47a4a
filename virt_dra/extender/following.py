"""Follows a cluster for the advisor: informers of what it gets, trimmed to what it reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.watching.informer import Informer, ListerWatcher, running
from virt_dra.cluster.watching.transforms import differ_in_version_only, keeping
from virt_dra.extender.advising_process import AdvisingProcess, AdvisorSettings
from virt_dra.model.kinds import OFTEN_NOT_SERVED, READ
from virt_dra.sandbox.process import SandboxObserver

_KEPT: Final[Mapping[type[TypedObject], Callable[[Any], Any]]] = {
    Node: keeping("metadata.labels", "status.allocatable", "status.declared_features"),
    ResourceClaim: keeping("spec", "status.allocation"),
    Pod: keeping(
        *(f"spec.{name}" for name in ("node_name", "overhead", "resources", "resource_claims")),
        *(f"spec.{containers}.{name}" for containers in ("containers", "init_containers")
            for name in ("name", "resources", "restart_policy")),
        "status.phase", "status.resource_claim_statuses",
    ),
    Namespace: keeping("metadata.annotations"),
}  # fmt: skip
"""By kind, what the advisor reads of an object; of others it is the spec."""


class FollowedCluster:
    """Keeps the advising process up to date while :meth:`following`."""

    def __init__(
        self, cluster: ListerWatcher, settings: AdvisorSettings, observer: SandboxObserver | None = None
    ) -> None:
        self.informers = tuple(self._informer(cluster, kind) for kind in READ["extender"].all)
        self.process = AdvisingProcess(settings, self._everything, observer)

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The kinds that haven't been read yet."""
        return tuple(informer.kind.KIND for informer in self.informers if not informer.has_synced)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follows while the body runs, which begins at once."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._follow())
            try:
                yield
            finally:
                task.cancel()

    async def _follow(self) -> None:
        async with running(*self.informers):
            await self.process.keep()

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        if new is None:
            if old is not None:
                self.process.remove(old)
        elif old is None or not differ_in_version_only(old, new):
            self.process.put(new)

    def _informer(self, cluster: ListerWatcher, kind: type[ObjectT]) -> Informer[ObjectT]:
        informer = Informer(
            cluster, kind, optional=kind in OFTEN_NOT_SERVED, transform=_KEPT.get(kind, keeping("spec"))
        )
        informer.on_change(self._changed)
        return informer

    def _everything(self) -> Iterator[TypedObject]:
        for informer in self.informers:
            yield from informer.store.values()
