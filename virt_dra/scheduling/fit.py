"""Whether a pod fits on a node, and if not, which filter refuses it and why: the one answer for all that place pods. A
pod is prepared once (PreFilter, C-5.2), over a :class:`ClusterModel` or the tables of the scheduler's loop, then nodes
are asked one by one (Filter, C-5.3 to C-5.5), in the order of :data:`virt_dra.scheduling.filter_table.FILTERS`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

from virt_dra.allocator import DEFAULT, DEFAULT_STEP_LIMIT, Features, Interrupt
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.model.cluster import ClusterModel, ModelChange, ModelIndex, derived
from virt_dra.model.extended_resources import served_resources
from virt_dra.model.snapshots import snapshot_of
from virt_dra.model.unknown import offered_resources
from virt_dra.model.volumes import is_claim_to_come, volumes_of_class
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger
from virt_dra.scheduling.dynamic_resources.extended_claim import is_special_claim_of
from virt_dra.scheduling.dynamic_resources.plugin import DeviceAttempt, DeviceOptions, DynamicResources
from virt_dra.scheduling.dynamic_resources.pod_devices import DeviceLimits
from virt_dra.scheduling.filter_table import FilterSources, filters_over
from virt_dra.scheduling.filters.node_resources import NodeUsages
from virt_dra.scheduling.filters.pod_affinity import NamespaceLabels
from virt_dra.scheduling.filters.volume_binding import KnownVolumes
from virt_dra.scheduling.framework.messages import unsatisfied
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable, pod_id
from virt_dra.scheduling.framework.plugin import PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import AttemptError, FilterRefusal


@dataclass(frozen=True)
class FitOptions:
    """The features that are on, and what bounds the search for devices."""

    features: Features = DEFAULT
    step_limit: int = DEFAULT_STEP_LIMIT
    interrupt: Interrupt | None = None


DEFAULT_OPTIONS: Final = FitOptions()


@dataclass(frozen=True)
class PluginPart:
    """A plugin's part in an attempt."""

    plugin: SchedulingPlugin
    attempt: PluginAttempt


@dataclass(frozen=True)
class Fit:
    """One pod's part in every filter, over the nodes of a table. ``everywhere``: the refusal of all nodes."""

    pod: Pod
    parts: tuple[PluginPart, ...]
    table: NodeTable
    everywhere: FilterRefusal | None = None

    def refusal(self, state: NodeState) -> FilterRefusal | None:
        """The first filter's refusal of a node; None if the pod fits there. Raises FilterError, DeadlineExceeded."""
        return self.everywhere or next(self.refusals(state), None)

    def refusals(self, state: NodeState) -> Iterator[FilterRefusal]:
        """The refusals of one node by all filters, in their order, but first one that restricts the pod to other nodes.
        Raises FilterError, DeadlineExceeded."""
        first = next((part for part in self._restricting if state.name not in (part.attempt.only_nodes or ())), None)
        if first is not None and (refusal := first.attempt.filter(state)) is not None:
            yield replace(refusal, reasons=(unsatisfied(part.plugin.name for part in self._restricting),))
        for part in self.parts:
            if part is first:
                continue
            try:
                refusal = part.attempt.filter(state)
            except AttemptError as error:
                words = f'running "{part.plugin.name}" filter plugin: {error}'
                raise FilterError(str(error), words, error.subject, error.code) from error
            if refusal is not None:
                yield refusal

    @cached_property
    def _restricting(self) -> tuple[PluginPart, ...]:
        return tuple(part for part in self.parts if part.attempt.only_nodes is not None)

    def state(self, node: str) -> NodeState:
        """A node of the table. Raises KeyError."""
        state = self.table.get(node)
        if state is None:
            raise KeyError(node)
        return state

    @property
    def devices(self) -> DeviceAttempt | None:
        """The part of the filter for devices; None if the pod wants none."""
        return next((part.attempt for part in self.parts if isinstance(part.attempt, DeviceAttempt)), None)


class FilterError(AttemptError):
    """A filter can't decide about the pod, whatever the node. ``words``: kube-scheduler's text."""

    def __init__(self, message: str, words: str, subject: str, code: str) -> None:
        super().__init__(message, subject, code)
        self.words = words


def prepare(pod: Pod, plugins: Sequence[SchedulingPlugin], table: NodeTable) -> Fit:
    """One pod's part in every filter. A refusal for good ends the questions. Raises FilterError."""
    parts: list[PluginPart] = []
    everywhere: FilterRefusal | None = None
    for plugin in plugins:
        try:
            answer = plugin.attempt(pod)
        except AttemptError as error:
            words = f'running PreFilter plugin "{plugin.name}": {error}'
            raise FilterError(str(error), words, error.subject, error.code) from error
        if isinstance(answer, PluginAttempt):
            parts.append(PluginPart(plugin, answer))
        elif isinstance(answer, FilterRefusal):
            everywhere = answer
            if not answer.resolvable:
                break
    return Fit(pod, tuple(parts), table, everywhere)


def fit(pod: Pod, model: ClusterModel, options: FitOptions = DEFAULT_OPTIONS) -> Fit:
    """The pod's part in every filter over a model's nodes. Where nodes list no resources, or none lists one, room isn't
    checked, nor who runs there without Pods (:mod:`virt_dra.model.unknown`). Raises FilterError, DeadlineExceeded,
    FatalError."""
    limits = DeviceLimits(options.features, options.step_limit, options.interrupt)
    served, usages = served_resources(model), _usages(model)
    special = partial(_special_claim, model)
    devices = DeviceOptions(limits=lambda: limits, class_of=served.class_of, special_claim_of=special, usages=usages)
    ledger = DeviceLedger.holding(snapshot_of(model, options.features))
    sources = FilterSources(
        table=node_table(model),
        devices=DynamicResources(model.claims, ledger, lambda claim: (), devices),
        labels_of=namespace_labels(model),
        usages=usages,
        served_by_dra=lambda resource: served.class_of(resource) is not None,
        listed=offered_resources(model),
        knows_all_pods=model.knows_all(Pod),
        volumes=volumes_of(model),
    )
    return prepare(pod, filters_over(sources), sources.table)


@dataclass(frozen=True)
class Fits:
    """The pod fits on ``node``. ``allocations``: what its unallocated claims would get there, by ``namespace/name``."""

    node: str
    allocations: Mapping[str, AllocationResult]


def fits(pod: Pod, node: str, model: ClusterModel, options: FitOptions = DEFAULT_OPTIONS) -> Fits | FilterRefusal:
    """Whether the pod fits on a node of the model, or the first filter's refusal. Raises as :func:`fit`, and
    KeyError."""
    asked = fit(pod, model, options)
    refusal = asked.refusal(asked.state(node))
    if refusal is not None:
        return refusal
    devices = asked.devices.nodes.found(node) if asked.devices is not None else None
    return Fits(node, {} if devices is None else devices.allocations(node))


def read_beforehand(model: ClusterModel, features: Features = DEFAULT) -> None:
    """Derive what every fit reads, for a model that is asked about changed again and again: copies that change claims,
    pods or nodes then follow these changes. Raises FatalError for slices that can't be read."""
    node_table(model)
    offered_resources(model)
    _claims_of_owner.all(model)
    _usages(model)
    served_resources(model)
    snapshot_of(model, features).caches.pools(features)


def _table_after(table: NodeTable, changes: Iterable[ModelChange]) -> NodeTable:
    table = table.copy()
    for change in changes:
        before, after = change.before, change.after
        if isinstance(before, Node) and after is None:
            table.remove(before.name)
        elif isinstance(after, Node):
            table.put(after)
        if isinstance(before, Pod):
            table.unassign(pod_id(before))
        if isinstance(after, Pod) and after.takes_room:
            table.assign(after, after.spec.node_name or "")
    return table


@derived(Node, Pod, follow=_table_after)
def node_table(model: ClusterModel) -> NodeTable:
    """The nodes of a model with the unfinished pods that are bound to them; not to be changed."""
    table = NodeTable()
    for node in model.of(Node):
        table.put(node)
    for pod in model.of(Pod):
        if pod.takes_room:
            table.assign(pod, pod.spec.node_name or "")
    return table


@derived()
def _usages(model: ClusterModel) -> NodeUsages:
    """Sums that hold for a node's state, whichever model it is in."""
    return NodeUsages()


_claims_of_owner: Final = ModelIndex(
    ResourceClaim, lambda claim: [owner.uid for owner in claim.metadata.owner_references]
)


def _special_claim(model: ClusterModel, pod: Pod) -> ResourceClaim | None:
    claims = _claims_of_owner(model, pod.metadata.uid)
    return next((claim for claim in claims if is_special_claim_of(claim, pod)), None)


def volumes_of(model: ClusterModel) -> KnownVolumes:
    """What a model knows of volumes."""
    return KnownVolumes(
        claims=model.by_key(PersistentVolumeClaim) if model.knows(PersistentVolumeClaim) else None,
        volumes=model.by_key(PersistentVolume) if model.knows(PersistentVolume) else None,
        classes=model.by_key(StorageClass) if model.knows(StorageClass) else None,
        of_class=lambda name: volumes_of_class(model, name),
        is_to_come=lambda key: is_claim_to_come(model, key),
    )


def namespace_labels(model: ClusterModel) -> NamespaceLabels:
    """The labels of namespaces, for pod affinity; a namespace that isn't there has none."""
    namespaces = model.by_key(Namespace)
    return lambda name: namespaces[name].metadata.labels if name in namespaces else {}
