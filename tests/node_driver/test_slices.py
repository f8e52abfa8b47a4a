"""What the node's slices say and which writes bring them there (D-21 to D-26). Against Kubernetes' helper:
tests/upstream/test_slices.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet
from node_driver.slices import (
    PoolOwner,
    SliceContent,
    SlicePlan,
    StoredContent,
    content_of,
    disabled_features,
    equal,
    plan_slices,
    slice_contents,
)
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import Device, DeviceAttribute, DeviceCapacity, DeviceTaint, ResourceSlice
from virt_dra.api.validation.rules import Rules
from virt_dra.api.validation.slices import resource_slice

OWNER = PoolOwner("passthrough.virt-dra.io", "node-1", "1234")
HELD = DeviceTaint(key="passthrough.virt-dra.io/held", effect="NoSchedule")


def pci(number: int) -> PassthroughDevice:
    return PassthroughDevice(f"pci-{number}", DeviceKind.VFIO, f"0000:{number:02x}:00.0")


def contents(count: int, taints: Mapping[str, tuple[DeviceTaint, ...]] = {}) -> tuple[SliceContent, ...]:
    return slice_contents(PublishedSet(tuple(pci(number) for number in range(count))), taints)


def stored(plan: SlicePlan, existing: tuple[ResourceSlice, ...] = ()) -> tuple[ResourceSlice, ...]:
    """What the API server has after the writes, with the names that it made."""
    deleted = {obj.name for obj in plan.deletes}
    after = {obj.name: obj for obj in existing if obj.name not in deleted}
    for obj in plan.updates.values():
        after[obj.name] = obj
    for obj in plan.creates.values():
        name = f"{obj.metadata.generate_name}x"
        after[name] = obj.with_(metadata=obj.metadata.with_(name=name))
    return tuple(after.values())


def generations(slices: tuple[ResourceSlice, ...]) -> list[tuple[str, int, int, int]]:
    """Of each slice the index in its name, generation, count and number of devices."""
    return [
        (
            obj.name.partition("-")[0],
            obj.spec.pool.generation,
            obj.spec.pool.resource_slice_count,
            len(obj.spec.devices),
        )
        for obj in slices
    ]


def test_a_slice_belongs_to_its_node_and_has_a_generated_name() -> None:
    device = PassthroughDevice(
        "pci-0000-41-00-0", DeviceKind.VFIO, "0000:41:00.0", attributes={"kind": DeviceAttribute(string="vfio")},
        capacity={"memory": DeviceCapacity(value=Quantity("16Gi"))},
    )  # fmt: skip
    wanted = slice_contents(PublishedSet((device,)), {device.name: (HELD,)})
    assert [obj.to_wire() for obj in plan_slices(wanted, (), OWNER).creates.values()] == [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "generateName": "00000-passthrough.virt-dra.io-node-1-",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "1234", "controller": True}
                ],
            },
            "spec": {
                "driver": "passthrough.virt-dra.io",
                "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "node-1",
                "devices": [
                    {
                        "name": "pci-0000-41-00-0",
                        "attributes": {"kind": {"string": "vfio"}},
                        "capacity": {"memory": {"value": "16Gi"}},
                        "taints": [{"key": "passthrough.virt-dra.io/held", "effect": "NoSchedule"}],
                    }
                ],
            },
        }
    ]


def test_a_node_without_devices_publishes_an_empty_pool() -> None:
    assert generations(stored(plan_slices(contents(0), (), OWNER))) == [("00000", 1, 1, 0)]


@pytest.mark.parametrize(("count", "parts"), [(64, [64]), (65, [64, 1]), (1024, [64] * 16)])
def test_devices_are_split_by_64_in_their_order(count: int, parts: list[int]) -> None:
    wanted = contents(count)
    assert [len(content.devices) for content in wanted] == parts
    assert [device.name for content in wanted for device in content.devices] == [f"pci-{n}" for n in range(count)]


def test_counter_sets_are_in_slices_of_their_own_and_before_the_devices() -> None:
    vgpus = tuple(
        PassthroughDevice(
            f"mdev-{card}-0", DeviceKind.MDEV, "0000:01:00.0", counter_set=f"card-{card}", counters={"a40-8q": 2}
        )
        for card in range(9)
    )
    sets = {f"card-{card}": {"a40-8q": 4} for card in range(9)}
    wanted = slice_contents(PublishedSet(vgpus, counter_sets=sets), {})
    assert [(len(content.counter_sets), len(content.devices)) for content in wanted] == [(8, 0), (1, 0), (0, 9)]
    written = [obj.to_wire()["spec"] for obj in plan_slices(wanted, (), OWNER).creates.values()]
    assert written[1]["sharedCounters"] == [{"name": "card-8", "counters": {"a40-8q": {"value": "4"}}}]
    assert written[2]["devices"][0] == {
        "name": "mdev-0-0",
        "consumesCounters": [{"counterSet": "card-0", "counters": {"a40-8q": {"value": "2"}}}],
    }
    assert ["devices" in spec for spec in written] == [False, False, True]  # both would be invalid, even if empty


def test_slices_are_valid() -> None:
    sets = {"card": {"a": 1}}
    mdev = PassthroughDevice("mdev-0", DeviceKind.MDEV, "", counter_set="card", counters={"a": 1})
    wanted = slice_contents(PublishedSet((pci(0), mdev), counter_sets=sets), {"pci-0": (HELD,)})
    creates = plan_slices(wanted, (), OWNER).creates.values()
    assert [list(resource_slice(obj, None, Rules())) for obj in creates] == [[], []]


# --- changes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "generation"),
    [(1, 1, 1), (1, 2, 1), (65, 66, 1), (130, 131, 1), (64, 65, 2), (65, 1, 1), (130, 1, 1), (200, 130, 2)],
)  # fmt: skip
def test_a_generation_rises_when_more_than_one_slice_changes(before: int, after: int, generation: int) -> None:
    """It is kept while at most one slice changes and none is new (D-23)."""
    existing = stored(plan_slices(contents(before), (), OWNER))
    slices = stored(plan_slices(contents(after), existing, OWNER), existing)
    count = max(1, -(-after // 64))
    assert generations(slices) == [
        (f"{index:05x}", generation, count, min(64, after - 64 * index)) for index in range(count)
    ]
    assert not plan_slices(contents(after), slices, OWNER)


def test_nothing_is_written_where_all_is_said_already() -> None:
    wanted = contents(65, {"pci-3": (HELD,)})
    (first, second) = stored(plan_slices(wanted, (), OWNER))
    answered = ResourceSlice.from_wire(first.to_wire())  # with the time that the server adds
    devices = [
        device.with_(taints=(HELD.with_(time_added="2026-11-01T00:00:00Z"),)) if device.name == "pci-3" else device
        for device in answered.spec.devices
    ]
    answered = answered.with_(spec=answered.spec.with_(devices=tuple(devices)))
    assert not plan_slices(wanted, (second, answered), OWNER)


def test_a_wiped_slice_is_published_again_in_a_new_generation() -> None:
    wanted = contents(130)
    existing = stored(plan_slices(wanted, (), OWNER))
    plan = plan_slices(wanted, existing[:1] + existing[2:], OWNER)
    assert (list(plan.updates), list(plan.creates)) == ([0, 2], [1])
    assert {obj.spec.pool.generation for obj in (*plan.updates.values(), *plan.creates.values())} == {2}


def test_slices_of_other_pools_old_generations_and_foreign_names_are_deleted() -> None:
    (good,) = stored(plan_slices(contents(1), (), OWNER))

    def variant(called: str, **pool: Any) -> ResourceSlice:
        return good.with_(
            metadata=good.metadata.with_(name=called), spec=good.spec.with_(pool=good.spec.pool.with_(**pool))
        )

    others = (
        variant("00000-again"),
        variant("0000-short"),
        variant("00001-too-many"),
        variant("by-hand"),
        variant("00000-old", generation=0),
        variant("00000-other", name="other", generation=9),
    )
    plan = plan_slices(contents(1), (good, *others), OWNER)
    # of two slices for one index the first by name stays
    assert [obj.name for obj in plan.deletes] == sorted(
        obj.name for obj in (good, *others) if obj.name != "00000-again"
    )
    assert (plan.updates, plan.creates) == ({}, {})


def test_a_taint_keeps_its_time_while_it_is_the_same() -> None:
    gone = DeviceTaint(key="passthrough.virt-dra.io/gone", effect="NoExecute")
    (existing,) = stored(plan_slices(contents(2, {"pci-0": (HELD, gone)}), (), OWNER))
    devices = [
        device.with_(taints=tuple(taint.with_(time_added="2026-11-01T00:00:00Z") for taint in device.taints))
        for device in existing.spec.devices
    ]
    existing = existing.with_(spec=existing.spec.with_(devices=tuple(devices)))
    wanted = contents(2, {"pci-0": (gone, HELD.with_(effect="NoExecute")), "pci-1": (HELD,)})
    (update,) = plan_slices(wanted, (existing,), OWNER).updates.values()
    assert [[taint.time_added for taint in device.taints] for device in update.spec.devices] == [
        ["2026-11-01T00:00:00Z", None],
        [None],
    ]


# --- fields that the server drops -----------------------------------------------------------------------------------

TAINTED = SliceContent((Device(name="a", taints=(HELD,)), Device(name="b")))
PLAIN = SliceContent((Device(name="a"), Device(name="b")))


def test_a_slice_that_lost_fields_is_not_written_again() -> None:
    (existing,) = stored(plan_slices((PLAIN,), (), OWNER))
    answers = {0: StoredContent(TAINTED, PLAIN)}
    assert not plan_slices((TAINTED,), (existing,), OWNER, answers)
    assert plan_slices((TAINTED,), (existing,), OWNER)


def test_it_is_written_when_something_else_is_wanted_or_stored() -> None:
    answers = {0: StoredContent(TAINTED, PLAIN)}
    (existing,) = stored(plan_slices((PLAIN,), (), OWNER))
    assert plan_slices((SliceContent(TAINTED.devices[:1]),), (existing,), OWNER, answers)
    by_hand = existing.with_(spec=existing.spec.with_(devices=PLAIN.devices[:1]))
    assert plan_slices((TAINTED,), (by_hand,), OWNER, answers)


@pytest.mark.parametrize(
    ("published", "dropped", "gates"),
    [
        (PublishedSet((pci(0),)), "taints", ("DRADeviceTaints",)),
        (
            PublishedSet((PassthroughDevice("m", DeviceKind.MDEV, "", counter_set="c", counters={"a": 1}),)),
            "consumes_counters",
            ("DRAPartitionableDevices",),
        ),
        (PublishedSet((pci(0),)), "name", ("unknown",)),
        (PublishedSet((pci(0),)), "", ()),
    ],
)
def test_the_gate_of_a_dropped_field_is_named(published: PublishedSet, dropped: str, gates: tuple[str, ...]) -> None:
    (written,) = slice_contents(published, {device.name: (HELD,) for device in published.devices})
    kept = SliceContent(tuple(device.without(dropped) for device in written.devices))
    assert disabled_features(StoredContent(written, kept)) == gates


def test_the_gate_of_dropped_counter_sets_is_named() -> None:
    written = slice_contents(PublishedSet(counter_sets={"c": {"a": 1}}), {})[0]
    assert disabled_features(StoredContent(written, SliceContent())) == ("DRAPartitionableDevices",)


def test_quantities_are_compared_by_value_and_absent_is_empty() -> None:
    (left,) = (SliceContent((Device.from_wire({"name": "a", "capacity": {"m": {"value": "1024Mi"}}}),)),)
    right = SliceContent((Device.from_wire({"name": "a", "capacity": {"m": {"value": "1Gi"}}, "attributes": {}}),))
    assert equal(left, right)
    assert equal(content_of(ResourceSlice()), SliceContent())
