"""The binding cycle of a pod: its claims are written, its devices become ready, it gets its node (C-5.11 to C-5.15,
C-6.4). Runs beside the scheduling cycles of other pods, since drivers may take minutes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from virt_dra.api.core_v1 import Pod, reference_to
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.cluster.port import ApiError
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.claim_writes import BindError, ClaimBinding, bind_claim, release_claim
from virt_dra.controllers.loops.scheduler.known_cluster import KnownCluster
from virt_dra.controllers.loops.scheduler.pod_writes import bind_pod, clear_node_resources, write_node_resources
from virt_dra.controllers.loops.scheduler.special_claims import (
    create_special,
    delete_special,
    no_mappings,
    write_mappings,
)
from virt_dra.scheduling.claim_references import consumer_reference, is_reserved_for
from virt_dra.scheduling.dynamic_resources.binding_conditions import (
    TIMED_OUT,
    BindingDeadline,
    BindingFailed,
    ready,
    summary,
    waits,
)
from virt_dra.scheduling.dynamic_resources.extended_claim import IN_MEMORY
from virt_dra.scheduling.dynamic_resources.plugin import DeviceAttempt, with_statuses

_log = logging.getLogger(__name__)

POLL = 5.0
"""Seconds between two looks at the binding conditions of a pod's devices (C-2.7)."""
_SEEN_WITHIN = 120
"""Seconds that a new claim may take to come back by the informer (C-2.7)."""
COMPONENT = "default-scheduler"


@dataclass
class BindingCycle:
    """``devices``: DynamicResources' part in the attempt, None if it had none. ``shared``: the UIDs of claims whose
    allocation in flight other pods of the group share."""

    context: LoopContext
    known_cluster: KnownCluster
    pod: Pod
    node: str
    devices: DeviceAttempt | None = None
    shared: frozenset[str] = frozenset()
    claims: list[ResourceClaim] = field(default_factory=list)
    """As last seen."""

    async def run(self) -> None:
        """PreBind, then the binding. Raises BindError with the text of the pod's condition; then :meth:`undo` must
        follow."""
        try:
            if self.devices is not None:
                await self._pre_bind(self.devices)
        except (BindError, ApiError) as error:
            raise BindError(f'running PreBind plugin "DynamicResources": {error}') from error
        try:
            await bind_pod(self.context.cluster, self.pod, self.node)
        except ApiError as error:
            raise BindError(f'running Bind plugin "DefaultBinder": {error}') from error

    async def _pre_bind(self, devices: DeviceAttempt) -> None:
        """Claim by claim. The allocations leave the in-flight ones only when all is done (C-5.13)."""
        if devices.devices is None:
            return
        self.claims = list(devices.devices.claims)
        empty = any(claim.name == IN_MEMORY for claim in self.claims) and not devices.nodes.mappings(self.node)
        for position, claim in enumerate(self.claims):
            if claim.name == IN_MEMORY:
                if empty:
                    raise no_mappings(self.pod)
                self.claims[position] = await self._bind_special(position, devices)
            elif empty and claim.status.allocation is not None:
                continue  # Kubernetes reserves it, and takes that back once it has no mappings to write (C-7.8)
            elif not is_reserved_for(claim, self.pod, workload_claims=self.known_cluster.workload_claims):
                self.claims[position] = await self._bind_claim(claim, devices)
        if statuses := devices.statuses(self.node):  # what the claims take of the node's own resources (C-8.6)
            await write_node_resources(self.context.cluster, self.pod, statuses)
        if self.known_cluster.features.device_binding_and_status and any(map(waits, self.claims)):
            await self._become_ready()
        devices.done()

    async def _bind_claim(self, claim: ResourceClaim, devices: DeviceAttempt) -> ResourceClaim:
        bound = await bind_claim(self.context.cluster, claim, self._binding(claim, devices.reserved.get(claim.key)))
        if not self.known_cluster.claims.assume(bound.claim):
            _log.debug("claim %s not stored in the assume cache", claim.key)
        return bound.claim

    def _binding(self, claim: ResourceClaim, allocation: AllocationResult | None) -> ClaimBinding:
        return ClaimBinding(
            self.known_cluster.consumers(self.pod).get(claim.key) or consumer_reference(self.pod),
            allocation,
            self.context.clock(),
            stamp=self.known_cluster.features.device_binding_and_status,
            stamp_stored=True,
            shared=claim.metadata.uid in self.shared,
        )

    async def _bind_special(self, position: int, devices: DeviceAttempt) -> ResourceClaim:
        """C-7.6: the claim of the pod's extended resources is created, gets its devices, and the pod learns of it."""
        special = self.claims[position]
        created = await create_special(self.context.cluster, self.context.metrics, special)
        devices.created(special, created)
        self.claims[position] = created
        bound = await bind_claim(self.context.cluster, created, self._binding(created, devices.reserved[special.key]))
        self.claims[position] = bound.claim
        try:
            await write_mappings(self.context.cluster, self.pod, bound.claim.name, devices.nodes.mappings(self.node))
        finally:
            await self._seen(bound.claim)
        return bound.claim

    async def _seen(self, claim: ResourceClaim) -> None:
        """Until the informer knows the claim: its devices are taken when they are no longer in flight (C-2.7)."""
        for _ in range(_SEEN_WITHIN):
            if self.known_cluster.claims.assume(claim):
                return
            await asyncio.sleep(1.0)
        _log.info("claim %s not stored in the assume cache", claim.key)

    async def _become_ready(self) -> None:
        """C-6.4: until every condition is True. Raises BindError if a driver reports a failure, or takes too long."""
        note = f"waiting for binding conditions for device on node {self.node}"
        self.context.recorder(COMPONENT).record(reference_to(self.pod), "Normal", "BindingConditionsPending", note)
        began = self.known_cluster.now()
        timeout = self.context.timers.binding_timeout
        outcome = "error"
        try:
            while not self._all_ready():
                left = began + timeout - self.known_cluster.now()
                await asyncio.sleep(min(POLL, max(left, 0.0)))
                if left <= POLL:
                    outcome = "timeout"
                    raise BindError(f"{TIMED_OUT}: context deadline exceeded")
            outcome = "success"
        except BindingFailed as error:
            outcome = "failed"
            raise BindError(str(error)) from error
        except _TooOld as error:
            outcome = "timeout"
            raise BindError(str(error)) from error
        finally:
            self._measure(outcome, self.known_cluster.now() - began)

    def _all_ready(self) -> bool:
        """Looks at the claims as they are now."""
        deadline = BindingDeadline(self.context.clock(), self.known_cluster.binding_timeout)
        for position, claim in enumerate(self.claims):
            current = self.known_cluster.claims.get(claim.key)
            if current is None:
                raise BindError(f'could not find ResourceClaim "{claim.key}"')
            self.claims[position] = current
            if not ready(current):
                if deadline.passed(current):
                    raise _TooOld(f"{TIMED_OUT}: claim={claim.name}")
                return False
        return True

    def _measure(self, outcome: str, seconds: float) -> None:
        """The metrics and the log of a wait (C-6.7)."""
        if outcome != "success":
            _log.info(
                "pod %s on node %s: binding conditions: %s: %s", self.pod.key, self.node, outcome, summary(self.claims)
            )
        for claim in self.claims:
            for result in claim.results:
                metrics, driver = self.context.metrics, result.driver
                name = "scheduler_dra_bindingconditions"
                metrics.observe(
                    f"{name}_wait_duration_seconds", seconds, profile=COMPONENT, driver=driver, status=outcome
                )
                if result.binding_conditions:
                    metrics.count(f"{name}_allocations_total", profile=COMPONENT, driver=driver, status=outcome)

    async def undo(self) -> None:
        """Unreserve (C-5.15): what is in flight is dropped, the pod's reservations are taken back; allocations stay."""
        if self.devices is None:
            return
        self.devices.unreserve()
        claims = self.claims or (self.devices.devices.claims if self.devices.devices is not None else ())
        special = self.devices.special
        for claim in claims:
            if claim.metadata.uid == special:
                await self._delete(claim)
            elif claim.status.allocation is not None and is_reserved_for(claim, self.pod):
                released = await release_claim(self.context.cluster, claim, self.pod.metadata.uid)
                if released is not None:
                    self.known_cluster.claims.assume(released)

        if self.devices.statuses(self.node):
            await clear_node_resources(self.context.cluster, self.pod)

    async def _delete(self, special: ResourceClaim) -> None:
        """The claim of extended resources is never used again (C-7.7); the pod goes on naming it."""
        try:
            await delete_special(self.context.cluster, special)
        except ApiError as error:
            _log.warning("claim %s of pod %s not deleted: %s", special.key, self.pod.key, error)


class _TooOld(Exception):
    """A claim was allocated longer ago than its conditions may take (C-6.3)."""


def device_part(parts: Sequence[object]) -> DeviceAttempt | None:
    """DynamicResources' part among those of all plugins."""
    return next((part for part in parts if isinstance(part, DeviceAttempt)), None)


def assumed(pod: Pod, node: str, parts: Sequence[object]) -> Pod:
    """The pod as it counts on its node from now on, with what its claims take of the node's own resources (C-8.6)."""
    devices = device_part(parts)
    return with_statuses(pod, () if devices is None else devices.statuses(node))
