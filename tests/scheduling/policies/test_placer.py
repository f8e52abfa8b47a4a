"""Placing by policy: what fits is what the allocator says fits, nothing is given twice, and nothing stale decides."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from devtools.allocator import build
from tests.sampling import sample
from tests.scheduling.policies.test_choices import placer, shape
from virt_dra.allocator import FatalError, Unsatisfiable, allocate
from virt_dra.api.quantity import Quantity
from virt_dra.scheduling.policies.catalog import POLICIES
from virt_dra.scheduling.policies.placer import PlacedVm, PolicyPlacer, VmShape, card_catalog

Json = dict[str, Any]
DETERMINED = tuple(name for name in POLICIES if name != "random")


def _node(random: Random, number: int) -> Json:
    kind = random.choice(("plain", "shared", "partitions"))
    common: Json = {"name": f"n{number}", "cpu": random.choice((8, 16, 32))}
    if kind == "plain":
        places = [{"resource.kubernetes.io/pcieRoot": f"r{i // 2}", "numaNode": i // 2} for i in range(4)]
        devices = [
            {"name": f"d{i}", "attributes": places[i], "capacity": {"memory": {"value": f"{8 * (1 + i % 2)}Gi"}}}
            for i in range(4)
        ]
        return {**common, "devices": devices[: random.randint(0, 4)]}
    if kind == "shared":
        card = {"allowMultipleAllocations": True, "capacity": {"share": {"value": "1000"}}}
        return {**common, "devices": [{**card, "name": f"d{i}"} for i in range(random.randint(1, 3))]}
    devices = [{"name": f"p{i}", "takes": {f"card-{i % 2}": {"memory": random.choice((10, 20, 40))}}} for i in range(4)]
    return {**common, "counters": {"card-0": {"memory": 40}, "card-1": {"memory": 40}}, "devices": devices}


def _shapes(random: Random) -> list[VmShape]:
    requests: list[list[Json]] = [
        [{}],
        [{"count": 2}],
        [{"capacity": {"requests": {"share": "300"}}}],
        [{"capacity": {"requests": {"share": "700"}}}],
        [{"name": "a"}, {"name": "b", "count": 2}],
        [{"first": [{"count": 3}, {"count": 1}]}],
    ]
    return [
        shape({"requests": request, "cpu": random.choice((0, 1, 4))}, f"shape-{i}")
        for i, request in enumerate(requests)
    ] + [shape({"cpu": 2})]


def _fits(used: PolicyPlacer, wanted: VmShape, number: int) -> bool:
    """By the allocator alone, from the beginning."""
    if not used.rooms[number].fits(wanted.cpu, wanted.memory):
        return False
    return not wanted.claims or not isinstance(
        allocate(used.snapshot, wanted.claims, used.nodes[number]), Unsatisfiable
    )


def _held(running: list[PlacedVm]) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Of every device, how often it is held alone, and how much of its share is."""
    alone: Counter[tuple[str, str]] = Counter()
    shares: Counter[tuple[str, str]] = Counter()
    for allocated in (device for placed in running for result in placed.results for device in result.devices.results):
        if allocated.consumed_capacity:
            shares[allocated.pool, allocated.device] += allocated.consumed_capacity["share"].value()
        else:
            alone[allocated.pool, allocated.device] += 1
    return alone, shares


@pytest.mark.parametrize("policy", DETERMINED)
@pytest.mark.parametrize("seed", range(sample(6)))
def test_any_sequence_of_starts_and_ends(policy: str, seed: int) -> None:
    random = Random(seed)
    case: Json = {"nodes": [_node(random, number) for number in range(4)], "vm": {"requests": [{}]}}
    used = placer(case, policy)
    shapes, running = _shapes(random), list[PlacedVm]()
    for step in range(60):
        if running and random.random() < 0.35:
            used.release(running.pop(random.randrange(len(running))))
            continue
        wanted = random.choice(shapes)
        possible = [number for number in range(len(used.nodes)) if _fits(used, wanted, number)]
        fresh = _again(case, policy, used)
        expected = fresh.best(wanted)
        placement = used.place(wanted, f"vm-{step}")
        assert (placement is None) == (not possible)
        if placement is not None:
            assert expected is not None
            assert placement.node == expected[0]
            assert placement.node in possible
            running.append(placement)
        alone, shares = _held(running)
        assert max(alone.values(), default=0) <= 1
        assert max(shares.values(), default=0) <= 1000
    for placed in running:
        used.release(placed)
    assert used.snapshot.used == {}
    assert all((room.cpu_left, room.pods_left) == (room.cpu, room.pods) for room in used.rooms)


def _again(case: Json, policy: str, used: PolicyPlacer) -> PolicyPlacer:
    """A placer that knows nothing of what was, on the same cluster in the same use."""
    fresh = placer(case, policy)
    fresh.snapshot = type(used.snapshot)(
        fresh.snapshot.slices,
        fresh.snapshot.classes,
        fresh.snapshot.caches,
        used.snapshot.used,
        fresh.snapshot.allocated,
    )
    fresh.rooms[:] = used.rooms
    return fresh


def test_a_closed_node_takes_no_vm() -> None:
    used = placer(
        {"nodes": [{"name": "a", "devices": ["d0"]}, {"name": "b", "devices": ["d0"]}], "vm": {"requests": [{}]}},
        "first-fit",
    )
    wanted = shape({"requests": [{}]})
    assert used.best(wanted) == (0, None)
    used.set_open(0, open=False)
    assert used.best(wanted) == (1, None)
    used.set_open(0, open=True)
    assert used.best(wanted) == (0, None)


def test_a_pool_of_several_nodes_is_used_once() -> None:
    """A device that several nodes reach is gone for all of them."""
    used = placer(
        {"nodes": [{"name": "a", "devices": []}, {"name": "b", "devices": []}], "vm": {"requests": [{}]}}, "pack"
    )
    shared = build.slice_({"name": "net", "pool": "net", "allNodes": True, "devices": ["d0"]})
    again = type(used.snapshot).build([shared], [build.device_class("gpu")])
    used.replace_slices(again, card_catalog(again), used.policy)
    wanted = shape({"requests": [{}]})
    first = used.place(wanted, "one")
    assert first is not None
    assert used.place(wanted, "two") is None
    used.release(first)
    assert used.place(wanted, "three") is not None


@pytest.mark.parametrize("good", [False, True], ids=["on one node", "and a node that can be judged"])
def test_a_pool_that_is_being_updated_is_not_the_claims_fault(good: bool) -> None:
    """Of two requests the first asks for all devices, which aren't known, and the second breaks a rule."""
    names = ["a", "b"] if good else ["a"]
    used = placer({"nodes": [{"name": name, "devices": []} for name in names], "vm": {"requests": [{}]}}, "first-fit")
    slices = [
        build.slice_({"name": name, "pool": name, "node": name, "devices": ["d0"], "count": 2 if name == "a" else 1})
        for name in names
    ]
    again = type(used.snapshot).build(slices, [build.device_class("gpu")])
    used.replace_slices(again, card_catalog(again), used.policy)
    broken = shape({"requests": [{"all": True}, {"class": "missing"}]})
    if good:
        with pytest.raises(FatalError):
            used.place(broken, "vm")
    else:
        assert used.place(broken, "vm") is None


def test_quantities_of_shares_add_up_exactly() -> None:
    card = {"allowMultipleAllocations": True, "capacity": {"share": {"value": "1000"}}, "name": "d0"}
    used = placer({"nodes": [{"name": "a", "devices": [card]}], "vm": {"requests": [{}]}}, "pack")
    wanted = shape({"requests": [{"capacity": {"requests": {"share": "250"}}}]})
    placed = [used.place(wanted, f"vm-{number}") for number in range(5)]
    assert [result is not None for result in placed] == [True, True, True, True, False]
    use = next(iter(used.snapshot.used.values()))
    assert use.consumed["d0"]["share"] == Quantity("1000")
