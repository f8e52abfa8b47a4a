"""Allocation for pod after pod over the nodes of a cluster, as a scheduler does it.

Two ways to choose a node. *First*: try nodes from the one chosen last on, and take the first that fits. *All*: as
kube-scheduler does, find as many fitting nodes as its rule wants (:func:`wanted_nodes`), take the first of them, and
start behind the last one tried next time.

Which nodes fit a class of pods is kept as bits (bit i: node i), until the use of a pool that the node reaches changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from virt_dra.allocator.attempt import Allocator, AttemptResult
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
    """The pod goes to ``node``: one result per claim, in use already in the allocator's snapshot."""

    node: Node
    results: tuple[AllocationResult, ...]


def wanted_nodes(nodes: int) -> int:
    """The number of fitting nodes that kube-scheduler looks for among ``nodes``: all below 100, else at least 100 and 5
    to 50 percent."""
    if nodes < 100:
        return nodes
    return max(100, nodes * max(5, 50 - nodes // 125) // 100)


class BatchAllocator:
    """Places pod after pod. ``snapshot`` is replaced with every pod that is placed and every allocation that is
    released."""

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
        """``all_nodes``: the second way to choose a node."""
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
        self._reached_from: dict[PoolId, int] = {}
        """The nodes that reach a pool, among those tried so far."""
        self._tried = 0
        self._changes: list[PoolId] = []
        """Pools whose use changed, in order."""
        self._fits: dict[PodClass, _Fits] = {}
        self._solution: dict[int, AttemptResult] = {}
        """The first solution for the present pod, by node; most often that node is chosen."""

    def place(self, claims: Sequence[ResourceClaim]) -> Placed | None:
        """Choose a node for one pod's claims; None: they fit nowhere. Raises FatalError as `allocate` does."""
        allocator = Allocator(
            self.snapshot, claims, self._features, step_limit=self._step_limit, interrupt=self._interrupt
        )
        fits = self._up_to_date(allocator.pod_class)
        self._solution.clear()
        index = self._first(allocator, fits) if self._first_only else self._among_many(allocator, fits)
        if index is None:
            return None
        node = self._nodes[index]
        results = allocator.write(self._solution.get(index) or allocator.decide(node))
        self._use(results, 1)
        return Placed(node, results)

    def release(self, results: Sequence[AllocationResult]) -> None:
        """Free what a pod holds."""
        self._use(results, -1)

    def _use(self, results: Sequence[AllocationResult], by: int) -> None:
        uses = by_pool(uses_of(results))
        self.snapshot = self.snapshot.changed(uses, by)
        self._changes.extend(uses)

    def _up_to_date(self, pod_class: PodClass | None) -> _Fits:
        """The fits of the class, without those that changes of use made stale. Claims that break a rule have none."""
        fits = None if pod_class is None else self._fits.get(pod_class)
        if fits is None:
            fits = _Fits(len(self._changes))
            if pod_class is not None:
                self._fits[pod_class] = fits
        stale = 0
        for pool in self._changes[fits.changes_applied :]:
            stale |= self._reached_from.get(pool, 0)
        fits.changes_applied = len(self._changes)
        fits.decided &= ~stale
        fits.fitting &= ~stale
        return fits

    def _first(self, allocator: Allocator, fits: _Fits) -> int | None:
        for low, high in ((self._start, len(self._nodes)), (0, self._start)):
            position = _next(fits.fitting | ~fits.decided & self._everything, low)
            while position is not None and position < high:
                if fits.fitting >> position & 1 or self._try(allocator, fits, position):
                    self._start = position
                    return position
                position = _next(fits.fitting | ~fits.decided & self._everything, position + 1)
        return None

    def _among_many(self, allocator: Allocator, fits: _Fits) -> int | None:
        """The first node that fits, once enough are found or all nodes have been tried."""
        total = len(self._nodes)
        chosen: int | None = None
        fitting_count = 0
        for position, fitting in self._runs(allocator, fits):
            if fitting and chosen is None:
                chosen = position + _lowest(fitting)
            several = fitting.bit_count()
            if fitting_count + several >= self._wanted:
                self._start = (position + _nth(fitting, self._wanted - fitting_count) + 1) % total
                return chosen
            fitting_count += several
        return chosen

    def _runs(self, allocator: Allocator, fits: _Fits) -> Iterator[tuple[int, int]]:
        """The nodes in the order of trying, in runs: the first node, and which of the run fit, as bits. A run is a
        sequence of decided nodes, or one node that is tried now."""
        for low, high in ((self._start, len(self._nodes)), (0, self._start)):
            position = low
            while position < high:
                undecided = _next(~fits.decided & self._everything, position)
                end = high if undecided is None else min(undecided, high)
                if end > position:
                    yield position, fits.fitting >> position & (1 << end - position) - 1
                if end < high:
                    yield end, int(self._try(allocator, fits, end))
                position = end + 1

    def _try(self, allocator: Allocator, fits: _Fits, index: int) -> bool:
        node = self._nodes[index]
        bit = 1 << index
        if not self._tried & bit:
            self._tried |= bit
            for pool in self._pools.reachable(node).pools:
                self._reached_from[pool.id] = self._reached_from.get(pool.id, 0) | bit
        try:
            attempt = allocator.decide(node)
        except NodeError:
            attempt = None
        fits.decided |= bit
        if attempt is None or attempt.solution is None:
            return False
        fits.fitting |= bit
        if not self._solution:
            self._solution[index] = attempt
        return True


class _Fits:
    """The nodes that fit a class of pods: bit i of ``fitting`` is valid if bit i of ``decided`` is set."""

    __slots__ = ("changes_applied", "decided", "fitting")

    def __init__(self, changes_applied: int) -> None:
        self.decided = 0
        self.fitting = 0
        self.changes_applied = changes_applied


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
