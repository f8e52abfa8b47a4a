"""Schedules given pods once (C-5): `gather` reads, `plan` decides, `apply` writes in the order of C-21.1-2."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimStatus, ResourceSlice
from virt_dra.cluster.port import ApiError, Cluster, Reader
from virt_dra.controllers.loops.context import NoMetrics
from virt_dra.controllers.loops.scheduler.claim_writes import (
    BindError,
    ClaimBinding,
    bind_claim,
    deallocate_claim,
    release_claim,
)
from virt_dra.controllers.loops.scheduler.pod_writes import bind_pod, unscheduled, write_condition
from virt_dra.controllers.loops.scheduler.special_claims import create_special, write_mappings
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR
from virt_dra.scheduling.claim_references import consumer_reference, is_reserved_for
from virt_dra.scheduling.fit import DEFAULT_OPTIONS, FitOptions
from virt_dra.scheduling.placement import Placement, Unplaced, place


@dataclass(frozen=True)
class SchedulerInputs:
    """The cluster as it was listed. ``pods``: the pending ones, in the order in which they are scheduled."""

    pods: tuple[Pod, ...]
    model: ClusterModel


@dataclass(frozen=True)
class SchedulingDecision:
    """What happens to one pod."""

    pod: Pod
    outcome: Placement | Unplaced


_KINDS: Final[tuple[type[TypedObject], ...]] = (
    Node, Namespace, Pod, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule,
    PersistentVolumeClaim, PersistentVolume, StorageClass, VirtualMachine,
)  # fmt: skip


async def gather(reader: Reader, namespace: str = "", unread: Collection[type[TypedObject]] = ()) -> SchedulerInputs:
    """Everything the decision needs; pending pods of one namespace if given, oldest first, then by namespace and
    name. ``unread``: kinds of which the cluster doesn't have all objects."""
    model = ClusterModel([obj for kind in _KINDS for obj in (await reader.list(kind)).items], unread=unread)
    pending = [pod for pod in model.of(Pod) if is_pending(pod) and namespace in ("", pod.namespace)]
    pending.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.namespace, pod.name))
    return SchedulerInputs(tuple(pending), model)


def is_pending(pod: Pod) -> bool:
    """Whether the pod waits for a node: none set (C-5.17), not finished, not being deleted."""
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None and not pod.finished


def plan(
    inputs: SchedulerInputs, options: FitOptions = DEFAULT_OPTIONS, *, only_node: str | None = None
) -> tuple[SchedulingDecision, ...]:
    """Decide pod by pod; what one gets is in use for the next, and a claim that two share goes with its first pod's
    node."""
    model = inputs.model
    decisions: list[SchedulingDecision] = []
    for pod in inputs.pods:
        outcome = place(pod, model, options, only_node=only_node)
        decisions.append(SchedulingDecision(pod, outcome))
        if isinstance(outcome, Placement):
            model = model.changed(_as_written(outcome, pod))
        elif outcome.deallocate is not None:
            model = model.changed([outcome.deallocate.with_(status=ResourceClaimStatus())])
    return tuple(decisions)


def _as_written(placement: Placement, pod: Pod) -> Iterator[TypedObject]:
    """The pod and its claims as `apply` will leave them, for later pods of the same plan (the assume cache, C-4.1)."""
    yield pod.with_(spec=pod.spec.with_(node_name=placement.node))
    results = {allocation.claim.key: allocation.result for allocation in placement.allocations}
    for claim in placement.claims:
        status = claim.status
        if claim.key in results:
            status = status.with_(allocation=results[claim.key])
        if not is_reserved_for(claim, pod):
            status = status.with_(reserved_for=(*status.reserved_for, consumer_reference(pod)))
        yield claim.with_(status=status)
    if placement.special is not None:
        claim = placement.special.claim
        named = claim.metadata.with_(name=claim.metadata.uid)
        yield claim.with_(metadata=named, status=ResourceClaimStatus(allocation=placement.special.result))


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
        if placement.special is not None:
            special = await create_special(cluster, NoMetrics(), placement.special.claim)
            binding = ClaimBinding(consumer_reference(pod), placement.special.result, now)
            await bind_claim(cluster, special, binding)
            reserved.append(special)
            await write_mappings(cluster, pod, special.name, placement.special.mappings)
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
