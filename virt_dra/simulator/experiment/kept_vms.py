"""VMs that are stopped and keep their devices, in a simulation: nobody else gets these until they are released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from virt_dra.scheduling.policies.placer import PlacedVm, PolicyPlacer, VmShape
from virt_dra.simulator.experiment.model import Arrival


@dataclass(slots=True)
class KeptVm:
    """A stopped VM, or a gang. ``arrival``: the rest of it. ``wants_since``: it wants to start again; None: stopped."""

    arrival: Arrival
    placed: tuple[PlacedVm, ...]
    wants_since: float | None = None
    cards: int = 0
    """Thousandths that it has."""


class KeptVms:
    """The stopped VMs that keep devices, by number. Their devices are in use; processors and memory aren't."""

    def __init__(self, placer: PolicyPlacer, cards_of: Callable[[Arrival], int]) -> None:
        """``cards_of``: thousandths of cards that an arrival's VMs ask for."""
        self._placer, self._cards_of = placer, cards_of
        self._kept: dict[int, KeptVm] = {}
        self._starting: dict[VmShape, VmShape] = {}
        """By shape: what it asks for beside the devices that it has."""
        self.cards = 0
        """Thousandths that are kept."""

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def __iter__(self) -> Iterator[tuple[int, KeptVm]]:
        return iter(list(self._kept.items()))

    def keep(self, number: int, vm: KeptVm) -> None:
        """Take over a VM that was placed and stops."""
        for placed in vm.placed:
            self._placer.stop(placed)
        vm.cards = self._cards_of(vm.arrival)
        self._kept[number] = vm
        self.cards += vm.cards

    def release(self, number: int) -> KeptVm:
        """Free its devices. Raises KeyError for one that keeps none."""
        vm = self._gone(number)
        for placed in vm.placed:
            self._placer.use_devices(placed.results, -1)
        return vm

    def __getitem__(self, number: int) -> KeptVm:
        return self._kept[number]

    def wants(self, number: int, since: float) -> None:
        self._kept[number].wants_since = since

    @property
    def wanting(self) -> list[tuple[int, KeptVm]]:
        """The VMs that wait to start again, in the order in which they are tried."""
        waiting = [(number, vm) for number, vm in self._kept.items() if vm.wants_since is not None]

        def turn(waiting_vm: tuple[int, KeptVm]) -> tuple[int, float, int]:
            number, vm = waiting_vm
            return -vm.arrival.priority, vm.wants_since or 0.0, number

        return sorted(waiting, key=turn)

    def start(self, number: int) -> KeptVm | None:
        """The VM, placed again where its devices are; None if there is no room for it, or a node is closed."""
        vm = self._kept[number]
        started: list[PlacedVm] = []
        for placed in vm.placed:
            if self._placer.refusal(self._without_devices(placed.shape), placed.node) is not None:
                break
            self._placer.resume(placed)
            started.append(placed)
        if len(started) < len(vm.placed):
            for placed in started:
                self._placer.stop(placed)
            return None
        return self._gone(number)

    def _gone(self, number: int) -> KeptVm:
        vm = self._kept.pop(number)
        self.cards -= vm.cards
        return vm

    def _without_devices(self, shape: VmShape) -> VmShape:
        if shape not in self._starting:
            self._starting[shape] = VmShape(shape.name, shape.pod, ())
        return self._starting[shape]
