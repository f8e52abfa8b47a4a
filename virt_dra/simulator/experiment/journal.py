"""What happened to VMs in a simulation: how long they waited, by kind and model of device, and where they ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from virt_dra.api.resource_v1 import DeviceRequestAllocationResult
from virt_dra.api.wire import Json
from virt_dra.scheduling.policies.placer import PlacedVm
from virt_dra.simulator.experiment.measures import KindMeasures, ModelMeasures, Waits
from virt_dra.simulator.experiment.model import Arrival
from virt_dra.simulator.experiment.model_use import UsedCards


@dataclass(frozen=True, slots=True)
class Stay:
    """A VM on a node. Times in seconds since the beginning."""

    vm: str
    vm_kind: str
    arrived: float
    started: float
    ended: float | None
    """None: it runs at the end."""
    evicted: bool
    """True if it ended because its node or device was taken away."""
    node: str
    devices: tuple[str, ...]
    """``driver/pool/device``, in the order of the requests."""

    def to_json(self) -> Json:
        return {
            "vm": self.vm,
            "vmKind": self.vm_kind,
            "arrived": round(self.arrived, 3),
            "started": round(self.started, 3),
            "ended": None if self.ended is None else round(self.ended, 3),
            "evicted": self.evicted,
            "node": self.node,
            "devices": list(self.devices),
        }


class _KindTotals:
    def __init__(self) -> None:
        self.vms = self.started = 0
        self.waits = Waits()
        self.card_seconds = 0.0


@dataclass(frozen=True, slots=True)
class RunningVms:
    """A VM that runs, or all of a gang."""

    arrival: Arrival
    since: float
    placed: tuple[PlacedVm, ...]
    first_stay: int
    """Position of the first of them among the journal's stays."""

    @property
    def named(self) -> list[tuple[str, PlacedVm]]:
        """The VMs with their names; those of a gang are numbered."""
        name = self.arrival.name
        if self.arrival.members == 1:
            return [(name, self.placed[0])]
        return [(f"{name}-{member}", vm) for member, vm in enumerate(self.placed)]


class Journal:
    """The record of a simulation. What begins before ``warm_up`` isn't measured; stays are kept from the beginning."""

    def __init__(
        self,
        warm_up: float,
        node_names: Sequence[str],
        models: Mapping[tuple[str, str, str], str],
        *,
        keeps_stays: bool,
    ) -> None:
        """``models``: of the cluster's devices."""
        self._warm_up, self._nodes, self._model_of, self._keeps_stays = warm_up, node_names, models, keeps_stays
        self.stays: list[Stay] = []
        self.running: dict[int, RunningVms] = {}
        """By number, in the order of their starts."""
        self.waits, self.restart_waits = Waits(), Waits()
        self.restarts = 0
        self.started = self.evicted = self.started_gangs = 0
        self._kinds: dict[str, _KindTotals] = {}
        self._models: defaultdict[str, Waits] = defaultdict(Waits)

    def arrives(self, arrival: Arrival) -> None:
        """Records a VM or gang that came for the first time."""
        if arrival.at >= self._warm_up:
            self._kind(arrival).vms += arrival.members

    def runs(self, number: int, arrival: Arrival, placed: PlacedVm) -> None:
        """Records a VM that runs from the beginning: it has waited for nothing that is measured."""
        self._runs(number, arrival, 0.0, (placed,))

    def starts(self, number: int, arrival: Arrival, since: float, now: float, placed: tuple[PlacedVm, ...]) -> None:
        """Records a start. ``since``: when it began to wait."""
        self._runs(number, arrival, now, placed)
        self.started_gangs += arrival.members > 1 and not arrival.ran_before
        if since < self._warm_up:
            return
        kind = self._kind(arrival)
        if not arrival.ran_before:
            self.started += arrival.members
            kind.started += arrival.members
        elif arrival.stops and not arrival.evicted:
            self.restarts += arrival.members
            for _ in placed:
                self.restart_waits.add(now - since)
        for vm in placed:
            self.waits.add(now - since)
            kind.waits.add(now - since)
            for model in self._models_of(vm):
                self._models[model].add(now - since)

    def _runs(self, number: int, arrival: Arrival, since: float, placed: tuple[PlacedVm, ...]) -> None:
        running = self.running[number] = RunningVms(arrival, since, placed, len(self.stays))
        if self._keeps_stays:
            self.stays += [self._stay(arrival, name, since, vm) for name, vm in running.named]

    def ends(self, number: int, now: float, cards: int, *, evicted: bool = False) -> RunningVms:
        """Records an end, and returns what ran. ``cards``: thousandths that it had. Raises KeyError."""
        running = self.running.pop(number)
        self._kind(running.arrival).card_seconds += self._card_seconds(running, now, cards)
        if evicted and now >= self._warm_up:
            self.evicted += running.arrival.members
        if self._keeps_stays:
            for position in range(running.first_stay, running.first_stay + len(running.placed)):
                self.stays[position] = replace(self.stays[position], ended=now, evicted=evicted)
        return running

    def kinds(
        self, now: float, cards: int, cards_of: Callable[[Arrival], int], waiting: Iterable[tuple[Arrival, float]]
    ) -> tuple[KindMeasures, ...]:
        """The measures of each kind of VM, by first arrival. ``cards``: thousandths; ``waiting``: since when."""
        unfinished: dict[str, list[float]] = {}
        for arrival, since in waiting:
            if since >= self._warm_up:
                unfinished.setdefault(arrival.shape.name, []).extend([now - since] * arrival.members)
        seconds = {name: totals.card_seconds for name, totals in self._kinds.items()}
        for running in self.running.values():
            name = running.arrival.shape.name
            seconds[name] = seconds.get(name, 0.0) + self._card_seconds(running, now, cards_of(running.arrival))
        whole = cards * (now - self._warm_up)
        return tuple(
            KindMeasures(
                name,
                totals.vms,
                totals.started,
                len(unfinished.get(name, ())),
                totals.waits.percentiles(unfinished.get(name, ())),
                seconds[name] / whole if whole > 0 else 0.0,
            )
            for name, totals in self._kinds.items()
        )

    def models(self, used: Mapping[str, UsedCards]) -> tuple[ModelMeasures, ...]:
        """The measures of each model of device."""
        none = Waits()
        return tuple(
            ModelMeasures(model, cards.cards, self._models.get(model, none).percentiles(()), cards.mean, cards.end)
            for model, cards in used.items()
        )

    def _kind(self, arrival: Arrival) -> _KindTotals:
        return self._kinds.setdefault(arrival.shape.name, _KindTotals())

    def _card_seconds(self, running: RunningVms, now: float, cards: int) -> float:
        return cards * max(now - max(running.since, self._warm_up), 0.0)

    def _models_of(self, vm: PlacedVm) -> Iterable[str]:
        devices = [(given.driver, given.pool, given.device) for given in _devices_of(vm)]
        return {self._model_of[device] for device in devices if device in self._model_of}

    def _stay(self, arrival: Arrival, name: str, now: float, vm: PlacedVm) -> Stay:
        devices = [f"{given.driver}/{given.pool}/{given.device}" for given in _devices_of(vm)]
        return Stay(name, arrival.shape.name, arrival.at, now, None, False, self._nodes[vm.node], tuple(devices))


def _devices_of(vm: PlacedVm) -> Iterator[DeviceRequestAllocationResult]:
    return (device for result in vm.results for device in result.devices.results)
