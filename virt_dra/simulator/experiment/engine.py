"""Runs one policy over an experiment: a queue of events in virtual time, and of VMs that wait, which are tried by
priority, then arrival, whenever something was freed; those that keep their devices before the others. Deterministic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

from virt_dra.allocator import FatalError
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector
from virt_dra.api.tolerations import tolerates
from virt_dra.scheduling.policies.cards import WHOLE
from virt_dra.scheduling.policies.placer import PlacedVm, VmShape
from virt_dra.simulator.experiment.journal import Journal, Stay
from virt_dra.simulator.experiment.kept_vms import KeptVm, KeptVms
from virt_dra.simulator.experiment.measures import SAMPLES, ClusterSample, KeepingMeasures, Measures
from virt_dra.simulator.experiment.model import (
    Arrival,
    DevicesTainted,
    Disturbance,
    Experiment,
    KeepRule,
    NodesDown,
    RunningPod,
)
from virt_dra.simulator.experiment.model_use import ModelUse, models_of_devices
from virt_dra.simulator.experiment.placed_cluster import PlacedCluster
from virt_dra.simulator.experiment.waiting import WaitingVms

ArrivalProgress = Callable[[int, int], None]
"""VMs and gangs that have arrived, and all of them."""

_REPORTED_EVERY: Final = 200
"""Arrivals between two reports of progress."""


class _Due(IntEnum):
    """What becomes of a VM, in the order of one time: who starts as the lease ends keeps the devices."""

    ENDS = 0
    STOPS = 1
    STARTS = 2
    LEASE_OVER = 3
    NODE_LOST = 4


class Simulation:
    """One policy's run. An exception may end `run`: `measures` then gives what was measured so far."""

    def __init__(
        self, experiment: Experiment, policy: str, *, seed: int = 0, progress: ArrivalProgress | None = None
    ) -> None:
        """Raises KeyError for an unknown policy, FatalError for slices that can't be read."""
        self._experiment = experiment
        self._policy = policy
        self._progress = progress or (lambda arrived, total: None)
        self._model = experiment.cluster
        """With the taints of now."""
        weights: Counter[VmShape] = Counter()
        for arrival in experiment.arrivals:
            weights[arrival.shape] += arrival.members
        weights.update(pod.arrival.shape for pod in experiment.running)
        self._cluster = PlacedCluster(
            experiment.cluster,
            experiment.nodes,
            weights,
            policy,
            Random(seed).random,
            experiment.features,
            nodes_only=experiment.nodes_only,
            whole_per_cent=experiment.whole_per_cent,
        )
        self._placer = self._cluster.placer
        self._waiting = WaitingVms()
        names, models = [node.name for node in experiment.nodes], models_of_devices(self._placer)
        self._journal = Journal(experiment.warm_up, names, models, keeps_stays=experiment.keeps_stays)
        self._model_use = ModelUse(self._placer, self._cluster.meter.counted)
        self._due: list[tuple[float, int, _Due]] = []
        """Time, number of the VM or gang, and what happens to it."""
        self._kept = KeptVms(self._placer, self._cards_of)
        self._stopped: dict[int, Arrival] = {}
        """Those that keep nothing."""
        self._released = 0
        self._kept_seconds = 0.0
        self._stops = any(arrival.pattern is not None for arrival in experiment.arrivals)
        self._closed: Counter[int] = Counter()
        """By node, for how many reasons it is closed."""
        self._closed_since: dict[int, float] = {}
        self._numbers = count()
        self._samples: list[ClusterSample] = []
        self._now = self._used_seconds = 0.0
        self._arrivals = self._vms = self._gangs = self._errors = self._asked = 0
        self._first_error: str | None = None
        self._complete = False

        for pod in experiment.running:
            self._begin_with(pod)

    def _begin_with(self, pod: RunningPod) -> None:
        number, placed = next(self._numbers), PlacedVm(pod.arrival.shape, pod.node, pod.results)
        self._placer.take(placed)
        self._journal.runs(number, pod.arrival, placed)
        self._update_meters([placed])
        if pod.arrival.lifetime is not None:
            heappush(self._due, (pod.arrival.lifetime, number, _Due.ENDS))

    def run(self) -> None:
        """Runs to the end of the experiment."""
        total = len(self._experiment.arrivals)
        sampled_every = max(1, total // SAMPLES)
        end = self._experiment.end
        self._sample()
        for at, happening in self._happenings():
            if at > end:
                break
            self._pass_time(at)
            if isinstance(happening, Arrival):
                self._arrive(happening)
                if self._arrivals % sampled_every == 0:
                    self._sample()
                if self._arrivals % _REPORTED_EVERY == 0:
                    self._progress(self._arrivals, total)
            elif isinstance(happening[0], int):
                self._happen(*happening)
            else:
                self._disturb(*happening)
                self._sample()
        self._pass_time(end)
        self._complete = True
        self._progress(total, total)

    def measures(self) -> Measures:
        """What was measured up to now."""
        self._sample()
        experiment, meter, journal = self._experiment, self._cluster.meter, self._journal
        measured = self._now - experiment.warm_up
        waiting = [*self._waiting, *self._kept_waiting()]
        unfinished = [
            self._now - since
            for arrival, since in waiting
            if since >= experiment.warm_up
            for _ in range(arrival.members)
        ]
        p50, p95, p99 = journal.waits.percentiles(unfinished)
        return Measures(
            policy=self._policy,
            ended=self._now,
            complete=self._complete,
            cards=meter.cards,
            vms=self._vms,
            started=journal.started,
            waiting=sum(arrival.members for arrival, _ in waiting),
            evictions=journal.evicted,
            gangs=self._gangs,
            gangs_waiting=self._gangs - journal.started_gangs,
            errors=self._errors,
            first_error=self._first_error,
            pending_p50=p50,
            pending_p95=p95,
            pending_p99=p99,
            used_mean=self._used_seconds / measured if measured > 0 else meter.used,
            samples=tuple(self._samples),
            timed=experiment.timed,
            notes=experiment.notes,
            kinds=journal.kinds(self._now, meter.cards * WHOLE, self._cards_of, waiting),
            models=journal.models(self._model_use.measured(measured)),
            keeping=self._keeping(waiting) if self._stops else None,
        )

    def _keeping(self, waiting: Sequence[tuple[Arrival, float]]) -> KeepingMeasures:
        unfinished = [
            self._now - since
            for arrival, since in waiting
            if arrival.stops and not arrival.evicted and since >= self._experiment.warm_up
            for _ in range(arrival.members)
        ]
        journal = self._journal
        waits = journal.restart_waits.percentiles(unfinished)
        return KeepingMeasures(journal.restarts, waits, self._kept_seconds / 3600 / WHOLE, self._released)

    def _kept_waiting(self) -> Iterator[tuple[Arrival, float]]:
        for _, vm in self._kept.wanting:
            if vm.wants_since is not None:
                yield vm.arrival, vm.wants_since

    @property
    def stays(self) -> tuple[Stay, ...]:
        """The stays of VMs on nodes, in the order of their starts; none unless the experiment keeps them."""
        return tuple(self._journal.stays)

    def _cards_of(self, arrival: Arrival) -> int:
        """Thousandths of cards that its VMs ask for."""
        return self._cluster.typical.asked(arrival.shape) * arrival.members

    @property
    def placements(self) -> dict[str, str]:
        """The VMs that run now, each with its node. Those of a gang are numbered."""
        nodes = self._experiment.nodes
        return {name: nodes[vm.node].name for running in self._journal.running.values() for name, vm in running.named}

    def _happenings(self) -> Iterator[tuple[float, Arrival | tuple[int, _Due] | tuple[Disturbance, bool]]]:
        """The events in the order of time. At one moment VMs come first, then the cluster, then arrivals."""
        changes: list[tuple[float, int, Disturbance, bool]] = []
        for number, disturbance in enumerate(self._experiment.disturbances):
            changes.append((disturbance.at, 2 * number, disturbance, True))
            if disturbance.until is not None:
                changes.append((disturbance.until, 2 * number + 1, disturbance, False))
        changes.sort(key=lambda change: change[:2], reverse=True)
        arrivals = iter(self._experiment.arrivals)
        arrival = next(arrivals, None)
        while True:
            at_arrival = arrival.at if arrival is not None else None
            at_change = changes[-1][0] if changes else None
            next_other = min((at for at in (at_arrival, at_change) if at is not None), default=None)
            if self._due and (next_other is None or self._due[0][0] <= next_other):
                at, number, due = heappop(self._due)
                yield at, (number, due)
            elif at_change is not None and (at_arrival is None or at_change <= at_arrival):
                at, _, change, begins = changes.pop()
                yield at, (change, begins)
            elif arrival is not None:
                yield arrival.at, arrival
                arrival = next(arrivals, None)
            else:
                return

    def _pass_time(self, to: float) -> None:
        seconds = to - max(self._now, self._experiment.warm_up)
        if seconds > 0:
            self._used_seconds += self._cluster.meter.used * seconds
            self._kept_seconds += self._kept.cards * seconds
            self._model_use.pass_time(seconds)
        self._now = to

    def _update_meters(self, placed: Sequence[PlacedVm]) -> None:
        """Brings the meters up to date after VMs were placed or released."""
        nodes = [vm.node for vm in placed]
        self._cluster.meter.update(nodes)
        self._model_use.update(nodes)

    # --- VMs ---------------------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        self._arrivals += 1
        self._vms += arrival.members
        self._journal.arrives(arrival)
        self._asked += self._cards_of(arrival)
        self._gangs += arrival.members > 1
        if not self._start(arrival, self._now):
            self._waiting.add(arrival, self._now)

    def _start(self, arrival: Arrival, since: float) -> bool:
        """Places all of an arrival's VMs, or none. False: it waits. One with broken claims is an error, and dropped."""
        placed: list[PlacedVm] = []
        try:
            for member in range(arrival.members):
                name = arrival.name if arrival.members == 1 else f"{arrival.name}-{member}"
                vm = self._placer.place(arrival.shape, name)
                if vm is None:
                    break
                placed.append(vm)
        except FatalError as error:
            self._errors += arrival.members
            self._first_error = self._first_error or f"{arrival.shape.name}: {error}"
            self._release(placed)
            return True
        if len(placed) < arrival.members:
            self._release(placed)
            return False
        self._runs(arrival, since, tuple(placed))
        return True

    def _runs(self, arrival: Arrival, since: float, placed: tuple[PlacedVm, ...]) -> None:
        number = next(self._numbers)
        self._journal.starts(number, arrival, since, self._now, placed)
        self._update_meters(placed)
        lifetime, pattern = arrival.lifetime, arrival.pattern
        until_stop = None if pattern is None else pattern.runs_for(arrival.name, arrival.stops)
        if until_stop is not None and (lifetime is None or until_stop < lifetime):
            heappush(self._due, (self._now + until_stop, number, _Due.STOPS))
        elif lifetime is not None:
            heappush(self._due, (self._now + lifetime, number, _Due.ENDS))

    def _release(self, placed: list[PlacedVm] | tuple[PlacedVm, ...]) -> None:
        for vm in placed:
            self._placer.release(vm)
        if placed:
            self._update_meters(placed)

    def _happen(self, number: int, due: _Due) -> None:
        if due is _Due.ENDS:
            self._depart(number)
        elif due is _Due.STOPS:
            self._stop(number)
        elif due is _Due.STARTS:
            self._start_again(number)
        elif number in self._kept:
            self._end_keeping(number, due)

    def _depart(self, number: int) -> None:
        running = self._journal.running.get(number)
        if running is None:
            return  # it was evicted, and runs under another number
        self._journal.ends(number, self._now, self._cards_of(running.arrival))
        self._release(running.placed)
        self._retry()

    def _stop(self, number: int) -> None:
        running = self._journal.running.get(number)
        if running is None or running.arrival.pattern is None:
            return  # it was evicted, and runs under another number
        arrival, pattern = running.arrival, running.arrival.pattern
        self._journal.ends(number, self._now, self._cards_of(arrival))
        again = replace(self._rest(arrival, running.since), stops=arrival.stops + 1, evicted=False)
        if pattern.keep is None:
            self._release(running.placed)
            self._stopped[number] = again
        else:
            self._keep(number, KeptVm(again, running.placed), pattern.keep)
            if pattern.keep.stopped_for is not None:
                heappush(self._due, (self._now + pattern.keep.stopped_for, number, _Due.LEASE_OVER))
        heappush(self._due, (self._now + pattern.stopped_for(arrival.name, arrival.stops), number, _Due.STARTS))
        self._retry()

    def _keep(self, number: int, vm: KeptVm, rule: KeepRule) -> None:
        self._kept.keep(number, vm)
        self._update_meters(vm.placed)
        closed = [self._closed_since[placed.node] for placed in vm.placed if self._closed[placed.node]]
        if closed and rule.node_loss is not None:
            heappush(self._due, (max(min(closed) + rule.node_loss, self._now), number, _Due.NODE_LOST))

    def _start_again(self, number: int) -> None:
        if number in self._kept:
            self._kept.wants(number, self._now)
            self._start_kept(number)
            return
        arrival = self._stopped.pop(number, None)
        if arrival is not None and not self._start(arrival, self._now):
            self._waiting.add(arrival, self._now)

    def _start_kept(self, number: int) -> None:
        vm = self._kept.start(number)
        if vm is not None and vm.wants_since is not None:
            self._runs(vm.arrival, vm.wants_since, vm.placed)

    def _end_keeping(self, number: int, due: _Due) -> None:
        """Releases the devices of a VM whose lease ended while it was stopped, or whose node is closed for too long."""
        vm = self._kept[number]
        rule = vm.arrival.pattern.keep if vm.arrival.pattern is not None else None
        if due is _Due.LEASE_OVER:
            ends = vm.wants_since is None
        else:
            loss = rule.node_loss if rule is not None else None
            ends = loss is not None and any(
                self._closed[placed.node] and self._closed_since[placed.node] + loss <= self._now
                for placed in vm.placed
            )
        if ends:
            self._give_up(number)
            self._retry()

    def _give_up(self, number: int) -> None:
        """Releases the devices of a VM, which then starts where it finds others."""
        vm = self._kept.release(number)
        self._update_meters(vm.placed)
        self._released += vm.arrival.members if self._now >= self._experiment.warm_up else 0
        if vm.wants_since is None:
            self._stopped[number] = vm.arrival
        else:
            self._waiting.add(vm.arrival, vm.wants_since)

    def _rest(self, arrival: Arrival, since: float) -> Arrival:
        """What is left of a VM that has run since then."""
        ran = self._now - since
        return arrival if arrival.lifetime is None else replace(arrival, lifetime=max(arrival.lifetime - ran, 0.0))

    def _retry(self) -> None:
        for number, _ in self._kept.wanting:
            self._start_kept(number)
        if self._waiting.vms:
            self._waiting.start_what_fits(self._start)

    # --- the cluster -------------------------------------------------------------------------------------------------

    def _disturb(self, disturbance: Disturbance, begins: bool) -> None:
        if isinstance(disturbance, NodesDown):
            self._close(disturbance, begins)
        else:
            self._taint(disturbance, begins)
        self._retry()

    def _close(self, down: NodesDown, begins: bool) -> None:
        for number in down.nodes:
            if begins and not self._closed[number]:
                self._closed_since[number] = self._now
            self._closed[number] += 1 if begins else -1
            self._placer.set_open(number, open=not self._closed[number])
        if not begins:
            return
        nodes = frozenset(down.nodes)
        for number, vm in self._kept:
            rule = vm.arrival.pattern.keep if vm.arrival.pattern is not None else None
            if rule is not None and rule.node_loss is not None and any(placed.node in nodes for placed in vm.placed):
                heappush(self._due, (self._now + rule.node_loss, number, _Due.NODE_LOST))
        if down.evicts:
            self._evict(lambda placed: placed.node in nodes, keeps=True)

    def _taint(self, tainted: DevicesTainted, begins: bool) -> None:
        rule = _rule(self._experiment.disturbances.index(tainted), tainted)
        self._model = self._model.changed([rule]) if begins else self._model.changed(removed=[rule])
        self._cluster.publish(self._model)
        if begins and tainted.taint.effect == "NoExecute":
            self._evict(lambda placed: _holds(placed, tainted), keeps=False)
            for number, vm in self._kept:
                if any(_holds(placed, tainted) for placed in vm.placed):
                    self._give_up(number)

    def _evict(self, concerns: Callable[[PlacedVm], bool], *, keeps: bool) -> None:
        """End the VMs concerned, with their gangs, and let them wait again. ``keeps``: for kept devices."""
        running = self._journal.running
        for number in [number for number, vms in running.items() if any(map(concerns, vms.placed))]:
            arrival, since = running[number].arrival, running[number].since
            ended = self._journal.ends(number, self._now, self._cards_of(arrival), evicted=True)
            again = replace(self._rest(arrival, since), evicted=True)
            if keeps and arrival.pattern is not None and arrival.pattern.keep is not None:
                self._keep(number, KeptVm(again, ended.placed, wants_since=self._now), arrival.pattern.keep)
            else:
                self._release(ended.placed)
                self._waiting.add(again, self._now)

    def _sample(self) -> None:
        meter = self._cluster.meter
        if self._samples and self._samples[-1].at == self._now:
            self._samples.pop()  # the last state of a moment counts
        asked = self._asked / (meter.cards * 1000) if meter.cards else 0.0
        waiting = self._waiting.vms + sum(arrival.members for arrival, _ in self._kept_waiting())
        sample = ClusterSample(
            self._now, self._vms, asked, meter.used, waiting, meter.fragmentation(), meter.largest_vm,
            meter.largest_share(),
        )  # fmt: skip
        self._samples.append(sample)


def _rule(number: int, tainted: DevicesTainted) -> DeviceTaintRule:
    names = ("driver", "pool", "device")
    selector = {name: getattr(tainted, name) for name in names if getattr(tainted, name) is not None}
    spec = DeviceTaintRuleSpec(device_selector=DeviceTaintSelector(**selector), taint=tainted.taint)
    return DeviceTaintRule(metadata=ObjectMeta(name=f"simulated-{number}"), spec=spec)


def _holds(placed: PlacedVm, tainted: DevicesTainted) -> bool:
    """Whether the VM has a tainted device whose taint its request doesn't tolerate."""
    return any(
        result.driver == (tainted.driver or result.driver)
        and result.pool == (tainted.pool or result.pool)
        and result.device == (tainted.device or result.device)
        and not any(tolerates(toleration, tainted.taint) for toleration in result.tolerations)
        for allocation in placed.results
        for result in allocation.devices.results
    )
