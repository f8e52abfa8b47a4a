"""How the cards of each model of device are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.allocator.model import PoolDevice
from virt_dra.scheduling.policies.cards import WHOLE
from virt_dra.scheduling.policies.placer import PolicyPlacer

_MODEL: Final = frozenset({"model", "productName", "product", "gpuModel"})
"""Identifiers, in any domain, under which drivers publish what a device is."""


def model_of(device: PoolDevice) -> str:
    """The model that a device publishes; its driver if it publishes none."""
    for name, value in device.published.attributes.items():
        if name.rpartition("/")[2] in _MODEL and value.string:
            return value.string
    return device.id.driver


def models_of_devices(placer: PolicyPlacer) -> Mapping[tuple[str, str, str], str]:
    """The model of each device that a node reaches, by driver, pool and name."""
    return {
        device.id: model_of(device)
        for number in range(len(placer.nodes))
        for device in placer.cards(number).reachable.devices
    }


@dataclass(frozen=True, slots=True)
class UsedCards:
    """The cards of one model: how many there are, and the part of them that is used."""

    cards: int
    mean: float
    end: float


class ModelUse:
    """The use of the cards of each model over time, kept up to date node by node."""

    def __init__(self, placer: PolicyPlacer, counted: Sequence[Sequence[int]]) -> None:
        """``counted``: by node, the cards that count there."""
        self._placer = placer
        self._cards = [self._by_model(number, frozenset(cards)) for number, cards in enumerate(counted)]
        self._used = [self._used_on(number) for number in range(len(counted))]
        """By node, the thousandths of each model's cards that are in use."""
        self._numbers: dict[str, int] = {}
        self._total: dict[str, int] = {}
        for cards, used in zip(self._cards, self._used, strict=True):
            for model, of_model in cards.items():
                self._numbers[model] = self._numbers.get(model, 0) + len(of_model)
                self._total[model] = self._total.get(model, 0) + used[model]
        self._seconds = dict.fromkeys(self._numbers, 0.0)
        """By model, thousandths of cards times seconds."""

    def update(self, numbers: Iterable[int]) -> None:
        """Follows a change of the use of these nodes."""
        for number in numbers:
            before, after = self._used[number], self._used_on(number)
            for model, used in after.items():
                self._total[model] += used - before[model]
            self._used[number] = after

    def pass_time(self, seconds: float) -> None:
        for model, used in self._total.items():
            self._seconds[model] += used * seconds

    def measured(self, seconds: float) -> dict[str, UsedCards]:
        """The use of each model; the mean over the seconds that have passed."""
        return {
            model: UsedCards(
                number,
                self._seconds[model] / (number * WHOLE * seconds) if seconds > 0 else self._end(model),
                self._end(model),
            )
            for model, number in sorted(self._numbers.items())
        }

    def _end(self, model: str) -> float:
        return self._total[model] / (self._numbers[model] * WHOLE)

    def _by_model(self, number: int, counted: frozenset[int]) -> Mapping[str, Sequence[int]]:
        cards = self._placer.cards(number)
        models: dict[str, dict[int, None]] = {}
        for device, parts in zip(cards.reachable.devices, cards.layout.parts, strict=True):
            for card in (part.card for part in parts if part.card in counted):
                models.setdefault(model_of(device), {})[card] = None
        return {model: tuple(of_model) for model, of_model in models.items()}

    def _used_on(self, number: int) -> dict[str, int]:
        free = self._placer.card_state(number).free
        return {model: sum([WHOLE - free[card] for card in cards]) for model, cards in self._cards[number].items()}
