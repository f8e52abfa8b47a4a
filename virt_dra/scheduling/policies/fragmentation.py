"""The policy `least-fragmentation`, and the measure it minimises: how much of a node's free cards the typical VM can't
use (Fragmentation Gradient Descent: Weng et al., "Beware of Fragmentation", USENIX ATC 2023). A typical VM m is drawn
from the workload with probability p(m). On node n it can use either nothing (if its devices, cpu or memory don't fit
there) or the free cards that have enough left for it. The fragmentation of n is the expected part of its free cards
that m can't use; the policy takes the offer with which this grows least."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import tanh
from operator import mul

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.by_card import fullest_first, packed
from virt_dra.scheduling.policies.cards import WHOLE, CardLayout, CardState, NodeCards
from virt_dra.scheduling.policies.offer import NodeRoom, Offer
from virt_dra.scheduling.policies.policy import RatedPolicy, Score, each_first

_TRIED_CARDS = 16
"""Different cards of a node that are tried first, at most."""
_REMEMBERED = 50_000
"""States of one kind of node whose use is kept; beyond it all are computed anew."""


@dataclass(frozen=True, slots=True)
class RequestNeed:
    """What one request of a typical VM needs: ``count`` devices, each ``shares[card]`` thousandths of its card."""

    count: int
    shares: Mapping[int, int]
    """Only cards that have a device for the request, with the least that one takes."""


ClaimsNeed = tuple[RequestNeed, ...]
"""Of all requests of a VM."""


@dataclass(frozen=True, slots=True)
class TypicalVm:
    """One kind of VM in the workload. ``devices``: equal for VMs with equal claims; ``weight``: how many there are."""

    devices: int
    cpu: int
    memory: int
    weight: int


class TypicalWorkload:
    """The typical workload. ``needs(cards, devices)``: what VMs with these claims need of a node."""

    def __init__(self, vms: Sequence[TypicalVm], needs: Callable[[NodeCards, int], ClaimsNeed]) -> None:
        self._needs = needs
        self._device_kinds = sorted({vm.devices for vm in vms})
        self._vms = vms
        self.weight = sum(vm.weight for vm in vms)
        self._cpu_steps = sorted({vm.cpu for vm in vms})
        self._memory_steps = sorted({vm.memory for vm in vms})
        self._weights: dict[tuple[int, int], tuple[int, ...]] = {}
        self._kinds: dict[NodeCards, _NodeKind] = {}
        self._equal_kinds: dict[object, _NodeKind] = {}

    def fragmentation(self, cards: NodeCards, state: CardState, room: NodeRoom) -> int:
        """The expected thousandths of free cards that a typical VM can't use, times the workload's weight."""
        free = sum(state.free)
        if not free:
            return 0
        usable = self.kind(cards).usable(state.free)
        if room.pods_left <= 0:
            return free * self.weight
        used: int = sum(map(mul, usable, self._fitting(room)))
        return free * self.weight - used

    def growth(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> int:
        """How much the fragmentation of a node grows with the offer, which takes it from ``before`` to ``after``."""
        before_it = self.fragmentation(offer.cards, offer.before, before)
        return self.fragmentation(offer.cards, offer.after, after) - before_it

    def _fitting(self, room: NodeRoom) -> tuple[int, ...]:
        """The weight of the VMs that have enough cpu and memory, by kind of claims."""
        key = bisect_right(self._cpu_steps, room.cpu_left), bisect_right(self._memory_steps, room.memory_left)
        weights = self._weights.get(key)
        if weights is None:
            by_kind = dict.fromkeys(self._device_kinds, 0)
            for vm in self._vms:
                if room.cpu_left >= vm.cpu and room.memory_left >= vm.memory:
                    by_kind[vm.devices] += vm.weight
            weights = self._weights[key] = tuple(by_kind.values())
        return weights

    def kind(self, cards: NodeCards) -> _NodeKind:
        """The kind of a node: one object for nodes whose cards serve the typical VMs in the same way."""
        kind = self._kinds.get(cards)
        if kind is None:
            needs = tuple([self._needs(cards, devices) for devices in self._device_kinds])
            count = cards.layout.count
            requests = [
                tuple([(request.count, tuple(sorted(request.shares.items()))) for request in need]) for need in needs
            ]
            key = count, tuple(requests)
            kind = self._kinds[cards] = self._equal_kinds.setdefault(key, _NodeKind(needs, count))
        return kind


class _NodeKind:
    """Nodes whose cards serve the typical VMs in the same way."""

    def __init__(self, needs: Sequence[ClaimsNeed], count: int) -> None:
        self._needs = needs
        columns = [tuple([request.shares.get(card) for need in needs for request in need]) for card in range(count)]
        self._interchangeable = len(set(columns)) <= 1
        self._usable: dict[tuple[int, ...], tuple[int, ...]] = {}

    def usable(self, free: tuple[int, ...]) -> tuple[int, ...]:
        """The thousandths of the free cards that a VM can use, by kind of claims."""
        if self._interchangeable:
            free = tuple(sorted(free))
        usable = self._usable.get(free)
        if usable is None:
            if len(self._usable) >= _REMEMBERED:
                self._usable.clear()
            usable = self._usable[free] = tuple([_usable(need, free) for need in self._needs])
        return usable


def _usable(need: ClaimsNeed, free: tuple[int, ...]) -> int:
    """A VM without devices uses none: to it all free cards are lost, as in the paper."""
    cards: set[int] = set()
    for request in need:
        count = 0
        for card, share in request.shares.items():
            left = free[card]
            if left and left >= share:
                count += left // share if share else request.count
                cards.add(card)
        if count < request.count:
            return 0
    return sum([free[card] for card in cards])


class LeastFragmentation(RatedPolicy):
    """Takes the offer with which the expected fragmentation grows least; among equal ones, as `pack` chooses."""

    name = "least-fragmentation"
    summary = "where least of the free devices becomes useless to the typical VM (FGD, USENIX ATC 2023)"

    def __init__(self, workload: TypicalWorkload) -> None:
        self.workload = workload

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        """An order for each different card, whose devices it tries first."""
        fullest = fullest_first(cards, state)
        first: dict[object, int] = {}
        for position in fullest:
            parts = cards.parts[position]
            if any(state.free[part.card] for part in parts):
                first.setdefault(
                    tuple([(cards.alike[part.card], state.free[part.card], part.amount) for part in parts]), position
                )
        groups = [(position,) for position in list(first.values())[:_TRIED_CARDS]]
        return list(dict.fromkeys(each_first(groups, fullest))) or (fullest,)

    def device_score(self, offer: Offer) -> Score:
        return packed(offer)

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return (self.workload.growth(offer, before, after), *of_devices)

    def per_cent(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> float:
        """The sigmoid of the cards by which the fragmentation shrinks, as in the paper's simulator."""
        growth = self.workload.growth(offer, before, after) / (max(self.workload.weight, 1) * WHOLE)
        return 50 * (1 - tanh(growth / 2))

    def kind(self, cards: NodeCards) -> Hashable:
        return self.workload.kind(cards)
