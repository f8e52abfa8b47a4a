"""A scheduler for pods with classic claims: the extension points of :mod:`.extension_points` in a keyed loop (C-18.6).

One pod at a time, in the order in which they are woken. A pod that no node fits waits for an event and then for its
back-off; one that waits for a driver is tried again as soon as the driver has answered. Beside claims, the filters and
scores of kube-scheduler count, and its preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

from virt_dra.api.core_v1 import SCHEDULER_NAME, Namespace, Node, Pod, reference_to
from virt_dra.classic.claim_plans import new_context
from virt_dra.classic.objects import (
    BUILTIN_FINALIZER,
    ClassicClaim,
    ClassicDeviceClass,
    NamedResourcesSlice,
    PodSchedulingContext,
    ResourceClaimParameters,
    ResourceClass,
    ResourceClassParameters,
    SchedulingContextSpec,
)
from virt_dra.classic.pod_claims import claims_named_by, is_reserved, with_consumer, with_consumers
from virt_dra.classic.release import NEWEST_STRUCTURED, ClassicRelease
from virt_dra.classic.scheduling.assumed_claims import AssumedClaims
from virt_dra.classic.scheduling.claim_filter import PLUGIN, ClaimAttempt, ClaimFilter
from virt_dra.classic.scheduling.extension_points import (
    DEALLOCATED,
    NEED_ALLOCATION,
    NOTHING_TO_DEALLOCATE,
    STILL_NOT,
    ClaimState,
    ClassicView,
    NodeFits,
    NotNow,
    RequestDeallocation,
    SchedulingState,
    chosen_node,
    negotiate,
    pre_enqueue,
)
from virt_dra.classic.scheduling.older_refusals import as_of_its_time
from virt_dra.classic.structured import Inventory, StructuredParameters, parameters_of, taken_instances
from virt_dra.cluster.port import ApiError, Conflict, NotFound
from virt_dra.cluster.watching.informer import CacheKey, key_of
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.default_preempting import DefaultPreempting
from virt_dra.controllers.loops.scheduler.known_cluster import namespace_labels
from virt_dra.controllers.loops.scheduler.pod_writes import unscheduled, write_condition
from virt_dra.scheduling.filter_table import FilterSources, scoring_filters_over
from virt_dra.scheduling.framework.cycle import FittingNodes, NotFitting, SchedulingCycle
from virt_dra.scheduling.framework.events import ClusterEvent, assigned_pod_events, node_events
from virt_dra.scheduling.framework.messages import Diagnosis, event_note
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal
from virt_dra.scheduling.policies.placer import relates_to_pods

PRE_BIND, BIND = f'running PreBind plugin "{PLUGIN}"', 'running Bind plugin "DefaultBinder"'
_USES = "classic claims that pods use"
_STRUCTURED = "classic claims allocated by the scheduler"
_OF_NODE = "classic slices of a node"


class _Waiting(NamedTuple):
    """A pod that couldn't be scheduled. ``pending``: for lack of a driver's answer, which comes without back-off."""

    pod: Pod
    pending: bool


class ClassicScheduler:
    """Implements :class:`ControlLoop`."""

    def __init__(self, context: LoopContext, release: ClassicRelease = NEWEST_STRUCTURED) -> None:
        self._cluster, self._clock, self._timers = context.cluster, context.clock, context.timers
        self._events = context.recorder(SCHEDULER_NAME)
        self._release = release
        self._queue: WorkQueue[CacheKey] = WorkQueue(
            first_delay=self._timers.pod_initial_backoff, chance=context.chance
        )
        self._waiting: dict[CacheKey, _Waiting] = {}
        self._in_attempt: CacheKey | None = None
        self._missed = False
        """Whether something that wakes the pod in work happened meanwhile."""
        self._attempts: Counter[str] = Counter()
        self._backoff_ends: dict[str, float] = {}
        self._asked: dict[str, Counter[str]] = {}
        """Pod UID -> how often drivers were asked about a node, or it was selected."""
        self._selected: dict[str, str] = {}
        """Pod UID -> the node that is selected for it, while it waits."""
        self._selections: Counter[str] = Counter()
        """How many pods have a node selected."""
        of = context.informers.of
        self._pods, self._nodes, self._claims = of(Pod), of(Node), of(ClassicClaim)
        self._contexts, self._classes = of(PodSchedulingContext), of(ResourceClass)
        self._device_classes, self._slices = of(ClassicDeviceClass), of(NamedResourcesSlice)
        self._of_classes, self._of_claims = of(ResourceClassParameters), of(ResourceClaimParameters)
        self._assumed = AssumedClaims(self._claims)
        self._pods.store.add_index(_USES, lambda pod: claims_named_by(pod, fixed=release.fixed_claim_names))
        self._claims.store.add_index(
            _STRUCTURED, lambda claim: [True] if BUILTIN_FINALIZER in claim.metadata.finalizers else []
        )
        self._slices.store.add_index(_OF_NODE, lambda slice_: [slice_.node_name])
        self._of_claims.store.add_index("namespace", lambda parameters: [parameters.namespace])
        view = self._view = ClassicView(
            claim=self._assumed.get, context=lambda namespace, name: self._contexts.store.get(name, namespace),
            resource_class=self._classes.store.get, device_class=self._device_classes.store.get,
            parameters=self._parameters, inventory=self._inventory, release=release,
        )  # fmt: skip
        self._table = NodeTable()
        """Nodes with the pods that are on them, or about to be bound to them."""
        sources = FilterSources(self._table, ClaimFilter(view), namespace_labels(of(Namespace)))
        plugins = scoring_filters_over(sources)
        self._hints = tuple(hint for plugin in plugins for hint in plugin.hints)
        self._cycle = SchedulingCycle(plugins, self._table, samples=False)
        self._preempting = DefaultPreempting(
            context, self._table, lambda pod: self._pods.store.get(pod.name, pod.namespace)
        )
        self._related: dict[CacheKey, Pod] = {}
        """Pods to be scheduled for which it matters which pods run where."""
        self._subscribe()

    async def run(self) -> None:
        await self._queue.run(self._work)

    # --- what wakes which pod: queueing hints were off by default in these releases (C-18.6) ---

    def _subscribe(self) -> None:
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)
        self._contexts.on_change(self._context_changed)
        self._nodes.on_change(self._node_changed)
        for informer in (self._classes, self._device_classes, self._slices, self._of_classes, self._of_claims):
            informer.on_change(lambda old, new: self._wake_all() if new is not None else None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.takes_room:
            self._assigned(old, new)
            return
        if old is not None and old.takes_room:
            self._table.unassign(old.metadata.uid)
            self._wake_all()
        if new is None or not _is_ours(new):
            if old is not None:
                self._forget(old)
        elif (
            old is None
            or old.spec != new.spec
            or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        ):
            key = key_of(new)
            if relates_to_pods(new):
                self._related[key] = new
            if new.status.nominated_node_name:
                self._table.nominations.nominate(new, new.status.nominated_node_name)
            self._waiting.pop(key, None)
            self._queue.add(key)

    def _assigned(self, old: Pod | None, new: Pod) -> None:
        """A pod has a node: it may serve those that want to be beside it."""
        self._table.assign(new, new.spec.node_name or "")
        came = old is None or not old.spec.node_name
        if came:
            self._forget(new)
        events = (ClusterEvent.ASSIGNED_POD_ADD,) if old is None or came else assigned_pod_events(old, new)
        for key, pod in tuple(self._related.items()):
            if any(
                hint.decide(pod, None if came else old, new)
                for hint in self._hints
                if not hint.events.isdisjoint(events)
            ):
                self._wake(key)

    def _claim_changed(self, old: ClassicClaim | None, new: ClassicClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        self._assumed.seen(claim, gone=new is None)
        if old is not None and old.status.allocation is not None and (new is None or new.status.allocation is None):
            self._wake_all()  # what was freed may serve others
        for pod in self._pods.store.by_index(_USES, (claim.namespace, claim.name)):
            self._wake(key_of(pod))

    def _context_changed(self, old: PodSchedulingContext | None, new: PodSchedulingContext | None) -> None:
        if new is not None:
            self._wake(key_of(new))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._table.remove(old.name)
            return
        self._table.put(new)
        if old is None or node_events(old, new):
            self._wake_all()

    def _wake_all(self) -> None:
        """Those of high priority first."""
        self._missed = True
        for key in sorted(self._waiting, key=lambda key: -self._waiting[key].pod.priority):
            self._wake(key)

    def _wake(self, key: CacheKey) -> None:
        """A pod that waits for a driver at once, another one when its back-off is over."""
        if key == self._in_attempt:
            self._missed = True
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        left = 0.0 if waiting.pending else self._backoff_ends.get(waiting.pod.metadata.uid, 0.0) - self._now()
        self._queue.add_after(key, left)

    def _forget(self, pod: Pod) -> None:
        uid, key = pod.metadata.uid, key_of(pod)
        self._waiting.pop(key, None)
        self._related.pop(key, None)
        self._table.nominations.forget(uid)
        self._attempts.pop(uid, None)
        self._backoff_ends.pop(uid, None)
        self._asked.pop(uid, None)
        self._select(uid, "")

    def _select(self, uid: str, node: str) -> None:
        """Count the node that is selected for a waiting pod; none if it is empty."""
        before = self._selected.pop(uid, "")
        if before:
            self._selections[before] -= 1
            if not self._selections[before]:
                del self._selections[before]
        if node:
            self._selected[uid] = node
            self._selections[node] += 1

    def _now(self) -> float:
        return self._clock().timestamp()

    # --- one attempt ---

    async def _work(self, key: CacheKey) -> float | None:
        namespace, name = key
        pod = self._pods.store.get(name, namespace)
        if pod is None or not _is_ours(pod):
            return None
        early = pre_enqueue(pod, self._view)
        if early is not None:
            self._wait(pod, early)  # no condition and no event: it never was in the queue
            return None
        self._attempts[pod.metadata.uid] += 1
        self._in_attempt, self._missed = key, False
        try:
            outcome = await self._attempt(pod)
        finally:
            self._in_attempt = None
        if outcome is None:
            self._forget(pod)
            return None
        if outcome.error:
            await self._report(pod, outcome.message, "SchedulerError")
            return self._backoff(pod)
        self._wait(pod, outcome)
        if self._missed:
            self._wake(key)
        await self._report(pod, outcome.message, "Unschedulable")
        return None

    def _wait(self, pod: Pod, outcome: NotNow) -> None:
        self._backoff_ends[pod.metadata.uid] = self._now() + self._backoff(pod)
        self._waiting[key_of(pod)] = _Waiting(pod, outcome.pending)

    def _backoff(self, pod: Pod) -> float:
        doublings = min(max(self._attempts[pod.metadata.uid] - 1, 0), 30)
        return min(self._timers.pod_initial_backoff * 2.0**doublings, self._timers.pod_max_backoff)

    async def _attempt(self, pod: Pod) -> NotNow | None:
        """None if the pod is bound; else why not."""
        try:
            outcome = self._cycle.fitting(pod)
            if isinstance(outcome, NotFitting):
                return await self._no_node(pod, outcome)
            if isinstance(outcome, FittingNodes):
                return await self._negotiate(outcome)
        except (ApiError, AttemptError) as error:
            return NotNow(str(error), error=True)
        return NotNow(outcome.message)

    async def _no_node(self, pod: Pod, outcome: NotFitting) -> NotNow:
        """PostFilter: deallocate a claim, and preempt."""
        diagnosis = as_of_its_time(outcome.diagnosis, pod, self._table)
        devices = _devices(outcome)
        words = STILL_NOT if devices is not None and devices.state.claims else NOTHING_TO_DEALLOCATE
        help_ = devices.deallocation() if devices is not None and diagnosis.everywhere is None else None
        if help_ is not None:
            self._select(pod.metadata.uid, "")
            try:
                await self._deallocate(help_)
            except ApiError as error:
                return NotNow(diagnosis.after(str(error)).message)
            words = DEALLOCATED
        room = await self._preempting.make_room(pod, replace(outcome, diagnosis=diagnosis))
        self._missed |= room.evicted and self._release.tries_preemptors_again
        return NotNow((diagnosis if room.evicted else diagnosis.after(f"{words}, {room.text}")).message)

    async def _deallocate(self, request: RequestDeallocation) -> None:
        """First stop drivers from allocating, then ask for deallocation; structured claims are the scheduler's own."""
        if request.context is not None:
            await self._cluster.update(request.context.with_(spec=request.context.spec.with_(selected_node="")))
        claim = with_consumers(request.claim, ())
        own = BUILTIN_FINALIZER in claim.metadata.finalizers
        status = claim.status.without("allocation") if own else claim.status.with_(deallocation_requested=True)
        self._assumed.wrote(await self._cluster.update_status(claim.with_(status=status)))

    async def _negotiate(self, outcome: FittingNodes) -> NotNow | None:
        devices = _devices(outcome)
        if devices is None:
            raise AssertionError("every pod that fits was asked for its claims")
        state, pod = devices.state, devices.state.pod
        asked = self._asked.setdefault(pod.metadata.uid, Counter())
        feasible = tuple(node.name for node in outcome.states)
        scores = dict(zip(feasible, outcome.scores(), strict=True))
        node = chosen_node(state, scores, asked, self._selections)
        plan = negotiate(state, node, feasible, asked, self._release)
        if plan.spec is not None:
            before = state.context.spec if state.context is not None else SchedulingContextSpec()
            asked.update(set(plan.spec.potential_nodes) - set(before.potential_nodes))
            self._select(pod.metadata.uid, plan.spec.selected_node)
            with _named_by(PRE_BIND):
                await self._publish(state, plan.spec)
        if plan.waits is not None:
            await self._unreserve(state.claims, pod)
            bare = plan.waits.message == NEED_ALLOCATION and not self._release.counts_nodes_in_pre_bind
            refusal = FilterRefusal(PLUGIN, (plan.waits.message,))
            counted = Diagnosis(1, {node: refusal}).message
            return NotNow(refusal.message if bare else counted, pending=True)
        self._table.assign(pod, node)
        try:
            with _named_by(PRE_BIND):
                await self._reserve(state, devices.fits[node])
            with _named_by(BIND):
                await self._bind(pod, node)
        except ApiError:
            self._give_up_room(pod)
            await self._unreserve(state.claims, pod)
            raise
        if state.context is not None:
            await self._finish(state.context)
        self._events.record(reference_to(pod), "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")
        return None

    def _give_up_room(self, pod: Pod) -> None:
        """Of a pod that wasn't bound; one that was, though without an answer, is on its node."""
        current = self._pods.store.get(pod.name, pod.namespace)
        if current is None or current.metadata.uid != pod.metadata.uid or not current.takes_room:
            self._table.unassign(pod.metadata.uid)

    async def _publish(self, state: SchedulingState, spec: SchedulingContextSpec) -> None:
        if state.context is None:
            await self._cluster.create(new_context(state.pod, spec))
        else:
            await self._cluster.update(state.context.with_(spec=spec))

    async def _reserve(self, state: SchedulingState, fits: NodeFits) -> None:
        """Structured claims: finalizer, then all in one write. Others: the reservation."""
        for index, claim_state in enumerate(state.claims):
            claim = self._assumed.get(claim_state.claim.namespace, claim_state.claim.name) or claim_state.claim
            allocation = fits.structured.get(index)
            if allocation is not None:
                if BUILTIN_FINALIZER not in claim.metadata.finalizers:
                    with _named_by("add finalizer"):
                        claim = await self._cluster.update(claim.with_finalizer(BUILTIN_FINALIZER))
                cls = self._classes.store.get(claim.spec.resource_class_name)
                driver = cls.driver_name if cls is not None else allocation.resource_handles[0].driver_name
                claim = claim.with_(status=claim.status.with_(driver_name=driver, allocation=allocation))
            if allocation is not None or not is_reserved(claim, state.pod):
                reserved = (
                    claim
                    if is_reserved(claim, state.pod)
                    else with_consumer(claim, state.pod, first=self._release.patches_reservations)
                )
                with _named_by(self._release.reservation_failed(claim.namespace, claim.name)):
                    self._assumed.wrote(await self._cluster.update_status(reserved))

    async def _bind(self, pod: Pod, node: str) -> None:
        """Bind the pod. After an error the pod is read: if it was bound all the same, its reservations must stay."""
        try:
            await self._cluster.bind(pod, node)
        except ApiError:
            current = await self._cluster.get(Pod, pod.name, pod.namespace)
            if (current.metadata.uid, current.spec.node_name) != (pod.metadata.uid, node):
                raise

    async def _finish(self, context: PodSchedulingContext) -> None:
        """PostBind: delete the scheduling context."""
        with suppress(NotFound):
            await self._cluster.delete(PodSchedulingContext, context.name, context.namespace, uid=context.metadata.uid)

    async def _unreserve(self, claims: Sequence[ClaimState], pod: Pod) -> None:
        """Take the pod's reservations back. A claim that changed is left to the next attempt or the claim
        controller."""
        for claim_state in claims:
            try:
                claim = await self._cluster.get(ClassicClaim, claim_state.claim.name, claim_state.claim.namespace)
                if (
                    claim.metadata.uid == claim_state.claim.metadata.uid
                    and claim.status.allocation is not None
                    and is_reserved(claim, pod)
                ):
                    kept = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != pod.metadata.uid)
                    self._assumed.wrote(await self._cluster.update_status(with_consumers(claim, kept)))
            except (Conflict, NotFound):
                continue

    # --- what is said about a pod ---

    async def _report(self, pod: Pod, message: str, reason: str) -> None:
        self._events.record(reference_to(pod), "Warning", "FailedScheduling", event_note(message))
        await write_condition(self._cluster, pod, unscheduled(reason, message), self._clock())

    # --- structured parameters ---

    def _parameters(self, claim: ClassicClaim, cls: ResourceClass) -> StructuredParameters:
        return parameters_of(
            claim, cls, self._of_classes.store.values(), self._of_claims.store.by_index("namespace", claim.namespace)
        )

    def _inventory(self) -> Inventory:
        stored = self._claims.store.by_index(_STRUCTURED, True)
        allocated = {claim.key: claim for claim in stored} | {claim.key: claim for claim in self._assumed.newer()}
        slices = self._slices.store
        return Inventory(lambda node: slices.by_index(_OF_NODE, node), taken_instances(allocated.values()))


@contextmanager
def _named_by(where: str) -> Iterator[None]:
    """An error's text begins with where it came from, unless that is "" (C-19)."""
    try:
        yield
    except ApiError as error:
        if not where:
            raise
        raise ApiError(f"{where}: {error}") from error


def _devices(outcome: FittingNodes | NotFitting) -> ClaimAttempt | None:
    """The claims' part; None if another filter refused the pod before."""
    return next((part.attempt for part in outcome.parts if isinstance(part.attempt, ClaimAttempt)), None)


def _is_ours(pod: Pod) -> bool:
    """Whether the pod is to be scheduled here: no node, not going away, no gates."""
    waits = not pod.spec.node_name and pod.metadata.deletion_timestamp is None and not pod.finished
    return waits and not pod.spec.scheduling_gates and pod.spec.scheduler_name in (None, "", SCHEDULER_NAME)
