"""The VMs that wait for a place, by priority and time of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.model import Arrival

_Alike = tuple[VmShape, int]
"""VMs, or gangs of one size, that differ only in their names: they fit if the first of them does."""


class WaitingVms:
    """A queue of arrivals, each with the time since which it waits."""

    def __init__(self) -> None:
        self._by_kind: dict[_Alike, list[tuple[int, int, float, Arrival]]] = {}
        """Heaps of (-priority, number, since, arrival)."""
        self._numbers = count()
        self.vms = 0

    def __iter__(self) -> Iterator[tuple[Arrival, float]]:
        return ((arrival, since) for heap in self._by_kind.values() for _, _, since, arrival in heap)

    def add(self, arrival: Arrival, since: float) -> None:
        heap = self._by_kind.setdefault((arrival.shape, arrival.members), [])
        heappush(heap, (-arrival.priority, next(self._numbers), since, arrival))
        self.vms += arrival.members

    def start_what_fits(self, start: Callable[[Arrival, float], bool]) -> None:
        """Try them in order; ``start`` says whether one was started. Those like one that wasn't are skipped."""
        heads = [(heap[0][:2], kind) for kind, heap in self._by_kind.items()]
        order = [(priority, number, index) for index, ((priority, number), _) in enumerate(heads)]
        heapify(order)
        while order:
            *_, index = order[0]
            kind = heads[index][1]
            heap = self._by_kind[kind]
            _, _, since, arrival = heap[0]
            heappop(order)
            if not start(arrival, since):
                continue
            heappop(heap)
            self.vms -= arrival.members
            if heap:
                heappush(order, (*heap[0][:2], index))
            else:
                del self._by_kind[kind]
