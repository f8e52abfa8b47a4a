"""DynamicResources as a plugin of the framework: PreEnqueue, PreFilter, Filter, PostFilter, Score and Reserve (C-5). Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from virt_dra.allocator import DeadlineExceeded, FatalError
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.scheduling.claim_checks import SCHEDULER_ERROR, Blocked, check_claims, each_once, pod_claims
from virt_dra.scheduling.dynamic_resources.claim_hints import PodsOfClaim, claim_hints
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger
from virt_dra.scheduling.dynamic_resources.pod_devices import INVALID_POOLS, NODE_ERROR, DeviceLimits, PodDevices
from virt_dra.scheduling.framework.cycle import normalized
from virt_dra.scheduling.framework.events import Hint
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt, Remedy, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import AttemptError, PluginRefusal

DYNAMIC_RESOURCES = "DynamicResources"
DEALLOCATED = "deallocation of ResourceClaim completed"


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
    """``limits``: of one attempt that begins now. ``workload_claims``: gate DRAWorkloadResourceClaims. ``timer``: None for no limit."""

    limits: Callable[[], DeviceLimits] = DeviceLimits
    workload_claims: bool = False
    timer: FilterTimer | None = None


class DynamicResources(SchedulingPlugin):
    """``claims`` by ``namespace/name``, overlaid with what the scheduler wrote (C-4.1)."""

    name = DYNAMIC_RESOURCES
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
        self.group: GroupAllocations | None = None
        """Set while the pods of a group are scheduled together."""

    @property
    def hints(self) -> tuple[Hint, ...]:
        return self._hints

    def usable(self, pod: Pod) -> tuple[ResourceClaim, ...] | Blocked:
        """The pod's claims, or why not all of them can be used (C-5.1)."""
        return pod_claims(pod, self._claims, workload_claims=self._options.workload_claims)

    def pre_enqueue(self, pod: Pod) -> PluginRefusal | None:
        """C-5.1: every claim of the pod must be there and usable."""
        found = self.usable(pod)
        return PluginRefusal(self.name, (found.message,)) if isinstance(found, Blocked) else None

    def attempt(self, pod: Pod) -> PluginAttempt | PluginRefusal | None:
        """C-5.2: the checks that don't depend on the node."""
        found = self.usable(pod)
        if isinstance(found, Blocked):
            return PluginRefusal(self.name, (found.message,))
        claims = each_once(found)
        if not claims:
            return None
        limits = self._options.limits()
        adopted = self._adopted(claims)
        limits = replace(limits, adopted=adopted, interrupt=self._options.timer)
        in_flight = [claim.metadata.uid for claim in claims if self.ledger.in_flight(claim.metadata.uid) is not None]
        pending = [claim for claim in claims if claim.key not in adopted]
        snapshot = self.ledger.snapshot
        blocked = check_claims(pending, snapshot.classes, in_flight, limits.features)
        if blocked is not None:
            if blocked.reason == SCHEDULER_ERROR:
                raise AttemptError(blocked.message)
            return PluginRefusal(self.name, (blocked.message,))
        try:
            devices = PodDevices(claims, snapshot, limits)
        except FatalError as error:
            raise AttemptError(str(error)) from error
        return DeviceAttempt(pod, devices, self)

    def _adopted(self, claims: Sequence[ResourceClaim]) -> dict[str, AllocationResult]:
        """The allocations in flight that this cycle of the pod's group made (C-5.2 item 3)."""
        if self.group is None:
            return {}
        shared = [claim for claim in claims if claim.status.allocation is None and claim.metadata.uid in self.group.pending]
        return {claim.key: allocation for claim in shared if (allocation := self.ledger.in_flight(claim.metadata.uid)) is not None}


class GroupAllocations:
    """What one cycle of a pod group has decided so far: ``pending`` has the UIDs of claims whose allocation is in flight."""

    def __init__(self) -> None:
        self.pending: set[str] = set()


class DeviceAttempt(PluginAttempt):
    """One pod's attempt. After :meth:`reserve` ``reserved`` has what is to be written, by the claim's ``namespace/name``."""

    def __init__(self, pod: Pod, devices: PodDevices, plugin: DynamicResources) -> None:
        self._pod = pod
        self.devices = devices
        self._plugin = plugin
        self._group = plugin.group
        self.reserved: Mapping[str, AllocationResult] = {}

    @property
    def scores_nodes(self) -> bool:  # type: ignore[override]  # a fact of the pod's claims, not of the class
        return bool(self.devices.preferences)

    def filter(self, state: NodeState) -> PluginRefusal | None:
        """The claims on one node (C-5.4, C-5.5)."""
        if self._plugin.timer is not None:
            self._plugin.timer.start()
        try:
            refusal = self.devices.refuse(state.node)
        except DeadlineExceeded as error:
            raise AttemptError(f"node {state.name}: timed out trying to allocate devices") from error
        except FatalError as error:
            raise AttemptError(str(error)) from error
        if refusal is None:
            return None
        undecided = refusal.reason == NODE_ERROR and refusal.message != INVALID_POOLS
        return PluginRefusal(DYNAMIC_RESOURCES, (refusal.message,), error=undecided)

    def scores(self, states: Sequence[NodeState]) -> Sequence[int]:
        """Points for early alternatives, normalised (C-5.8)."""
        return normalized([self.devices.preference(state.name) for state in states])

    def remedy(self) -> Remedy | None:
        """The deallocation of a claim that kept the pod off some node (C-5.6)."""
        claim = self.devices.deallocatable(self._pod.metadata.uid)
        return None if claim is None else Remedy(DEALLOCATED, deallocate=claim)

    def reserve(self, node: str) -> None:
        """C-5.9: the allocations are in flight from now on."""
        self.reserved = self.devices.allocations(node)
        for claim in self.devices.unallocated:
            self._plugin.ledger.signal(claim.metadata.uid, self.reserved[claim.key])
            if self._group is not None:
                self._group.pending.add(claim.metadata.uid)

    def unreserve(self) -> None:
        """What is in flight for this pod is dropped (C-5.15)."""
        for claim in self.devices.unallocated:
            self._plugin.ledger.remove(claim.metadata.uid)
