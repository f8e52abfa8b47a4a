"""The policy `aligned`: a VM's devices on one PCIe root, else NUMA node, on a node whose cpu and memory match."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.by_card import fullest_first, packed
from virt_dra.scheduling.policies.cards import WHOLE, CardLayout, CardState, DeviceSeat
from virt_dra.scheduling.policies.offer import NodeRoom, Offer
from virt_dra.scheduling.policies.policy import Policy, Score, each_first

_TRIED_PLACES = 32
"""PCIe roots and NUMA nodes of a node that are tried first, at most: a bound for what drivers publish."""


class Aligned(Policy):
    """Tries the devices of each PCIe root first, then those of each NUMA node, each time the fullest cards first."""

    name = "aligned"
    summary = "a VM's devices on one PCIe root, else one NUMA node, where cpu and memory match"

    def orders(self, cards: CardLayout, state: CardState) -> Sequence[DeviceOrder | None]:
        fullest = fullest_first(cards, state)
        if len(cards.parts) < 2:
            return (fullest,)
        groups = [*_groups(fullest, cards.roots), *_groups(fullest, cards.numa)]
        return list(dict.fromkeys([fullest, *each_first(groups[:_TRIED_PLACES], fullest)]))

    def device_score(self, offer: Offer) -> Score:
        roots = len({_seat(offer.layout.roots[position], position) for position in offer.picks})
        numa = len({_seat(offer.layout.numa[position], position) for position in offer.picks})
        return (roots > 1, numa, roots)

    def score(self, offer: Offer, of_devices: Score, before: NodeRoom, after: NodeRoom) -> Score:
        return (*of_devices, _mismatch(offer, after) // _MISMATCH_STEP, *packed(offer), after.left)


_MISMATCH_STEP = 50
"""Thousandths: nodes that match nearly alike are packed."""


def _groups(order: DeviceOrder, places: Sequence[DeviceSeat]) -> list[list[int]]:
    groups: dict[DeviceSeat, list[int]] = {}
    for position in order:
        if places[position] is not None:
            groups.setdefault(places[position], []).append(position)
    return list(groups.values())


def _seat(place: DeviceSeat, position: int) -> Hashable:
    """The seat of a device; one that publishes none has a seat of its own."""
    return (place,) if place is not None else position


def _mismatch(offer: Offer, room: NodeRoom) -> int:
    """How differently the node's cards, cpu and memory would be used, in thousandths."""
    cards = offer.layout.count * WHOLE
    used = [WHOLE - sum(offer.after.free) * WHOLE // cards] if cards else []
    used += [
        WHOLE - left * WHOLE // whole
        for left, whole in ((room.cpu_left, room.cpu), (room.memory_left, room.memory))
        if whole
    ]
    return max(used, default=0) - min(used, default=0)
