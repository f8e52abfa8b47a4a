"""Pod after pod over the nodes of a cluster, as a scheduler decides them; what didn't change is not asked again.

Two ways to choose a node. *First*: the walk begins at the node chosen last and ends at the first that fits. *All*: as kube-scheduler
does, as many nodes that fit are looked for as its rule says (:func:`wanted_nodes`), the first of them is taken, and the next walk begins
behind the last node looked at.

Which nodes fit a kind of pod is kept as bits (bit i: node i), and forgotten for the nodes that see a pool whose use changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virt_dra.allocator.attempt import Allocator, Decision
from virt_dra.allocator.errors import Interrupt, NodeError
from virt_dra.allocator.gates import DEFAULT, Features
from virt_dra.allocator.model import PoolId
from virt_dra.allocator.reuse.pod_classes import PodClass
from virt_dra.allocator.search import DEFAULT_STEP_LIMIT
from virt_dra.allocator.snapshot import Snapshot
from virt_dra.allocator.usage import by_pool, uses_of
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod goes to ``node``: one result per claim, already in use in the walk's snapshot."""

    node: Node
    results: tuple[AllocationResult, ...]


def wanted_nodes(nodes: int) -> int:
    """How many nodes that fit kube-scheduler looks for among ``nodes``: all below 100, else at least 100 and 5 to 50 percent."""
    if nodes < 100:
        return nodes
    return max(100, nodes * max(5, 50 - nodes // 125) // 100)


class BatchAllocator:
    """A scheduler's memory. ``snapshot`` changes with every pod that is placed and every allocation that is released."""

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: Sequence[Node],
        features: Features = DEFAULT,
        *,
        all_nodes: bool = False,
        step_limit: int = DEFAULT_STEP_LIMIT,
        interrupt: Interrupt | None = None,
    ) -> None:
        """``all_nodes``: the second way of the module's text."""
        self.snapshot = snapshot
        self._nodes = nodes
        self._features = features
        self._wanted = wanted_nodes(len(nodes)) if all_nodes else 1
        self._first_only = not all_nodes
        self._step_limit = step_limit
        self._interrupt = interrupt
        self._pools = snapshot.caches.pools(features)
        self._start = 0
        self._everything = (1 << len(nodes)) - 1
        self._seen_by: dict[PoolId, int] = {}
        """The nodes that see a pool, among those looked at so far."""
        self._looked_at = 0
        self._changes: list[PoolId] = []
        """Pools whose use changed, in order; each demand knows up to where it followed."""
        self._verdicts: dict[PodClass, _Verdicts] = {}
        self._found: dict[int, Decision] = {}
        """The first solution that the walk for the present pod came upon; most often it is the one that is taken."""

    def place(self, claims: Sequence[ResourceClaim]) -> Placed | None:
        """Decide for one pod's claims; None: they fit on no node. Raises FatalError as `allocate` does."""
        allocator = Allocator(self.snapshot, claims, self._features, step_limit=self._step_limit, interrupt=self._interrupt)
        verdicts = self._up_to_date(allocator.pod_class)
        self._found.clear()
        index = self._first(allocator, verdicts) if self._first_only else self._among_many(allocator, verdicts)
        if index is None:
            return None
        node = self._nodes[index]
        results = allocator.write(self._found.get(index) or allocator.decide(node))
        self._use(results, 1)
        return Placed(node, results)

    def release(self, results: Sequence[AllocationResult]) -> None:
        """Give back what a pod holds."""
        self._use(results, -1)

    def _use(self, results: Sequence[AllocationResult], by: int) -> None:
        uses = by_pool(uses_of(results))
        self.snapshot = self.snapshot.changed(uses, by)
        self._changes.extend(uses)

    def _up_to_date(self, pod_class: PodClass | None) -> _Verdicts:
        """What is known of the demand's nodes. Claims that break a rule have no demand, and are not remembered."""
        if pod_class is None:
            return _Verdicts(len(self._changes))
        verdicts = self._verdicts.get(pod_class)
        if verdicts is None:
            verdicts = self._verdicts[pod_class] = _Verdicts(len(self._changes))
        changed = 0
        for pool in self._changes[verdicts.followed :]:
            changed |= self._seen_by.get(pool, 0)
        verdicts.followed = len(self._changes)
        verdicts.forget(changed)
        return verdicts

    def _first(self, allocator: Allocator, verdicts: _Verdicts) -> int | None:
        start = self._start
        for low, high in ((start, len(self._nodes)), (0, start)):
            position = _next(verdicts.fits | ~verdicts.known & self._everything, low)
            while position is not None and position < high:
                if verdicts.fits >> position & 1 or self._ask(allocator, verdicts, position):
                    self._start = position
                    return position
                position = _next(verdicts.fits | ~verdicts.known & self._everything, position + 1)
        return None

    def _among_many(self, allocator: Allocator, verdicts: _Verdicts) -> int | None:
        """The first node that fits, once enough are found or all nodes have been looked at."""
        total, start = len(self._nodes), self._start
        chosen: int | None = None
        found = 0
        for low, high in ((start, total), (0, start)):
            position = low
            while position < high:
                unknown = _next(~verdicts.known & self._everything, position)
                end = high if unknown is None or unknown > high else unknown
                known = verdicts.fits >> position & (1 << end - position) - 1
                if known:
                    if chosen is None:
                        chosen = position + _lowest(known)
                    count = known.bit_count()
                    if found + count >= self._wanted:
                        last = position + _nth(known, self._wanted - found)
                        self._start = (last + 1) % total
                        return chosen
                    found += count
                if end < high and self._ask(allocator, verdicts, end):
                    chosen = end if chosen is None else chosen
                    found += 1
                    if found == self._wanted:
                        self._start = (end + 1) % total
                        return chosen
                position = end + 1
        return chosen

    def _ask(self, allocator: Allocator, verdicts: _Verdicts, index: int) -> bool:
        node = self._nodes[index]
        bit = 1 << index
        if not self._looked_at & bit:
            self._looked_at |= bit
            for pool in self._pools.reachable(node).pools:
                self._seen_by[pool.id] = self._seen_by.get(pool.id, 0) | bit
        try:
            found = allocator.decide(node)
        except NodeError:
            verdicts.learn(bit, fits=False)
            return False
        fits = found.solution is not None
        verdicts.learn(bit, fits)
        if fits and not self._found:
            self._found[index] = found
        return fits


class _Verdicts:
    """What is known of a demand: bit i of ``known`` says whether bit i of ``fits`` means anything."""

    __slots__ = ("fits", "followed", "known")

    def __init__(self, followed: int) -> None:
        self.known = 0
        self.fits = 0
        self.followed = followed

    def learn(self, bit: int, fits: bool) -> None:
        self.known |= bit
        if fits:
            self.fits |= bit

    def forget(self, nodes: int) -> None:
        if nodes:
            self.known &= ~nodes
            self.fits &= ~nodes


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _next(bits: int, position: int) -> int | None:
    """The lowest set bit at ``position`` or above."""
    above = bits >> position
    return position + _lowest(above) if above else None


def _nth(bits: int, number: int) -> int:
    """The position of the ``number``-th set bit, counted from 1: there must be as many."""
    low, high = 0, bits.bit_length()
    while high - low > 1:
        middle = (low + high) // 2
        below = (bits & (1 << middle) - 1).bit_count()
        if below >= number:
            high = middle
        else:
            low = middle
    return low
