"""The plugin GangScheduling: pods of a pod group wait until their group and enough of them are there (C-9.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from virt_dra.api.core_v1 import Pod
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.scheduling.claim_references import pod_group_name
from virt_dra.scheduling.framework.events import ClusterEvent, Hint
from virt_dra.scheduling.framework.plugin import SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal

TOO_FEW_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"


def group_key(pod: Pod) -> str | None:
    """``namespace/name`` of the pod's group; None if it is in none."""
    name = pod_group_name(pod)
    return None if name is None else f"{pod.namespace}/{name}"


def min_count(group: PodGroup) -> int:
    """How many pods of the group must have a node at once: one, if it is no gang."""
    gang = group.spec.scheduling_policy.gang
    return 1 if gang is None else gang.min_count


class GangScheduling(SchedulingPlugin):
    """``group_of`` a pod; ``pods_of``: how many pods name a group, given as ``namespace/name``."""

    name = "GangScheduling"

    def __init__(self, group_of: Callable[[Pod], PodGroup | None], pods_of: Callable[[str], int]) -> None:
        self._group_of = group_of
        self._pods_of = pods_of

    @property
    def hints(self) -> tuple[Hint, ...]:
        pods = frozenset({ClusterEvent.UNSCHEDULED_POD_ADD, ClusterEvent.ASSIGNED_POD_ADD})
        return (
            Hint(pods, lambda pod, old, new: group_key(pod) == group_key(new)),
            Hint(frozenset({ClusterEvent.POD_GROUP_ADD}), lambda pod, old, new: group_key(pod) == new.key),
            Hint(frozenset({ClusterEvent.POD_GROUP_UPDATE}), _fewer_suffice),
        )

    def pre_enqueue(self, pod: Pod) -> FilterRefusal | None:
        key = group_key(pod)
        if key is None:
            return None
        group = self._group_of(pod)
        if group is None:
            return FilterRefusal(
                self.name, (f'waiting for pods\'s pod group "{pod_group_name(pod)}" to appear in scheduling queue',)
            )
        gang = group.spec.scheduling_policy.gang
        if gang is not None and self._pods_of(key) < gang.min_count:
            return FilterRefusal(self.name, (TOO_FEW_PODS,))
        return None


def _fewer_suffice(pod: Pod, old: Any, new: Any) -> bool:
    before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
    return group_key(pod) == new.key and before is not None and after is not None and after.min_count < before.min_count
