"""All claims at once: what the keyed loop does for one object after another, planned for everything that was listed. A
pass that creates claims leaves recording their names to the next one, which finds them by owner and annotation as after
a crash (C-10.5.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.cluster.port import Cluster, NotFound, Reader
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops.claims.actions import ClaimAction, apply
from virt_dra.controllers.loops.claims.creating import PodDecision, Reserve, for_group, for_pod
from virt_dra.controllers.loops.claims.releasing import for_claim


@dataclass(frozen=True)
class ClaimInputs:
    """All objects of one namespace, or of all."""

    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    templates: tuple[ResourceClaimTemplate, ...]
    groups: tuple[PodGroup, ...] = ()
    gates: FeatureGates = PLAIN


@dataclass(frozen=True)
class ClaimControllerPlan:
    """The writes of one pass. ``actions``: the writes, in order. ``events``: why pods don't get their claims."""

    actions: tuple[ClaimAction, ...]
    events: tuple[Event, ...]


async def gather(reader: Reader, namespace: str = "", gates: FeatureGates = PLAIN) -> ClaimInputs:
    """The inputs of one namespace, or of all. Claims are read before pods: a consumer that is not among the pods is
    gone (C-10.9). A claim that a pod's status names and that came after the list is read on its own, so that it isn't
    created twice (C-10.5.1); then the pods are listed again, as it may have younger consumers."""
    claims = {claim.key: claim for claim in (await reader.list(ResourceClaim, namespace)).items}
    missing: set[tuple[str, str]] = set()
    late = True
    while late:
        late = False
        pods = (await reader.list(Pod, namespace)).items
        for name, space in _recorded_names(pods):
            if f"{space}/{name}" in claims or (name, space) in missing:
                continue
            try:
                claim = await reader.get(ResourceClaim, name, space)
            except NotFound:
                missing.add((name, space))
            else:
                claims[claim.key] = claim
                late = True
    groups = (await reader.list(PodGroup, namespace)).items if gates.generic_workload else ()
    templates = (await reader.list(ResourceClaimTemplate, namespace)).items
    return ClaimInputs(pods, tuple(claims.values()), templates, groups, gates)


def _recorded_names(pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
    for pod in pods:
        for status in pod.status.resource_claim_statuses:
            if status.resource_claim_name:
                yield status.resource_claim_name, pod.namespace


def plan(inputs: ClaimInputs) -> ClaimControllerPlan:
    """The writes for all PodGroups, then for all pods and then for all claims, each in the order of their keys."""
    view = _ListedView.from_inputs(inputs)
    actions: list[ClaimAction] = []
    events: list[Event] = []
    joining: dict[str, list[ResourceClaimConsumerReference]] = defaultdict(list)
    decided: list[PodDecision] = []
    for _, group in sorted(view.groups.items()):
        decided += for_group(view, group, inputs.gates)
    for _, pod in sorted(view.pods.items()):
        decided += for_pod(view, pod, inputs.gates)
    for decision in decided:
        if isinstance(decision, Event):
            events.append(decision)
        elif isinstance(decision, Reserve):
            joining[decision.claim.key].append(decision.consumer)
        else:
            actions.append(decision)
    for key, claim in sorted(view.claims.items()):
        actions += for_claim(view, claim, inputs.gates, tuple(joining[key]))
    return ClaimControllerPlan(tuple(actions), tuple(events))


async def reconcile(
    cluster: Cluster, namespace: str = "", *, passes: int = 10, gates: FeatureGates = PLAIN
) -> tuple[Event, ...]:
    """Runs passes until nothing is left to write, or a write is refused. Returns what still keeps pods waiting."""
    for _ in range(passes):
        planned = plan(await gather(cluster, namespace, gates))
        refused = await apply(cluster, planned.actions)
        if refused or not planned.actions:
            return (*planned.events, *refused)
    return plan(await gather(cluster, namespace, gates)).events


@dataclass(frozen=True)
class _ListedView:
    """A complete list. All by ``namespace/name``; generated claims by namespace and owner's UID."""

    pods: Mapping[str, Pod]
    claims: Mapping[str, ResourceClaim]
    templates: Mapping[str, ResourceClaimTemplate]
    groups: Mapping[str, PodGroup]
    owned: Mapping[tuple[str, str], tuple[ResourceClaim, ...]] = field(default_factory=dict)

    @classmethod
    def from_inputs(cls, inputs: ClaimInputs) -> _ListedView:
        owned: dict[tuple[str, str], tuple[ResourceClaim, ...]] = {}
        for claim in sorted(inputs.claims, key=lambda claim: claim.key):
            owner = claim.metadata.controller_owner
            if owner is not None:
                owned[claim.namespace, owner.uid] = (*owned.get((claim.namespace, owner.uid), ()), claim)
        return cls(
            {pod.key: pod for pod in inputs.pods},
            {claim.key: claim for claim in inputs.claims},
            {template.key: template for template in inputs.templates},
            {group.key: group for group in inputs.groups},
            owned,
        )

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self.pods.get(f"{namespace}/{name}")

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        return self.templates.get(f"{namespace}/{name}")

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return self.groups.get(f"{namespace}/{name}")

    def claims_of(self, namespace: str, uid: str) -> tuple[ResourceClaim, ...]:
        return self.owned.get((namespace, uid), ())

    def is_deleted(self, uid: str) -> bool:
        return False

    certain_claim = claim
    certain_pod = pod
    certain_pod_group = pod_group
