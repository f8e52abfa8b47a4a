"""What is written for a pod's extended resources: the special claim, its mention in the pod, its end (C-7.6, C-7.7)."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.core_v1 import ContainerExtendedResourceRequest, Pod
from virt_dra.api.resource_v1 import FINALIZER, ResourceClaim, ResourceClaimStatus
from virt_dra.cluster.port import ApiError, Cluster, Conflict, NotFound, Unavailable
from virt_dra.controllers.loops.claims.measuring import count_creation
from virt_dra.controllers.loops.context import LoopMetrics
from virt_dra.controllers.loops.scheduler.claim_writes import WRITE_ATTEMPTS, BindError, deallocate_claim
from virt_dra.controllers.loops.scheduler.known_cluster import KnownCluster
from virt_dra.controllers.writes import patch_status
from virt_dra.scheduling.framework.plugin import Remedy


async def create_special(cluster: Cluster, metrics: LoopMetrics, special: ResourceClaim) -> ResourceClaim:
    """The claim as it is stored, under a generated name. Raises BindError."""
    bare = special.with_(metadata=special.metadata.without("name", "uid"), status=ResourceClaimStatus())
    try:
        created = await cluster.create(bare)
    except ApiError as error:
        made = await _claim_of_lost_answer(cluster, special) if isinstance(error, Unavailable) else None
        if made is None:
            count_creation(metrics, special, "failure")
            raise BindError(f"create claim for extended resources {special.namespace}/: {error}") from error
        created = made
    count_creation(metrics, special, "success")
    return created


async def _claim_of_lost_answer(cluster: Cluster, special: ResourceClaim) -> ResourceClaim | None:
    """The claim, by its owner, if it was stored although the answer was lost (C-20.24)."""
    owner = special.metadata.controller_owner
    try:
        there = (await cluster.list(ResourceClaim, special.namespace)).items
    except ApiError:
        return None
    for claim in there:
        theirs = claim.metadata.controller_owner
        is_ours = owner is not None and theirs is not None and owner.uid == theirs.uid
        same = claim.metadata.annotations == special.metadata.annotations and claim.spec == special.spec
        if is_ours and same and claim.status.allocation is None and claim.metadata.deletion_timestamp is None:
            return claim
    return None


def no_mappings(pod: Pod) -> BindError:
    """For a pod with own claims on a node whose device plugin serves all its extended resources (C-7.8)."""
    return BindError(f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus")


async def write_mappings(
    cluster: Cluster, pod: Pod, claim: str, mappings: Sequence[ContainerExtendedResourceRequest]
) -> None:
    """`status.extendedResourceClaimStatus` of the pod. Raises BindError, also if nothing is mapped (C-7.8)."""
    if not mappings:
        raise no_mappings(pod)
    status = {"requestMappings": [mapping.to_wire() for mapping in mappings], "resourceClaimName": claim}
    try:
        await patch_status(cluster, pod, {"extendedResourceClaimStatus": status})
    except ApiError as error:
        raise BindError(f"update pod {pod.key} ExtendedResourceClaimStatus: {error}") from error


async def delete_special(cluster: Cluster, claim: ResourceClaim) -> None:
    """Delete the claim, if it is there, its finalizer first, so that this takes effect at once. Raises ApiError."""
    current = claim
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            if attempt > 1:
                current = await cluster.get(ResourceClaim, claim.name, claim.namespace)
            if current.metadata.uid != claim.metadata.uid:
                return
            if FINALIZER in current.metadata.finalizers:
                await cluster.update(current.without_finalizer(FINALIZER))
            await cluster.delete(ResourceClaim, claim.name, claim.namespace, uid=claim.metadata.uid)
        except NotFound:
            return
        except Conflict:
            if attempt == WRITE_ATTEMPTS:
                raise
        else:
            return


async def apply_remedy(cluster: Cluster, known_cluster: KnownCluster, remedy: Remedy) -> None:
    """Do what PostFilter proposed (C-5.6). Raises ApiError."""
    if remedy.deallocate is not None:
        known_cluster.claims.assume(await deallocate_claim(cluster, remedy.deallocate))
    elif remedy.delete is not None:
        await delete_special(cluster, remedy.delete)
