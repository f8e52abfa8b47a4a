"""The changes in the cluster that may make a waiting pod schedulable, as kube-scheduler distinguishes them (C-4.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from virt_dra.api.core_v1 import Node, Pod


class ClusterEvent(Enum):
    """*Target pod*: the waiting pod itself. *Assigned*: a pod with a node."""

    NODE_ADD = auto()
    NODE_DELETE = auto()
    NODE_LABELS = auto()
    NODE_ALLOCATABLE = auto()
    NODE_TAINTS = auto()
    NODE_FEATURES = auto()
    CLAIM = auto()
    SLICE = auto()
    """Slices added or updated, and changes of DeviceTaintRules; deletions don't count (C-4.7)."""
    DEVICE_CLASS = auto()
    """Added or updated, not deleted."""
    VOLUMES = auto()
    """PersistentVolumeClaims, PersistentVolumes and StorageClasses."""
    TARGET_POD_CLAIMS = auto()
    TARGET_POD_GATES = auto()
    TARGET_POD_TOLERATIONS = auto()
    TARGET_POD_LABELS = auto()
    TARGET_POD_UPDATE = auto()
    ASSIGNED_POD_ADD = auto()
    ASSIGNED_POD_UPDATE = auto()
    ASSIGNED_POD_LABELS = auto()
    ASSIGNED_POD_DELETE = auto()
    UNSCHEDULED_POD_ADD = auto()
    POD_GROUP_ADD = auto()
    POD_GROUP_UPDATE = auto()
    ANY = auto()
    """Wakes every pod: the flush of those that wait too long."""


Decide = Callable[[Pod, Any, Any], bool]


def always(pod: Pod, old: Any, new: Any) -> bool:
    """The hint of a plugin that knows no better."""
    return True


@dataclass(frozen=True)
class Hint:
    """Which events may help a pod that the plugin refused. ``decide``: whether this one does. ``pods``: the UIDs of
    those to ask; None: all."""

    events: frozenset[ClusterEvent]
    decide: Decide = always
    pods: Callable[[Any, Any], Iterable[str] | None] | None = None


def node_events(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """What an update of a node changed."""
    events = []
    if (old.spec.unschedulable and not new.spec.unschedulable) or old.spec.taints != new.spec.taints:
        events.append(ClusterEvent.NODE_TAINTS)
    if old.status.allocatable != new.status.allocatable:
        events.append(ClusterEvent.NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        events.append(ClusterEvent.NODE_LABELS)
    if old.status.declared_features != new.status.declared_features:
        events.append(ClusterEvent.NODE_FEATURES)
    return tuple(events)


def target_pod_events(old: Pod, new: Pod) -> tuple[ClusterEvent, ...]:
    """What an update of a waiting pod changed about itself; TARGET_POD_UPDATE if nothing in particular."""
    events = []
    if old.metadata.labels != new.metadata.labels:
        events.append(ClusterEvent.TARGET_POD_LABELS)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        events.append(ClusterEvent.TARGET_POD_GATES)
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        events.append(ClusterEvent.TARGET_POD_TOLERATIONS)
    before, after = old.status, new.status
    if (
        before.resource_claim_statuses != after.resource_claim_statuses
        or before.extended_resource_claim_status != after.extended_resource_claim_status
    ):
        events.append(ClusterEvent.TARGET_POD_CLAIMS)
    return tuple(events) or (ClusterEvent.TARGET_POD_UPDATE,)


def assigned_pod_events(old: Pod, new: Pod) -> tuple[ClusterEvent, ...]:
    """What an update of a pod with a node changed."""
    return (
        (ClusterEvent.ASSIGNED_POD_LABELS,)
        if old.metadata.labels != new.metadata.labels
        else (ClusterEvent.ASSIGNED_POD_UPDATE,)
    )
