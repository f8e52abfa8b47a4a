"""VMs that are stopped and started again, with their devices or with whatever is free then."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.simulator.experiment.test_description import built
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.measures import KeepingMeasures

Json = dict[str, Any]
ONE: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
STOPS = {"after": "1h", "for": "2h"}


def cluster(devices: int = 1, nodes: int = 1, cpu: int = 64) -> Json:
    gpus = [{"driver": "gpu.example.com", "count": devices}]
    return {"nodes": [{"name": "gpu", "count": nodes, "cpu": cpu, "devices": gpus}]}


def simulation_of(vms: list[Json], until: str, **more: Any) -> Simulation:
    simulation = Simulation(built({"cluster": cluster(), "vms": vms, "until": until, **more}), "first-fit")
    simulation.run()
    return simulation


def keeping(simulation: Simulation) -> KeepingMeasures:
    measured = simulation.measures().keeping
    assert measured is not None
    return measured


def vm(name: str, at: str = "0s", **more: Any) -> Json:
    return {"name": name, "devices": ONE, "arrivals": {"at": [at]}, **more}


THIEF = vm("thief", at="90m")
"""It comes while the other is stopped, and stays."""


def test_a_stopped_vm_finds_its_device_taken() -> None:
    simulation = simulation_of([vm("a", stops=STOPS), THIEF], "6h")
    assert simulation.placements == {"thief-0": "gpu-0"}
    assert keeping(simulation) == KeepingMeasures(0, (3 * 3600.0,) * 3, 0.0, 0)


def test_a_kept_device_is_nobody_elses() -> None:
    simulation = simulation_of([vm("a", stops=STOPS, keep=True), THIEF], "220m")
    assert simulation.placements == {"a-0": "gpu-0"}
    assert keeping(simulation) == KeepingMeasures(1, (0.0, 0.0, 0.0), 2.0, 0)
    assert simulation.measures().waiting == 1


def test_a_lease_ends_while_the_vm_is_stopped() -> None:
    simulation = simulation_of([vm("a", stops=STOPS, keep="1h"), THIEF], "6h")
    assert simulation.placements == {"thief-0": "gpu-0"}
    assert keeping(simulation) == KeepingMeasures(0, (3 * 3600.0,) * 3, 1.0, 1)


def test_a_vm_that_starts_as_its_lease_ends_keeps_its_device() -> None:
    simulation = simulation_of([vm("a", stops={"after": "1h", "for": "1h"}, keep="1h"), THIEF], "170m")
    assert simulation.placements == {"a-0": "gpu-0"}
    assert keeping(simulation) == KeepingMeasures(1, (0.0, 0.0, 0.0), 1.0, 0)


def test_the_lifetime_counts_while_a_vm_runs() -> None:
    simulation = simulation_of([vm("a", stops=STOPS, keep=True, lifetime="90m"), vm("b", at="10m")], "10h")
    (ran,) = [kind for kind in simulation.measures().kinds if kind.kind == "b"]
    # 60 minutes, 120 stopped, 30 more; "b" waits since the 10th
    assert ran.waits == ((210 - 10) * 60.0,) * 3


def test_a_vm_that_keeps_its_device_waits_for_room_on_its_node() -> None:
    """Its processors are free while it is stopped, and somebody without devices takes them."""
    other = {"name": "other", "cpu": 64, "lifetime": "3h", "arrivals": {"at": ["90m"]}}
    simulation = simulation_of([vm("a", stops=STOPS, keep=True), other], "5h")
    assert simulation.placements == {"a-0": "gpu-0"}
    assert keeping(simulation) == KeepingMeasures(1, (90 * 60.0,) * 3, 3.5, 0)


@pytest.mark.parametrize(
    ("terms", "lasts", "node", "released"),
    [
        (True, "2h", "gpu-1", 1),  # after an hour it starts elsewhere
        (True, "30m", "gpu-0", 0),
        ({"onNodeLoss": "never"}, "2h", None, 0),  # its node is still away
        ({"onNodeLoss": "10m"}, "30m", "gpu-1", 1),
        (None, "30m", "gpu-1", 0),
    ],
)
@pytest.mark.parametrize(
    ("at", "stops"),
    [("30m", {"after": "10h", "for": "1h"}), ("61m", {"after": "1h", "for": "31m"})],
    ids=["it runs", "it is stopped"],
)
def test_a_failed_node_is_waited_for(
    at: str, stops: Json, terms: Any, lasts: str, node: str | None, released: int
) -> None:
    simulation = simulation_of(
        [vm("a", stops=stops, keep=terms)], "140m", cluster=cluster(nodes=2),
        events=[{"at": at, "fail": ["gpu-0"], "for": lasts}],
    )  # fmt: skip
    assert simulation.placements == ({} if node is None else {"a-0": node})
    assert keeping(simulation).released == released


def test_a_tainted_device_is_given_up() -> None:
    simulation = simulation_of(
        [vm("a", stops=STOPS, keep=True)], "4h", cluster=cluster(nodes=2),
        events=[{"at": "90m", "taint": {"pool": "gpu-0"}}],
    )  # fmt: skip
    assert simulation.placements == {}
    assert keeping(simulation).released == 1


# --- against a plain evaluation ---------------------------------------------------------------------------------------


@dataclass
class PlainVm:
    name: str
    number: int
    lifetime: float | None
    stops: int = 0
    state: str = "new"
    since: float = 0.0
    has: bool = False
    events: dict[str, float] = field(default_factory=dict)


class Plain:
    """One node with devices and processors for so many VMs of one device each: every VM is a few lines of state."""

    def __init__(self, experiment: Any, devices: int, processors: int) -> None:
        self.devices, self.processors = devices, processors
        self.until = experiment.end
        self.vms = [
            PlainVm(arrival.name, number, arrival.lifetime) for number, arrival in enumerate(experiment.arrivals)
        ]
        self.patterns = {arrival.name: arrival.pattern for arrival in experiment.arrivals}
        for of, arrival in zip(self.vms, experiment.arrivals, strict=True):
            of.events["arrive"] = arrival.at
        self.restarts: list[float] = []
        self.kept = 0.0
        self.released = self.started = 0
        self.order = count()

    def run(self) -> None:
        now = 0.0
        while True:
            events = sorted((at, of.number, event) for of in self.vms for event, at in of.events.items())
            due = events[0] if events else None
            assume(not events[1:] or events[1][0] - events[0][0] > 1e-6)  # ties of different VMs aren't compared
            at = self.until if due is None or due[0] > self.until else due[0]
            self.kept += (at - now) * sum(of.has and of.state != "runs" for of in self.vms)
            now = at
            if due is None or due[0] > self.until:
                return
            of = self.vms[due[1]]
            del of.events[due[2]]
            getattr(self, due[2])(of, now)

    def start(self, of: PlainVm, now: float) -> bool:
        running = sum(other.state == "runs" for other in self.vms)
        taken = sum(other.has for other in self.vms)
        if running >= self.processors or (not of.has and taken >= self.devices):
            return False
        if of.stops:
            self.restarts.append(now - of.since)
        else:
            self.started += 1
        of.has, of.state, of.since = True, "runs", now
        pattern = self.patterns[of.name]
        run = None if pattern is None else pattern.runs_for(of.name, of.stops)
        if run is not None and (of.lifetime is None or run < of.lifetime):
            of.events["stop"] = now + run
        elif of.lifetime is not None:
            of.events["end"] = now + of.lifetime
        return True

    def wait(self, of: PlainVm, now: float) -> None:
        of.state, of.since = "waits", now
        of.events.pop("lease", None)
        self.start(of, now)

    arrive = again = wait

    def retry(self, now: float) -> None:
        waiting = sorted((of for of in self.vms if of.state == "waits"), key=lambda of: (not of.has, of.since))
        for of in waiting:
            self.start(of, now)

    def end(self, of: PlainVm, now: float) -> None:
        of.state, of.has = "gone", False
        self.retry(now)

    def stop(self, of: PlainVm, now: float) -> None:
        pattern = self.patterns[of.name]
        of.lifetime = None if of.lifetime is None else of.lifetime - (now - of.since)
        of.events["again"] = now + pattern.stopped_for(of.name, of.stops)
        of.stops, of.state = of.stops + 1, "stopped"
        of.has = pattern.keep is not None
        if of.has and pattern.keep.stopped_for is not None:
            of.events["lease"] = now + pattern.keep.stopped_for
        self.retry(now)

    def lease(self, of: PlainVm, now: float) -> None:
        of.has = False
        self.released += 1
        self.retry(now)


spans = st.floats(60, 7200).map(lambda seconds: f"{seconds:.4f}s")
kinds = st.fixed_dictionaries(
    {"arrivals": st.fixed_dictionaries({"rate": st.just("6/h"), "count": st.integers(1, 6)})},
    optional={
        "lifetime": spans,
        "stops": st.fixed_dictionaries({"after": spans | st.fixed_dictionaries({"mean": spans}), "for": spans}),
    },
)


@given(st.lists(st.tuples(kinds, st.none() | st.just(True) | spans), min_size=1, max_size=4), st.integers(1, 4),
       st.integers(1, 5), st.integers(0, 1000))  # fmt: skip
def test_any_workload(drawn: list[tuple[Json, Any]], devices: int, processors: int, seed: int) -> None:
    vms = [
        {**kind, "name": f"k{number}", "devices": ONE, "cpu": 1, **({"keep": keep} if "stops" in kind else {})}
        for number, (kind, keep) in enumerate(drawn)
    ]
    patch = {"cluster": cluster(devices, cpu=processors), "vms": vms, "until": "24h", "seed": seed}
    experiment = built(patch)
    simulation = Simulation(experiment, "first-fit")
    simulation.run()
    measures = simulation.measures()
    plain = Plain(experiment, devices, processors)
    plain.run()
    running = sorted(of.name for of in plain.vms if of.state == "runs")
    assert sorted(simulation.placements) == running
    assert measures.started == plain.started
    assert measures.waiting == sum(of.state == "waits" for of in plain.vms)
    if measures.keeping is not None:
        assert measures.keeping.restarts == len(plain.restarts)
        assert measures.keeping.released == plain.released
        assert measures.keeping.kept_hours == pytest.approx(plain.kept / 3600, abs=1e-6)
        unfinished = [plain.until - of.since for of in plain.vms if of.state == "waits" and of.stops]
        longest = max([*plain.restarts, *unfinished], default=0.0)
        assert measures.keeping.waits[2] == pytest.approx(longest, abs=1e-6) or len(plain.restarts) > 50
