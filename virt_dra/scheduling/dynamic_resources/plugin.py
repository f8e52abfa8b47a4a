"""DynamicResources as a plugin: PreEnqueue, PreFilter, Filter, PostFilter, Score and Reserve (C-5). Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from virt_dra.allocator import DeadlineExceeded, FatalError, Snapshot
from virt_dra.api.core_v1 import ContainerExtendedResourceRequest, Node, Pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim, ResourceSlice
from virt_dra.scheduling.claim_checks import DYNAMIC_RESOURCES, check_claims, each_once, pod_claims
from virt_dra.scheduling.claim_references import Resolved, claim_name, is_reserved_for
from virt_dra.scheduling.dynamic_resources.claim_hints import PodsOfClaim, claim_hints
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger
from virt_dra.scheduling.dynamic_resources.extended_claim import LEFT_OVER, NOWHERE, ClassOf, ExtendedResources
from virt_dra.scheduling.dynamic_resources.node_allocatable import (
    MappingDevices,
    Statuses,
    Taken,
    claim_statuses,
    pod_level_refusal,
    shortages,
)
from virt_dra.scheduling.dynamic_resources.pod_devices import (
    DEVICES,
    DeviceLimits,
    DeviceRefusal,
    PodDevices,
    usable_on,
)
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT, NodeUsages
from virt_dra.scheduling.framework.events import Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import FilterScope, PluginAttempt, Remedy, SchedulingPlugin, normalized
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal
from virt_dra.scheduling.pod_requests import pod_requests

CLAIM_NOT_SHAREABLE: Final = "ClaimNotShareable"
"""A claim for the node's own resources that another pod uses (C-8.4)."""
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"


class FilterTimer:
    """An interrupt that ends the search on one node after ``timeout`` (C-2.7)."""

    def __init__(self, clock: Callable[[], datetime], timeout: timedelta) -> None:
        self._clock, self._timeout = clock, timeout
        self._end = clock()

    def start(self) -> None:
        """A node begins."""
        self._end = self._clock() + self._timeout

    def __call__(self) -> bool:
        return self._clock() > self._end


@dataclass(frozen=True)
class DeviceOptions:
    """The settings of the filter for devices. ``limits``: of an attempt that begins now. ``workload_claims``: gate
    DRAWorkloadResourceClaims. ``class_of``: of extended resources."""

    limits: Callable[[], DeviceLimits] = DeviceLimits
    workload_claims: bool = False
    timer: FilterTimer | None = None
    class_of: ClassOf = lambda resource: None
    special_claim_of: Callable[[Pod], ResourceClaim | None] = lambda pod: None
    """The claim that an earlier attempt made for the pod's extended resources (C-7.2)."""
    node_allocatable: bool = False
    """Gate DRANodeAllocatableResources."""
    usages: NodeUsages = field(default_factory=NodeUsages)
    """What the pods of each node ask for."""


class DynamicResources(SchedulingPlugin):
    """The plugin for devices. ``claims`` by ``namespace/name``, overlaid with what the scheduler wrote (C-4.1)."""

    name = DYNAMIC_RESOURCES
    scope = FilterScope.DEVICES
    weight = 2

    def __init__(
        self,
        claims: Mapping[str, ResourceClaim],
        ledger: DeviceLedger,
        pods_of_claim: PodsOfClaim,
        options: DeviceOptions = DeviceOptions(),
    ) -> None:
        self._claims = claims
        self.ledger = ledger
        self._options = options
        self.timer = options.timer
        self._hints = claim_hints(self.usable, pods_of_claim)
        self._mapping: tuple[Sequence[ResourceSlice], MappingDevices] | None = None
        self.group: GroupAllocations | None = None
        """Set while the pods of a group are scheduled together."""

    @property
    def hints(self) -> tuple[Hint, ...]:
        return self._hints

    def usable(self, pod: Pod) -> tuple[ResourceClaim, ...] | FilterRefusal:
        """The pod's claims, or why not all of them can be used (C-5.1)."""
        return pod_claims(pod, self._claims, workload_claims=self._options.workload_claims)

    def pre_enqueue(self, pod: Pod) -> FilterRefusal | None:
        """The refusal if a claim of the pod isn't there or can't be used (C-5.1)."""
        claims = self.usable(pod)
        return claims if isinstance(claims, FilterRefusal) else None

    def attempt(self, pod: Pod) -> PluginAttempt | FilterRefusal | None:
        """The pod's attempt, after the checks that don't depend on the node (C-5.2)."""
        claims = self.usable(pod)
        if isinstance(claims, FilterRefusal):
            return claims
        claims = each_once(claims)
        extended = ExtendedResources.of_pod(pod, self._options.class_of, self._options.special_claim_of)
        if not claims and extended is None:
            return None
        limits = self._options.limits()
        adopted = self._adopted(claims)
        limits = replace(limits, adopted=adopted, interrupt=self._options.timer or limits.interrupt)
        in_flight = [claim.metadata.uid for claim in claims if self.ledger.in_flight(claim.metadata.uid) is not None]
        pending = [claim for claim in claims if claim.key not in adopted]
        snapshot = self.ledger.snapshot
        refusal = check_claims(pending, snapshot.classes, in_flight, limits.features)
        if refusal is not None:
            return refusal
        devices = NodeDevices(claims, snapshot, limits, extended)
        if extended is None:
            try:
                devices.on(None)
            except FatalError as error:
                if isinstance(error, DeadlineExceeded) and self.timer is None:
                    raise  # the caller's own limit
                raise AttemptError(str(error), code=error.code) from error
        return DeviceAttempt(pod, devices, self, self._node_resources(pod, claims))

    def _node_resources(self, pod: Pod, claims: Sequence[ResourceClaim]) -> NodeResources | None:
        """What the claims may take of the nodes' own resources; None if no device of the cluster does (C-8)."""
        if not self._options.node_allocatable:
            return None
        slices = self.ledger.snapshot.slices
        if self._mapping is None or self._mapping[0] is not slices:
            self._mapping = slices, MappingDevices(slices)
        mapping = self._mapping[1]
        if not mapping.any:
            return None
        by_key = {claim.key: claim.metadata.uid for claim in claims}
        names = ((entry.name, claim_name(pod, entry)) for entry in pod.spec.resource_claims)
        entries = {
            entry: uid
            for entry, name in names
            if isinstance(name, Resolved) and (uid := by_key.get(f"{pod.namespace}/{name.name}")) is not None
        }
        pending = frozenset() if self.group is None else frozenset(self.group.pending)
        return NodeResources(pod, mapping, entries, self._options.usages, pending, self._options.workload_claims)

    def _adopted(self, claims: Sequence[ResourceClaim]) -> dict[str, AllocationResult]:
        """The allocations in flight that this cycle of the pod's group made (C-5.2 item 3)."""
        if self.group is None:
            return {}
        shared = [
            claim for claim in claims if claim.status.allocation is None and claim.metadata.uid in self.group.pending
        ]
        return {
            claim.key: allocation
            for claim in shared
            if (allocation := self.ledger.in_flight(claim.metadata.uid)) is not None
        }


class GroupAllocations:
    """The allocations of one cycle of a pod group: ``pending`` has the UIDs of claims with one in flight."""

    def __init__(self) -> None:
        self.pending: set[str] = set()


class NodeDevices:
    """A pod's claims as each node needs them: equal but for the special claim of extended resources (C-7.3)."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        snapshot: Snapshot,
        limits: DeviceLimits,
        extended: ExtendedResources | None = None,
    ) -> None:
        self.claims = claims
        self.adopted = limits.adopted
        self.extended = extended
        self._snapshot = snapshot
        self._limits = limits
        self._variants: dict[frozenset[str] | None, PodDevices] = {}
        self._served: dict[str, frozenset[str] | None] = {}

    def on(self, served: frozenset[str] | None) -> PodDevices:
        """The claims where devices serve these extended resources; None: for a pod without any. Raises FatalError."""
        if served not in self._variants:
            claims = self.claims
            if served is not None and self.extended is not None:
                claims = (*claims, self.extended.claim_for(served).claim)
            self._variants[served] = PodDevices(claims, self._snapshot, self._limits)
        return self._variants[served]

    def needed_on(self, node: Node) -> PodDevices | None:
        """The claims as the node needs them; None where none is needed, or none can serve. Raises FatalError."""
        served = None if self.extended is None else self.extended.served_by_devices(node)
        if self.extended is not None and (served is None or not (served or self.claims)):
            return None
        return self.on(served)

    def refuse(self, state: NodeState) -> DeviceRefusal | None:
        """Why the node can't have the pod, as far as devices are concerned. Raises FatalError."""
        served: frozenset[str] | None = None
        if self.extended is not None:
            if self.extended.left_over is not None:
                return DeviceRefusal(DEVICES, LEFT_OVER)
            served = self.extended.served_by_devices(state.node)
            if served is None:
                return DeviceRefusal(DEVICES, NOWHERE)
            if not served and not self.claims:
                return None
        refusal = self.on(served).refuse(state.node)
        if refusal is None:
            self._served[state.name] = served
        return refusal

    def found(self, node: str) -> PodDevices | None:
        """What a node that fits has for the pod; None if a device plugin serves all that it wants."""
        return self.on(self._served[node]) if node in self._served else None

    def may_end_attempt(self) -> bool:
        """False if no further node can end the attempt by a failing selector. Raises DeadlineExceeded."""
        return self.extended is not None or any(devices.selectors_may_fail() for devices in self._variants.values())

    def mappings(self, node: str) -> tuple[ContainerExtendedResourceRequest, ...]:
        """The requests of the special claim, each with the container's resource that it stands for (C-7.5)."""
        served = self._served.get(node)
        return () if served is None or self.extended is None else self.extended.claim_for(served).mappings

    def mappings_on(self, node: Node) -> tuple[ContainerExtendedResourceRequest, ...]:
        """As :meth:`mappings`, for any node."""
        served = None if self.extended is None else self.extended.served_by_devices(node)
        return self.extended.claim_for(served).mappings if self.extended is not None and served else ()

    def deallocatable(self, uid: str) -> ResourceClaim | None:
        """As :meth:`PodDevices.deallocatable`, from any node."""
        claims = (devices.deallocatable(uid) for devices in self._variants.values())
        return next((claim for claim in claims if claim is not None), None)


class NodeResources:
    """What one pod's claims take of the resources of nodes (C-8)."""

    def __init__(
        self,
        pod: Pod,
        devices: MappingDevices,
        entries: Mapping[str, str],
        usages: NodeUsages,
        pending: frozenset[str],
        workload_claims: bool,
    ) -> None:
        """``entries``: name in the pod -> UID of the claim. ``pending``: UIDs of claims that the group got before."""
        self._pod, self._devices, self._entries, self._usages = pod, devices, entries, usages
        self._pending, self._workload_claims = pending, workload_claims
        self._maps: dict[str, bool] = {}
        self._found: dict[str, Statuses] = {}

    def shared(self, claim: ResourceClaim, allocation: AllocationResult) -> FilterRefusal | None:
        """The refusal if the claim's amounts, which are for one pod, are another's already (C-8.4)."""
        uid = claim.metadata.uid
        if uid not in self._maps:
            self._maps[uid] = self._devices.maps(allocation)
        if not self._maps[uid]:
            return None
        reserved = claim.status.reserved_for and not is_reserved_for(
            claim, self._pod, workload_claims=self._workload_claims
        )
        if not reserved and uid not in self._pending:
            return None
        text = f"node allocatable resource claim {claim.name} has a mapped device and cannot be shared across pods"
        return FilterRefusal(DYNAMIC_RESOURCES, (text,), code=CLAIM_NOT_SHAREABLE)

    def shortage(self, state: NodeState, taken: Sequence[Taken]) -> FilterRefusal | None:
        """The refusal if the node has too little for the pod with its claims (C-8.5). Raises AttemptError."""
        concerned = [claimed for claimed in taken if self._devices.concern(claimed.allocation, state.node)]
        if not concerned:
            return None
        statuses = claim_statuses(self._pod, self._entries, concerned, self._devices, state.node)
        pod = with_statuses(self._pod, statuses)
        refusal = pod_level_refusal(pod)
        if refusal is not None:
            return FilterRefusal(DYNAMIC_RESOURCES, (refusal,), code=INSUFFICIENT)
        texts, resolvable = shortages(pod_requests(pod), state.node, self._usages.of(state).requested)
        if texts:
            return FilterRefusal(DYNAMIC_RESOURCES, texts, resolvable=resolvable, code=INSUFFICIENT)
        self._found[state.name] = statuses
        return None

    def statuses(self, node: str) -> Statuses:
        return self._found.get(node, ())


def with_statuses(pod: Pod, statuses: Statuses) -> Pod:
    """The pod as it is assumed on a node (C-8.6)."""
    if pod.status.node_allocatable_resource_claim_statuses == statuses:
        return pod
    return pod.with_(status=pod.status.with_(node_allocatable_resource_claim_statuses=statuses))


class DeviceAttempt(PluginAttempt):
    """One pod's attempt. After :meth:`reserve`, ``reserved`` has the allocations to write, by the claim's
    ``namespace/name``, and ``devices`` the claims as the node needs them; None where a device plugin serves all."""

    def __init__(
        self, pod: Pod, nodes: NodeDevices, plugin: DynamicResources, resources: NodeResources | None = None
    ) -> None:
        self._pod = pod
        self._resources = resources
        self.nodes = nodes
        self._plugin = plugin
        self._group = plugin.group
        self.devices: PodDevices | None = None
        self.reserved: Mapping[str, AllocationResult] = {}
        self._in_flight: list[str] = []
        self.special: str | None = None
        """The UID of the special claim once it is stored."""

    @property
    def scores_nodes(self) -> bool:  # type: ignore[override]  # a fact of the pod's claims, not of the class
        return self.preferences > 0

    def filter(self, state: NodeState) -> FilterRefusal | None:
        """The claims on one node (C-5.4, C-5.5)."""
        shared = self._shared(state)
        if shared is not None:
            return shared
        if self._plugin.timer is not None:
            self._plugin.timer.start()
        try:
            refusal = self.nodes.refuse(state)
        except DeadlineExceeded as error:
            if self._plugin.timer is None:
                raise  # the caller's own limit
            raise AttemptError(f"node {state.name}: timed out trying to allocate devices") from error
        except FatalError as error:
            raise AttemptError(str(error), code=error.code) from error
        if refusal is None:
            return None if self._resources is None else self._resources.shortage(state, self._taken(state.name))
        return refusal.of_filter

    def _shared(self, state: NodeState) -> FilterRefusal | None:
        """The first allocated claim usable on the node that another pod uses and that can't be shared."""
        if self._resources is None:
            return None
        adopted = self.nodes.adopted
        for claim in self.nodes.claims:
            allocation = claim.status.allocation or adopted.get(claim.key)
            if allocation is not None and usable_on(allocation, state.node):
                refusal = self._resources.shared(claim, allocation)
                if refusal is not None:
                    return refusal
        return None

    def _taken(self, node: str) -> list[Taken]:
        devices = self.nodes.found(node)
        if devices is None:
            return []
        new = devices.allocations(node)
        claimed = ((claim, new.get(claim.key) or claim.status.allocation) for claim in devices.claims)
        return [Taken(claim, allocation) for claim, allocation in claimed if allocation is not None]

    def statuses(self, node: str) -> Statuses:
        """What the pod's claims take of the node's own resources."""
        return () if self._resources is None else self._resources.statuses(node)

    @property
    def preferences(self) -> int:
        """The number of requests with alternatives, each of which a node can score for."""
        return sum(
            bool(request.first_available) for claim in self.nodes.claims for request in claim.spec.devices.requests
        )

    def preference(self, node: str) -> int:
        """Points of a node that fits, for early alternatives (C-5.8)."""
        devices = self.nodes.found(node)
        return 0 if devices is None else devices.preference(node)

    def deallocatable(self) -> ResourceClaim | None:
        """The claim whose deallocation may help the pod, once nodes were refused (C-5.6)."""
        return self.nodes.deallocatable(self._pod.metadata.uid)

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """Points for early alternatives, normalised (C-5.8)."""
        return normalized([self.preference(state.name) for state in states])

    def remedy(self) -> Remedy | None:
        """The deallocation of a claim that kept the pod off a node, or the end of a left-over one (C-5.6, C-7.7)."""
        claim = self.deallocatable()
        if claim is not None:
            return Remedy(DEALLOCATED, deallocate=claim)
        left_over = None if self.nodes.extended is None else self.nodes.extended.left_over
        return None if left_over is None else Remedy(DELETED, delete=left_over)

    def reserve(self, node: str) -> None:
        """C-5.9: the allocations are in flight from now on."""
        self.devices = self.nodes.found(node)
        if self.devices is None:
            return
        self.reserved = self.devices.allocations(node)
        for claim in self.devices.unallocated:
            self._plugin.ledger.signal(claim.metadata.uid, self.reserved[claim.key])
            self._in_flight.append(claim.metadata.uid)
            if self._group is not None:
                self._group.pending.add(claim.metadata.uid)

    def created(self, special: ResourceClaim, stored: ResourceClaim) -> None:
        """The special claim is stored now, under a name and UID of its own."""
        self._plugin.ledger.rename(special.metadata.uid, stored.metadata.uid)
        self.special = stored.metadata.uid
        self._in_flight[self._in_flight.index(special.metadata.uid)] = stored.metadata.uid

    def done(self) -> None:
        """All claims are written: their allocations are no longer in flight (C-5.13)."""
        for uid in self._in_flight:
            self._plugin.ledger.remove(uid, force=True)

    def unreserve(self) -> None:
        """What is in flight for this pod is dropped (C-5.15)."""
        for uid in self._in_flight:
            self._plugin.ledger.remove(uid)
