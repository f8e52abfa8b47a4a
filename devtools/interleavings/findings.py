"""What must hold once calm has returned, and the state as far as it doesn't depend on the order of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import FINALIZER, POD_CLAIM_NAME_ANNOTATION, ResourceClaim
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.loops.claims import is_done
from virt_dra.scheduling.claim_references import POD_GROUPS, pod_group_name


@dataclass(frozen=True)
class Stored:
    """What a cluster holds."""

    pods: dict[str, Pod]
    claims: dict[str, ResourceClaim]
    groups: dict[str, PodGroup]

    def needs(self, kind: str, name: str, uid: str) -> bool:
        """Whether a pod or PodGroup that uses a claim, or that a claim was made for, is there and needs it."""
        if kind in (POD_GROUPS, PodGroup.KIND):
            group = self.groups.get(name)
            return group is not None and group.metadata.uid == uid
        pod = self.pods.get(name)
        return pod is not None and pod.metadata.uid == uid and not is_done(pod)


async def stored(cluster: MemoryCluster) -> Stored:
    pods, claims = (await cluster.list(Pod)).items, (await cluster.list(ResourceClaim)).items
    groups = (await cluster.list(PodGroup)).items
    return Stored({pod.name: pod for pod in pods}, {pod.name: pod for pod in claims}, {pod.name: pod for pod in groups})


def problems(state: Stored) -> Iterator[str]:
    """Each broken invariant in a sentence."""
    yield from _held_twice(state)
    for name, claim in sorted(state.claims.items()):
        users = claim.status.reserved_for
        for user in users:
            if not state.needs(user.resource, user.name, user.uid):
                yield f"claim {name} is reserved for {user.name}, which doesn't need it"
        if (
            claim.status.allocation is None
            and FINALIZER in claim.metadata.finalizers
            and claim.metadata.deletion_timestamp is not None
        ):
            yield f"claim {name} is being deleted, isn't allocated, and keeps its finalizer"
        if claim.metadata.deletion_timestamp is not None and not users:
            yield f"claim {name} is being deleted, nobody uses it, and it stays"
        owner = claim.metadata.controller_owner
        if owner is not None:
            made_for = state.pods.get(owner.name) or state.groups.get(owner.name)
            if made_for is None or not state.needs(owner.kind, owner.name, owner.uid):
                yield f"claim {name} of {owner.kind} {owner.name} is left"
            elif name not in _claims_made_for(made_for):
                yield f"claim {name} was made for {owner.kind} {owner.name} beside the one that its status names"
            elif claim.status.allocation is not None and not users:
                yield f"claim {name} is allocated and nobody uses it"

    for name, group in sorted(state.groups.items()):
        members = [pod for pod in state.pods.values() if pod_group_name(pod) == name and not pod.finished]
        if group.metadata.deletion_timestamp is not None and not members:
            yield (
                f"PodGroup {name} is being deleted, has no pods, and keeps its "
                f"finalizers {', '.join(group.metadata.finalizers)}"
            )


def _claims_made_for(owner: Pod | PodGroup) -> set[str]:
    """The generated claims that its status names."""
    names = {status.resource_claim_name or "" for status in owner.status.resource_claim_statuses}
    special = owner.status.extended_resource_claim_status if isinstance(owner, Pod) else None
    return names | {special.resource_claim_name} if special is not None else names


def _held_twice(state: Stored) -> Iterator[str]:
    holders: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, claim in sorted(state.claims.items()):
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                holders[result.driver, result.pool, result.device].append(name)
    for device, claims in sorted(holders.items()):
        if len(claims) > 1:
            yield f"device {'/'.join(device)} is held by {', '.join(claims)}"
    for name, pod in sorted(state.pods.items()):
        for made in sorted(_claims_made_for(pod)):
            held = state.claims.get(made)
            allocation = held.status.allocation if held is not None else None
            pools = {result.pool for result in allocation.devices.results} if allocation is not None else set()
            if pod.spec.node_name and not is_done(pod) and pools - {pod.spec.node_name}:
                yield f"pod {name} is on {pod.spec.node_name} and its devices are on {', '.join(sorted(pools))}"


def normal_form(state: Stored) -> Json:
    """The state without what depends on the order: nodes, devices, generated names, UIDs, and the place of a consumer
    in its list.

    A direct claim that stays allocated without a consumer counts as free: after an attempt that failed no controller
    cleans it up (C-5.16, C-10.13), the next attempt uses or frees it.
    """
    pods: dict[str, list[object]] = {}
    for name, pod in state.pods.items():
        entries = [status.name for status in pod.status.resource_claim_statuses] if not is_done(pod) else None
        special = pod.status.extended_resource_claim_status is not None if not is_done(pod) else None
        # A finished pod may have got a node before it finished, or not.
        placed = bool(pod.spec.node_name) if not is_done(pod) else None
        pods[name] = [pod.status.phase, placed, pod.metadata.deletion_timestamp is not None, entries, special]
    claims: dict[str, list[object]] = {}
    for claim in sorted(state.claims.values(), key=lambda claim: claim.name):
        owner = claim.metadata.controller_owner
        symbol = (
            claim.name if owner is None else f"{owner.name}/{claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)}"
        )
        users = sorted(consumer.name for consumer in claim.status.reserved_for)
        claims[symbol] = [
            claim.status.allocation is not None and bool(users),
            users,
            claim.metadata.deletion_timestamp is not None,
        ]
    groups = {
        name: [
            group.metadata.deletion_timestamp is not None,
            [status.name for status in group.status.resource_claim_statuses],
        ]
        for name, group in sorted(state.groups.items())
    }
    return {"pods": dict(sorted(pods.items())), "claims": dict(sorted(claims.items())), "groups": groups}
