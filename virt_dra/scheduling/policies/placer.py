"""Places VMs on nodes by a policy, one after the other.

Each kind of VM (`VmShape`) has a ranking of the nodes by the scores of their offers. After a VM was placed or has gone,
only the nodes whose offers it changed are scored again, and equal nodes in equal states are scored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from virt_dra.allocator import DEFAULT, DEFAULT_STEP_LIMIT, Allocator, Features, Interrupt, NodeError, Snapshot
from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.allocator.features.capacity import Resolver
from virt_dra.allocator.model import PoolId
from virt_dra.allocator.reuse.pod_classes import PodClass, Solution
from virt_dra.allocator.usage import by_pool, uses_of
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim
from virt_dra.scheduling.filters.node_affinity import NodeAffinityFilter
from virt_dra.scheduling.filters.taints import TaintToleration
from virt_dra.scheduling.filters.unschedulable import NodeUnschedulable
from virt_dra.scheduling.fit import Fit, prepare
from virt_dra.scheduling.framework.node_table import NodeState, NodeTable
from virt_dra.scheduling.pod_requests import CPU, MEMORY, PODS, amounts, pod_requests
from virt_dra.scheduling.policies.cards import CardCatalog, CardState, NodeCards
from virt_dra.scheduling.policies.offer import NodeRoom, Offer
from virt_dra.scheduling.policies.policy import Policy, Score

_REMEMBERED_STATES = 50_000
"""States of nodes whose offers to one kind of claims are kept; beyond it all are found anew."""


@dataclass(frozen=True, eq=False)
class VmShape:
    """VMs that differ only in their names. ``pod``: what kube-scheduler sees of them; ``claims``: as they are before
    allocation."""

    name: str
    pod: Pod
    claims: tuple[ResourceClaim, ...]
    cpu: int = field(init=False)
    """Thousandths of a CPU."""
    memory: int = field(init=False)
    """Bytes."""

    def __post_init__(self) -> None:
        requests = pod_requests(self.pod)
        object.__setattr__(self, "cpu", requests.get(CPU, 0))
        object.__setattr__(self, "memory", requests.get(MEMORY, 0))

    def claims_of(self, vm: str) -> tuple[ResourceClaim, ...]:
        """The claims of one VM."""
        return tuple([claim.with_(metadata=claim.metadata.with_(name=f"{vm}-{claim.name}")) for claim in self.claims])


@dataclass(frozen=True, slots=True, eq=False)
class PlacedVm:
    """A VM on ``node`` (its number), with one result per claim."""

    shape: VmShape
    node: int
    results: tuple[AllocationResult, ...]


class _ClaimOffers:
    """The offers of every node to VMs with equal claims, as long as what is in use on the node stays."""

    def __init__(self, nodes: int) -> None:
        self.by_node: list[tuple[int, Sequence[_ScoredOffer]] | None] = [None] * nodes
        """With the version of the node's devices."""
        self.by_state: dict[Hashable, Sequence[_ScoredOffer]] = {}
        """Nodes that are alike, in equal use, have equal offers."""


_ScoredOffer = tuple[Offer, Score]
"""An offer, and what its devices count for."""


class _Ranking:
    """The nodes that fit a shape, best first; entries whose node has changed since are stale."""

    __slots__ = ("applied", "fitting", "heap", "offers")

    def __init__(self, fitting: Sequence[bool], offers: _ClaimOffers) -> None:
        self.fitting = fitting
        """By node: whether its labels and taints let the VM run there."""
        self.offers = offers
        self.heap: list[tuple[Score, int, int, DeviceOrder | None]] = []
        """Score, number of the node, its version then, the order in which its devices are tried."""
        self.applied: int | None = None
        """How much of `PolicyPlacer._changes` the heap knows; None: nothing was scored yet."""


class PolicyPlacer:
    """``snapshot`` is replaced with every VM that is placed or released."""

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: Sequence[Node],
        policy: Policy,
        catalog: CardCatalog,
        features: Features = DEFAULT,
        *,
        step_limit: int = DEFAULT_STEP_LIMIT,
        interrupt: Interrupt | None = None,
    ) -> None:
        """``catalog``: of the snapshot's slices (:func:`card_catalog`)."""
        self.snapshot = snapshot
        self.nodes = tuple(nodes)
        self.policy = policy
        self.catalog = catalog
        self.rooms = [room_of(node) for node in nodes]
        self.open = [True] * len(nodes)
        """By node: whether VMs may be placed on it."""
        self._features = features
        self._step_limit = step_limit
        self._interrupt = interrupt
        self._versions = [0] * len(nodes)
        self._device_versions = [0] * len(nodes)
        self._changes: list[int] = []
        """Numbers of the nodes whose offers changed, in order."""
        self._rankings: dict[VmShape, _Ranking] = {}
        self._scores: dict[VmShape, dict[int, tuple[int, Score | None]]] = {}
        """By node: its version then, and the score of its best offer."""
        self._offers: dict[PodClass | None, _ClaimOffers] = {}
        self._fitting: dict[str, Sequence[bool]] = {}
        self._states: list[CardState | None] = []
        self._cards: list[NodeCards] = []
        self._seen_by: dict[PoolId, list[int]] = {}
        """The nodes that reach a pool."""
        self._gather()

    def _gather(self) -> None:
        pools = self.snapshot.caches.pools(self._features)
        self._reachable = [pools.reachable(node) for node in self.nodes]
        self._cards = [self.catalog.of(each) for each in self._reachable]
        self._states = [None] * len(self.nodes)
        self._seen_by = {}
        for number, each in enumerate(self._reachable):
            for pool in each.pools:
                self._seen_by.setdefault(pool.id, []).append(number)

    def best(self, shape: VmShape) -> tuple[int, DeviceOrder | None] | None:
        """The number of the node with the best offer and the order of its devices; None: the shape fits nowhere. Raises
        FatalError."""
        heap = self._up_to_date(shape).heap
        while heap:
            _, number, version, order = heap[0]
            if version == self._versions[number]:
                return number, order
            heappop(heap)
        return None

    def scores(self, shape: VmShape, numbers: Iterable[int]) -> list[Score | None]:
        """The score of the best offer of each of these nodes, in their order; None for a node without one. Raises
        FatalError.

        Only devices decide whether there is one: the caller has checked labels, taints, cpu and memory.
        """
        allocator = self._allocator(shape.claims)
        offers, known = self._offers_of(allocator), self._scores.setdefault(shape, {})
        found: list[Score | None] = []
        for number in numbers:
            version, of_node = self._versions[number], known.get(number)
            if of_node is None or of_node[0] != version:
                of_node = known[number] = version, self._score(shape, offers, allocator, number)
            found.append(of_node[1])
        return found

    def forget_shapes(self) -> None:
        """Free the memory of everything that is known about shapes."""
        self._scores.clear()
        self._offers.clear()
        self._rankings.clear()
        self._changes.clear()

    def allocate(self, shape: VmShape, number: int) -> tuple[AllocationResult, ...] | None:
        """What VMs of the shape would get on a node, of devices in the order of A-5.6; None if they don't fit.

        Raises FatalError, NodeError.
        """
        if not shape.claims:
            return ()
        allocator = self._allocator(shape.claims)
        found = allocator.decide(self.nodes[number])
        return None if found.solution is None else allocator.write(found)

    def _score(self, shape: VmShape, offers: _ClaimOffers, allocator: Allocator, number: int) -> Score | None:
        known = offers.by_node[number]
        if known is None or known[0] != self._device_versions[number]:
            known = offers.by_node[number] = self._device_versions[number], self._find_offers(offers, allocator, number)
        room = self.rooms[number]
        after = room.less(shape.cpu, shape.memory)
        return min([self.policy.score(offer, of_devices, room, after) for offer, of_devices in known[1]], default=None)

    def refusals(self, shape: VmShape) -> Counter[str]:
        """Why nodes don't take a VM: text, in kube-scheduler's words where it has some -> number of nodes."""
        found: Counter[str] = Counter()
        fit, fitting = (
            _node_filters(shape.pod),
            {entry[1] for entry in self._up_to_date(shape).heap if entry[2] == self._versions[entry[1]]},
        )
        for number, node in enumerate(self.nodes):
            if number in fitting:
                continue
            room, refusal = self.rooms[number], fit.refusal(NodeState(node))
            if not self.open[number]:
                found["node(s) were closed"] += 1
            elif refusal is not None:
                found[refusal.message] += 1
            elif room.pods_left <= 0:
                found["Too many pods"] += 1
            elif shape.cpu > room.cpu_left or shape.memory > room.memory_left:
                found["Insufficient cpu" if shape.cpu > room.cpu_left else "Insufficient memory"] += 1
            else:
                found["cannot allocate all claims"] += 1
        return found

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
        found = self.best(shape)
        if found is None:
            return None
        number, order = found
        results: tuple[AllocationResult, ...] = ()
        if shape.claims:
            allocator = self._allocator(shape.claims_of(vm))
            results = allocator.write(allocator.decide(self.nodes[number], order))
        placed = PlacedVm(shape, number, results)
        self.take(placed)
        return placed

    def take(self, placed: PlacedVm) -> None:
        """Count a VM as placed: its devices, cpu and memory are in use."""
        self._use(placed, 1)

    def occupy(self, placed: PlacedVm) -> None:
        """Count the cpu and memory of a VM whose devices are in use in the snapshot already."""
        number = placed.node
        self.rooms[number] = self.rooms[number].less(placed.shape.cpu, placed.shape.memory)
        self._changed(number)

    def release(self, placed: PlacedVm) -> None:
        """The exact reverse of `take`."""
        self._use(placed, -1)

    def set_open(self, number: int, *, open: bool) -> None:
        """Let VMs be placed on a node, or not."""
        self.open[number] = open
        self._changed(number)

    def replace_slices(self, snapshot: Snapshot, catalog: CardCatalog) -> None:
        """Go on with other slices; what is in use stays. ``snapshot``: built from these slices."""
        self.snapshot = Snapshot(
            snapshot.slices, snapshot.classes, snapshot.caches, self.snapshot.used, self.snapshot.allocated
        )
        self.catalog = catalog
        self._rankings.clear()
        self._offers.clear()
        self._gather()

    def use_room(self, number: int, cpu: int, memory: int, by: int) -> None:
        """Count cpu (thousandths) and memory (bytes) of one pod on a node as taken (``by`` 1), or as given back
        (-1)."""
        self.rooms[number] = self.rooms[number].less(by * cpu, by * memory, by)
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

    def _use(self, placed: PlacedVm, by: int) -> None:
        self.use_room(placed.node, placed.shape.cpu, placed.shape.memory, by)
        self.use_devices(placed.results, by)

    def _changed(self, number: int) -> None:
        self._versions[number] += 1
        if self._rankings:
            self._changes.append(number)

    def _up_to_date(self, shape: VmShape) -> _Ranking:
        ranking = self._rankings.get(shape)
        if ranking is None:
            offers = self._offers_of(self._allocator(shape.claims))
            ranking = self._rankings[shape] = _Ranking(self._fitting_nodes(shape.pod), offers)
        if ranking.applied is None:
            stale: Sequence[int] = range(len(self.nodes))
        else:
            stale = sorted(set(self._changes[ranking.applied :]))
        if stale:
            self._rank(shape, ranking, stale)
        ranking.applied = len(self._changes)
        return ranking

    def _offers_of(self, allocator: Allocator) -> _ClaimOffers:
        """Claims that break a rule have offers of their own, which raise."""
        if allocator.pod_class is None:
            return _ClaimOffers(len(self.nodes))
        return self._offers.setdefault(allocator.pod_class, _ClaimOffers(len(self.nodes)))

    def _fitting_nodes(self, pod: Pod) -> Sequence[bool]:
        """By node; once for pods with equal wishes."""
        key = pod.spec.model_dump_json(include={"node_selector", "affinity", "tolerations"})
        found = self._fitting.get(key)
        if found is None:
            fit = _node_filters(pod)
            found = self._fitting[key] = [fit.refusal(NodeState(node)) is None for node in self.nodes]
        return found

    def _rank(self, shape: VmShape, ranking: _Ranking, stale: Sequence[int]) -> None:
        cpu, memory, score = shape.cpu, shape.memory, self.policy.score
        rooms, open_, fitting, versions, device_versions = (
            self.rooms,
            self.open,
            ranking.fitting,
            self._versions,
            self._device_versions,
        )
        by_node = ranking.offers.by_node
        allocator: Allocator | None = None
        entries = []
        for number in stale:
            room = rooms[number]
            if (
                cpu > room.cpu_left
                or memory > room.memory_left
                or not room.pods_left
                or not open_[number]
                or not fitting[number]
            ):
                continue
            known = by_node[number]
            if known is None or known[0] != device_versions[number]:
                allocator = allocator or self._allocator(shape.claims)
                known = by_node[number] = device_versions[number], self._find_offers(ranking.offers, allocator, number)
            offers = known[1]
            if offers:
                after = room.less(cpu, memory)
                best, order = min(
                    [(score(offer, of_devices, room, after), offer.order) for offer, of_devices in offers], key=_first
                )
                entries.append((best, number, versions[number], order))
        if len(ranking.heap) > 2 * len(self.nodes):
            ranking.heap = [entry for entry in ranking.heap if entry[2] == versions[entry[1]]]
            heapify(ranking.heap)
        for entry in entries:
            heappush(ranking.heap, entry)

    def _find_offers(self, offers: _ClaimOffers, allocator: Allocator, number: int) -> Sequence[_ScoredOffer]:
        cards = self._cards[number]
        if not allocator.claims:
            offer = Offer.of(cards, self.card_state(number), (), (), None)
            return ((offer, self.policy.device_score(offer)),)
        try:
            key = allocator.outcome_key(self.nodes[number])
            if key is None:
                return self._try_orders(allocator, number)
            of_state = (key, cards.layout, self.policy.kind(cards))
            found = offers.by_state.get(of_state)
            if found is None:
                if len(offers.by_state) >= _REMEMBERED_STATES:
                    offers.by_state.clear()
                found = offers.by_state[of_state] = self._try_orders(allocator, number)
        except NodeError:
            return ()
        return found

    def _try_orders(self, allocator: Allocator, number: int) -> Sequence[_ScoredOffer]:
        """An offer for each of the policy's orders of the node's devices, each different one once. The first that fails
        ends it: whether claims fit is the same in any order."""
        cards, state = self._cards[number], self.card_state(number)
        found: dict[tuple[int, ...], Offer] = {}
        for order in self.policy.orders(cards.layout, state):
            solution = allocator.decide(self.nodes[number], order).solution
            if solution is None:
                return ()
            offer = self._offer(solution, cards, state, order)
            found.setdefault(offer.picks, offer)
        return tuple([(offer, self.policy.device_score(offer)) for offer in found.values()])

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
        return Offer.of(cards, state, picks, taken, order)

    def _allocator(self, claims: Sequence[ResourceClaim]) -> Allocator:
        return Allocator(self.snapshot, claims, self._features, step_limit=self._step_limit, interrupt=self._interrupt)


def _first(scored: tuple[Score, DeviceOrder | None]) -> Score:
    return scored[0]


def _node_filters(pod: Pod) -> Fit:
    """What the pod wants of nodes' labels and taints."""
    return prepare(pod, (NodeUnschedulable(), TaintToleration(), NodeAffinityFilter()), NodeTable())


def room_of(node: Node) -> NodeRoom:
    """What an empty node has."""
    allocatable = amounts(node.status.allocatable)
    cpu, memory, pods = allocatable.get(CPU, 0), allocatable.get(MEMORY, 0), allocatable.get(PODS, 0)
    return NodeRoom(cpu, memory, pods, cpu, memory, pods)


def card_catalog(snapshot: Snapshot, features: Features = DEFAULT) -> CardCatalog:
    """The cards of the snapshot's slices."""
    return CardCatalog(snapshot.caches.pools(features), Resolver(snapshot.caches.capacities, features))
