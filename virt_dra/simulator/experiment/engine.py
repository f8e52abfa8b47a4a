"""Runs one policy over an experiment: a queue of events in virtual time, and of VMs that wait.

VMs are tried in the order of their priority, then of their arrival, whenever something was freed. Everything is
deterministic: the same experiment, policy and seed give the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from virt_dra.simulator.experiment.measures import SAMPLES, ClusterSample, Measures
from virt_dra.simulator.experiment.model import Arrival, DevicesTainted, Disturbance, Experiment, NodesDown, RunningPod
from virt_dra.simulator.experiment.model_use import ModelUse, models_of_devices
from virt_dra.simulator.experiment.placed_cluster import PlacedCluster
from virt_dra.simulator.experiment.waiting import WaitingVms

ArrivalProgress = Callable[[int, int], None]
"""VMs and gangs that have arrived, and all of them."""

_REPORTED_EVERY: Final = 200
"""Arrivals between two reports of progress."""


class Simulation:
    """One policy's run. `run` may be ended by an exception: `measures` then gives what is known so far."""

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
        for pod in experiment.running:
            weights[pod.arrival.shape] += 1
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
        self._journal = Journal(
            experiment.warm_up,
            [node.name for node in experiment.nodes],
            models_of_devices(self._placer),
            keeps_stays=experiment.keeps_stays,
        )
        self._model_use = ModelUse(self._placer, self._cluster.meter.counted)
        self._departures: list[tuple[float, int]] = []
        self._closed: Counter[int] = Counter()
        """By node, for how many reasons it is closed."""
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
            heappush(self._departures, (pod.arrival.lifetime, number))

    def run(self) -> None:
        """To the end of the experiment."""
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
            elif isinstance(happening, int):
                self._depart(happening)
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
        unfinished = [
            self._now - since
            for arrival, since in self._waiting
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
            waiting=self._waiting.vms,
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
            kinds=journal.kinds(self._now, meter.cards * WHOLE, self._cards_of, self._waiting),
            models=journal.models(self._model_use.measured(measured)),
        )

    @property
    def stays(self) -> tuple[Stay, ...]:
        """Where VMs ran, in the order of their starts; none unless the experiment keeps them."""
        return tuple(self._journal.stays)

    def _cards_of(self, arrival: Arrival) -> int:
        """Thousandths of cards that its VMs ask for."""
        return self._cluster.typical.asked(arrival.shape) * arrival.members

    @property
    def placements(self) -> dict[str, str]:
        """Which VMs run now, and on which node. Those of a gang are numbered."""
        by_name: dict[str, str] = {}
        for running in self._journal.running.values():
            for name, vm in running.named:
                by_name[name] = self._experiment.nodes[vm.node].name
        return by_name

    def _happenings(self) -> Iterator[tuple[float, Arrival | int | tuple[Disturbance, bool]]]:
        """In the order of time; at one moment departures come first, then what happens to the cluster, then
        arrivals."""
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
            if self._departures and (next_other is None or self._departures[0][0] <= next_other):
                yield heappop(self._departures)
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
            self._model_use.pass_time(seconds)
        self._now = to

    def _update_meters(self, placed: Sequence[PlacedVm]) -> None:
        """After VMs were placed or released."""
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
        """Place all of its VMs, or none. False: it has to wait. A VM with broken claims counts as an error, and is
        gone."""
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
        number = next(self._numbers)
        self._journal.starts(number, arrival, since, self._now, tuple(placed))
        self._update_meters(placed)
        if arrival.lifetime is not None:
            heappush(self._departures, (self._now + arrival.lifetime, number))
        return True

    def _release(self, placed: list[PlacedVm] | tuple[PlacedVm, ...]) -> None:
        for vm in placed:
            self._placer.release(vm)
        self._update_meters(placed)

    def _depart(self, number: int) -> None:
        running = self._journal.running.get(number)
        if running is None:
            return  # it was evicted, and runs under another number
        self._journal.ends(number, self._now, self._cards_of(running.arrival))
        self._release(running.placed)
        self._retry()

    def _retry(self) -> None:
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
            self._closed[number] += 1 if begins else -1
            self._placer.set_open(number, open=not self._closed[number])
        if begins and down.evicts:
            nodes = frozenset(down.nodes)
            self._evict(lambda placed: placed.node in nodes)

    def _taint(self, tainted: DevicesTainted, begins: bool) -> None:
        rule = _rule(self._experiment.disturbances.index(tainted), tainted)
        self._model = self._model.changed([rule]) if begins else self._model.changed(removed=[rule])
        self._cluster.publish(self._model)
        if begins and tainted.taint.effect == "NoExecute":
            self._evict(lambda placed: _holds(placed, tainted))

    def _evict(self, concerns: Callable[[PlacedVm], bool]) -> None:
        """End the VMs concerned, whole gangs with them, and let them wait again for the rest of their lives."""
        running = self._journal.running
        for number in [number for number, of in running.items() if any(map(concerns, of.placed))]:
            arrival, since = running[number].arrival, running[number].since
            ended = self._journal.ends(number, self._now, self._cards_of(arrival), evicted=True)
            self._release(ended.placed)
            rest = None if arrival.lifetime is None else max(arrival.lifetime - (self._now - since), 0.0)
            again = Arrival(
                arrival.at, arrival.shape, arrival.name, rest, arrival.priority, arrival.members, evicted=True
            )
            self._waiting.add(again, self._now)

    def _sample(self) -> None:
        meter = self._cluster.meter
        if self._samples and self._samples[-1].at == self._now:
            self._samples.pop()  # the last state of a moment counts
        asked = self._asked / (meter.cards * 1000) if meter.cards else 0.0
        self._samples.append(
            ClusterSample(
                self._now,
                self._vms,
                asked,
                meter.used,
                self._waiting.vms,
                meter.fragmentation(),
                meter.largest_vm,
                meter.largest_share(),
            )
        )


def _rule(number: int, tainted: DevicesTainted) -> DeviceTaintRule:
    selector = {
        name: getattr(tainted, name) for name in ("driver", "pool", "device") if getattr(tainted, name) is not None
    }
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
