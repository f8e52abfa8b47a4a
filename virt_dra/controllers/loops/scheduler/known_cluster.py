"""What the scheduler knows of the cluster, by informers: nodes with their pods, claims, devices in use, the queue.
Every change goes first into what later attempts read, then as an event to the queue, which wakes pods (C-4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from virt_dra.allocator import Features
from virt_dra.api.core_v1 import SCHEDULER_NAME, Namespace, Node, Pod
from virt_dra.api.resource_v1 import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceSlice,
)
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.loops.claims.keys import names_of
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.scheduler.followed_volumes import FollowedVolumes
from virt_dra.model.extended_resources import ServedResources
from virt_dra.scheduling.claim_references import Resolved, bind_to, claim_name, pod_group_name
from virt_dra.scheduling.dynamic_resources.binding_conditions import BindingDeadline
from virt_dra.scheduling.dynamic_resources.claim_cache import ClaimCache
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger, Published
from virt_dra.scheduling.dynamic_resources.plugin import DeviceOptions, DynamicResources, FilterTimer
from virt_dra.scheduling.dynamic_resources.pod_devices import DeviceLimits
from virt_dra.scheduling.filter_table import FilterSources, scoring_filters_over
from virt_dra.scheduling.filters.pod_affinity import NamespaceLabels
from virt_dra.scheduling.framework.cycle import SchedulingCycle
from virt_dra.scheduling.framework.events import ClusterEvent, assigned_pod_events, node_events
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.framework.plugin import SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.gang_scheduling import GangScheduling, group_key
from virt_dra.scheduling.queue import PodBackoff, SchedulingQueue
from virt_dra.scheduling.scheduling_gates import SchedulingGates

_PODS_OF_CLAIM = "scheduler: claims of pods"
_PODS_OF_GROUP = "scheduler: groups of pods"


class KnownCluster:
    """See the module. :meth:`follow` begins to listen; the informers must have synced."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        gates, informers = context.gates, context.informers
        self.features = Features.from_gates(gates)
        self.workload_claims = gates.workload_resource_claims
        self.binding_timeout = timedelta(seconds=context.timers.binding_timeout)
        self._taint_rules = gates.device_taints and gates.device_taint_rules
        self.pods = informers.of(Pod)
        self._nodes = informers.of(Node)
        self._claims = informers.of(ResourceClaim)
        self._slices = informers.of(ResourceSlice)
        self._classes = informers.of(DeviceClass)
        self._rules = informers.of(DeviceTaintRule)
        self.pods.store.add_index(_PODS_OF_CLAIM, _claims_of)
        self._volumes = FollowedVolumes(informers)
        self._groups = informers.of(PodGroup) if context.gates.generic_workload else None
        self.pods.store.add_index(_PODS_OF_GROUP, lambda pod: filter(None, (group_key(pod),)))
        self._served = ServedResources()
        self.table = NodeTable()
        self.claims = ClaimCache(self._claim_changed)
        self.ledger = DeviceLedger(self._published)
        gang = (GangScheduling(self.group_of, self._members_of),) if self._groups is not None else ()
        options = self._device_options()
        self.devices = DynamicResources(self.claims, self.ledger, self._pods_of_claim, options)
        sources = FilterSources(
            self.table,
            self.devices,
            namespace_labels(informers.of(Namespace)),
            options.usages,
            lambda resource: self._class_of(resource) is not None,
            volumes=self._volumes.known,
        )
        self.plugins: Sequence[SchedulingPlugin] = (SchedulingGates(), *scoring_filters_over(sources), *gang)
        self.cycle = SchedulingCycle(self.plugins, self.table)
        limits = PodBackoff(context.timers.pod_initial_backoff, context.timers.pod_max_backoff)
        self.queue = SchedulingQueue(
            {plugin.name: plugin.hints for plugin in self.plugins}, self._held, limits, self.group_key
        )
        self.assumed: set[str] = set()
        """UIDs of pods that are reserved for a node and not yet seen there."""
        self.changed = asyncio.Event()
        """Set when the queue may have a pod."""

    def follow(self) -> None:
        """Take over what is there, and every change from now on; pods last, since the rest decides whether one is held
        back."""
        self._nodes.on_change(self._node)
        self._classes.on_change(self._device_class)
        self._slices.on_change(self._slice)
        self._rules.on_change(self._rule)
        self._claims.on_change(self._claim)
        self._volumes.follow(lambda old, new: self.event(ClusterEvent.VOLUMES, old, new))
        if self._groups is not None:
            self._groups.on_change(self._pod_group)
        self.pods.on_change(self._pod)

    def now(self) -> float:
        """Of the queue's clock."""
        return asyncio.get_running_loop().time()

    def event(self, event: ClusterEvent, old: object, new: object) -> None:
        """Something changed that may help a waiting pod."""
        self.queue.event(event, old, new, self.now())
        self.changed.set()

    def forget(self, pod: Pod) -> None:
        """Frees the place of a pod that was assumed on a node and is not there."""
        self.assumed.discard(pod.metadata.uid)
        if self.table.unassign(pod.metadata.uid) is not None:
            self.event(ClusterEvent.ASSIGNED_POD_DELETE, pod, None)

    def current(self, pod: Pod) -> Pod | None:
        """The pod as the informer has it; None if it was deleted."""
        current = self.pods.store.get(pod.name, pod.namespace)
        return current if current is not None and current.metadata.uid == pod.metadata.uid else None

    # --- pod groups ------------------------------------------------------------------------------------------------

    def group_key(self, pod: Pod) -> str | None:
        """``namespace/name`` of the pod's group; None if it is in none, or groups are off."""
        return None if self._groups is None else group_key(pod)

    def group_of(self, pod: Pod) -> PodGroup | None:
        """The pod's group, if it is there."""
        name = pod_group_name(pod)
        return None if self._groups is None or name is None else self._groups.store.get(name, pod.namespace)

    def scheduled_of(self, key: str) -> int:
        """How many pods of a group have a node, or are about to get it."""
        pods = self.pods.store.by_index(_PODS_OF_GROUP, key)
        return sum(not pod.finished and self.table.node_of(pod.metadata.uid) is not None for pod in pods)

    def _members_of(self, key: str) -> int:
        return sum(not pod.finished for pod in self.pods.store.by_index(_PODS_OF_GROUP, key))

    def consumers(self, pod: Pod) -> Mapping[str, ResourceClaimConsumerReference]:
        """Whom the pod's claims are reserved for, by ``namespace/name`` (C-3.5)."""
        group = self.group_of(pod) if self.workload_claims else None
        consumers: dict[str, ResourceClaimConsumerReference] = {}
        for entry in pod.spec.resource_claims if group is not None else ():
            resolved = claim_name(pod, entry)
            if isinstance(resolved, Resolved):
                consumers[f"{pod.namespace}/{resolved.name}"] = bind_to(pod, group, entry)
        return consumers

    def _pod_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None:
            self.event(ClusterEvent.POD_GROUP_ADD if old is None else ClusterEvent.POD_GROUP_UPDATE, old, new)

    # --- what plugins ask -----------------------------------------------------------------------------------------

    def _held(self, pod: Pod) -> FilterRefusal | None:
        return next((refusal for plugin in self.plugins if (refusal := plugin.pre_enqueue(pod)) is not None), None)

    def _pods_of_claim(self, key: str) -> Iterable[str]:
        return [pod.metadata.uid for pod in self.pods.store.by_index(_PODS_OF_CLAIM, key)]

    def _published(self) -> Published:
        by_name = sorted(self._slices.store.values(), key=lambda slice_: slice_.name)
        rules = sorted(self._rules.store.values(), key=lambda rule: rule.name) if self._taint_rules else ()
        return Published(by_name, self._classes.store.values(), rules)

    def _device_options(self) -> DeviceOptions:
        context, features = self._context, self.features

        def limits() -> DeviceLimits:
            binding = (
                BindingDeadline(context.clock(), self.binding_timeout) if features.device_binding_and_status else None
            )
            return DeviceLimits(features, binding=binding)

        timed = context.gates.scheduler_filter_timeout and context.timers.filter_timeout > 0
        timer = FilterTimer(context.clock, timedelta(seconds=context.timers.filter_timeout)) if timed else None
        return DeviceOptions(
            limits,
            self.workload_claims,
            timer,
            self._class_of,
            self.claims.special_claim_of,
            context.gates.node_allocatable_resources,
        )

    def _class_of(self, resource: str) -> DeviceClass | None:
        """The class that serves an extended resource (C-7.1)."""
        return self._served.class_of(resource) if self._context.gates.extended_resource else None

    # --- what informers say ---------------------------------------------------------------------------------------

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self.ledger.claim_changed(old, new)
        self.event(ClusterEvent.CLAIM, old, new)

    def _claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            self.claims.seen(new)
        elif old is not None:
            self.claims.gone(old)

    def _slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self.ledger.republished()
        if new is not None:
            self.event(ClusterEvent.SLICE, old, new)

    def _device_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        self.ledger.republished()
        self._served.changed(old, new)
        if new is not None:
            self.event(ClusterEvent.DEVICE_CLASS, old, new)

    def _rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Shows as an update of the slices whose devices it taints (C-4.7)."""
        if self._taint_rules and (old is None or new is None or old.spec != new.spec):
            self.ledger.republished()
            self.event(ClusterEvent.SLICE, old, new)

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self.table.remove(old.name)
                self.event(ClusterEvent.NODE_DELETE, old, None)
            return
        self.table.put(new)
        for event in (ClusterEvent.NODE_ADD,) if old is None else node_events(old, new):
            self.event(event, old, new)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        """A finished pod counts as gone."""
        if new is not None and new.finished:
            new = None
        if new is None:
            if old is not None:
                self.table.nominations.forget(old.metadata.uid)
                self.queue.delete(old.metadata.uid)
                self.forget(old)
        elif new.spec.node_name:
            self._assigned(old, new, new.spec.node_name)
        elif (new.spec.scheduler_name or SCHEDULER_NAME) == SCHEDULER_NAME:
            self._unassigned(old, new)

    def _assigned(self, old: Pod | None, new: Pod, node: str) -> None:
        self.assumed.discard(new.metadata.uid)
        self.table.nominations.forget(new.metadata.uid)
        self.table.assign(new, node)
        if old is None or not old.spec.node_name:
            self.queue.delete(new.metadata.uid)
            self.event(ClusterEvent.ASSIGNED_POD_ADD, None, new)
        else:
            for event in assigned_pod_events(old, new):
                self.event(event, old, new)

    def _unassigned(self, old: Pod | None, new: Pod) -> None:
        uid = new.metadata.uid
        if uid in self.assumed:
            if new.metadata.deletion_timestamp is not None and self.table.unassign(uid) is not None:
                self.event(ClusterEvent.ASSIGNED_POD_DELETE, new, None)
            return
        before = old.status.nominated_node_name if old is not None else None
        if new.status.nominated_node_name:
            self.table.nominations.nominate(new, new.status.nominated_node_name)
        elif before:
            self.table.nominations.forget(uid)
        if old is None:
            self.queue.add(new, self.now())
            if self._groups is not None:
                self.event(ClusterEvent.UNSCHEDULED_POD_ADD, None, new)
        else:
            self.queue.update(old, new, self.now())
        self.changed.set()


def namespace_labels(namespaces: Informer[Namespace]) -> NamespaceLabels:
    """Their labels, as the informer shows them now."""

    def labels_of(name: str) -> Mapping[str, str]:
        namespace = namespaces.store.get(name)
        return {} if namespace is None else namespace.metadata.labels

    return labels_of


def _claims_of(pod: Pod) -> Iterable[str]:
    """The claims of a pod that its spec or status names, as ``namespace/name``."""
    return (f"{pod.namespace}/{name}" for name in names_of(pod))
