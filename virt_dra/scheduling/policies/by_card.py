"""Policies that look at cards and nodes only: first-fit, random, pack, spread, quiet, least-waste."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.cards import CardLayout, CardState
from virt_dra.scheduling.policies.offer import NodeRoom, Offer
from virt_dra.scheduling.policies.policy import Policy, Score, sorted_devices


class FirstFit(Policy):
    """The first node that fits, and its first devices, as Kubernetes' allocator chooses them (A-7)."""

    name = "first-fit"
    summary = "the first node and the first devices that fit, as Kubernetes allocates"

    def device_score(self, offer: Offer) -> Score:
        return ()

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return of_devices


class Random(Policy):
    """Any node that fits: what to compare other policies with."""

    name = "random"
    summary = "any node that fits, by the seed: a baseline"

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def device_score(self, offer: Offer) -> Score:
        return ()

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return ()


class Pack(Policy):
    """Best fit: cards in use before untouched ones, nodes in use before idle ones; of these, what leaves least free."""

    name = "pack"
    summary = "best fit: used cards and nodes first, where least stays free"

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        return (fullest_first(cards, state),)

    def device_score(self, offer: Offer) -> Score:
        return packed(offer)


class Spread(Policy):
    """Worst fit: the node whose cards, cpu and memory are used least, and its least used cards."""

    name = "spread"
    summary = "worst fit: the node and the cards that are used least"

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        return (emptiest_first(cards, state),)

    def device_score(self, offer: Offer) -> Score:
        if not offer.picks:
            return ()
        return (-sum(offer.after.free) / offer.layout.count, -offer.left_on_picked)

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return (*of_devices, -after.left)


class Quiet(Policy):
    """The fewest neighbours on a card, then on the node."""

    name = "quiet"
    summary = "the fewest other VMs on the same card, then on the same node"

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        return (sorted_devices(cards, lambda position: sum(state.users[part.card] for part in cards.parts[position])),)

    def device_score(self, offer: Offer) -> Score:
        return (offer.neighbours, sum(offer.before.users), *packed(offer))


class LeastWaste(Policy):
    """The smallest devices that satisfy the claims, by their capacity; among equal ones, as `pack` chooses."""

    name = "least-waste"
    summary = "the smallest device that satisfies: 4Gi don't take an 80Gi card"

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        fullness = _fullness(cards, state)
        return (sorted_devices(cards, lambda position: (cards.sizes[position], fullness(position))),)

    def device_score(self, offer: Offer) -> Score:
        return (sum(offer.layout.sizes[position] for position in offer.picks), *packed(offer))


def packed(offer: Offer) -> Score:
    """The score of best fit: cards that are opened, an idle node, what stays free on the cards, and on the node."""
    opens_node = bool(offer.picks) and not any(offer.before.users)
    return (offer.opened, opens_node, offer.left_on_picked, sum(offer.after.free))


def fullest_first(cards: CardLayout, state: CardState) -> DeviceOrder:
    """Devices of the cards with the least free part first."""
    return sorted_devices(cards, _fullness(cards, state))


def emptiest_first(cards: CardLayout, state: CardState) -> DeviceOrder:
    """Devices of the cards with the largest free part first."""
    fullness = _fullness(cards, state)
    return sorted_devices(cards, lambda position: -fullness(position))


def _fullness(cards: CardLayout, state: CardState) -> Callable[[int], int]:
    free, parts = state.free, cards.parts
    return lambda position: max([free[part.card] for part in parts[position]])
