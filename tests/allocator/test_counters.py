"""Counters and compatibility groups beyond single cases: what is left under changing use, and searches that must end
early."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import DEFAULT, Allocated, AllocationError, Features, Snapshot, Unsatisfiable, allocate
from virt_dra.allocator.effort import Effort
from virt_dra.allocator.model import PoolId
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim

Json = dict[str, Any]
NODE = build.node("n1")
POOL = PoolId(build.DRIVER, "pool")
GROUPS = replace(DEFAULT, compatibility_groups=True)


def _slices(counters: Json, devices: list[Json]) -> list[Json]:
    return [
        {"name": "s0", "count": 2, "allNodes": True, "counters": counters},
        {"name": "s1", "count": 2, "node": "n1", "devices": devices},
    ]


def _allocation(*devices: str) -> AllocationResult:
    results = [{"request": "r", "driver": build.DRIVER, "pool": "pool", "device": device} for device in devices]
    return AllocationResult.from_wire({"devices": {"results": results}})


def _random_pool(random: Random) -> tuple[Json, list[Json]]:
    sets = [f"s{i}" for i in range(random.randint(1, 3))]
    counters = {
        name: {counter: random.choice(("1", "2", "3", "4", "1500m", "1Gi", "0")) for counter in "mx"} for name in sets
    }
    devices: list[Json] = []
    for i in range(random.randint(1, 9)):
        device: Json = {"name": f"d{i}", "attributes": {"k": i % 2}}
        if random.random() < 0.9:
            chosen = random.sample(sets, random.randint(1, min(2, len(sets))))
            amounts = ("1", "1", "2", "500m", "1536Mi", "0")
            device["takes"] = {
                name: {c: random.choice(amounts) for c in "mx" if random.random() < 0.8} for name in chosen
            }
            device["groups"] = {
                name: random.sample(("a", "b", "c"), random.randint(1, 2)) for name in chosen if random.random() < 0.7
            }
        if random.random() < 0.1:
            device["allowMultipleAllocations"] = True
        devices.append(device)
    return counters, devices


@settings(max_examples=sample(40), deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_is_left_follows_use_wherever_it_came_from(random: Random) -> None:
    counters, devices = _random_pool(random)
    slices = [build.slice_(slice_) for slice_ in _slices(counters, devices)]
    sets = Snapshot.build(slices, ()).caches.pools(GROUPS).counter_sets(POOL)
    snapshots = [Snapshot.build(slices, ())]
    for _ in range(8):
        snapshot = random.choice(snapshots)
        name = random.choice([device["name"] for device in devices] + ["gone"])
        change = snapshot.without_allocation if random.random() < 0.4 else snapshot.with_allocation
        snapshots.append(change(_allocation(name)))
        use = random.choice(snapshots).used.get(POOL)
        account = sets.account(use)
        used = use.devices if use is not None else frozenset()
        for number, counter in enumerate(sets.counters):
            taken = sum(
                amount
                for device in used & sets.charges.keys()
                for n, amount in sets.charges[device].amounts
                if n == number
            )
            assert account.left[number] == sets.declared[number] - taken
            assert counter.quantity(sets.declared[number]) == next(
                entry.counters[counter.name].value
                for entry in slices[0].spec.shared_counters
                if entry.name == counter.counter_set
            )
        assert account.unknown == used - {device["name"] for device in devices}


def _wanted(random: Random) -> Json:
    when = random.choice(([], [], ['device.attributes["gpu.example.com"].k == 1']))
    return {"when": when} | ({"all": True} if random.random() < 0.1 else {"count": random.choice((1, 1, 2, 3, 4))})


def _claim(random: Random, number: int) -> ResourceClaim:
    requests: list[Json] = []
    for i in range(random.randint(1, 3)):
        if random.random() < 0.25:
            requests.append({"name": f"r{i}", "first": [_wanted(random) for _ in range(2)]})
        else:
            requests.append(
                {"name": f"r{i}", **_wanted(random), **({"adminAccess": True} if random.random() < 0.1 else {})}
            )
    return build.claim({"name": f"claim{number}", "requests": requests})


def _outcome(snapshot: Snapshot, claims: list[ResourceClaim], effort: Effort) -> object:
    try:
        outcome = allocate(snapshot, claims, NODE, GROUPS, explain=False, step_limit=20_000, effort=effort)
    except AllocationError as error:
        return type(error), str(error)
    return [_without_shares(result) for result in outcome.results] if isinstance(outcome, Allocated) else None


def _without_shares(result: AllocationResult) -> list[tuple[str, str]]:
    return [(result.request, result.device) for result in result.devices.results]


@pytest.mark.slow
@settings(max_examples=sample(100), deadline=None)
@given(st.randoms(use_true_random=False))
def test_ending_for_want_of_counters_changes_no_answer(random: Random) -> None:
    counters, devices = _random_pool(random)
    used = [f"{build.DRIVER}/pool/{device['name']}" for device in devices if random.random() < 0.15]
    problem = {"slices": _slices(counters, devices), "used": used}
    claims = [_claim(random, i) for i in range(random.randint(1, 2))]
    bounded = _outcome(build.snapshot(problem), claims, Effort(counter_bound=0))
    assert _outcome(build.snapshot(problem), claims, Effort(counter_bound=10**9)) == bounded


def _gpus(number: int, kinds: Json) -> tuple[Json, list[Json]]:
    """GPUs with a counter set each, and their partitions, kind by kind: name of the kind -> what each of how many
    takes."""
    counters = {f"gpu-{i}": {"memory": "2"} for i in range(number)}
    devices = [
        {"name": f"{kind}-{i}-{place}", "attributes": {"kind": kind}, "takes": {f"gpu-{i}": {"memory": amount}}}
        for kind, (amount, times) in kinds.items()
        for i in range(number)
        for place in range(times)
    ]
    return counters, devices


def _of(kind: str) -> list[str]:
    return [f'device.attributes["gpu.example.com"].kind == "{kind}"']


def _split(count: int, **wanted: Any) -> list[Json]:
    """Claims for so many devices, none of more than a claim may hold."""
    return [{"requests": [{"count": min(32, count - start), **wanted}]} for start in range(0, count, 32)]


HALVES_AND_WHOLES = {"half": ("1", 2), "whole": ("2", 1)}
NEVER_ENOUGH: dict[str, tuple[tuple[Json, list[Json]], list[Json], Features]] = {
    "one counter, one unit too few": (
        ({"cs": {"m": 127}}, [{"name": f"d{i}", "takes": {"cs": {"m": 1}}} for i in range(128)]),
        _split(128),
        DEFAULT,
    ),
    "devices of different size": (
        ({"cs": {"m": 31}}, [{"name": f"d{i}", "takes": {"cs": {"m": 2 + i % 3}}} for i in range(128)]),
        _split(16),
        DEFAULT,
    ),
    "a counter for each device and its twin, one device too many": (
        _gpus(128, {"whole": ("2", 2)}),
        _split(129),
        DEFAULT,
    ),
    "halves, then one whole too many": (
        _gpus(128, HALVES_AND_WHOLES),
        [{"requests": [{"count": 16, "when": _of("half")}]}, *_split(121, when=_of("whole"))],
        DEFAULT,
    ),
    "alternatives in many requests": (
        ({"cs": {"m": 17}}, [{"name": f"d{i}", "takes": {"cs": {"m": 2}}} for i in range(128)]),
        [{"requests": [{"name": f"r{i}", "first": [{"count": 2}, {"count": 1}]} for i in range(9)]}],
        DEFAULT,
    ),
    "seven of one group among groups of six": (
        (
            {"cs": {"m": 999}},
            [{"name": f"d{i}", "takes": {"cs": {"m": 1}}, "groups": {"cs": [f"g{i // 6}"]}} for i in range(128)],
        ),
        _split(7),
        GROUPS,
    ),
}


@pytest.mark.parametrize(("pool", "wanted", "features"), NEVER_ENOUGH.values(), ids=NEVER_ENOUGH.keys())
def test_counters_that_never_suffice_end_the_search(
    pool: tuple[Json, list[Json]], wanted: list[Json], features: Features
) -> None:
    claims = [build.claim({"name": f"claim{i}", **wish}) for i, wish in enumerate(wanted)]
    outcome = allocate(build.snapshot({"slices": _slices(*pool)}), claims, NODE, features, step_limit=10_000)
    assert isinstance(outcome, Unsatisfiable)
    assert outcome.explanation is not None
    assert outcome.explanation.blocking is not None


def test_just_enough_is_found() -> None:
    pool = _gpus(128, HALVES_AND_WHOLES)
    wanted = [{"requests": [{"count": 16, "when": _of("half")}]}, *_split(120, when=_of("whole"))]
    claims = [build.claim({"name": f"claim{i}", **wish}) for i, wish in enumerate(wanted)]
    outcome = allocate(build.snapshot({"slices": _slices(*pool)}), claims, NODE, step_limit=10_000)
    assert isinstance(outcome, Allocated)
    assert sum(len(result.devices.results) for result in outcome.results) == 136
