"""The policies that the FGD paper (Weng et al., USENIX ATC 2023) is compared with there, as in its simulator
(github.com/hkust-adsl/kubernetes-scheduler-simulator, ``pkg/simulator/plugin``), and kube-scheduler's scoring. All of
them fill the fullest cards of a node first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.by_card import fullest_first
from virt_dra.scheduling.policies.cards import WHOLE, CardLayout, CardState, NodeCards
from virt_dra.scheduling.policies.offer import NodeRoom, Offer
from virt_dra.scheduling.policies.policy import Policy, RatedPolicy, Score

LARGEST_CPU: Final = 128_000
"""Thousandths of a CPU of the paper's largest node: its CPUs together weigh as much as its cards."""
LARGEST_CARDS: Final = 8 * WHOLE
"""The cards of the paper's largest node, in thousandths."""


class _Baseline(RatedPolicy):
    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        return (fullest_first(cards, state),)

    def device_score(self, offer: Offer) -> Score:
        return ()

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return (-self.per_cent(offer, before, after),)


class DotProduct(_Baseline):
    """Tetris (Grandl et al., SIGCOMM 2014), turned round: the smallest product of what is asked for and left."""

    name = "dot-product"
    summary = "the smallest product of what is asked for and what is left (a baseline of the FGD paper)"

    def per_cent(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> float:
        cpu = before.cpu_left * (before.cpu_left - after.cpu_left) / LARGEST_CPU**2
        left = sum(offer.before.free)
        cards = left * (left - sum(offer.after.free)) / LARGEST_CARDS**2
        return 100 * (1 - (cpu + cards) / 2)


class Clustering(_Baseline):
    """Keeps VMs of one size together: on a node with only such, with such, idle, any; the fullest first."""

    name = "clustering"
    summary = "VMs that take equally many cards together (a baseline of the FGD paper)"
    distinguishes_sizes = True

    def per_cent(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> float:
        if not offer.picks:
            return 0.0
        sizes = {size for size, _ in before.sizes}
        alike = (3 if len(sizes) == 1 else 2) if offer.size in sizes else 0
        band = alike if sizes else 1
        return 25 * band + 25 * max(LARGEST_CARDS - sum(offer.before.free), 0) / LARGEST_CARDS


class BestFit(_Baseline):
    """Takes the node on which least is left of cpu and cards, each as part of the largest node's."""

    name = "best-fit"
    summary = "where least is left of cpu and cards, weighted (a baseline of the FGD paper)"

    def per_cent(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> float:
        return 100 * (1 - (after.cpu_left / LARGEST_CPU + sum(offer.after.free) / LARGEST_CARDS) / 2)


class GpuPacking(_Baseline):
    """Takes cards in use before untouched ones of a node in use, and these before those of an idle node."""

    name = "gpu-packing"
    summary = "cards in use, then nodes in use, then idle nodes with few cards (a baseline of the FGD paper)"

    def per_cent(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> float:
        if not offer.picks:
            return 0.0
        free = offer.before.free
        untouched = sum(left == WHOLE for left in free)
        if untouched == len(free):
            return max(_IDLE - untouched, untouched)
        picked = {card for card, _ in offer.taken}
        opened = sum(free[card] == WHOLE for card in picked)
        if opened:
            return max(_UNTOUCHED - opened, _IDLE)
        return max(100 - sum(free[card] * 100 // WHOLE for card in picked) // 10, _UNTOUCHED)


_IDLE: Final = 33
"""At most, for a node on which no card is in use: a third of 100, as a whole number."""
_UNTOUCHED: Final = 50
"""At most, for untouched cards of a node in use."""


class WholePerCent(Policy):
    """A rated policy as a plugin of kube-scheduler: whole numbers from 0 to 100, and one of the best nodes is drawn."""

    name = "whole-per-cent"
    summary = "another policy's rating in whole per cent"

    def __init__(self, policy: RatedPolicy, draw: Callable[[], float]) -> None:
        self._policy = policy
        self.draw = draw
        self.distinguishes_sizes = policy.distinguishes_sizes

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        """The wrapped policy's orders, so that of equal cards the first is taken, as in the paper's simulator."""
        first, *others = self._policy.orders(cards, state)
        return [*sorted(others, key=lambda order: order[:1] if order else ()), first]

    def device_score(self, offer: Offer) -> Score:
        return ()

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return (-int(min(max(self._policy.per_cent(offer, before, after), 0), 100)),)

    def kind(self, cards: NodeCards) -> Hashable:
        return self._policy.kind(cards)
