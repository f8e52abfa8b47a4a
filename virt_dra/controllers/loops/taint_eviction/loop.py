"""The loop of the device taint eviction controller (C-11). What is to be done is decided when something changes, in the
informers' handlers; the queue does it when it is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from virt_dra.api.core_v1 import ObjectReference, Pod, PodCondition
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.scheduling_v1 import GROUP as SCHEDULING_GROUP
from virt_dra.cluster.port import NotFound
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.loops.claims.knowledge import RecentUids
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.index_keys import group_of, pools_of
from virt_dra.controllers.loops.scheduler.pod_writes import put_condition
from virt_dra.controllers.loops.taint_eviction.pod_evictions import pod_eviction
from virt_dra.controllers.loops.taint_eviction.rule_status import (
    STATUS_PERIOD,
    PendingPods,
    RuleCounts,
    changed_condition,
    not_before,
    with_condition,
)
from virt_dra.controllers.loops.taint_eviction.taints import AllocatedTaints
from virt_dra.controllers.writes import patch_status
from virt_dra.model.evicting.causes import NO_EXECUTE, Eviction, rule_selects
from virt_dra.scheduling.claim_references import POD_GROUPS, PODS

COMPONENT: Final = "device-taint-eviction-controller"
REASON: Final = "DeviceTaintManagerEviction"
"""Of Events: a pod is marked for deletion, or its deletion is cancelled."""
DISRUPTION_TARGET: Final = "DisruptionTarget"

WORKERS = 8
REMEMBERED = 500
"""Limit of the remembered pods that were deleted already."""
LONGEST_DELAY = 1000.0
_METRICS = "device_taint_eviction_controller_"
_POOL_INDEX = "pool of device taint eviction"
_GROUP_INDEX = "podgroup of device taint eviction"
_DISRUPTION: Final = PodCondition(
    type=DISRUPTION_TARGET, status="True", reason="DeletionByDeviceTaintManager",
    message="Device Taint manager: deleting due to NoExecute taint",
)  # fmt: skip
"""The condition of a pod that the eviction deletes (C-11.6)."""


class PodRef(NamedTuple):
    """A pod by name and UID."""

    namespace: str
    name: str
    uid: str


class RuleRef(NamedTuple):
    """A rule by name and UID."""

    name: str
    uid: str


class TaintEviction:
    """The loop. The counts of evicted pods live as long as this object (C-11.1)."""

    def __init__(self, context: LoopContext) -> None:
        self._cluster, self._clock, self._metrics = context.cluster, context.clock, context.metrics
        self._with_rules = context.gates.device_taint_rules
        self._groups = context.gates.workload_resource_claims
        informers = context.informers
        self._pods, self._claims = informers.of(Pod), informers.of(ResourceClaim)
        self._slices = informers.of(ResourceSlice)
        self._rules = informers.of(DeviceTaintRule)
        self._slices.store.add_index(_POOL_INDEX, pools_of)
        if self._groups:
            self._pods.store.add_index(_GROUP_INDEX, group_of)
        self._events = context.recorder(COMPONENT)
        self._queue: WorkQueue[PodRef | RuleRef] = WorkQueue(longest_delay=LONGEST_DELAY, chance=context.chance)
        self._taints = AllocatedTaints()
        self._evictions: dict[PodRef, Eviction] = {}
        """Of every pod that a taint evicts, those already being deleted included."""
        self._scheduled: dict[PodRef, Eviction] = {}
        """Those that are yet to be done."""
        self._pods_of_rule: dict[str, set[PodRef]] = {}
        self._evicted = RecentUids(REMEMBERED)
        self._evicted_by_rule: Counter[str] = Counter()
        self._status_due: dict[RuleRef, datetime] = {}

    async def run(self) -> None:
        """Follow and write until cancelled."""
        self._slices.on_change(self._slice_changed)
        if self._with_rules:
            self._rules.on_change(self._rule_changed)
        self._claims.on_change(self._claim_changed)
        self._pods.on_change(self._pod_changed)
        await self._queue.run(self._work, workers=WORKERS)

    # --- what changed ---

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for claim in self._taints.change_slice(old, new):
            self._evaluate_consumers(claim)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Gives a new rule or spec its condition at once, before pods are evicted for it (C-11.8)."""
        if old is not None and new is not None and old.spec == new.spec:
            return
        if new is not None:
            self._queue.add(_ref(new))
        elif old is not None:
            del self._evicted_by_rule[old.metadata.uid]
            self._status_due.pop(_ref(old), None)
        for claim in self._taints.change_rule(old, new):
            self._evaluate_consumers(claim)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Plans the pods of a claim anew, unless it had no taints before and has none now (C-11.4)."""
        before, now = self._taints.change_claim(old, new)
        if before is None and now is None:
            return
        if old is not None and (new is None or old.status.reserved_for != new.status.reserved_for):
            self._evaluate_consumers(old)
        if new is not None:
            self._evaluate_consumers(new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._forget(_pod_ref(old))
        elif old is None or _claims_differ(old, new):
            self._evaluate(new)

    def _evaluate_consumers(self, claim: ResourceClaim) -> None:
        for pod in self._consumers(claim):
            self._evaluate(pod)

    def _consumers(self, claim: ResourceClaim) -> Iterator[Pod]:
        for consumer in claim.status.reserved_for:
            if (consumer.api_group, consumer.resource) == ("", PODS):
                pod = self._pods.store.get(consumer.name, claim.namespace)
                if pod is not None and pod.metadata.uid == consumer.uid:
                    yield pod
            elif self._groups and (consumer.api_group, consumer.resource) == (SCHEDULING_GROUP, POD_GROUPS):
                yield from self._pods.store.by_index(_GROUP_INDEX, (claim.namespace, consumer.name))

    def _evaluate(self, pod: Pod) -> None:
        """Schedule or cancel the eviction of a pod (C-11.5)."""
        ref = _pod_ref(pod)
        eviction = self._eviction_of(pod)
        self._remember(ref, eviction)
        if eviction is None:
            if self._scheduled.pop(ref, None) is not None:
                self._events.record(_reference(ref), "Normal", REASON, "Cancelling deletion")
            return
        if ref.uid not in self._evicted:
            self._scheduled[ref] = eviction
            self._queue.add_after(ref, (eviction.at - self._clock()).total_seconds())
        for cause in eviction.rules:
            self._refresh_status(RuleRef(cause.rule, cause.rule_uid))

    def _eviction_of(self, pod: Pod) -> Eviction | None:
        def allocated(name: str) -> tuple[ResourceClaim, Eviction | None] | None:
            stored = self._taints.get(pod.namespace, name)
            return None if stored is None else (stored.claim, stored.eviction)

        return pod_eviction(pod, allocated, workload_claims=self._groups)

    def _forget(self, ref: PodRef) -> None:
        """Forgets a deleted pod, without an event (C-11.5)."""
        self._remember(ref, None)
        self._scheduled.pop(ref, None)

    def _remember(self, ref: PodRef, eviction: Eviction | None) -> None:
        before = self._evictions.pop(ref, None)
        for cause in before.rules if before is not None else ():
            pods = self._pods_of_rule.get(cause.rule_uid, set())
            pods.discard(ref)
            if not pods:
                self._pods_of_rule.pop(cause.rule_uid, None)
        if eviction is not None:
            self._evictions[ref] = eviction
            for cause in eviction.rules:
                self._pods_of_rule.setdefault(cause.rule_uid, set()).add(ref)

    # --- what is due ---

    async def _work(self, key: PodRef | RuleRef) -> float | None:
        return await self._evict(key) if isinstance(key, PodRef) else await self._write_status(key)

    async def _evict(self, ref: PodRef) -> float | None:
        """Delete a pod whose time has come (C-11.6). Raises what the cluster raises, for another attempt."""
        eviction = self._scheduled.get(ref)
        if eviction is None or ref.uid in self._evicted:
            return None
        remaining = (eviction.at - self._clock()).total_seconds()
        if remaining > 0:
            return remaining
        try:
            counts = await self._delete(ref)
        except NotFound:
            counts = False
        self._scheduled.pop(ref, None)
        self._evicted.add(ref.uid)
        if counts:
            self._metrics.count(f"{_METRICS}pod_deletions_total")
            self._metrics.observe(
                f"{_METRICS}pod_deletion_duration_seconds", (self._clock() - eviction.at).total_seconds()
            )
            for cause in eviction.rules:
                self._evicted_by_rule[cause.rule_uid] += 1
                self._refresh_status(RuleRef(cause.rule, cause.rule_uid))
        return None

    async def _delete(self, ref: PodRef) -> bool:
        """Mark and delete the pod of that UID, unless it is being deleted; False if another pod has the name by now."""
        pod = await self._cluster.get(Pod, ref.name, ref.namespace)
        if pod.metadata.uid != ref.uid:
            return False
        if pod.metadata.deletion_timestamp is not None:
            return True
        self._events.record(_reference(ref), "Normal", REASON, "Marking for deletion")
        await put_condition(self._cluster, pod, _DISRUPTION, self._clock())
        await self._cluster.delete(Pod, ref.name, ref.namespace, uid=ref.uid)
        return True

    # --- the condition of a rule ---

    def _refresh_status(self, ref: RuleRef) -> None:
        """Queues the write of a rule's condition in ten seconds, unless it is queued."""
        if ref not in self._status_due:
            self._status_due[ref] = self._clock() + timedelta(seconds=STATUS_PERIOD)
            self._queue.add_after(ref, STATUS_PERIOD)

    async def _write_status(self, ref: RuleRef) -> float | None:
        """Writes a rule's condition (C-11.8). Returns when to look again."""
        now = self._clock()
        rule = self._rules.store.get(ref.name)
        if rule is None or rule.metadata.uid != ref.uid:
            self._status_due.pop(ref, None)
            return None
        due = self._status_due.get(ref)
        if due is not None and due <= now:
            del self._status_due[ref]
            due = None
        later = (due - now).total_seconds() if due is not None else None
        waits = not_before(rule, now)
        if waits:
            return min(waits, later) if later is not None else waits
        condition = changed_condition(rule, self._counts(rule), now)
        if condition is not None:
            conditions = [entry.to_wire() for entry in with_condition(rule, condition)]
            await patch_status(self._cluster, rule, {"conditions": conditions}, unchanged=True)
        return later

    def _counts(self, rule: DeviceTaintRule) -> RuleCounts:
        evicted = self._evicted_by_rule[rule.metadata.uid]
        if rule.spec.taint.effect == NO_EXECUTE:
            refs = self._pods_of_rule.get(rule.metadata.uid, ())
            return RuleCounts(
                _pending(pod for ref in refs if (pod := self._pods.store.get(ref.name, ref.namespace)) is not None),
                evicted,
            )
        if rule.spec.taint.effect != "None":
            return RuleCounts(evicted=evicted)
        pods: dict[PodRef, Pod] = {}
        for would in self._taints.would_evict(rule):
            for pod in self._consumers(would.claim):
                if self._uses(pod, would.claim, would.eviction):
                    pods[_pod_ref(pod)] = pod
        return RuleCounts(
            _pending(iter(pods.values())), evicted, self._published(rule), self._taints.allocated_devices(rule)
        )

    def _uses(self, pod: Pod, claim: ResourceClaim, eviction: Eviction | None) -> bool:
        def allocated(name: str) -> tuple[ResourceClaim, Eviction | None] | None:
            return (claim, eviction) if name == claim.name else None

        return pod_eviction(pod, allocated, workload_claims=self._groups) is not None

    def _published(self, rule: DeviceTaintRule) -> int:
        """The devices in slices of the highest generation that a rule selects."""
        selector = rule.spec.device_selector
        if selector is None:
            return 0
        store = self._slices.store
        slices = (
            store.values() if selector.driver is None else store.by_index(_POOL_INDEX, (selector.driver, selector.pool))
        )
        return sum(
            rule_selects(rule, (*published.pool_key, device.name))
            for published in slices
            if self._taints.published.is_current(published)
            for device in published.spec.devices
        )


def _pending(pods: Iterator[Pod]) -> PendingPods:
    namespaces = [pod.namespace for pod in pods if pod.metadata.deletion_timestamp is None]
    return PendingPods(len(namespaces), len(set(namespaces)))


def _claims_differ(old: Pod, new: Pod) -> bool:
    claims = old.status.resource_claim_statuses, new.status.resource_claim_statuses
    return old.spec.node_name != new.spec.node_name or claims[0] != claims[1]


def _pod_ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.metadata.uid)


def _ref(rule: DeviceTaintRule) -> RuleRef:
    return RuleRef(rule.name, rule.metadata.uid)


def _reference(ref: PodRef) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=ref.name, namespace=ref.namespace, uid=ref.uid)
