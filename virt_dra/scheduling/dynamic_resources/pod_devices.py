"""One pod's claims on node after node: can they be used there, or allocated (C-5.4, C-5.5)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from virt_dra.allocator import (
    DEFAULT,
    DEFAULT_STEP_LIMIT,
    Allocator,
    Explanation,
    FatalError,
    Features,
    Interrupt,
    NodeError,
    Snapshot,
)
from virt_dra.allocator.attempt import AttemptResult
from virt_dra.allocator.explain import ELSEWHERE, ELSEWHERE_TEXT
from virt_dra.allocator.features.prioritized_list import PREFERENCE_SCORE_MAX
from virt_dra.allocator.model import PoolDevice
from virt_dra.api.core_v1 import Node
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.scheduling.claim_checks import DYNAMIC_RESOURCES
from virt_dra.scheduling.dynamic_resources.binding_conditions import BindingDeadline
from virt_dra.scheduling.framework.refusals import FilterRefusal

CLAIM_ELSEWHERE = ELSEWHERE
DEVICES = "DevicesDoNotFit"
"""The allocator found no devices on the node."""
NO_DEVICES_FIT = "cannot allocate all claims"
NODE_ERROR = "NodeError"
"""The allocator couldn't decide for the node."""
INVALID_POOLS = "invalid resource pools were encountered"
"""The one text of a NodeError that is no error to kube-scheduler, but a refusal of the node (E11)."""

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""Declared by nodes (`status.declaredFeatures`) that can skip operations for a device."""


@dataclass(frozen=True)
class DeviceRefusal:
    """Why the pod's claims don't fit on a node. ``message`` in kube-scheduler's words."""

    reason: str
    message: str

    @property
    def of_filter(self) -> FilterRefusal:
        """The plugin's refusal of the node."""
        undecided = self.reason == NODE_ERROR and self.message != INVALID_POOLS
        return FilterRefusal(DYNAMIC_RESOURCES, (self.message,), error=undecided, code=self.reason)


@dataclass(frozen=True)
class DeviceLimits:
    """What bounds and modifies the search. ``binding``: None where the gates of binding conditions are off."""

    features: Features = DEFAULT
    step_limit: int = DEFAULT_STEP_LIMIT
    interrupt: Interrupt | None = None
    binding: BindingDeadline | None = None
    adopted: Mapping[str, AllocationResult] = field(default_factory=dict)
    """Allocations in flight of another pod of the group, by ``namespace/name`` (C-5.2 item 3)."""


class PodDevices:
    """The claims of one pod in one attempt, each once. Raises FatalError, also later."""

    def __init__(
        self, claims: Sequence[ResourceClaim], snapshot: Snapshot, limits: DeviceLimits = DeviceLimits()
    ) -> None:
        self.claims = claims
        self.unallocated = tuple(claim for claim in claims if claim.status.allocation is None)
        self._adopted = limits.adopted
        self._searched = tuple(claim for claim in self.unallocated if claim.key not in limits.adopted)
        options = {"step_limit": limits.step_limit, "interrupt": limits.interrupt}
        self._allocator = Allocator(snapshot, self._searched, limits.features, **options)  # type: ignore[arg-type]  # of two types
        self._unusable = {
            claim.key: claim for claim in claims if limits.binding is not None and limits.binding.unusable(claim)
        }
        self._matchers = self._claim_matchers()
        self._unavailable: dict[str, ResourceClaim] = {}
        self._found: dict[str, AttemptResult] = {}
        self._written: dict[str, Mapping[str, AllocationResult]] = {}

    @property
    def preferences(self) -> int:
        """The number of requests with alternatives."""
        return sum(bool(request.first_available) for claim in self.claims for request in claim.spec.devices.requests)

    def refuse(self, node: Node) -> DeviceRefusal | None:
        """Why the claims can't be used on the node, nor allocated there; None if they can. Raises FatalError."""
        unavailable = {claim.key: claim for claim, matcher in self._matchers if not matcher.matches(node)}
        if OPTIONAL_NODE_OPERATIONS not in node.status.declared_features:
            unavailable |= {
                claim.key: claim for claim in self.claims if _skips_node_operations(claim.status.allocation)
            }
        unavailable |= self._unusable
        refusal = self._search(node)
        if refusal is not None:
            return refusal
        if unavailable:
            self._unavailable.update(unavailable)
            return DeviceRefusal(CLAIM_ELSEWHERE, ELSEWHERE_TEXT)
        return None

    def _search(self, node: Node) -> DeviceRefusal | None:
        """Searches devices for the unallocated claims, also if allocated ones can't be used on the node."""
        if OPTIONAL_NODE_OPERATIONS not in node.status.declared_features:
            for claim in self.unallocated:
                if _skips_node_operations(self._adopted.get(claim.key)):
                    text = (
                        f"resource claim {claim.key} allocation requires DRAOptionalNodeOperations feature on the node"
                    )
                    return DeviceRefusal(CLAIM_ELSEWHERE, text)
        if not self._searched:
            return None
        try:
            decision = self._allocator.decide(node)
        except NodeError as error:
            return DeviceRefusal(NODE_ERROR, str(error))
        if decision.solution is None:
            return DeviceRefusal(DEVICES, NO_DEVICES_FIT)
        self._found[node.name] = decision
        return None

    def explain(self, node: Node) -> Explanation:
        """The refusals of the node's devices. Raises FatalError, NodeError."""
        return self._allocator.explain(node)

    def refusal_key(self, node: Node) -> Hashable | None:
        """See `Allocator.refusal_key`."""
        return self._allocator.refusal_key(node)

    def selectors_may_fail(self) -> bool:
        """False if no selector of the claims fails on any device of the cluster. Raises DeadlineExceeded."""
        return bool(self._searched) and self._allocator.selectors_may_fail()

    def reachable(self, node: Node) -> Sequence[PoolDevice]:
        """The node's devices, in the order of the search."""
        return self._allocator.reachable(node).devices

    def allocations(self, node: str) -> Mapping[str, AllocationResult]:
        """What the unallocated claims get on a node that fits, by ``namespace/name`` and in their order (C-9.3)."""
        if node not in self._written:
            decision = self._found.get(node)
            written = iter(() if decision is None else self._allocator.write(decision))
            chosen = dict(self._adopted) | (
                {claim.key: next(written) for claim in self._searched} if decision is not None else {}
            )
            self._written[node] = {claim.key: chosen[claim.key] for claim in self.unallocated}
        return self._written[node]

    def preference(self, node: str) -> int:
        """Points for early alternatives, summed over every firstAvailable request of the pod's claims (C-5.8)."""
        if not self.preferences:
            return 0
        chosen = self.allocations(node)
        total = 0
        for claim in self.claims:
            allocation = claim.status.allocation or chosen.get(claim.key)
            if allocation is not None:
                total += _points(claim, allocation)
        return total

    def deallocatable(self, pod_uid: str) -> ResourceClaim | None:
        """The first allocated claim that kept the pod off a node and that no other pod uses (C-5.6; upstream: any)."""
        for claim in self.claims:
            others = any(consumer.uid != pod_uid for consumer in claim.status.reserved_for)
            if claim.key in self._unavailable and len(claim.status.reserved_for) < 2 and not others:
                return claim
        return None

    def _claim_matchers(self) -> list[tuple[ResourceClaim, NodeMatcher]]:
        """The allocated claims, with the nodes that can use them (C-5.2 items 2 and 3)."""
        matchers: list[tuple[ResourceClaim, NodeMatcher]] = []
        for claim in self.claims:
            allocation = claim.status.allocation or self._adopted.get(claim.key)
            if allocation is not None and allocation.node_selector is not None:
                try:
                    matchers.append((claim, NodeMatcher(allocation.node_selector)))
                except NodeSelectorError as error:
                    raise FatalError(f"resource claim {claim.key}: status.allocation.nodeSelector: {error}") from None
        return matchers


def usable_on(allocation: AllocationResult, node: Node) -> bool:
    """Whether the node is among those of the allocation, and can skip what it wants skipped. An unreadable selector
    matches none."""
    if OPTIONAL_NODE_OPERATIONS not in node.status.declared_features and _skips_node_operations(allocation):
        return False
    try:
        return allocation.node_selector is None or NodeMatcher(allocation.node_selector).matches(node)
    except NodeSelectorError:
        return False


def _skips_node_operations(allocation: AllocationResult | None) -> bool:
    """True if only a node that can skip operations can use the claim's devices (C-5.4 item 2)."""
    return allocation is not None and any(result.skip_node_operations for result in allocation.devices.results)


def _points(claim: ResourceClaim, allocation: AllocationResult) -> int:
    used = {result.request for result in allocation.devices.results}
    points = 0
    for request in claim.spec.devices.requests:
        for index, alternative in enumerate(request.first_available):
            if f"{request.name}/{alternative.name}" in used:
                points += PREFERENCE_SCORE_MAX - index
                break
    return points
