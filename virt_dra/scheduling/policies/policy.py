"""The interface of placement policies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.cards import CardLayout, CardState, NodeCards
from virt_dra.scheduling.policies.offer import NodeRoom, Offer

Score = tuple[float, ...]
"""Compared as tuples: the lower, the better. Scores of equal offers are equal, whenever they are computed."""

DevicePreference = Callable[[int], object]
"""Position of a device -> what devices are sorted by; the smaller, the earlier it is tried."""


class Policy:
    """A preference among the offers of nodes. It never changes what fits. ``summary``: one line for help texts.
    ``draw``: a random number in [0, 1), which decides between nodes of equal scores; None: the first is taken."""

    name: ClassVar[str]
    summary: ClassVar[str]
    draw: Callable[[], float] | None = None
    distinguishes_sizes: bool = False
    """Whether scores read `NodeRoom.sizes`."""

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        """The orders in which devices are tried, at least one; each gives an offer. None: that of A-5.6."""
        return (None,)

    def device_score(self, offer: Offer) -> Score:
        """What the score depends on of the devices alone: computed once for equal nodes."""
        raise NotImplementedError

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        """The whole score: ``of_devices``, and by default how little cpu and memory is left."""
        return (*of_devices, after.left)

    def kind(self, cards: NodeCards) -> Hashable:
        """Equal for nodes of one layout whose equal offers have equal scores."""
        return None


class RatedPolicy(Policy):
    """A policy that rates offers from 0 to 100, so that kube-scheduler's scoring can be applied to it."""

    def per_cent(self, offer: Offer, before: NodeRoom, after: NodeRoom) -> float:
        """The rating: the higher, the better."""
        raise NotImplementedError


class NodesOnly(Policy):
    """Another policy where only the node can be chosen; its devices are taken in the order of A-5.6."""

    name = "nodes-only"
    summary = "another policy's node, and kube-scheduler's devices"

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.draw = policy.draw
        self.distinguishes_sizes = policy.distinguishes_sizes

    def device_score(self, offer: Offer) -> Score:
        return self._policy.device_score(offer)

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return self._policy.score(offer, of_devices, before, after)

    def kind(self, cards: NodeCards) -> Hashable:
        return self._policy.kind(cards)


def sorted_devices(cards: CardLayout, key: DevicePreference) -> DeviceOrder:
    """All devices of a node, the preferred first; those preferred alike in the order of A-5.6."""
    return tuple(sorted(range(len(cards.parts)), key=key))  # type: ignore[arg-type]


def each_first(groups: Iterable[Sequence[int]], rest: DeviceOrder) -> list[DeviceOrder]:
    """An order for each group that begins with its devices; the others follow in the order ``rest``."""
    orders: list[DeviceOrder] = []
    for group in groups:
        members = frozenset(group)
        orders.append((*group, *[position for position in rest if position not in members]))
    return orders
