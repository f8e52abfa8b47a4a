"""A model says of its objects what a model made anew of the same objects says, however it came about; and a copy leaves
the model as it was."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import virt_dra.model
from virt_dra.allocator import Features, Snapshot
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.keeping.claims import STOPPED_ANNOTATION
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.inventory.health import unhealthy_devices
from virt_dra.model import devices, unknown, usage
from virt_dra.model.cluster import ClusterModel, DerivedValue, ModelIndex, derived, pods_by_node
from virt_dra.model.launchers import launchers
from virt_dra.model.snapshots import snapshot_of

DEVICES = ("gpu-0", "gpu-1")
NODES = ("node-1", "node-2")


def node(name: str, allocatable: Json) -> Node:
    return Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": allocatable}})


def pod(name: str, on: str | None, phase: str, owner: str | None) -> Pod:
    owners = [{"kind": "VirtualMachineInstance", "name": owner, "uid": owner}] if owner else []
    meta = {"name": name, "namespace": "t", "uid": f"uid-{name}", "ownerReferences": owners}
    return Pod.from_wire({"metadata": meta, "spec": {"nodeName": on}, "status": {"phase": phase}})


def slice_of(name: str, generation: int, published: tuple[str, ...]) -> ResourceSlice:
    pool = {"name": name, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": [{"name": device} for device in published]}
    return ResourceSlice.from_wire({"metadata": {"name": f"slice-{name}"}, "spec": spec})


def claim(name: str, pool: str, held: tuple[str, ...], user: str | None) -> ResourceClaim:
    results = [{"request": "r", "driver": "d", "pool": pool, "device": device} for device in held]
    status: Json = {"allocation": {"devices": {"results": results}}} if held else {}
    status["reservedFor"] = [{"resource": "pods", "name": user, "uid": f"uid-{user}"}] if user else []
    meta = {"name": name, "namespace": "t", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return ResourceClaim.from_wire({"metadata": meta, "status": status})


def kept_claim(name: str) -> ResourceClaim:
    """Of a stopped VM that keeps it."""
    meta = {"name": name, "namespace": "t", "annotations": {STOPPED_ANNOTATION: "2026-01-01T00:00:00Z"}}
    consumer = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": "vm", "uid": "vm"}
    status = {"allocation": {"devices": {"results": []}}, "reservedFor": [consumer]}
    return ResourceClaim.from_wire({"metadata": meta, "status": status})


def rule(name: str, pool: str) -> DeviceTaintRule:
    taint = {"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    return DeviceTaintRule.from_wire(
        {"metadata": {"name": name}, "spec": {"deviceSelector": {"pool": pool}, "taint": taint}}
    )


OBJECTS: st.SearchStrategy[TypedObject] = st.one_of(
    st.builds(node, st.sampled_from(NODES), st.sampled_from([{}, {"cpu": "4"}])),
    st.builds(
        pod, st.sampled_from(("a", "b", "c")), st.sampled_from((None, *NODES)),
        st.sampled_from(("Running", "Failed")), st.sampled_from((None, "vm"))
    ),
    st.builds(slice_of, st.sampled_from(NODES), st.integers(1, 2), st.sampled_from(((), DEVICES[:1], DEVICES))),
    st.builds(
        claim, st.sampled_from(("x", "y")), st.sampled_from(NODES), st.sampled_from(((), DEVICES[:1], DEVICES)),
        st.sampled_from((None, "a", "b"))
    ),
    st.builds(rule, st.sampled_from(("r", "s")), st.sampled_from(NODES)),
    st.builds(lambda name: DeviceClass.from_wire({"metadata": {"name": name}}), st.sampled_from(("k", "l"))),
)  # fmt: skip


def values(model: ClusterModel) -> Mapping[str, Any]:
    """Everything that can be asked of a model."""
    snapshots = [snapshot_of(model), snapshot_of(model, Features.none())]
    return {
        "objects": {kind: model.of(kind) for kind in (Node, Pod, ResourceSlice, ResourceClaim, DeviceTaintRule)},
        "pods": {name: model.pods_on(name) for name in NODES},
        "launchers": dict(launchers(model)),
        "pools": devices.pools(model),
        "published": {pool: view.size for pool, view in devices.publications(model).pools.items()},
        "holders": usage.holders(model),
        "unknown": unknown.unknown_facts(model, ["cpu", "memory"]),
        "snapshots": [in_use(snapshot) for snapshot in snapshots],
    }


def in_use(snapshot: Snapshot) -> object:
    return snapshot.slices, dict(snapshot.classes), dict(snapshot.used), dict(snapshot.allocated)


@given(st.lists(OBJECTS), st.lists(st.tuples(st.booleans(), st.lists(OBJECTS, max_size=3)), max_size=5))
def test_a_copy_with_a_difference_is_the_model_of_the_other_objects(
    objects: list[TypedObject], steps: list[tuple[bool, list[TypedObject]]]
) -> None:
    model = ClusterModel(objects)
    there = {(type(obj), obj.key): obj for obj in objects}
    for put, changes in steps:
        before = values(model)
        copy = model.changed(changes) if put else model.changed(removed=changes)
        for obj in changes:
            if put:
                there[type(obj), obj.key] = obj
            else:
                there.pop((type(obj), obj.key), None)
        assert values(copy) == values(ClusterModel(there.values()))
        assert values(model) == before, "the model itself stays"
        model = copy


def test_what_was_derived_of_other_kinds_is_shared_by_a_copy() -> None:
    model = ClusterModel([node("node-1", {}), slice_of("node-1", 1, DEVICES), claim("x", "node-1", DEVICES[:1], "a")])
    pools, snapshot = devices.pools(model), snapshot_of(model)
    copy = model.changed([pod("a", "node-1", "Running", None)])
    assert devices.pools(copy) is pools
    assert snapshot_of(copy) is snapshot
    released = model.changed(removed=[claim("x", "node-1", (), None)])
    assert snapshot_of(released).caches is snapshot.caches, "slices aren't read again for a claim"
    assert released.changed() is released


class _Recording(ClusterModel):
    """Notes the kinds that are read."""

    def __init__(self, objects: list[TypedObject]) -> None:
        super().__init__(objects)
        self.read: set[type[TypedObject]] = set()

    def by_key(self, kind: type[Any]) -> Mapping[str, Any]:
        self.read.add(kind)
        return super().by_key(kind)

    def of(self, kind: type[Any]) -> tuple[Any, ...]:
        self.read.add(kind)
        return super().of(kind)


def _derived_values() -> Iterator[DerivedValue[Any]]:
    names = [module.name for module in pkgutil.walk_packages(virt_dra.model.__path__, "virt_dra.model.")]
    for module in map(importlib.import_module, names):
        for value in vars(module).values():
            if isinstance(value, ModelIndex):
                yield value.by_value
            if isinstance(value, DerivedValue):
                yield value
    yield unhealthy_devices


@pytest.mark.parametrize("value", dict.fromkeys(_derived_values()), ids=lambda value: value.make.__name__)
def test_a_derived_value_reads_the_kinds_that_it_names(value: DerivedValue[Any]) -> None:
    health = [{"resourceID": "d/node-1/gpu-0", "health": "Unhealthy"}]
    statuses = [{"name": "compute", "allocatedResourcesStatus": [{"name": "claim:x", "resources": health}]}]
    wire = pod("a", "node-1", "Running", "vm").to_wire()
    unhealthy = Pod.from_wire({**wire, "status": {**wire["status"], "containerStatuses": statuses}})
    whole = [
        node("node-1", {"cpu": "4"}), unhealthy, slice_of("node-1", 1, DEVICES),
        claim("x", "node-1", DEVICES, "a"), rule("r", "node-1"), DeviceClass.from_wire({"metadata": {"name": "k"}}),
        VirtualMachineInstanceDevices.from_wire({"metadata": {"name": "vm", "namespace": "t"}}),
        kept_claim("y"), KeepPolicy.from_wire({"metadata": {"name": "p", "namespace": "t"}}),
    ]  # fmt: skip
    model = _Recording(whole)
    value(model)
    assert model.read == value.kinds


def test_the_test_above_notices_a_kind_that_is_not_named() -> None:
    model = _Recording([])
    forgetful = derived(Node)(lambda model: (model.nodes, model.pods))
    forgetful(model)
    assert model.read == {Node, Pod} != forgetful.kinds


def test_objects_are_in_order_of_their_names_and_the_later_of_two_counts() -> None:
    pods = [pod("b", None, "Running", None), pod("a", None, "Failed", None), pod("b", "node-1", "Running", None)]
    model = ClusterModel(pods)
    assert model.of(Pod) == (pods[1], pods[2])
    assert pods_by_node(model, "node-1") == (pods[2],)


def test_objects_without_a_name_are_all_kept_and_those_without_a_namespace_get_it() -> None:
    unnamed = [Pod.from_wire({"metadata": {"generateName": "p-"}, "spec": {"nodeName": on}}) for on in NODES]
    model = ClusterModel(unnamed, namespace="team-a")
    assert sorted(pod.spec.node_name or "" for pod in model.of(Pod)) == list(NODES)
    assert {pod.namespace for pod in model.of(Pod)} == {"team-a"}


def test_objects_of_kinds_without_a_type_are_kept_apart() -> None:
    kinds = ("VirtualMachinePreference", "VirtualMachineInstancetype")
    raw: Json = {"apiVersion": "instancetype.kubevirt.io/v1beta1", "metadata": {"name": "m", "namespace": "t"}}
    objects = [read_object({**raw, "kind": kind}) for kind in kinds]
    assert {obj.kind for obj in ClusterModel(objects).objects} == set(kinds)


def test_a_kind_that_was_not_read_is_known_neither_whole_nor_in_part() -> None:
    model = ClusterModel(unread=[Node], partial=[Pod])
    assert [(model.knows(kind), model.knows_all(kind)) for kind in (Node, Pod, DeviceClass)] == [
        (False, False), (True, False), (True, True),
    ]  # fmt: skip


def test_a_value_follows_a_change_of_its_kinds_beside_one_of_others() -> None:
    """A pod that is placed changes with its claims: the snapshot reads claims alone, and isn't built again."""
    claim = ResourceClaim.from_wire({"metadata": {"name": "c", "namespace": "t", "uid": "c"}})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    allocated = ResourceClaim.from_wire(
        {**claim.to_wire(), "status": {"allocation": {"devices": {"results": [result]}}}}
    )
    model = ClusterModel([claim])
    before = snapshot_of(model)
    after = snapshot_of(model.changed([allocated, pod("p", "node-1", "Running", None)]))
    assert after.caches is before.caches
    assert after.used != before.used


def test_a_model_without_use_knows_no_pods_and_claims_and_shares_the_rest() -> None:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}
    claim = ResourceClaim.from_wire({"metadata": {"name": "c", "namespace": "t", "uid": "c"}, "status": status})
    model = ClusterModel([claim, node("node-1", {}), pod("p", "node-1", "Running", None)])
    used = snapshot_of(model)
    unused = model.without_use()
    assert (unused.of(Pod), unused.of(ResourceClaim), list(unused.nodes)) == ((), (), ["node-1"])
    assert [unused.knows(kind) for kind in (Pod, ResourceClaim, Node)] == [False, False, True]
    assert (snapshot_of(unused).caches is used.caches, snapshot_of(unused).used) == (
        True,
        snapshot_of(ClusterModel()).used,
    )
    assert model.knows(Pod)
    assert model.of(ResourceClaim) == (claim,)
