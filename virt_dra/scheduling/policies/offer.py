"""An offer: what a node would give to a VM, and what that would leave. Offers are all that policies see, and score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.cards import WHOLE, CardLayout, CardState, NodeCards

PART_OF_A_CARD: Final = 0
"""The size of a VM that has a part of one card; else the number of its cards."""


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What a node has of cpu (thousandths), memory (bytes) and pods, in all and left."""

    cpu: int
    memory: int
    pods: int
    cpu_left: int
    memory_left: int
    pods_left: int
    sizes: tuple[tuple[int, int], ...] = ()
    """The sizes of the VMs with devices on it, and how many there are of each; only for a policy that reads it."""

    def less(self, cpu: int, memory: int, pods: int = 1) -> NodeRoom:
        """The room after a pod took its part (negative amounts: after it gave it back)."""
        left = self.cpu_left - cpu, self.memory_left - memory, self.pods_left - pods
        return NodeRoom(self.cpu, self.memory, self.pods, *left, self.sizes)

    def with_size(self, size: int, by: int) -> NodeRoom:
        """The room with one more VM of this size (``by`` 1), or one less (-1)."""
        numbers = dict(self.sizes)
        numbers[size] = numbers.get(size, 0) + by
        return replace(self, sizes=tuple(sorted((size, number) for size, number in numbers.items() if number)))

    def fits(self, cpu: int, memory: int) -> bool:
        return cpu <= self.cpu_left and memory <= self.memory_left and self.pods_left > 0

    @property
    def left(self) -> int:
        """The mean of what is left of cpu and memory, in thousandths."""
        cpu = self.cpu_left * WHOLE // self.cpu if self.cpu else 0
        memory = self.memory_left * WHOLE // self.memory if self.memory else 0
        return (cpu + memory) // 2


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """The devices at ``picks`` (positions in `Reachable.devices`) of a node, which take ``taken`` of its cards."""

    cards: NodeCards
    before: CardState
    after: CardState
    picks: tuple[int, ...]
    taken: tuple[tuple[int, int], ...]
    """(card, thousandths) for every pick and card that it is part of."""
    order: DeviceOrder | None
    """The order of the node's devices in which the allocator finds these."""

    @classmethod
    def from_picks(
        cls,
        cards: NodeCards,
        before: CardState,
        picks: Sequence[int],
        taken: Sequence[tuple[int, int]],
        order: DeviceOrder | None,
    ) -> Offer:
        """The offer, with the state that it would leave."""
        if not taken:
            return cls(cards, before, before, tuple(picks), (), order)
        free, users = list(before.free), list(before.users)
        for card, amount in taken:
            free[card] = max(free[card] - amount, 0)
            users[card] += 1
        return cls(cards, before, CardState(tuple(free), tuple(users)), tuple(picks), tuple(taken), order)

    @property
    def layout(self) -> CardLayout:
        return self.cards.layout

    @property
    def size(self) -> int:
        """The size of the VM, by what it takes."""
        return size_of([amount for _, amount in self.taken])

    @property
    def opened(self) -> int:
        """The number of cards that were unused before."""
        return sum(not self.before.users[card] for card in {card for card, _ in self.taken})

    @property
    def neighbours(self) -> int:
        """The number of other VMs' devices and shares on the cards that are picked."""
        return sum(self.before.users[card] for card in {card for card, _ in self.taken})

    @property
    def left_on_picked(self) -> int:
        """Thousandths that stay free of the cards that are picked."""
        return sum(self.after.free[card] for card in {card for card, _ in self.taken})


def size_of(amounts: Sequence[int]) -> int:
    """The size of a VM that takes these parts of cards, in thousandths."""
    return PART_OF_A_CARD if len(amounts) == 1 and amounts[0] < WHOLE else len(amounts)
