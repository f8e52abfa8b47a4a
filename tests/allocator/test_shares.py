"""Shares of devices: first solution as by brute force, no trace after failure, ids that follow from what is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import DEFAULT, Allocated, DeviceUse, Snapshot, Unsatisfiable, allocate
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.model import Upcoming
from virt_dra.allocator.pruning_port import Problem
from virt_dra.allocator.requests import plan_claims
from virt_dra.allocator.search import Search
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim

Json = dict[str, Any]
NODE = build.node("n1")


def _devices(random: Random) -> list[Json]:
    """Few and small, often alike, some without one of the capacities, some exclusive."""
    devices = []
    for i in range(random.randint(1, 4)):
        device: Json = {"name": f"d{i}", "capacity": {"bw": {"value": str(random.choice((2, 3, 3)))}}}
        if random.random() < 0.4:
            device["capacity"]["mem"] = {"value": "2", "requestPolicy": {"default": random.choice(("0", "1"))}}
        if random.random() < 0.8:
            device["allowMultipleAllocations"] = True
        devices.append(device)
    return devices


def _wanted(random: Random) -> Json:
    amounts = {"bw": str(random.randint(0, 3))} if random.random() < 0.9 else {}
    if random.random() < 0.15:
        amounts["mem"] = "1"
    wanted: Json = {"capacity": {"requests": amounts}}
    return wanted | ({"all": True} if random.random() < 0.1 else {"count": random.choice((1, 1, 2))})


def _requests(random: Random) -> list[Json]:
    found: list[Json] = []
    for i in range(random.randint(1, 3)):
        if random.random() < 0.25:
            found.append({"name": f"r{i}", "first": [_wanted(random) for _ in range(2)]})
        else:
            found.append(
                {"name": f"r{i}", **_wanted(random)} | ({"adminAccess": True} if random.random() < 0.1 else {})
            )
    return found


def _used(random: Random, devices: Sequence[Json]) -> list[Json]:
    place = {"request": "r", "driver": build.DRIVER, "pool": "pool"}
    return [
        place | {"device": device["name"], "shareID": "s", "consumedCapacity": {"bw": str(random.randint(0, 2))}}
        for device in devices
        if random.random() < 0.25
    ]


class BruteForce:
    """Every choice in the order of A-7 over plain numbers, judged only when complete."""

    def __init__(self, devices: Sequence[Json], used: Sequence[Json], claims: Sequence[Sequence[Json]]) -> None:
        self._devices = devices
        self._used = {result["device"]: int(result["consumedCapacity"]["bw"]) for result in used}
        self._claims = claims

    def first(self) -> list[str] | None:
        entries = [(claim, request) for claim, requests in enumerate(self._claims) for request in requests]
        for chosen in product(*(list(self._options(claim, request)) for claim, request in entries)):
            taken = [choice for choices in chosen for choice in choices]
            if self._valid(taken):
                return [device["name"] for _, _, device in taken]
        return None

    def _options(self, claim: int, request: Json) -> Iterator[list[tuple[int, Json, Json]]]:
        for wish in request.get("first", [request]):
            possible = [device for device in self._devices if self._takes(wish, device) is not None]
            for devices in ([possible] if possible else []) if "all" in wish else combinations(possible, wish["count"]):
                yield [(claim, wish, device) for device in devices]

    def _takes(self, wish: Json, device: Json) -> dict[str, int] | None:
        """None: can't, ever."""
        asked = {name: int(amount) for name, amount in wish["capacity"]["requests"].items()}
        capacity = device["capacity"]
        takes = {
            name: asked.get(name, int(capacity_.get("requestPolicy", {}).get("default", capacity_["value"])))
            for name, capacity_ in capacity.items()
        }
        fits = asked.keys() <= capacity.keys() and all(takes[name] <= int(capacity[name]["value"]) for name in takes)
        return takes if fits else None

    def _valid(self, taken: Sequence[tuple[int, Json, Json]]) -> bool:
        for device in self._devices:
            takers = [(claim, wish) for claim, wish, other in taken if other is device]
            normal = [wish for _, wish in takers if "adminAccess" not in wish]
            if "allowMultipleAllocations" not in device:
                admins = [claim for claim, wish in takers if "adminAccess" in wish]
                held = device["name"] in self._used
                if (normal and len(normal) + held > 1) or self._admin_twice(takers, admins):
                    return False
                continue
            for name, capacity in device["capacity"].items():
                used = self._used.get(device["name"], 0) if name == "bw" else 0
                sums = [takes[name] for wish in normal if (takes := self._takes(wish, device)) is not None]
                if sums and used + sum(sums) > int(capacity["value"]):
                    return False
        return True

    @staticmethod
    def _admin_twice(takers: Sequence[tuple[int, Json]], admins: Sequence[int]) -> bool:
        """An admin request gets no device that its claim holds already (A-11.2); the other way round is fine (AC-7)."""
        for number, (claim, wish) in enumerate(takers):
            if "adminAccess" in wish and any(earlier == claim for earlier, _ in takers[:number]):
                return True
        return len(admins) != len(set(admins))


def _problem(random: Random) -> tuple[Json, list[list[Json]]]:
    devices = _devices(random)
    given = {"slices": [{"node": "n1", "devices": devices}], "used": _used(random, devices)}
    return given, [_requests(random) for _ in range(random.randint(1, 2))]


@pytest.mark.slow
@settings(max_examples=sample(300), deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_first_solution_is_that_of_brute_force(random: Random) -> None:
    given, requests = _problem(random)
    want = BruteForce(given["slices"][0]["devices"], given["used"], requests).first()
    claims = [build.claim({"name": f"c{i}", "requests": request}) for i, request in enumerate(requests)]
    outcome = allocate(build.snapshot(given), claims, NODE)
    got = (
        [result.device for allocation in outcome.results for result in allocation.devices.results]
        if isinstance(outcome, Allocated)
        else None
    )
    assert got == want


@settings(max_examples=sample(100), deadline=None)
@given(st.randoms(use_true_random=False))
def test_failure_and_taking_back_leave_no_trace(random: Random) -> None:
    given, requests = _problem(random)
    snapshot = build.snapshot(given)
    pools = snapshot.caches.pools(DEFAULT)
    reachable = pools.reachable(NODE)
    table = FeatureTable(
        snapshot.used, snapshot.caches, pools, NODE, DEFAULT, SelectorFilter(snapshot.caches.selectors)
    )
    claims = [build.claim({"name": f"c{i}", "requests": request}) for i, request in enumerate(requests)]
    plans = plan_claims(claims, snapshot.classes, reachable, DEFAULT, table.selectable)
    checks = [table.checks(plan.claim) for plan in plans]
    everything = Upcoming(
        tuple(s.request for p in plans for r in p.requests for s in r.alternatives), lambda device: device
    )
    search = Search(Problem(plans, lambda request: reachable.devices, table.availability, table.filters, checks))
    if search.run():
        for choice in reversed([choice for level in search.chosen for choice in level]):
            search.unplace(choice.request, choice.device)
    assert [[check.state(everything) for check in row] for row in checks] == [[None for _ in row] for row in checks]


def test_what_was_shared_can_be_shared_again_until_nothing_is_left() -> None:
    snapshot = build.snapshot({"slices": [{"node": "n1", "devices": [card("d0", "10")]}]})
    after: list[Snapshot] = [snapshot]
    for number in range(3):
        results = allocated(after[-1], build.claim({"name": f"c{number}", "requests": [asking("3")]}))
        after.append(after[-1].with_allocation(*results))
    last = build.claim({"name": "last", "requests": [asking("3")]})
    refused = allocate(after[-1], [last], NODE)
    assert isinstance(refused, Unsatisfiable)
    assert refused.explanation is not None
    assert [rejection.detail for rejection in refused.explanation.requests[0].rejections] == [
        "capacity bw: wanted 3, left 1 of 10"
    ]
    assert allocated(after[-1].without_allocation(*results), last)


def test_amounts_in_use_count_without_a_share() -> None:
    snapshot = build.snapshot({"slices": [{"node": "n1", "devices": [card("d0", "10"), card("d1", "10")]}]})
    used = snapshot.with_uses([DeviceUse(build.DRIVER, "pool", "d0", consumed={"bw": Quantity("9500m")})])
    results = allocated(used, build.claim({"requests": [asking("1")]}))
    assert results[0].devices.results[0].device == "d1"


def test_share_ids_tell_claims_requests_and_devices_apart() -> None:
    devices = [card("d0", "10"), card("d1", "10")]
    requests = [
        {"name": "r0", "count": 2, **asking("1")},
        {"name": "r1", "first": [asking("1")]},
        {"name": "r2", **asking("1")},
    ]
    snapshot = build.snapshot({"slices": [{"node": "n1", "devices": devices}]})
    claims = [build.claim({"name": name, "requests": requests}) for name in ("c0", "c1")]
    assert len({share for claim in claims for share in shares(snapshot, claim)}) == 8
    assert shares(snapshot, claims[0]) == shares(snapshot, claims[0])
    anonymous = [claim.with_(metadata=claim.metadata.with_(uid="")) for claim in claims]
    assert len({share for claim in anonymous for share in shares(snapshot, claim)}) == 8


TOO_MUCH: dict[str, tuple[int, list[str]]] = {
    "more in total than there is, in parts of many sizes": (14, ["1", "2", "3", "4", "5", "6", "7", "8"] * 4),
    "more parts of a size than fit": (12, ["4"] * 25 + ["1"] * 5),
    "more large parts than devices, and many small ones": (15, ["6"] * 16 + ["3", "2"] * 4),
}


@pytest.mark.parametrize(("devices", "widths"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_what_can_never_suffice_is_refuted_at_the_first_failure(devices: int, widths: list[str]) -> None:
    given = {"slices": [{"node": "n1", "devices": [card(f"d{i}", "10") for i in range(devices)]}]}
    requests = [{"name": f"r{i}", **asking(width)} for i, width in enumerate(widths)]
    outcome = allocate(build.snapshot(given), [build.claim({"requests": requests})], NODE)
    assert isinstance(outcome, Unsatisfiable)
    assert outcome.steps < 2000
    assert outcome.explanation is not None
    assert outcome.explanation.summary == "capacity bw exhausted"


def card(name: str, bandwidth: str) -> Json:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"bw": {"value": bandwidth}}}


def asking(bandwidth: str) -> Json:
    return {"capacity": {"requests": {"bw": bandwidth}}}


def allocated(snapshot: Snapshot, claim: ResourceClaim) -> tuple[AllocationResult, ...]:
    outcome = allocate(snapshot, [claim], NODE)
    assert isinstance(outcome, Allocated)
    return outcome.results


def shares(snapshot: Snapshot, claim: ResourceClaim) -> list[str]:
    return [str(result.share_id) for result in allocated(snapshot, claim)[0].devices.results]
