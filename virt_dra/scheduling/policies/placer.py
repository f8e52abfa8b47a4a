"""Places VMs on nodes by a policy, one after the other, by the filters of :mod:`virt_dra.scheduling.fit`. Those about
nodes alone are asked once for each kind of VM (`VmShape`); room is counted, not summed; those about other pods are
asked only where some pod has a wish about others. Each shape has a ranking of the nodes by the scores of their offers;
only nodes whose offers have changed are scored again, and equal nodes in equal states once. A score depends on nothing
but the offer, so that what is kept is what would be computed anew."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

from virt_dra.allocator import (
    DEFAULT,
    Allocator,
    DeadlineExceeded,
    FatalError,
    Features,
    Interrupt,
    NodeError,
    Snapshot,
)
from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.allocator.explain import ELSEWHERE_TEXT
from virt_dra.allocator.features.capacity import Resolver, is_shared
from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.allocator.reuse.pod_classes import PodClass, Solution
from virt_dra.allocator.usage import by_pool, uses_of
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.api.wire import Stamp
from virt_dra.model.extended_resources import IMPLICIT_PREFIX
from virt_dra.scheduling.claim_checks import DYNAMIC_RESOURCES, check_claims
from virt_dra.scheduling.dynamic_resources.device_ledger import DeviceLedger, Published
from virt_dra.scheduling.dynamic_resources.plugin import DynamicResources
from virt_dra.scheduling.dynamic_resources.pod_devices import (
    CLAIM_ELSEWHERE,
    DEVICES,
    NO_DEVICES_FIT,
    NODE_ERROR,
    DeviceRefusal,
    usable_on,
)
from virt_dra.scheduling.filter_table import FilterSources, filters_over
from virt_dra.scheduling.filters.host_ports import NodePorts, host_ports
from virt_dra.scheduling.filters.node_resources import NodeResourcesFit, insufficient
from virt_dra.scheduling.filters.pod_affinity import NamespaceLabels
from virt_dra.scheduling.filters.unschedulable import CORDONED
from virt_dra.scheduling.filters.volume_binding import NOTHING_KNOWN, KnownVolumes
from virt_dra.scheduling.fit import Fit, prepare
from virt_dra.scheduling.framework.messages import Diagnosis
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable, pod_id
from virt_dra.scheduling.framework.plugin import FilterScope
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.pod_requests import CPU, MEMORY, PODS, amounts, pod_requests
from virt_dra.scheduling.policies.cards import WHOLE, CardCatalog, CardState, NodeCards, left_of
from virt_dra.scheduling.policies.offer import NodeRoom, Offer, size_of
from virt_dra.scheduling.policies.policy import Policy, Score
from virt_dra.scheduling.policies.ranking import RankedNode, Ranking

_REMEMBERED_STATES = 50_000
"""States of nodes whose offers to one kind of claims are kept; beyond it all are found anew."""


@dataclass(frozen=True, eq=False)
class VmShape:
    """VMs that differ only in their names. ``pod``: what kube-scheduler sees of them; ``claims``: as they are before
    allocation. ``allocated``: results of claims that are the VM's own and allocated already; ``shared``: results of
    claims that other VMs use too. The VM runs only where all of these devices can be used."""

    name: str
    pod: Pod
    claims: tuple[ResourceClaim, ...]
    allocated: tuple[AllocationResult, ...] = ()
    shared: tuple[AllocationResult, ...] = ()
    by_devices: frozenset[str] = frozenset()
    """Extended resources that aren't counted, since somebody else sees to them."""
    cpu: int = field(init=False)
    """Thousandths of a CPU."""
    memory: int = field(init=False)
    """Bytes."""
    others: Mapping[str, int] = field(init=False)
    """Other resources of nodes that are asked for."""
    relates: bool = field(init=False)
    """Whether it matters which pods run where: by host ports, affinity to pods or topology spread."""
    _claims: tuple[tuple[str, Stamp[ObjectMeta], Stamp[ResourceClaim]], ...] = field(init=False, repr=False)
    """The name of each claim, and how those of the VMs are made."""

    def __post_init__(self) -> None:
        requests = pod_requests(self.pod)
        others = {
            name: number for name, number in requests.items() if number and name not in (CPU, MEMORY, *self.by_devices)
        }
        object.__setattr__(self, "cpu", requests.get(CPU, 0))
        object.__setattr__(self, "memory", requests.get(MEMORY, 0))
        object.__setattr__(self, "others", others)
        object.__setattr__(self, "relates", relates_to_pods(self.pod))
        object.__setattr__(self, "_claims", tuple([(claim.name, *_stamps(claim)) for claim in self.claims]))

    def claims_of(self, vm: str) -> tuple[ResourceClaim, ...]:
        """The claims of one VM, which no other VM's are."""
        return tuple([stamp(metadata=metadata(name=f"{vm}-{name}", uid="")) for name, metadata, stamp in self._claims])


def _stamps(claim: ResourceClaim) -> tuple[Stamp[ObjectMeta], Stamp[ResourceClaim]]:
    """Makers of claims that differ from this one in name and UID."""
    metadata = {name: getattr(claim.metadata, name) for name in claim.metadata.model_fields_set - {"name", "uid"}}
    return (
        Stamp(ObjectMeta, metadata, "name", "uid"),
        Stamp(ResourceClaim, {name: getattr(claim, name) for name in claim.model_fields_set}, "metadata"),
    )


def relates_to_pods(pod: Pod) -> bool:
    """Whether a filter that looks at other pods may refuse a node because of this one, or for it."""
    affinity = pod.spec.affinity
    return bool(
        host_ports(pod)
        or pod.spec.topology_spread_constraints
        or (affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None))
    )


@dataclass(frozen=True, slots=True, eq=False)
class PlacedVm:
    """A VM on ``node`` (its number), with one result per claim, those that it had before first."""

    shape: VmShape
    node: int
    results: tuple[AllocationResult, ...]


class _ClaimOffers:
    """The offers of every node to VMs with equal claims, as long as what is in use on the node stays."""

    def __init__(self, nodes: int) -> None:
        self.by_node: list[tuple[int, Sequence[_ScoredOffer]] | None] = [None] * nodes
        """With the version of the node's devices."""
        self.by_state: dict[Hashable, Sequence[_ScoredOffer]] = {}
        """Nodes that are alike, whose cards are in equal states, have equal offers."""
        self.errors: dict[int, str] = {}
        """By the number of a node without offers: why the allocator couldn't decide."""


_ScoredOffer = tuple[Offer, Score]
"""An offer, and what its devices count for."""


class _ShapeRanking:
    """The nodes that fit a shape, as far as the changes of nodes are known to it."""

    __slots__ = ("applied", "fitting", "nodes", "offers", "unjudged")

    def __init__(self, fitting: Sequence[bool], offers: _ClaimOffers, nodes: Ranking) -> None:
        self.fitting = fitting
        """By node: whether the filters that depend on the node alone let the VM run there."""
        self.offers = offers
        self.nodes = nodes
        self.applied: int | None = None
        """How much of `PolicyPlacer._changes` the ranking knows; None: nothing was scored yet."""
        self.unjudged = set[int]()
        """Nodes whose devices end the attempt, as long as other pods keep the shape from them."""


class PolicyPlacer:
    """Places VMs by a policy, and counts what is in use. ``snapshot`` is replaced with every change."""

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: Sequence[Node],
        policy: Policy,
        catalog: CardCatalog,
        features: Features = DEFAULT,
        *,
        labels_of: NamespaceLabels = lambda namespace: {},
        volumes: KnownVolumes = NOTHING_KNOWN,
        knows_all_pods: bool = True,
        interrupt: Interrupt | None = None,
    ) -> None:
        """``catalog``: of the snapshot's slices (:func:`card_catalog`); The others: as in :class:`FilterSources`."""
        self.snapshot = snapshot
        self.nodes = tuple(nodes)
        self.policy = policy
        self.catalog = catalog
        self._listed = frozenset(name for node in nodes for name in node.status.allocatable)
        self.rooms = [room_of(node, self._listed) for node in nodes]
        self._counted = (
            self._listed
            | {name for device_class in snapshot.classes.values() if (name := device_class.spec.extended_resource_name)}
            | {IMPLICIT_PREFIX + name for name in snapshot.classes}
        )
        """Resources of which it is known how much there is."""
        self._others = [amounts(node.status.allocatable) for node in nodes]
        """By node: what is left of other resources than cpu, memory and pods."""
        self.open = [True] * len(nodes)
        """By node: whether VMs may be placed on it."""
        self._table: NodeTable | None = None
        """The nodes with their pods, once some pod relates to others."""
        self._pods: dict[Hashable, tuple[int, Pod]] = {}
        """What runs where: by the pod's identity, or that of the placed VM."""
        self._filters = filters_over(_sources(self._listed, labels_of, volumes=volumes))
        self._judge_beyond_nodes = any(plugin.scope is FilterScope.CLUSTER for plugin in self._filters)
        unknown = [
            plugin.name
            for plugin in self._filters
            if plugin.scope in (FilterScope.ROOM, FilterScope.DEVICES) and plugin.name not in _COUNTED_HERE
        ]
        if unknown:
            raise AssertionError(f"room and devices are counted here, not asked of filters: {', '.join(unknown)}")
        self._labels_of, self._knows_all_pods = labels_of, knows_all_pods
        self._relating: dict[VmShape, tuple[int, Fit]] = {}
        """By shape, its filters that look at other pods, with the number of changes of pods then."""
        self._pod_changes = 0
        self._features = features
        self._interrupt = interrupt
        self._versions = [0] * len(nodes)
        self._device_versions = [0] * len(nodes)
        self._changes: list[int] = []
        """Numbers of the nodes whose offers changed, in order."""
        self._rankings: dict[VmShape, _ShapeRanking] = {}
        self._scores: dict[VmShape, dict[int, tuple[int, Score | None]]] = {}
        """By node: its version then, and the score of its best offer."""
        self._offers: dict[PodClass | None, _ClaimOffers] = {}
        self._admitted: dict[VmShape, Sequence[FilterRefusal | None]] = {}
        """By shape: each node's refusal by filters that depend on the node alone."""
        self._states: list[CardState | None] = []
        self._cards: list[NodeCards] = []
        self._seen_by: dict[PoolId, list[int]] = {}
        """The nodes that reach a pool."""
        self._gather()

    def _gather(self) -> None:
        pools = self.snapshot.caches.pools(self._features)
        self._reachable = [pools.reachable(node) for node in self.nodes]
        self._cards = [self.catalog.of(reachable) for reachable in self._reachable]
        self._states = [None] * len(self.nodes)
        self._seen_by = {}
        for number, reachable in enumerate(self._reachable):
            for pool in reachable.pools:
                self._seen_by.setdefault(pool.id, []).append(number)

    def best(self, shape: VmShape) -> tuple[int, DeviceOrder | None] | None:
        """The number of the best node, and the order of its devices; None: it fits nowhere. Raises FatalError."""
        ranking = self._up_to_date(shape).nodes
        refused: list[tuple[Score, RankedNode]] = []
        while (best := ranking.best()) is not None and self._refused_by_others(shape, best.number):
            refused.append(ranking.take_best())
        for score, node in refused:
            ranking.put(score, node)
        return None if best is None else (best.number, best.order)

    def scores(self, shape: VmShape, numbers: Iterable[int]) -> list[Score | None]:
        """The score of the best offer of each of these nodes, with a number behind it if the policy draws between
        equals; None: it doesn't fit. Raises FatalError, and DeadlineExceeded: the next call goes on where this one
        ended."""
        allocator = self._allocator(shape.claims)
        offers, by_number = self._offers_of(allocator), self._scores.setdefault(shape, {})
        admitted, related, draw = self._admitting(shape), self._related(shape), self.policy.draw
        scores: list[Score | None] = []
        for number in numbers:
            if related is not None and related.refusal(related.state(self.nodes[number].name)) is not None:
                scores.append(None)
                continue
            version, of_node = self._versions[number], by_number.get(number)
            if of_node is None or of_node[0] != version:
                if self._interrupt is not None and self._interrupt():
                    raise DeadlineExceeded("scores of nodes")
                fits = admitted[number] is None and self.open[number] and not self._lacking(shape, number)
                score = self._score(shape, offers, allocator, number) if fits else None
                of_node = by_number[number] = version, score
            score = of_node[1]
            scores.append(score if score is None or draw is None else (*score, draw()))
        return scores

    def refusal(self, shape: VmShape, number: int) -> FilterRefusal | None:
        """Why the shape doesn't fit on a node now; None if it does. Raises FatalError."""
        if not self.open[number]:
            return CORDONED  # or drained, or gone: its VMs have left
        admitted = self._admitting(shape)[number]
        if admitted is not None:
            return admitted
        lacking, related = self._lacking(shape, number), self._related(shape)
        refusal = related.refusal(related.state(self.nodes[number].name)) if related is not None else None
        if refusal is not None and (refusal.plugin == NodePorts.name or not lacking):
            return refusal
        if lacking:
            return insufficient(lacking)
        if not shape.claims:
            return None
        allocator = self._allocator(shape.claims)
        offers = self._offers_of(allocator)
        if self._offers_on(offers, allocator, number):
            return None
        error = offers.errors.get(number)
        return (DeviceRefusal(DEVICES, NO_DEVICES_FIT) if error is None else DeviceRefusal(NODE_ERROR, error)).of_filter

    def forget(self, shape: VmShape) -> None:
        """Free the memory of everything that is known about a shape."""
        self._scores.pop(shape, None)
        self._rankings.pop(shape, None)
        self._admitted.pop(shape, None)
        self._relating.pop(shape, None)
        self._offers.pop(self._allocator(shape.claims).pod_class, None)

    def allocate(self, claims: Sequence[ResourceClaim], number: int) -> tuple[AllocationResult, ...] | None:
        """What claims would get on a node, in A-5.6's order; None: they don't fit. Raises FatalError, NodeError."""
        if not claims:
            return ()
        allocator = self._allocator(claims)
        decision = allocator.decide(self.nodes[number])
        return None if decision.solution is None else allocator.write(decision)

    def _offers_on(self, offers: _ClaimOffers, allocator: Allocator, number: int) -> Sequence[_ScoredOffer]:
        versioned = offers.by_node[number]
        if versioned is None or versioned[0] != self._device_versions[number]:
            found_offers = self._find_offers(offers, allocator, number)
            versioned = offers.by_node[number] = self._device_versions[number], found_offers
        return versioned[1]

    def _score(self, shape: VmShape, offers: _ClaimOffers, allocator: Allocator, number: int) -> Score | None:
        room = self.rooms[number]
        after = room.less(shape.cpu, shape.memory)
        offers_on = self._offers_on(offers, allocator, number)
        scores = [self.policy.score(offer, of_devices, room, after) for offer, of_devices in offers_on]
        return min(scores, default=None)

    def why(self, shape: VmShape) -> Diagnosis:
        """Why a shape fits on no node."""
        everywhere = self._of_nodes(shape).everywhere or check_claims(
            shape.claims, self.snapshot.classes, (), self._features
        )
        if everywhere is not None:
            return Diagnosis(len(self.nodes), everywhere=everywhere)
        refusals = ((node.name, self.refusal(shape, number)) for number, node in enumerate(self.nodes))
        return Diagnosis(len(self.nodes), {name: refusal for name, refusal in refusals if refusal is not None})

    def cards(self, number: int) -> NodeCards:
        """The cards of a node."""
        return self._cards[number]

    def card_state(self, number: int) -> CardState:
        """How the cards of a node are used."""
        state = self._states[number]
        if state is None:
            state = self._states[number] = self.catalog.state(self._reachable[number], self.snapshot.used)
        return state

    def place(self, shape: VmShape, vm: str) -> PlacedVm | None:
        """Put one VM where the policy wants it; None: it fits nowhere. Raises FatalError."""
        best = self.best(shape)
        if best is None:
            return None
        number, order = best
        results: tuple[AllocationResult, ...] = ()
        if shape.claims:
            allocator = self._allocator(shape.claims_of(vm))
            results = allocator.write(allocator.decide(self.nodes[number], order))
        placed = PlacedVm(shape, number, (*shape.allocated, *results))
        self._use_room(placed, 1)
        self.use_devices(results, 1)
        return placed

    def take(self, placed: PlacedVm) -> None:
        """Count a VM as placed: its devices, cpu and memory are in use."""
        self._use_room(placed, 1)
        self.use_devices(placed.results, 1)

    def release(self, placed: PlacedVm) -> None:
        """The exact reverse of `take`."""
        self._use_room(placed, -1)
        self.use_devices(placed.results, -1)

    def stop(self, placed: PlacedVm) -> None:
        """Free a VM's cpu and memory; its devices stay in use, as it keeps them."""
        self._use_room(placed, -1)

    def resume(self, placed: PlacedVm) -> None:
        """The exact reverse of `stop`."""
        self._use_room(placed, 1)

    def set_open(self, number: int, *, open: bool) -> None:
        """Let VMs be placed on a node, or not."""
        self.open[number] = open
        self._changed(number)

    def replace_slices(self, snapshot: Snapshot, catalog: CardCatalog, policy: Policy) -> None:
        """Go on with other slices; what is in use stays. ``snapshot``, ``policy``: with these slices."""
        self.snapshot = replace(snapshot, used=self.snapshot.used, allocated=self.snapshot.allocated)
        self.catalog, self.policy = catalog, policy
        self._rankings.clear()
        self._offers.clear()
        self._scores.clear()
        self._gather()

    def take_over_pods(self, other: PolicyPlacer) -> None:
        """Count what another placer of the same nodes counts as running on them; devices aside."""
        self.rooms, self._others = list(other.rooms), [dict(left) for left in other._others]
        self._pods = dict(other._pods)
        if other._table is not None:
            self._follow_pods()

    def use_pod(self, number: int, pod: Pod, by: int) -> None:
        """Count a pod, known by its UID, as running on a node (``by`` 1), or as gone (-1)."""
        requests = pod_requests(pod)
        others = {name: amount for name, amount in requests.items() if name not in (CPU, MEMORY)}
        self._count_pod(number, requests.get(CPU, 0), requests.get(MEMORY, 0), others, by)
        self._relocate(pod_id(pod), number, pod, by, relates=relates_to_pods(pod))

    def _use_room(self, placed: PlacedVm, by: int) -> None:
        shape = placed.shape
        if placed.results and self.policy.distinguishes_sizes:
            self.rooms[placed.node] = self.rooms[placed.node].with_size(self._size(placed), by)
        self._count_pod(placed.node, shape.cpu, shape.memory, shape.others, by)
        self._relocate(placed, placed.node, shape.pod, by, relates=shape.relates)

    def _size(self, placed: PlacedVm) -> int:
        """The size of a placed VM, as `Offer.size`."""
        cards = self._cards[placed.node]
        devices = {
            device.id: (device, parts)
            for device, parts in zip(cards.reachable.devices, cards.layout.parts, strict=True)
        }
        amounts: list[int] = []
        for given in (given for result in placed.results for given in result.devices.results):
            device, parts = devices.get(DeviceId(given.driver, given.pool, given.device), (None, ()))
            if device is None or given.admin_access:
                continue
            if is_shared(device) and not device.published.consumes_counters:
                amounts.append(WHOLE - left_of(device, given.consumed_capacity))
            else:
                amounts += [part.amount for part in parts]
        return size_of(amounts)

    def _count_pod(self, number: int, cpu: int, memory: int, others: Mapping[str, int], by: int) -> None:
        self.rooms[number] = self.rooms[number].less(by * cpu, by * memory, by)
        for name, amount in others.items():
            self._others[number][name] = self._others[number].get(name, 0) - by * amount
        self._changed(number)

    def use_devices(self, results: Sequence[AllocationResult], by: int) -> None:
        """Count the devices of allocations as in use (``by`` 1), or as free again (-1)."""
        uses = by_pool(uses_of(results))
        self.snapshot = self.snapshot.changed(uses, by)
        for pool in uses:
            for number in self._seen_by.get(pool, ()):
                self._states[number] = None
                self._device_versions[number] += 1
                self._changed(number)

    def _changed(self, number: int) -> None:
        self._versions[number] += 1
        if self._rankings:
            self._changes.append(number)

    def _up_to_date(self, shape: VmShape) -> _ShapeRanking:
        ranking = self._rankings.get(shape)
        if ranking is None:
            offers = self._offers_of(self._allocator(shape.claims))
            fitting = [refusal is None for refusal in self._admitting(shape)]
            nodes = Ranking(self._versions, self.policy.draw)
            ranking = self._rankings[shape] = _ShapeRanking(fitting, offers, nodes)
        if ranking.applied is None:
            stale: Sequence[int] = range(len(self.nodes))
        else:
            stale = sorted(ranking.unjudged.union(self._changes[ranking.applied :]))
        if stale:
            self._rank(shape, ranking, stale)
        ranking.applied = len(self._changes)
        return ranking

    def _offers_of(self, allocator: Allocator) -> _ClaimOffers:
        """The offers to VMs with these claims. Raises FatalError for claims that break a rule."""
        for node in self.nodes if allocator.pod_class is None else ():
            try:
                allocator.decide(node)
            except NodeError:
                continue  # of a request before the one that breaks a rule
            break
        return self._offers.setdefault(allocator.pod_class, _ClaimOffers(len(self.nodes)))

    # --- filters ----------------------------------------------------------------------------------------------------

    def _admitting(self, shape: VmShape) -> Sequence[FilterRefusal | None]:
        """The refusal of the filters that depend on the node alone, by node."""
        refusals = self._admitted.get(shape)
        if refusals is None:
            fit = self._of_nodes(shape)
            refusals = self._admitted[shape] = [
                fit.refusal(NodeState(node)) or _refusal_elsewhere(shape, node) for node in self.nodes
            ]
        return refusals

    def _of_nodes(self, shape: VmShape) -> Fit:
        """The shape's part in the filters that depend on the node alone."""
        plugins = [plugin for plugin in self._filters if plugin.scope is FilterScope.NODE]
        return prepare(shape.pod, plugins, NodeTable())

    def _lacking(self, shape: VmShape, number: int) -> Sequence[str]:
        """The resources of which the node has too little left, as NodeResourcesFit counts; one that devices serve by
        their class is lacking where no device plugin offers it, since policies make no claims."""
        room = self.rooms[number]
        short = {
            PODS: room.pods_left <= 0,
            CPU: shape.cpu > max(room.cpu_left, 0),
            MEMORY: shape.memory > max(room.memory_left, 0),
        }
        if shape.others and self.nodes[number].status.allocatable:
            left = self._others[number]
            for name, wanted in sorted(shape.others.items()):
                short[name] = name in self._counted and wanted > left.get(name, 0)
        return [name for name, is_short in short.items() if is_short]

    def _related(self, shape: VmShape) -> Fit | None:
        """The shape's filters that look beyond a node; None if there are none, and no pod relates to others."""
        table = self._table
        if table is None:
            if not shape.relates and not self._judge_beyond_nodes:
                return None
            table = self._follow_pods()
        versioned = self._relating.get(shape)
        if versioned is None or versioned[0] != self._pod_changes:
            sources = _sources(self._listed, self._labels_of, table)
            filters = filters_over(replace(sources, knows_all_pods=self._knows_all_pods))
            beyond = [plugin for plugin in filters if plugin.scope in _BEYOND_A_NODE]
            versioned = self._relating[shape] = self._pod_changes, prepare(shape.pod, beyond, table)
        return versioned[1] if versioned[1].parts or versioned[1].everywhere else None

    def _refused_by_others(self, shape: VmShape, number: int) -> bool:
        """Whether the pods that run keep the shape from a node, whose devices kube-scheduler doesn't look at then."""
        related = self._related(shape)
        return related is not None and related.refusal(related.state(self.nodes[number].name)) is not None

    def _relocate(self, key: Hashable, number: int, pod: Pod, by: int, *, relates: bool) -> None:
        """Counts a pod on a node (``by`` 1), or removes it (-1)."""
        self._pod_changes += 1
        if by > 0:
            self._pods[key] = number, pod
        else:
            self._pods.pop(key, None)
        if self._table is not None:
            self._assign(key, number, pod, by)
        elif relates and by > 0:
            self._follow_pods()

    def _follow_pods(self) -> NodeTable:
        """Keep a table of the pods from now on."""
        self._table = NodeTable()
        for node in self.nodes:
            self._table.put(node)
        for key, (number, pod) in self._pods.items():
            self._assign(key, number, pod, 1)
        return self._table

    def _assign(self, key: Hashable, number: int, pod: Pod, by: int) -> None:
        assert self._table is not None
        uid = key if isinstance(key, str) else f"vm {id(key)}"
        if by > 0:
            self._table.assign(pod.with_(metadata=pod.metadata.with_(uid=uid)), self.nodes[number].name)
        else:
            self._table.unassign(uid)

    def _rank(self, shape: VmShape, ranking: _ShapeRanking, stale: Sequence[int]) -> None:
        cpu, memory, score = shape.cpu, shape.memory, self.policy.score
        rooms, open_, fitting, versions = self.rooms, self.open, ranking.fitting, self._versions
        by_node, device_versions = ranking.offers.by_node, self._device_versions
        put = ranking.nodes.put
        allocator: Allocator | None = None
        for number in stale:
            room = rooms[number]
            if (
                0 < cpu > room.cpu_left
                or 0 < memory > room.memory_left
                or room.pods_left <= 0
                or not open_[number]
                or not fitting[number]
                or (shape.others and self._lacking(shape, number))
            ):
                continue
            versioned = by_node[number]
            if versioned is None or versioned[0] != device_versions[number]:
                allocator = allocator or self._allocator(shape.claims)
                try:
                    found_offers = self._find_offers(ranking.offers, allocator, number)
                except FatalError:
                    if not self._refused_by_others(shape, number):
                        raise
                    ranking.unjudged.add(number)
                    continue
                ranking.unjudged.discard(number)
                versioned = by_node[number] = device_versions[number], found_offers
            offers = versioned[1]
            if offers:
                after = room.less(cpu, memory)
                best, order = min(
                    [(score(offer, of_devices, room, after), offer.order) for offer, of_devices in offers], key=_SCORE
                )
                put(best, RankedNode(number, versions[number], order))

    def _find_offers(self, offers: _ClaimOffers, allocator: Allocator, number: int) -> Sequence[_ScoredOffer]:
        cards = self._cards[number]
        if not allocator.claims:
            offer = Offer.from_picks(cards, self.card_state(number), (), (), None)
            return ((offer, self.policy.device_score(offer)),)
        offers.errors.pop(number, None)
        try:
            key = allocator.outcome_key(self.nodes[number])
            if key is None:
                return self._try_orders(allocator, number)
            state = self.card_state(number)
            # By identity: equal layouts are one object, whose hash would be that of all its parts.
            of_state = (key, id(cards.layout), state.free, state.users, self.policy.kind(cards))
            tried = offers.by_state.get(of_state)
            if tried is None:
                if len(offers.by_state) >= _REMEMBERED_STATES:
                    offers.by_state.clear()
                tried = offers.by_state[of_state] = self._try_orders(allocator, number)
        except NodeError as error:
            offers.errors[number] = str(error)
            return ()
        return tried

    def _try_orders(self, allocator: Allocator, number: int) -> Sequence[_ScoredOffer]:
        """An offer for each of the policy's orders of the node's devices, each different one once. Claims fit in any
        order, or in none."""
        cards, state = self._cards[number], self.card_state(number)
        by_picks: dict[tuple[int, ...], Offer] = {}
        for order in self.policy.orders(cards.layout, state):
            solution = allocator.decide(self.nodes[number], order).solution
            if solution is None:
                return ()
            offer = self._offer(solution, cards, state, order)
            by_picks.setdefault(offer.picks, offer)
        return tuple([(offer, self.policy.device_score(offer)) for offer in by_picks.values()])

    def _offer(self, solution: Solution, cards: NodeCards, state: CardState, order: DeviceOrder | None) -> Offer:
        devices, parts = cards.reachable.devices, cards.layout.parts
        picks: list[int] = []
        taken: list[tuple[int, int]] = []
        for of_claim in solution.picks:
            for request, position in of_claim:
                picks.append(position)
                for part in parts[position]:
                    amount = self.catalog.taken(request, devices[position], part)
                    if amount is not None and not request.admin_access:
                        taken.append((part.card, amount))
        return Offer.from_picks(cards, state, picks, taken, order)

    def _allocator(self, claims: Sequence[ResourceClaim]) -> Allocator:
        return Allocator(self.snapshot, claims, self._features, interrupt=self._interrupt)


def _refusal_elsewhere(shape: VmShape, node: Node) -> FilterRefusal | None:
    if all(usable_on(allocation, node) for allocation in (*shape.allocated, *shape.shared)):
        return None
    return FilterRefusal(DYNAMIC_RESOURCES, (ELSEWHERE_TEXT,), code=CLAIM_ELSEWHERE)


_SCORE: Final = itemgetter(0)
_COUNTED_HERE: Final = frozenset({NodeResourcesFit.name, DYNAMIC_RESOURCES})
_BEYOND_A_NODE: Final = frozenset({FilterScope.RELATIONS, FilterScope.CLUSTER})
UNLIMITED: Final = 2**62
"""What is left of a resource of which it isn't known how much a node has."""


def _sources(
    listed: frozenset[str], labels_of: NamespaceLabels, table: NodeTable | None = None,
    volumes: KnownVolumes = NOTHING_KNOWN,
) -> FilterSources:  # fmt: skip
    """The sources of filters that read neither claims nor devices."""
    devices = DynamicResources({}, DeviceLedger(lambda: Published((), ())), lambda claim: ())
    return FilterSources(table or NodeTable(), devices, labels_of, listed=listed, volumes=volumes)


def room_of(node: Node, listed: frozenset[str]) -> NodeRoom:
    """What an empty node has. ``listed``: resources that some node lists; others are unlimited."""
    allocatable = amounts(node.status.allocatable)
    cpu, memory, pods = offered = [allocatable.get(name, 0) for name in (CPU, MEMORY, PODS)]
    cpu_left, memory_left, pods_left = (
        amount if allocatable and name in listed else UNLIMITED
        for name, amount in zip((CPU, MEMORY, PODS), offered, strict=True)
    )
    return NodeRoom(cpu, memory, pods, cpu_left, memory_left, pods_left)


def card_catalog(snapshot: Snapshot, features: Features = DEFAULT) -> CardCatalog:
    """The cards of the snapshot's slices."""
    return CardCatalog(snapshot.caches.pools(features), Resolver(snapshot.caches.capacities, features))
