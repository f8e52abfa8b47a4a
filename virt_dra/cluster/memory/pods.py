"""What only pods have: they are bound to a node, and deleted when their node's kubelet says so. Wording and cases are
the API server's. Pure functions of the stored pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from virt_dra.api import names
from virt_dra.api.core_v1 import Node, Pod, PodCondition
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import format_time, parse_time
from virt_dra.cluster.memory.strategies import next_generation
from virt_dra.cluster.port import ApiError, Conflict

DEFAULT_GRACE_SECONDS = 30
SCHEDULED = "PodScheduled"
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels of a node that a pod has from when it is bound (the admission plugin PodTopologyLabels)."""


def bound(pod: Pod, node: str, labels: Mapping[str, str], now: str) -> Pod:
    """The pod on its node, with ``labels``. Raises :class:`Conflict` for a pod that can't be bound (any more)."""
    gates = pod.spec.scheduling_gates
    if pod.metadata.deletion_timestamp is not None:
        raise _unbindable(pod, f"pod {pod.name} is being deleted, cannot be assigned to a host")
    if pod.spec.node_name:
        raise _unbindable(pod, f"pod {pod.name} is already assigned to node {quoted(pod.spec.node_name)}")
    if gates:
        raise _unbindable(pod, f"pod {pod.name} has non-empty .spec.schedulingGates")
    meta = pod.metadata.with_(labels={**pod.metadata.labels, **labels}) if labels else pod.metadata
    status = pod.status.with_(conditions=_scheduled(pod, now)).without("nominatedNodeName")
    return pod.with_(metadata=meta, spec=pod.spec.with_(node_name=node), status=status)


def check_target(node: str) -> None:
    """Refuses an invalid node name. Raises :class:`ApiError` (500, as the API server does)."""
    if not node:
        raise ApiError("target.name: Required value")
    faults = [f"target.name: Invalid value: {quoted(node)}: {fault}" for fault in names.dns1123_subdomain(node)]
    if faults:
        raise ApiError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")


def topology_labels(node: Node | None) -> Mapping[str, str]:
    """What a pod bound to the node gets from it."""
    labels = {} if node is None else node.metadata.labels
    return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}


@dataclass(frozen=True)
class PodDeletion:
    """What a request to delete leads to: ``marked`` is stored if it isn't None, then the pod goes if ``removed``."""

    marked: Pod | None
    removed: bool


def deletion(pod: Pod, grace_seconds: int | None, now: str) -> PodDeletion:
    """A pod on a node is marked, and stays until it is deleted with grace 0; one without a node, or finished, goes at
    once. A grace period that runs can only be shortened. Finalizers hold every pod."""
    asked = 1 if grace_seconds is not None and grace_seconds < 0 else grace_seconds
    held = bool(pod.metadata.finalizers)
    if pod.metadata.deletion_timestamp is None:
        period = _grace(pod, asked)
        marked = _marked(pod, period, _later(now, period))
        if marked.metadata.generation:
            marked = marked.with_(metadata=next_generation(marked.metadata))
        return PodDeletion(marked, period == 0 and not held)
    running = pod.metadata.deletion_grace_period_seconds
    if not running:
        return PodDeletion(None, not held)
    if asked is None or asked >= running:
        return PodDeletion(None, removed=False)
    end = _later(pod.metadata.deletion_timestamp, asked - running)
    if end < now:
        asked, end = min(asked, 1), now
    return PodDeletion(_marked(pod, asked, end), asked == 0 and not held)


def _grace(pod: Pod, asked: int | None) -> int:
    if not pod.spec.node_name or pod.finished:
        return 0
    default = pod.spec.termination_grace_period_seconds
    period = asked if asked is not None else DEFAULT_GRACE_SECONDS if default is None else default
    return 1 if period < 0 else period


def _marked(pod: Pod, period: int, end: str) -> Pod:
    return pod.with_(metadata=pod.metadata.with_(deletion_timestamp=end, deletion_grace_period_seconds=period))


def _later(time: str, seconds: int) -> str:
    try:
        return format_time(parse_time(time) + timedelta(seconds=seconds))
    except ValueError:  # of a pod that was loaded as it was
        return time
    except OverflowError:  # a grace period of centuries
        return "9999-12-31T23:59:59Z" if seconds > 0 else "0001-01-01T00:00:00Z"


def _scheduled(pod: Pod, now: str) -> tuple[PodCondition, ...]:
    before = pod.condition(SCHEDULED)
    since = before.last_transition_time if before is not None and before.status == "True" else now
    new = PodCondition(type=SCHEDULED, status="True", last_transition_time=since)
    if before is None:
        return (*pod.status.conditions, new)
    return tuple(new if condition is before else condition for condition in pod.status.conditions)


def _unbindable(pod: Pod, why: str) -> Conflict:
    return Conflict(f"Operation cannot be fulfilled on pods/binding {quoted(pod.name)}: {why}")
