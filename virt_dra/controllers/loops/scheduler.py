"""The scheduler: pending pods to nodes, claims to devices (C-5). `gather` reads, `plan` decides, `apply` writes in the order of C-21.1-2.

The decision itself is virt_dra.scheduling; here it meets a cluster. Only pods that use resource claims, or any pending pod, may be
given: a pod without claims is placed by its node filters alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from virt_dra.allocator import DEFAULT, DEFAULT_STEP_LIMIT, Features, Snapshot
from virt_dra.api.core_v1 import Node, NodeSelector, Pod, PodCondition
from virt_dra.api.meta import format_time
from virt_dra.api.resource_v1 import (
    FINALIZER,
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from virt_dra.cluster.port import ApiError, Cluster, Conflict, Reader
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR
from virt_dra.scheduling.claim_references import consumer_reference, is_reserved_for, with_reservations
from virt_dra.scheduling.placement import ClusterView, Placement, Unplaced, place

_log = logging.getLogger(__name__)

POD_SCHEDULED = "PodScheduled"
WRITE_ATTEMPTS = 5
"""How often a claim or pod is written at most when others write it at the same time (C-2.7, C-21.1)."""


@dataclass(frozen=True)
class SchedulerInputs:
    """The cluster as it was listed. ``pods``: the pending ones, in the order in which they are scheduled."""

    pods: tuple[Pod, ...]
    nodes: tuple[Node, ...]
    claims: tuple[ResourceClaim, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    taint_rules: tuple[DeviceTaintRule, ...] = ()


@dataclass(frozen=True)
class SchedulingDecision:
    """What happens to one pod."""

    pod: Pod
    outcome: Placement | Unplaced


async def gather(reader: Reader, namespace: str = "") -> SchedulerInputs:
    """Everything the decision needs; pending pods of one namespace if given, oldest first, then by namespace and name."""
    pods = (await reader.list(Pod, namespace)).items
    pending = sorted(filter(is_pending, pods), key=lambda pod: (pod.metadata.creation_timestamp or "", pod.namespace, pod.name))
    return SchedulerInputs(
        pods=tuple(pending),
        nodes=tuple(sorted((await reader.list(Node)).items, key=lambda node: node.name)),
        claims=(await reader.list(ResourceClaim)).items,
        slices=(await reader.list(ResourceSlice)).items,
        classes=(await reader.list(DeviceClass)).items,
        taint_rules=(await reader.list(DeviceTaintRule)).items,
    )


def is_pending(pod: Pod) -> bool:
    """Whether the pod waits for a node: none set (C-5.17), not finished, not being deleted."""
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def plan(
    inputs: SchedulerInputs, features: Features = DEFAULT, *, only_node: str | None = None, step_limit: int = DEFAULT_STEP_LIMIT
) -> tuple[SchedulingDecision, ...]:
    """Decide pod by pod; what one gets is in use for the next, and a claim that two pods share goes with its first pod's node."""
    view = ClusterView(
        nodes=inputs.nodes,
        claims={claim.key: claim for claim in inputs.claims},
        snapshot=Snapshot.build(inputs.slices, inputs.classes, inputs.claims, inputs.taint_rules if features.device_taints else ()),
    )
    decisions: list[SchedulingDecision] = []
    for pod in inputs.pods:
        outcome = place(pod, view, features, only_node=only_node, step_limit=step_limit)
        decisions.append(SchedulingDecision(pod, outcome))
        if isinstance(outcome, Placement):
            view = _as_if_written(view.reserve(outcome), outcome, pod)
        elif outcome.deallocate is not None:
            view = _as_if_deallocated(view, outcome.deallocate)
    return tuple(decisions)


def _as_if_written(view: ClusterView, placement: Placement, pod: Pod) -> ClusterView:
    """Later pods of the same plan see the claims as `apply` will leave them (the assume cache, C-4.1), so nothing stays in flight."""
    claims = dict(view.claims)
    for allocation in placement.allocations:
        claims[allocation.claim.key] = allocation.claim.with_(status=allocation.claim.status.with_(allocation=allocation.result))
    for claim in placement.claims:
        known = claims[claim.key]
        if not is_reserved_for(known, pod):
            reserved = (*known.status.reserved_for, consumer_reference(pod))
            claims[claim.key] = known.with_(status=known.status.with_(reserved_for=reserved))
    return ClusterView(view.nodes, claims, view.snapshot)


def _as_if_deallocated(view: ClusterView, claim: ResourceClaim) -> ClusterView:
    """Later pods of the same plan find the claim unallocated and its devices free, as `apply` will leave it (C-5.6)."""
    allocation = claim.status.allocation
    snapshot = view.snapshot if allocation is None else view.snapshot.without_allocation(allocation)
    return ClusterView(view.nodes, {**view.claims, claim.key: claim.with_(status=ResourceClaimStatus())}, snapshot)


class BindError(Exception):
    """A claim or pod could not be written as decided; the text is the scheduler's (C-5.11)."""


async def apply(cluster: Cluster, decisions: Sequence[SchedulingDecision], now: datetime) -> tuple[SchedulingDecision, ...]:
    """Write the decisions. Where the cluster refuses, the decision comes back as Unplaced with reason SchedulerError, and the pod's
    condition says so; other pods go on. ``now`` becomes allocationTimestamp and lastTransitionTime."""
    return tuple([await _apply_one(cluster, decision, now) for decision in decisions])


async def _apply_one(cluster: Cluster, decision: SchedulingDecision, now: datetime) -> SchedulingDecision:
    pod, outcome = decision.pod, decision.outcome
    if isinstance(outcome, Placement):
        try:
            await _bind(cluster, pod, outcome, now)
        except (BindError, ApiError) as error:
            outcome = Unplaced(SCHEDULER_ERROR, str(error), pod.key)
    elif outcome.deallocate is not None:
        outcome = await _deallocate(cluster, outcome, outcome.deallocate)
    await _write_condition(cluster, pod, outcome, now)
    return SchedulingDecision(pod, outcome)


async def _bind(cluster: Cluster, pod: Pod, placement: Placement, now: datetime) -> None:
    """PreBind claim by claim, then the pod (C-5.11). On a failure the pod's reservations as last seen are released, made here or in an
    earlier attempt; allocations stay (C-5.15)."""
    allocations = {allocation.claim.key: allocation.result for allocation in placement.allocations}
    reserved = [claim for claim in placement.claims if is_reserved_for(claim, pod)]
    try:
        for claim in placement.claims:
            if not is_reserved_for(claim, pod) and await _bind_claim(cluster, claim, pod, allocations.get(claim.key), now):
                reserved.append(claim)
        await _bind_pod(cluster, pod, placement.node)
    except (BindError, ApiError):
        for claim in reserved:
            await _release(cluster, claim, pod)
        raise


async def _bind_pod(cluster: Cluster, pod: Pod, node: str) -> None:
    """Set the node as the API server's binding does: once, and not for a pod that is being deleted. Raises BindError, ApiError."""
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        current = await cluster.get(Pod, pod.name, pod.namespace)
        if current.metadata.uid != pod.metadata.uid:
            raise BindError(f"pod {pod.key} got deleted and created again in the meantime")
        if current.metadata.deletion_timestamp is not None:
            raise BindError(f"pod {pod.name} is being deleted, cannot be assigned to a host")
        if current.spec.node_name:
            raise BindError(f"pod {pod.name} is already assigned to node {json.dumps(current.spec.node_name)}")
        try:
            await cluster.patch(Pod, pod.name, pod.namespace, merge={"metadata": _seen(current), "spec": {"nodeName": node}})
        except Conflict:
            if attempt == WRITE_ATTEMPTS:
                raise
        else:
            return


def _seen(pod: Pod) -> dict[str, str]:
    """The precondition of a patch that the pod is still as it was read."""
    return {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}


async def _bind_claim(cluster: Cluster, claim: ResourceClaim, pod: Pod, allocation: AllocationResult | None, now: datetime) -> bool:
    """Finalizer first, then allocation and reservation in one status write (C-21.1, C-21.2); a conflict starts over with a fresh read.

    False if another scheduler has reserved it for the pod already, which is not ours to take back. The texts of C-5.11 name the write
    that failed. Raises BindError.
    """
    protecting = f"add finalizer to claim {claim.key}"
    reserving = f"add {'reservation' if allocation is None else 'allocation and reservation'} to claim {claim.key}"
    # Unlike upstream the first attempt reads too: a claim that an earlier pod of the plan got is known only as it was planned.
    step = reserving if allocation is None or FINALIZER in claim.metadata.finalizers else protecting
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = await cluster.get(ResourceClaim, claim.name, claim.namespace)
            _check_unchanged(claim, current, allocation)
            if is_reserved_for(current, pod):
                return False
            if allocation is not None and FINALIZER not in current.metadata.finalizers:
                step = protecting
                finalizers = (*current.metadata.finalizers, FINALIZER)
                current = await cluster.update(current.with_(metadata=current.metadata.with_(finalizers=finalizers)))
            step = reserving
            await cluster.update_status(current.with_(status=_bound_status(current, pod, allocation, now)))
        except Conflict as error:
            if attempt == WRITE_ATTEMPTS:
                raise BindError(f"{step}: {error}") from error
            step = f"get updated claim {claim.key} after conflict"
        except ApiError as error:
            raise BindError(f"{step}: {error}") from error
        else:
            return True
    return False


def _check_unchanged(decided: ResourceClaim, current: ResourceClaim, allocation: AllocationResult | None) -> None:
    """Raises :class:`BindError` if the claim is no longer the one that was decided about (C-5.11 items 3, 4, 6; C-22.4).

    A claim that was decided about as allocated must still have these devices: they, or the plan for an earlier pod, chose the node.
    """
    if current.metadata.uid != decided.metadata.uid:
        raise BindError(f"claim {decided.key} got deleted and created again in the meantime")
    if current.metadata.deletion_timestamp is not None:
        raise BindError(f"claim {decided.key} got deleted in the meantime")
    if allocation is None and current.status.allocation is None:
        raise BindError(f"claim {decided.key} got deallocated elsewhere in the meantime")
    if current.status.allocation is not None and (allocation is not None or _place(current) != _place(decided)):
        raise BindError(f"claim {decided.key} got allocated elsewhere in the meantime")


def _place(claim: ResourceClaim) -> tuple[frozenset[tuple[str, str, str, str, str | None]], NodeSelector | None]:
    """What an allocation means for a pod: which devices, from which nodes."""
    allocation = claim.status.allocation
    if allocation is None:
        return frozenset(), None
    results = allocation.devices.results
    return frozenset((r.request, r.driver, r.pool, r.device, r.share_id) for r in results), allocation.node_selector


def _bound_status(claim: ResourceClaim, pod: Pod, allocation: AllocationResult | None, now: datetime) -> ResourceClaimStatus:
    """A new allocation always gets a timestamp, also without binding conditions (C-5.11.6). An older one that has none keeps none: the
    API server refuses any change of an allocation (C-20.16)."""
    status = claim.status
    if allocation is not None:
        status = status.with_(allocation=allocation.with_(allocation_timestamp=allocation.allocation_timestamp or format_time(now)))
    return status.with_(reserved_for=(*status.reserved_for, consumer_reference(pod)))


async def _release(cluster: Cluster, claim: ResourceClaim, pod: Pod) -> None:
    """Take the pod's reservation back (C-21.3). One that stays because the cluster refuses is used by the pod's next attempt, or dropped
    by the claim controller when the pod is gone (C-10.9)."""
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = await cluster.get(ResourceClaim, claim.name, claim.namespace)
            if current.metadata.uid == claim.metadata.uid and is_reserved_for(current, pod):
                kept = tuple(consumer for consumer in current.status.reserved_for if consumer.uid != pod.metadata.uid)
                await cluster.update_status(current.with_(status=with_reservations(current.status, kept)))
        except Conflict as error:
            if attempt == WRITE_ATTEMPTS:
                _log.warning("reservation of claim %s for pod %s not released: %s", claim.key, pod.key, error)
        except ApiError as error:
            _log.warning("reservation of claim %s for pod %s not released: %s", claim.key, pod.key, error)
            return
        else:
            return


async def _deallocate(cluster: Cluster, outcome: Unplaced, claim: ResourceClaim) -> Unplaced:
    """Give the devices back (C-5.6, C-21.4); the finalizer stays. A claim that changed since it was read is left alone, which is an
    error of the attempt (C-5.7)."""
    try:
        await cluster.update_status(claim.with_(status=ResourceClaimStatus()))
    except ApiError as error:
        return replace(outcome, reason=SCHEDULER_ERROR, message=str(error), subject=claim.key)
    return outcome


async def _write_condition(cluster: Cluster, pod: Pod, outcome: Placement | Unplaced, now: datetime) -> None:
    """The pod's PodScheduled condition (C-19). Not written when it says the same already; a pod that is gone needs none, and one that
    got a node from somebody else is not unschedulable. Another writer's conditions are never overwritten."""
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            current = await cluster.get(Pod, pod.name, pod.namespace)
            conditions = scheduled_conditions(current, outcome, now)
            other = current.metadata.uid != pod.metadata.uid or (current.spec.node_name and isinstance(outcome, Unplaced))
            if not other and conditions != current.status.conditions:
                merge = {"metadata": _seen(current), "status": {"conditions": [condition.to_wire() for condition in conditions]}}
                await cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
        except Conflict as error:
            if attempt == WRITE_ATTEMPTS:
                _log.warning("condition of pod %s not written: %s", pod.key, error)
        except ApiError as error:
            _log.warning("condition of pod %s not written: %s", pod.key, error)
            return
        else:
            return


def scheduled_conditions(pod: Pod, outcome: Placement | Unplaced, now: datetime) -> tuple[PodCondition, ...]:
    """The pod's conditions with PodScheduled as the outcome says; lastTransitionTime moves only when the status changes."""
    if isinstance(outcome, Placement):
        new = PodCondition(type=POD_SCHEDULED, status="True")
    else:
        new = PodCondition(type=POD_SCHEDULED, status="False", reason=outcome.reason, message=outcome.message)
    before = next((condition for condition in pod.status.conditions if condition.type == POD_SCHEDULED), None)
    unchanged = before is not None and before.status == new.status and before.last_transition_time is not None
    new = new.with_(last_transition_time=before.last_transition_time if before is not None and unchanged else format_time(now))
    others = tuple(condition for condition in pod.status.conditions if condition.type != POD_SCHEDULED)
    return (*others, new)
