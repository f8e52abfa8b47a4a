"""The search against brute force: same first solution, exact undo, no matter in which order slices arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import DEFAULT, Allocated, AllocationError, NodeError, Snapshot, allocate
from virt_dra.allocator.effort import DEFAULT_EFFORT, Effort
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.attributes import applies
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.model import AttributeName, Choice, ClaimPlan, DeviceId, PoolDevice, PoolId, Slots, Upcoming
from virt_dra.allocator.pruning.pruner import SearchPruner
from virt_dra.allocator.pruning_port import Problem
from virt_dra.allocator.published import values_of
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.search import Search
from virt_dra.allocator.usage import NOTHING_USED
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import ResourceClaim

Json = dict[str, Any]
NODE = build.node("n1")


def _device(random: Random, number: int) -> Json:
    return {"name": f"d{number}", "attributes": {"m": random.randint(0, 1), "n": random.randint(0, 2)}}


def _wanted(random: Random) -> Json:
    wanted: Json = {"when": random.choice(([], [], ['device.attributes["gpu.example.com"].m == 1']))}
    if random.random() < 0.15:
        return wanted | {"all": True}
    return wanted | {"count": random.choice((1, 1, 2, 3))}


def _request(random: Random, number: int) -> Json:
    if random.random() < 0.3:
        return {"name": f"r{number}", "first": [_wanted(random) for _ in range(random.randint(1, 3))]}
    wanted = {"name": f"r{number}", **_wanted(random)}
    return wanted | ({"adminAccess": True} if random.random() < 0.15 else {})


def _claim(random: Random, number: int) -> Json:
    constraints = []
    for kind in random.sample(("match", "distinct"), random.choice((0, 1, 1, 2))):
        constraints.append(
            {kind: f"gpu.example.com/{random.choice('mn')}", "requests": random.choice(([], ["r0"], ["r1", "r0/s1"]))}
        )
    requests = [_request(random, i) for i in range(random.randint(1, 3))]
    return {"name": f"claim{number}", "requests": requests, "constraints": constraints}


def _problem(random: Random) -> tuple[Json, list[ResourceClaim]]:
    devices = [_device(random, i) for i in range(random.randint(1, 5))]
    used = [f"gpu.example.com/pool/{device['name']}" for device in devices if random.random() < 0.2]
    given = {"slices": [{"node": "n1", "devices": devices}], "used": used}
    return given, [build.claim(_claim(random, i)) for i in range(random.randint(1, 2))]


FEATURES = replace(DEFAULT, compatibility_groups=True)
LIMITS = {"cs": {"m": 6}, "other": {"m": 3, "x": 2}}


def _partition(random: Random, number: int) -> Json:
    """A device that takes from counters, shared or not, and has a capacity."""
    device = _device(random, number)
    if random.random() < 0.7:
        device["consumesCounters"] = [
            {
                "counterSet": name,
                "counters": {counter: {"value": str(random.choice((0, 1, 1, 2)))} for counter in LIMITS[name]},
            }
            | (
                {"compatibilityGroups": random.sample(("mig", "mps"), random.choice((0, 1, 1, 2)))}
                if random.random() < 0.3
                else {}
            )
            for name in random.sample(tuple(LIMITS), random.choice((1, 1, 2)))
        ]
    if random.random() < 0.5:
        device |= {
            "capacity": {"mem": {"value": str(random.randint(2, 4))}},
            "allowMultipleAllocations": random.random() < 0.8,
        }
    return device


def _limited_problem(random: Random) -> tuple[Json, list[ResourceClaim]]:
    """Counters, compatibility groups, shared devices."""
    devices = [_partition(random, i) for i in range(random.randint(3, 6))]
    used: list[str | Json] = []
    for device in devices:
        place = {"request": "r0", "driver": build.DRIVER, "pool": "pool", "device": device["name"]}
        if device.get("allowMultipleAllocations") and random.random() < 0.3:
            used.append({**place, "shareID": "s1", "consumedCapacity": {"mem": "1"}})
        elif random.random() < 0.1:
            used.append(place)
    counters = [
        {"name": name, "counters": {counter: {"value": str(value)} for counter, value in of.items()}}
        for name, of in LIMITS.items()
    ]
    slices: list[Json] = [
        {"name": "counters", "count": 2, "node": "n1", "sharedCounters": counters},
        {"name": "devices", "count": 2, "node": "n1", "devices": devices},
    ]
    claims = [_claim(random, i) for i in range(random.randint(1, 2))]
    for request in (request for claim in claims for request in claim["requests"]):
        for wanted in request.get("first", [request]):
            if random.random() < 0.15:
                wanted["capacity"] = {"requests": {"mem": str(random.randint(1, 3))}}
    return {"slices": slices, "used": used}, [build.claim(claim) for claim in claims]


class BruteForce:
    """Every choice in the order of A-7, judged only when complete. Nothing shared with the search but the plan."""

    def __init__(
        self, snapshot: Snapshot, claims: Sequence[ClaimPlan], devices: Sequence[PoolDevice], table: FeatureTable
    ) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._devices = devices
        self._table = table
        self._use = snapshot.used.get(PoolId(build.DRIVER, "pool"), NOTHING_USED)

    def first(self) -> list[str] | None:
        entries = [(slots for slots in plan.alternatives) for claim in self._claims for plan in claim.requests]
        return next(self._extend([list(entry) for entry in entries], []), None)

    def _extend(self, entries: list[list[Slots]], chosen: list[Choice]) -> Iterator[list[str]]:
        if not entries:
            if self._valid(chosen):
                yield [f"{c.request.claim.name} {c.request.full_name} {c.device.id.device}" for c in chosen]
            return
        for slots in entries[0]:
            for devices in self._options(slots):
                yield from self._extend(entries[1:], chosen + [Choice(slots.request, device) for device in devices])

    def _options(self, slots: Slots) -> Iterator[tuple[PoolDevice, ...]]:
        if slots.fixed is not None:
            return iter([slots.fixed] if slots.fixed else [])
        return combinations(
            [device for device in self._devices if self._table.selectable(slots.request, device)], slots.count
        )

    def _valid(self, chosen: list[Choice]) -> bool:
        for i, choice in enumerate(chosen):
            if choice.device.published.allow_multiple_allocations:
                if choice.device.id.device in self._use.exclusive and not choice.request.admin_access:
                    return False
                continue
            if not choice.request.admin_access and build.in_use(self._snapshot, choice.device.id):
                return False
            for before in chosen[:i]:
                if before.device is choice.device:
                    same_claim = before.request.claim_index == choice.request.claim_index
                    if choice.request.admin_access and same_claim:
                        return False
                    if not choice.request.admin_access and not before.request.admin_access:
                        return False
        if not all(self._constraints_hold(i, claim.claim, chosen) for i, claim in enumerate(self._claims)):
            return False
        takers = [choice for choice in chosen if not choice.request.admin_access]
        return self._shares_fit(takers) and self._counters_suffice(takers) and self._groups_agree(takers)

    def _shares_fit(self, chosen: list[Choice]) -> bool:
        """The shares of a device and what was consumed before are no more than its value."""
        for device in {choice.device for choice in chosen if choice.device.published.allow_multiple_allocations}:
            for name, capacity in device.published.capacity.items():
                held = self._use.consumed.get(device.id.device, {}).get(name, Quantity("0"))
                wanted = [
                    choice.request.capacity.get(name, capacity.value) for choice in chosen if choice.device is device
                ]
                if sum(quantity.nano for quantity in (held, *wanted)) > capacity.value.nano:
                    return False
        return True

    def _charged(self, chosen: list[Choice]) -> list[PoolDevice]:
        """Devices that newly take from counters, in the order in which they were chosen: shared ones only with their
        first share."""
        devices = dict.fromkeys(choice.device for choice in chosen)
        return [
            device
            for device in devices
            if not (device.published.allow_multiple_allocations and device.id.device in self._use.shared)
        ]

    def _counters_suffice(self, chosen: list[Choice]) -> bool:
        """What is taken of a counter by somebody new is no more than what is left of it."""
        new = self._charged(chosen)
        in_use = [device for device in self._devices if device.id.device in self._use.devices]
        taken = _amounts(in_use)
        return all(
            amount <= max(LIMITS[key[0]][key[1]] - taken.get(key, 0), 0) for key, amount in _amounts(new).items()
        )

    def _groups_agree(self, chosen: list[Choice]) -> bool:
        """Members of a counter set have a group in common, or none has any. Those in use may disagree already."""
        in_use = [device for device in self._devices if device.id.device in self._use.devices]
        for name in LIMITS:
            before, new = _groups(in_use, name), _groups(self._charged(chosen), name)
            first = (before or new)[:1]
            if not new or not first:
                continue
            if not first[0]:
                if any(new):
                    return False
            elif not all(new) or not frozenset.intersection(first[0], *(values for values in before if values), *new):
                return False
        return True

    @staticmethod
    def _constraints_hold(index: int, claim: ResourceClaim, chosen: list[Choice]) -> bool:
        for constraint in claim.spec.devices.constraints:
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            values = []
            for choice in chosen:
                if choice.request.claim_index == index and applies(constraint.requests, choice.request):
                    attribute = AttributeName(name).find(choice.device)
                    value = None if attribute is None else values_of(attribute, lists=False)
                    if value is None:
                        return False
                    values.append(value)
            if constraint.match_attribute is not None and len(set(values)) > 1:
                return False
            if constraint.distinct_attribute is not None and len(set(values)) < len(values):
                return False
        return True


def _amounts(devices: Sequence[PoolDevice]) -> dict[tuple[str, str], int]:
    """What the devices take of each counter together; counters of which they take nothing are left out."""
    totals: Counter[tuple[str, str]] = Counter()
    for consumption in (consumption for device in devices for consumption in device.published.consumes_counters):
        for name, counter in consumption.counters.items():
            totals[consumption.counter_set, name] += counter.value.value()
    return {key: amount for key, amount in totals.items() if amount}


def _groups(devices: Sequence[PoolDevice], counter_set: str) -> list[frozenset[str]]:
    consumptions = (consumption for device in devices for consumption in device.published.consumes_counters)
    return [
        frozenset(consumption.compatibility_groups)
        for consumption in consumptions
        if consumption.counter_set == counter_set
    ]


@pytest.mark.slow
@pytest.mark.parametrize("problem", [_problem, _limited_problem])
@settings(max_examples=sample(150), deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_the_first_solution_is_that_of_brute_force_and_failure_leaves_no_trace(
    problem: Callable[[Random], tuple[Json, list[ResourceClaim]]], random: Random
) -> None:
    given, claims = problem(random)
    snapshot = build.snapshot(given)
    pools = snapshot.caches.pools(FEATURES)
    reachable = pools.reachable(NODE)
    table = FeatureTable(
        snapshot.used, snapshot.caches, pools, NODE, FEATURES, SelectorFilter(snapshot.caches.selectors)
    )
    plans = plan_claims(claims, snapshot.classes, reachable, FEATURES, table.selectable)
    checks = [table.checks(plan.claim) for plan in plans]
    everything = Upcoming(
        tuple(s.request for p in plans for r in p.requests for s in r.alternatives), lambda device: True
    )
    before = [[check.state(everything) for check in row] for row in checks]
    whole = Problem(plans, lambda request: reachable.devices, table.availability, table.filters, checks)
    search = Search(whole, pruner=SearchPruner(table.bounds))
    want = BruteForce(snapshot, plans, reachable.devices, table).first()
    if search.run():
        assert [
            f"{c.request.claim.name} {c.request.full_name} {c.device.id.device}"
            for level in search.chosen
            for c in level
        ] == want
        for choice in reversed([choice for level in search.chosen for choice in level]):
            search.unplace(choice.request, choice.device)
    else:
        assert want is None
        assert search.selected == {}
    assert search.chosen == [[] for _ in claims]
    assert [[check.state(everything) for check in row] for row in checks] == before


def _hard_problem(random: Random) -> tuple[Json, list[ResourceClaim]]:
    """With what the shortcuts must not hide: selectors that fail on some device, taints, and All under constraints."""
    devices = [_device(random, i) for i in range(random.randint(2, 7))]
    for device in devices:
        if random.random() < 0.2:
            device["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        if random.random() < 0.05:
            del device["attributes"]["m"]
    given = {
        "slices": [{"node": "n1", "devices": devices}],
        "used": [f"gpu.example.com/pool/{d['name']}" for d in devices if random.random() < 0.2],
    }
    return given, [build.claim(_claim(random, i)) for i in range(random.randint(1, 3))]


@pytest.mark.slow
@settings(max_examples=sample(300), deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_is_left_out_changes_neither_the_answer_nor_the_error(random: Random) -> None:
    given, claims = _hard_problem(random)
    patience = random.choice((0, 0, 5, 20))
    got = _outcome(given, claims, explain=False, effort=Effort(patience=patience, look_ahead=2 * patience))
    assert _outcome(given, claims, explain=False, effort=Effort(patience=None)) == got


def _outcome(
    given: Json, claims: list[ResourceClaim], *, explain: bool = True, effort: Effort = DEFAULT_EFFORT
) -> object:
    try:
        outcome = allocate(build.snapshot(given), claims, NODE, explain=explain, effort=effort)
    except AllocationError as error:
        return type(error), str(error)
    return outcome.results if isinstance(outcome, Allocated) else outcome.explanation


@settings(max_examples=sample(60), deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_slices_does_not_matter(random: Random) -> None:
    slices = []
    for pool in ("p0", "p1"):
        for i in range(2):
            devices = [_device(random, 2 * i + k) for k in range(random.randint(0, 2))]
            where: Json = random.choice(({"node": "n1"}, {"allNodes": True}, {"node": "n2"}))
            slices.append({"name": f"{pool}-{i}", "pool": pool, "count": 2, "devices": devices, **where})
    claims = [build.claim(_claim(random, 0))]
    want = _outcome({"slices": slices}, claims)
    random.shuffle(slices)
    assert _outcome({"slices": slices}, claims) == want


@settings(max_examples=sample(60), deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_was_allocated_fits_no_second_time_and_can_be_released(random: Random) -> None:
    given, claims = _problem(random)
    snapshot = build.snapshot(given)
    try:
        outcome = allocate(snapshot, claims, NODE)
    except NodeError:
        return
    if not isinstance(outcome, Allocated):
        return
    after = snapshot.with_allocation(*outcome.results)
    for result in (result for allocation in outcome.results for result in allocation.devices.results):
        assert build.in_use(after, DeviceId(result.driver, result.pool, result.device)) or result.admin_access
    assert after.without_allocation(*outcome.results).used == snapshot.used
