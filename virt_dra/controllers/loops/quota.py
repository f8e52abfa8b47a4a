"""The quota controller: ``status.hard`` and ``status.used`` of ResourceQuotas (C-15), counted anew from what there is.
Admission charges what is written; this loop gives back what has gone. It counts live lists after reading the quota, and
its write is bound to the version read: what is charged meanwhile makes it count again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.pod_resources import added
from virt_dra.api.policies.quota_usage import ZERO, QuotaContext, Usage, in_scope, masked, matching_names, usage
from virt_dra.api.policies.quota_v1 import ResourceQuota, ResourceQuotaStatus
from virt_dra.api.reading.scheme import all_kinds
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.cluster.port import NotFound
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.loops.context import LoopContext

RESYNC_SECONDS: Final = 300.0
"""Seconds between two counts of all quotas, for changes without an event: classes, ends of grace periods."""
COALESCING_SECONDS: Final = 0.1
"""Seconds within which several deletions are counted once."""


def _plural(kind: type[TypedObject]) -> str:
    group = kind.API_VERSION.rpartition("/")[0]
    return f"{kind.PLURAL}.{group}" if group else kind.PLURAL


_NAMESPACE: Final = "quota: by namespace"
_COUNTED: Final[Mapping[str, type[TypedObject]]] = {_plural(kind): kind for kind in all_kinds() if kind.NAMESPACED}

NamespaceContent = Mapping[str, Sequence[TypedObject]]
"""By resource with its group (``pods``, ``resourceclaims.resource.k8s.io``)."""


def counted_status(quota: ResourceQuota, objects: NamespaceContent, context: QuotaContext) -> ResourceQuotaStatus:
    """The status that the quota should have, of all objects of its namespace that count for it."""
    hard = quota.spec.hard
    used: Usage = {}
    for plural, of_resource in objects.items():
        names = matching_names(hard, plural, context)
        if names:
            total: Usage = dict.fromkeys(names, ZERO)
            for obj in of_resource:
                if in_scope(quota, obj):
                    total = added(total, masked(usage(obj, plural, context), names))
            used = added(used, total)
    kept = {name: amount for name, amount in quota.status.used.items() if name in hard}
    return ResourceQuotaStatus(hard=hard, used={**kept, **used})


def needed_resources(quota: ResourceQuota, context: QuotaContext) -> tuple[str, ...]:
    """The resources whose objects count for the quota."""
    return tuple(plural for plural in _COUNTED if matching_names(quota.spec.hard, plural, context))


class QuotaController:
    """Implements :class:`virt_dra.controllers.loops.context.ControlLoop`."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        self._quotas = context.informers.of(ResourceQuota)
        self._quotas.store.add_index(_NAMESPACE, lambda quota: (quota.namespace,))
        self._classes = context.informers.of(DeviceClass)
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(longest_delay=1000.0, chance=context.chance)
        self._quotas.on_change(self._quota_changed)
        context.informers.of(Pod).on_change(self._pod_changed)
        context.informers.of(ResourceClaim).on_change(self._claim_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resync(), name="quota resync")
            await self._queue.run(self._reconcile)

    def _quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is not None and (old is None or old.spec != new.spec):
            self._queue.add((new.namespace, new.name))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or (new.finished and not old.finished)):
            self._replenish(old.namespace)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is None and old is not None:
            self._replenish(old.namespace)

    def _replenish(self, namespace: str) -> None:
        for quota in self._quotas.store.by_index(_NAMESPACE, namespace):
            self._queue.add_after((quota.namespace, quota.name), COALESCING_SECONDS)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            for quota in self._quotas.store.values():
                self._queue.add((quota.namespace, quota.name))

    async def _reconcile(self, key: tuple[str, str]) -> None:
        namespace, name = key
        cluster = self._context.cluster
        try:
            quota = await cluster.get(ResourceQuota, name, namespace)
        except NotFound:
            return
        classes = {device_class.name: device_class for device_class in self._classes.store.values()}
        needed = needed_resources(quota, _context(classes, (), (), self._context.clock()))
        objects: dict[str, Sequence[TypedObject]] = {}
        for plural in needed:
            objects[plural] = (await cluster.list(_COUNTED[plural], namespace)).items
        pods = await self._owners(objects, namespace)
        claims = [
            claim for claim in objects.get("resourceclaims.resource.k8s.io", ()) if isinstance(claim, ResourceClaim)
        ]
        status = counted_status(quota, objects, _context(classes, pods, claims, self._context.clock()))
        if status != quota.status:
            await cluster.update_status(quota.with_(status=status))

    async def _owners(self, objects: NamespaceContent, namespace: str) -> Iterable[Pod]:
        """The pods, on which the usage of claims for extended resources depends."""
        pods = objects.get("pods")
        if pods is None and "resourceclaims.resource.k8s.io" in objects:
            return (await self._context.cluster.list(Pod, namespace)).items
        return [pod for pod in pods or () if isinstance(pod, Pod)]


def _context(
    classes: Mapping[str, DeviceClass], pods: Iterable[Pod], claims: Iterable[ResourceClaim], now: datetime
) -> QuotaContext:
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    by_owner: dict[str, list[ResourceClaim]] = {}
    for claim in claims:
        for owner in claim.metadata.owner_references:
            by_owner.setdefault(owner.uid, []).append(claim)
    return QuotaContext(
        classes=classes, pod_of=lambda namespace, name: by_name.get((namespace, name)),
        claims_of=lambda uid: by_owner.get(uid, ()), now=now
    )  # fmt: skip
