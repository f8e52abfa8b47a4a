"""What a snapshot remembers, and that it remembers no more than it may."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from pytest_mock import MockerFixture

from devtools.allocator import build
from virt_dra.allocator import Allocated, Snapshot, allocate
from virt_dra.allocator.model import DeviceId
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.resource_v1 import AllocationResult, DeviceTaintRule
from virt_dra.cel import CompiledSelector

D0 = DeviceId(build.DRIVER, "pool", "d0")


def allocation(*devices: str, **fields: object) -> AllocationResult:
    results = [
        {"request": "r", "driver": build.DRIVER, "pool": "pool", "device": device, **fields} for device in devices
    ]
    return AllocationResult.from_wire({"devices": {"results": results}})


def empty() -> Snapshot:
    return build.snapshot({"slices": [{"node": "n1", "devices": ["d0", "d1"]}]})


def test_deriving_leaves_the_original_alone() -> None:
    before = empty()
    after = before.with_allocation(allocation("d0"))
    assert (build.in_use(before, D0), build.in_use(after, D0)) == (False, True)
    assert after.caches is before.caches


def test_a_device_held_twice_is_free_only_after_both_releases() -> None:
    twice = empty().with_allocation(allocation("d0"), allocation("d0"))
    once = twice.without_allocation(allocation("d0"))
    assert (build.in_use(once, D0), once.without_allocation(allocation("d0")).used) == (True, PersistentMap())


def test_shares_count_until_the_last_is_released() -> None:
    shared = empty().with_allocation(allocation("d0", shareID="a"), allocation("d0", shareID="b"))
    left = shared.without_allocation(allocation("d0", shareID="a"))
    assert (build.in_use(left, D0), left.without_allocation(allocation("d0", shareID="b")).used) == (
        True,
        PersistentMap(),
    )


def test_admin_results_leave_no_mark() -> None:
    assert empty().with_allocation(allocation("d0", adminAccess=True)).used == PersistentMap()


def test_selectors_run_once_per_device_for_all_pods_and_nodes(mocker: MockerFixture) -> None:
    attributes = [{"name": f"d{number}", "attributes": {"m": number}} for number in range(3)]
    slices = [{"allNodes": True, "devices": attributes}]
    reads = 'device.attributes["gpu.example.com"].m >= 0'
    snapshot = build.snapshot({"slices": slices, "classes": [{"name": "gpu", "when": [reads]}]})
    claim = build.claim({"requests": [{"count": 3, "when": [f"{reads} && true"]}]})
    evaluations = mocker.spy(CompiledSelector, "matches")
    for node in ("n1", "n2", "n3"):
        outcome = allocate(snapshot, [claim], build.node(node))
        assert isinstance(outcome, Allocated)
    snapshot = snapshot.with_allocation(allocation("d0"))
    allocate(snapshot, [claim], build.node("n1"))
    assert evaluations.call_count == 3 * 2


def test_nodes_of_one_name_with_other_labels_are_judged_anew() -> None:
    snapshot = build.snapshot({"slices": [{"zone": "a", "devices": ["d0"]}]})
    claim = build.claim({"requests": [{}]})
    outcomes = [
        allocate(snapshot, [claim], build.node({"name": "n", "labels": {"zone": zone}})) for zone in ("b", "a", "b")
    ]
    assert [isinstance(outcome, Allocated) for outcome in outcomes] == [False, True, False]


def rule(name: str, selector: dict[str, str] | None, key: str) -> DeviceTaintRule:
    spec = {"taint": {"key": key, "effect": "NoSchedule"}} | ({} if selector is None else {"deviceSelector": selector})
    return DeviceTaintRule.from_wire({"metadata": {"name": name}, "spec": spec})


def taints(*rules: DeviceTaintRule) -> list[list[str]]:
    slices = [
        build.slice_(
            {"name": "s", "node": "n1", "devices": [{"name": "d0", "taints": [{"key": "own", "effect": "None"}]}, "d1"]}
        )
    ]
    snapshot = Snapshot.build(slices, [], taint_rules=rules)
    return [[taint.key for taint in device.taints] for device in snapshot.slices[0].spec.devices]


def test_taint_rules_are_applied_by_name_and_only_where_they_select() -> None:
    assert taints(rule("b", {"device": "d0"}, "kb"), rule("a", {}, "ka")) == [["own", "ka", "kb"], ["ka"]]
    assert taints(rule("a", None, "k")) == [["own"], []]  # absent selects nothing
    assert taints(rule("a", {"driver": build.DRIVER, "pool": "other"}, "k")) == [["own"], []]


def test_selectors_are_evaluated() -> None:
    given = {
        "slices": [
            {"node": "n1", "devices": [{"name": "d0", "attributes": {"m": 1}}, {"name": "d1", "attributes": {"m": 2}}]}
        ]
    }
    claim = build.claim({"requests": [{"when": ['device.attributes["gpu.example.com"].?m.orValue(0) > 1']}]})
    outcome = allocate(build.snapshot(given), [claim], build.node("n1"))
    assert isinstance(outcome, Allocated)
    assert outcome.results[0].devices.results[0].device == "d1"


def test_a_snapshot_cannot_be_changed() -> None:
    snapshot = empty().with_allocation(allocation("d0"))
    for target, field in ((snapshot, "used"), (snapshot, "slices"), (next(iter(snapshot.used.values())), "exclusive")):
        with pytest.raises(FrozenInstanceError):
            setattr(target, field, None)
    with pytest.raises(TypeError):
        snapshot.classes["gpu"] = None  # type: ignore[index]  # that it isn't assignable is the point
