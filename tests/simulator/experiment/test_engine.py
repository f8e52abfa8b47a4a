"""Simulations: queue, priorities, gangs, lifetimes, failures, taints; the same result for the same seed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.experiment.test_description import built
from virt_dra.scheduling.policies.catalog import POLICIES
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.measures import Measures, percentile

Json = dict[str, Any]
ONE: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
TWO: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]}


def simulated(patch: Json, policy: str = "first-fit", seed: int = 0) -> Measures:
    simulation = Simulation(built(patch), policy, seed=seed)
    simulation.run()
    return simulation.measures()


def timeline(measures: Measures) -> list[tuple[float, int, int]]:
    """(seconds, devices in use, VMs that wait)."""
    return [(sample.at, round(sample.used * measures.cards), sample.waiting) for sample in measures.samples]


def test_vms_wait_until_others_end() -> None:
    """Two nodes with two devices each; six VMs arrive, one a minute, and live for ten."""
    measures = simulated(
        {
            "until": "20m",
            "vms": [{"name": "one", "devices": ONE, "lifetime": "10m", "arrivals": {"count": 6, "every": "1m"}}],
        }
    )
    assert (measures.vms, measures.started, measures.waiting, measures.ended, measures.complete) == (
        6,
        6,
        0,
        1200.0,
        True,
    )
    assert timeline(measures)[:7] == [
        (0.0, 1, 0),
        (60.0, 2, 0),
        (120.0, 3, 0),
        (180.0, 4, 0),
        (240.0, 4, 1),
        (300.0, 4, 2),
        (1200.0, 1, 0),
    ]
    assert (measures.pending_p50, measures.pending_p95, measures.pending_p99) == (0.0, 360.0, 360.0)
    # 4 devices for 20 minutes; 6 VMs of which the last two end after the end, at 10 + 10 and 11 + 10 minutes
    assert measures.used_mean == pytest.approx((4 * 10 + 10 + 9) / 80)


def test_a_vm_of_higher_priority_goes_first() -> None:
    vms: list[Json] = [
        {"name": "first", "devices": TWO, "lifetime": "10m", "arrivals": {"at": ["0s", "0s"]}},
        {"name": "low", "devices": TWO, "arrivals": {"at": ["1m", "1m", "1m"]}},
        {"name": "high", "devices": TWO, "priority": 5, "arrivals": {"at": ["2m", "2m"]}},
    ]
    measures = simulated({"until": "1h", "vms": vms})
    assert (measures.started, measures.waiting) == (4, 3)
    assert (
        measures.pending_p50 == 480.0
    )  # the two of high priority; those of low priority wait for the rest of the hour
    assert measures.pending_p99 == 3540.0


def test_of_vms_that_arrive_at_one_time_the_one_of_highest_priority_goes_first() -> None:
    vms: list[Json] = [
        {"name": name, "devices": TWO, "priority": priority, "arrivals": {"at": ["1m", "1m"]}}
        for name, priority in (("low", 0), ("high", 5), ("lowest", -1))
    ]
    simulation = Simulation(built({"until": "1h", "vms": vms}), "first-fit")
    simulation.run()
    assert simulation.placements == {"high-0": "gpu-0", "high-1": "gpu-1"}


def test_the_largest_vm_has_processors_and_memory_too() -> None:
    """Nodes of 8 devices with 16 CPUs and 64Gi, of which VMs of a device or two take 4 CPUs and 8Gi for each."""
    gpus = {"driver": "gpu.example.com", "count": 8}
    vm: Json = {"name": "one", "devices": ONE, "cpu": 4, "memory": "8Gi", "arrivals": {"at": ["1m", "2m"]}}

    def largest(node: Json, *others: Json) -> list[tuple[float, int, float]]:
        nodes = [{"name": "gpu", "cpu": 16, "memory": "64Gi", "devices": [gpus], **node}]
        measures = simulated({"cluster": {"nodes": nodes}, "until": "1h", "vms": [vm, *others]}, "pack")
        return [(sample.at / 60, sample.largest_vm, sample.largest_share) for sample in measures.samples]

    assert largest({}) == [(0, 4, 1.0), (1, 3, 1.0), (2, 2, 1.0), (60, 2, 1.0)]
    assert largest({"memory": "20Gi"}) == [(0, 2, 1.0), (1, 1, 1.0), (2, 0, 0.5), (60, 0, 0.5)]
    assert largest({"pods": 2}) == [(0, 4, 1.0), (1, 3, 1.0), (2, 0, 0.0), (60, 0, 0.0)]
    two: Json = {"name": "two", "devices": TWO, "cpu": 2, "memory": "8Gi", "arrivals": {"at": ["3m"]}}
    assert largest({}, two) == [(0, 8, 1.0), (1, 7, 1.0), (2, 6, 1.0), (3, 4, 1.0), (60, 4, 1.0)]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    vms: list[Json] = [
        {"name": "one", "devices": ONE, "lifetime": "10m", "arrivals": {"at": ["0s"]}},
        {"name": "gang", "devices": TWO, "gang": 2, "lifetime": "5m", "arrivals": {"at": ["1m"]}},
    ]
    measures = simulated({"until": "20m", "vms": vms})
    assert (measures.gangs, measures.gangs_waiting, measures.started) == (1, 0, 3)
    assert timeline(measures) == [(0.0, 1, 0), (60.0, 1, 2), (1200.0, 0, 0)]
    never = simulated(
        {"until": "20m", "vms": [{"name": "gang", "devices": TWO, "gang": 3, "arrivals": {"at": ["1m"]}}]}
    )
    assert (never.gangs, never.gangs_waiting, never.started, never.waiting) == (1, 1, 0, 3)


def test_vms_of_a_failed_node_run_elsewhere_for_the_rest_of_their_lives() -> None:
    vms: list[Json] = [{"name": "one", "devices": ONE, "lifetime": "10m", "arrivals": {"at": ["0s"]}}]
    measures = simulated({"until": "20m", "vms": vms, "events": [{"at": "4m", "fail": ["gpu-0"], "for": "1h"}]})
    assert (measures.evictions, measures.started, measures.waiting) == (1, 1, 0)
    assert measures.used_mean * measures.cards * 20 == pytest.approx(10)


def test_a_node_comes_back() -> None:
    vms: list[Json] = [{"name": "two", "devices": TWO, "arrivals": {"at": ["0s", "0s"]}}]
    measures = simulated({"until": "20m", "vms": vms, "events": [{"at": "5m", "drain": ["gpu-1"], "for": "3m"}]})
    assert (measures.evictions, measures.started, measures.waiting) == (1, 2, 0)
    assert timeline(measures) == [(0.0, 4, 0), (300.0, 2, 1), (480.0, 4, 0), (1200.0, 4, 0)]


def test_a_cordoned_node_keeps_its_vms() -> None:
    vms: list[Json] = [{"name": "two", "devices": TWO, "arrivals": {"at": ["0s", "0s", "10m"]}}]
    measures = simulated({"until": "20m", "vms": vms, "events": [{"at": "5m", "cordon": ["gpu-0", "gpu-1"]}]})
    assert (measures.evictions, measures.started, measures.waiting) == (0, 2, 1)
    assert measures.last.largest_vm == 0


@pytest.mark.parametrize(("effect", "evictions", "used"), [("NoExecute", 1, 3), ("NoSchedule", 0, 4)])
def test_tainted_devices(effect: str, evictions: int, used: int) -> None:
    vms: list[Json] = [{"name": "one", "devices": ONE, "arrivals": {"at": ["0s", "0s", "0s", "0s"]}}]
    taint = {"driver": "gpu.example.com", "pool": "gpu-0", "device": "device-0", "effect": effect}
    measures = simulated({"until": "20m", "vms": vms, "events": [{"at": "5m", "taint": taint}]})
    assert (measures.evictions, round(measures.last.used * measures.cards)) == (evictions, used)


def test_a_taint_that_ends_and_one_that_is_tolerated() -> None:
    vms: list[Json] = [{"name": "one", "devices": ONE, "arrivals": {"at": ["0s", "0s", "0s", "0s"]}}]
    taint = {"driver": "gpu.example.com", "pool": "gpu-0", "device": "device-0", "key": "k"}
    measures = simulated({"until": "20m", "vms": vms, "events": [{"at": "5m", "taint": taint, "for": "5m"}]})
    assert timeline(measures) == [(0.0, 4, 0), (300.0, 3, 1), (600.0, 4, 0), (1200.0, 4, 0)]
    tolerant: Json = {
        "requests": [
            {
                "name": "gpu",
                "exactly": {"deviceClassName": "gpu.example.com", "tolerations": [{"key": "k", "operator": "Exists"}]},
            }
        ]
    }
    kept = simulated(
        {"until": "20m", "vms": [{**vms[0], "devices": tolerant}], "events": [{"at": "5m", "taint": taint}]}
    )
    assert (kept.evictions, kept.waiting) == (0, 0)


def test_claims_that_break_a_rule_are_counted_and_named() -> None:
    broken: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "nothing"}}]}
    measures = simulated({"vms": [{"name": "one", "devices": broken, "arrivals": {"count": 2, "every": "1m"}}]})
    assert (measures.errors, measures.started, measures.waiting) == (2, 0, 0)
    assert measures.first_error is not None
    assert measures.first_error.endswith(
        'could not retrieve device class nothing: deviceclass.resource.k8s.io "nothing" not found'
    )


def test_claims_that_break_a_rule_are_said_where_no_node_has_room() -> None:
    broken: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "nothing"}}]}
    vm = {"name": "one", "cpu": 1000, "devices": broken, "arrivals": {"count": 2, "every": "1m"}}
    measures = simulated({"vms": [vm]})
    assert (measures.errors, measures.started, measures.waiting) == (2, 0, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_result(policy: str) -> None:
    nodes = [{"name": "gpu", "count": 12, "devices": [{"driver": "gpu.example.com", "count": 4, "perRoot": 2}]}]
    vms: list[Json] = [
        {
            "name": "one",
            "devices": ONE,
            "cpu": 4,
            "lifetime": {"mean": "1h"},
            "arrivals": {"rate": "40/h", "count": 150},
        },
        {"name": "two", "devices": TWO, "cpu": 8, "lifetime": {"mean": "2h"}, "arrivals": {"rate": "8/h", "count": 40}},
        {
            "name": "gang",
            "devices": TWO,
            "cpu": 8,
            "gang": 3,
            "lifetime": "1h",
            "arrivals": {"rate": "2/h", "count": 8},
        },
    ]
    patch: Json = {"cluster": {"nodes": nodes}, "vms": vms, "events": [{"at": "1h", "fail": ["gpu-3"], "for": "1h"}]}
    first = simulated(patch, policy, seed=5)
    assert first.to_json() == simulated(patch, policy, seed=5).to_json()
    assert first.started > 150
    assert first.vms == 198 + 2 * 8  # eight gangs of three
    assert all(
        0 <= sample.used <= 1 and 0 <= sample.fragmentation <= 1 - sample.used + 1e-9 for sample in first.samples
    )


def test_what_is_known_after_an_interrupt() -> None:
    def interrupt(arrived: int, total: int) -> None:
        raise KeyboardInterrupt

    vms: list[Json] = [{"name": "one", "devices": ONE, "lifetime": "30s", "arrivals": {"count": 500, "every": "1m"}}]
    simulation = Simulation(built({"vms": vms}), "pack", progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    measures = simulation.measures()
    assert (measures.complete, measures.vms, measures.started) == (False, 200, 200)


@pytest.mark.parametrize(
    ("numbers", "percent", "expected"), [([], 50, 0.0), ([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 95, 4), ([7], 99, 7)]
)
def test_percentiles(numbers: list[float], percent: int, expected: float) -> None:
    assert percentile(numbers, percent) == expected
