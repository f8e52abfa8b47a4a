"""The protection of PodGroups: a deleted group stays until its last pod has finished or is gone (gate GenericWorkload).
The API server puts the finalizer on (:mod:`virt_dra.cluster.memory.rules`); this loop removes it."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.core_v1 import Pod
from virt_dra.api.scheduling_v1 import POD_GROUP_FINALIZER, PodGroup
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.index_keys import group_of
from virt_dra.scheduling.claim_references import pod_group_name

_ACTIVE = "protection of pod groups: active pods"


def may_go(group: PodGroup, active: Sequence[Pod]) -> bool:
    """Whether the finalizer is to be removed, given the pods of the group that have not finished."""
    meta = group.metadata
    return meta.deletion_timestamp is not None and POD_GROUP_FINALIZER in meta.finalizers and not active


class PodGroupProtection:
    """Implements :class:`virt_dra.controllers.loops.context.ControlLoop`."""

    def __init__(self, context: LoopContext) -> None:
        self._cluster = context.cluster
        self._groups, self._pods = context.informers.of(PodGroup), context.informers.of(Pod)
        self._pods.store.add_index(_ACTIVE, _active)
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(longest_delay=1000.0, chance=context.chance)
        self._groups.on_change(self._group_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._queue.run(self._reconcile)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None and may_go(new, ()):
            self._queue.add((new.namespace, new.name))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        group = pod_group_name(pod) if pod is not None and (new is None or new.finished) else None
        if pod is not None and group is not None:
            self._queue.add((pod.namespace, group))

    async def _reconcile(self, key: tuple[str, str]) -> None:
        namespace, name = key
        group = self._groups.store.get(name, namespace)
        if group is not None and may_go(group, self._pods.store.by_index(_ACTIVE, key)):
            await self._cluster.update(group.without_finalizer(POD_GROUP_FINALIZER))


def _active(pod: Pod) -> tuple[tuple[str, str], ...]:
    return () if pod.finished else group_of(pod)
