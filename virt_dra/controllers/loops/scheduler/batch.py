"""Schedules given pods once (C-5): `gather` reads, `plan` decides, `apply` writes in the order of C-21.1-2. A cluster
has `loop`.

The decision itself is virt_dra.scheduling; here it meets a cluster. Only pods that use resource claims, or any pending
pod, may be given: a pod without claims is placed by its node filters alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from virt_dra.allocator import DEFAULT, DEFAULT_STEP_LIMIT, Features, Snapshot
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimStatus, ResourceSlice
from virt_dra.cluster.port import ApiError, Cluster, Reader
from virt_dra.controllers.loops.scheduler.claim_writes import (
    BindError,
    ClaimBinding,
    bind_claim,
    deallocate_claim,
    release_claim,
)
from virt_dra.controllers.loops.scheduler.pod_writes import bind_pod, unscheduled, write_condition
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR
from virt_dra.scheduling.claim_references import consumer_reference, is_reserved_for
from virt_dra.scheduling.placement import ClusterView, Placement, Unplaced, place


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
    """Everything the decision needs; pending pods of one namespace if given, oldest first, then by namespace and
    name."""
    pods = (await reader.list(Pod, namespace)).items
    pending = sorted(
        filter(is_pending, pods), key=lambda pod: (pod.metadata.creation_timestamp or "", pod.namespace, pod.name)
    )
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
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None and not pod.finished


def plan(
    inputs: SchedulerInputs,
    features: Features = DEFAULT,
    *,
    only_node: str | None = None,
    step_limit: int = DEFAULT_STEP_LIMIT,
) -> tuple[SchedulingDecision, ...]:
    """Decide pod by pod; what one gets is in use for the next, and a claim that two pods share goes with its first
    pod's node."""
    view = ClusterView(
        nodes=inputs.nodes,
        claims={claim.key: claim for claim in inputs.claims},
        snapshot=Snapshot.build(
            inputs.slices, inputs.classes, inputs.claims, inputs.taint_rules if features.device_taints else ()
        ),
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
    """Later pods of the same plan see the claims as `apply` will leave them (the assume cache, C-4.1), so nothing stays
    in flight."""
    claims = dict(view.claims)
    for allocation in placement.allocations:
        claims[allocation.claim.key] = allocation.claim.with_(
            status=allocation.claim.status.with_(allocation=allocation.result)
        )
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


async def apply(
    cluster: Cluster, decisions: Sequence[SchedulingDecision], now: datetime
) -> tuple[SchedulingDecision, ...]:
    """Write the decisions. Where the cluster refuses, the decision comes back as Unplaced with reason SchedulerError,
    and the pod's condition says so; other pods go on. ``now`` becomes allocationTimestamp and lastTransitionTime."""
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
    if isinstance(outcome, Unplaced):
        await write_condition(cluster, pod, unscheduled(outcome.reason, outcome.message), now)
    return SchedulingDecision(pod, outcome)


async def _bind(cluster: Cluster, pod: Pod, placement: Placement, now: datetime) -> None:
    """PreBind claim by claim, then the pod (C-5.11). On a failure the pod's reservations as last seen are released,
    made here or in an earlier attempt; allocations stay (C-5.15)."""
    allocations = {allocation.claim.key: allocation.result for allocation in placement.allocations}
    reserved = [claim for claim in placement.claims if is_reserved_for(claim, pod)]
    try:
        for claim in placement.claims:
            if not is_reserved_for(claim, pod):
                binding = ClaimBinding(consumer_reference(pod), allocations.get(claim.key), now)
                # The first attempt reads too: a claim that an earlier pod of the plan got is known only as it was
                # planned.
                if (await bind_claim(cluster, claim, binding, reread=True)).ours:
                    reserved.append(claim)
        await bind_pod(cluster, pod, placement.node)
    except (BindError, ApiError):
        for claim in reserved:
            await release_claim(cluster, claim, pod.metadata.uid)
        raise


async def _deallocate(cluster: Cluster, outcome: Unplaced, claim: ResourceClaim) -> Unplaced:
    """A claim that changed since it was read is left alone, which is an error of the attempt (C-5.7)."""
    try:
        await deallocate_claim(cluster, claim)
    except ApiError as error:
        return replace(outcome, reason=SCHEDULER_ERROR, message=str(error), subject=claim.key)
    return outcome
