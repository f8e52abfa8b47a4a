"""What only the embedded cluster promises: reproducible runs, whole contents in and out, a bounded history, its own
admission."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.contract.running import claim, device_class, events, pod, refusal, told
from tests.cluster.memory.admit_all import AdmitAll
from tests.sampling import sample
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, OwnerReference, TypedObject, UnknownObject
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.cluster.memory.names import ALPHABET, counted_suffixes, generated, random_suffixes
from virt_dra.cluster.port import AlreadyExists, BadRequest, Cluster, Forbidden, Gone, Invalid, NotFound, StatusCause


def named(objects: Sequence[TypedObject]) -> list[tuple[str, str]]:
    return [(resource_of(obj).kind, obj.key) for obj in objects]


def vmi(name: str, **status: object) -> VirtualMachineInstance:
    raw = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name},
        "spec": {},
        "status": status,
    }
    return VirtualMachineInstance.from_wire(raw)


def test_it_has_the_ports_shape() -> None:
    cluster: Cluster = MemoryCluster.deterministic()
    assert isinstance(cluster, MemoryCluster)


# --- sources --------------------------------------------------------------------------------------------------------


async def test_deterministic_clusters_are_equal() -> None:
    async def run() -> tuple[TypedObject, ...]:
        cluster = MemoryCluster.deterministic()
        for prefix in ("a-", "b-", "a-"):
            await cluster.create(pod("n", meta=ObjectMeta(generate_name=prefix)))
        return cluster.snapshot()

    first, second = await run(), await run()
    assert first == second
    assert [(obj.name, obj.metadata.uid[-2:], obj.metadata.resource_version) for obj in first] == [
        ("a-bbbbb", "01", "1"),
        ("a-bbbbd", "03", "3"),
        ("b-bbbbc", "02", "2"),
    ]
    assert {obj.metadata.creation_timestamp for obj in first} == {"2026-01-01T00:00:00Z"}


async def test_a_taken_name_is_generated_anew() -> None:
    suffixes = iter(["aaaaa", "aaaaa", "aaaaa", "ccccc"])
    cluster = MemoryCluster(lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda: next(suffixes), counted_suffixes())
    made = [(await cluster.create(pod("n", meta=ObjectMeta(generate_name="p-")))).name for _ in range(2)]
    assert made == ["p-aaaaa", "p-ccccc"]


async def test_a_source_of_one_name_runs_out() -> None:
    cluster = MemoryCluster(lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda: "aaaaa", counted_suffixes())
    await cluster.create(pod("n", meta=ObjectMeta(generate_name="p-")))
    error = await refusal(AlreadyExists, cluster.create(pod("n", meta=ObjectMeta(generate_name="p-"))))
    assert (
        str(error) == 'pods "p-aaaaa" already exists, the server was not able to generate a unique name for the object'
    )


def test_counted_suffixes_count_in_the_alphabet() -> None:
    source = counted_suffixes()
    seen = [source() for _ in range(28)]
    assert (seen[0], seen[26], seen[27]) == ("bbbbb", "bbbb9", "bbbcb")


@given(st.integers(), st.text("ab-", max_size=80))
def test_generated_names_fit(seed: int, prefix: str) -> None:
    suffix = random_suffixes(Random(seed))()
    assert len(suffix) == 5
    assert set(suffix) <= set(ALPHABET)
    assert generated(prefix, suffix) == (prefix + suffix if len(prefix) <= 58 else prefix[:58] + suffix)


async def test_the_embedded_cluster_has_real_sources() -> None:
    created = await embedded_cluster().create(pod("n", meta=ObjectMeta(generate_name="p-")))
    assert len(created.metadata.uid) == 36
    assert (
        abs((datetime.now(UTC) - datetime.fromisoformat(str(created.metadata.creation_timestamp))).total_seconds()) < 60
    )


# --- namespaces and scopes ------------------------------------------------------------------------------------------


async def test_objects_without_a_namespace_are_in_default() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(claim("", "c"))
    assert created.namespace == "default"
    assert await cluster.get(ResourceClaim, "c") == await cluster.get(ResourceClaim, "c", "default") == created
    await cluster.delete(ResourceClaim, "c")
    assert cluster.snapshot() == ()


async def test_cluster_scoped_objects_have_no_namespace() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(DeviceClass(metadata=ObjectMeta(name="d", namespace="n")))
    assert not created.metadata.given("namespace")
    assert await cluster.get(DeviceClass, "d", "n") == created
    assert (await cluster.list(DeviceClass, "n")).items == (created,)


async def test_namespaces_need_not_exist_unless_asked_for() -> None:
    assert (await MemoryCluster.deterministic().create(claim("n", "c"))).namespace == "n"
    strict = MemoryCluster.deterministic(namespaces_must_exist=True)
    assert (await strict.create(claim("default", "c"))).namespace == "default"
    assert str(await refusal(NotFound, strict.create(claim("n", "c")))) == 'namespaces "n" not found'


async def test_the_namespaces_of_the_system_stay() -> None:
    cluster = MemoryCluster.deterministic()
    await cluster.create(Namespace(metadata=ObjectMeta(name="default")))
    error = await refusal(Forbidden, cluster.delete(Namespace, "default"))
    assert str(error) == 'namespaces "default" is forbidden: this namespace may not be deleted'


async def test_namespaces_tell_their_phase() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(Namespace(metadata=ObjectMeta(name="n", finalizers=("example.com/f",))))
    await cluster.delete(Namespace, "n")
    marked = await cluster.get(Namespace, "n")
    assert [obj.to_wire()["status"] for obj in (created, marked)] == [{"phase": "Active"}, {"phase": "Terminating"}]
    await cluster.patch(Namespace, "n", merge={"metadata": {"finalizers": None}})
    assert cluster.snapshot() == ()


def test_the_resource_of_kinds_without_a_type() -> None:
    assert (
        str(resource_of(unknown_kind("networking.k8s.io/v1", "NetworkPolicy"))) == "networkpolicies.networking.k8s.io"
    )
    assert str(resource_of(unknown_kind("v1", "Endpoints"))) == "endpoints"
    assert str(resource_of(unknown_kind("storage.k8s.io/v1", "StorageClass"))) == "storageclasses.storage.k8s.io"


def test_an_object_must_name_its_kind() -> None:
    with pytest.raises(
        ValueError,
        match=r"^an object without a type of its own must name its apiVersion and kind; see unknown_kind\(\)$",
    ):
        resource_of(UnknownObject())


# --- kinds of our own ------------------------------------------------------------------------------------------------


async def test_the_status_of_a_vmi_is_part_of_the_object() -> None:
    """K-9.1."""
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(vmi("v", phase="Pending"))
    assert created.status.phase == "Pending"
    updated = await cluster.update(created.with_(status=created.status.with_(phase="Running")))
    assert (updated.status.phase, updated.metadata.generation) == ("Running", 2)
    assert (
        str(await refusal(NotFound, cluster.update_status(updated)))
        == "the server could not find the requested resource"
    )
    error = await refusal(Invalid, cluster.update(vmi("v")))
    assert str(error) == (
        'virtualmachineinstances.kubevirt.io "v" is invalid: metadata.resourceVersion: '
        "Invalid value: 0: must be specified for an update"
    )


async def test_nodes_are_created_with_their_status() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(Node.from_wire({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}))
    assert created.to_wire()["status"] == {"capacity": {"cpu": "4"}}


async def test_the_presence_of_an_empty_field_matters_in_custom_resources_only() -> None:
    cluster = MemoryCluster.deterministic()
    custom = await cluster.create(vmi("v"))
    native = await cluster.create(claim("", "c"))
    with_labels: dict[str, Any] = {"metadata": {"labels": {}}}
    assert (await cluster.patch(VirtualMachineInstance, "v", merge=with_labels)).metadata.resource_version == "3"
    assert (await cluster.patch(ResourceClaim, "c", merge=with_labels)).metadata.resource_version == "2"
    assert (custom.metadata.resource_version, native.metadata.resource_version) == ("1", "2")


async def test_a_taint_rule_with_another_effect_starts_anew() -> None:
    """C-13.3."""
    times = iter([datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 10)])
    cluster = MemoryCluster(lambda: next(times), counted_suffixes(), counted_suffixes())
    raw = {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    created = await cluster.create(DeviceTaintRule.from_wire(raw))
    merge = {"spec": {"taint": {"effect": "NoExecute"}}}
    patched = await cluster.patch(DeviceTaintRule, "r", merge=merge)
    assert patched.metadata.generation == 2
    before, after = created.spec.taint.time_added, patched.spec.taint.time_added
    assert before is not None
    assert after is not None
    assert before < after


async def test_objects_written_in_python_and_read_from_yaml_are_stored_alike() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(claim("default", "c"))
    assert (created.api_version, created.kind) == ("resource.k8s.io/v1", "ResourceClaim")
    assert await cluster.update(created.with_(api_version="", kind="")) == created


async def test_a_patch_cannot_make_another_object() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(claim("default", "c"))

    async def refused(merge: dict[str, Any]) -> str:
        with pytest.raises((BadRequest, Invalid)) as caught:
            await cluster.patch(ResourceClaim, "c", merge=merge)
        return str(caught.value)

    assert await refused({"kind": "Pod"}) == (
        ' "" is invalid: patch: Invalid value: the kind in the data (Pod) '
        "does not match the expected kind (ResourceClaim)"
    )
    assert await refused({"apiVersion": "v2"}) == (
        ' "" is invalid: patch: Invalid value: the API version in the data '
        "(v2) does not match the expected API version "
        "(resource.k8s.io/v1)"
    )
    assert (
        await refused({"metadata": {"name": "d"}})
        == "the name of the object (d) does not match the name on the URL (c)"
    )
    assert (
        await refused({"metadata": None})
        == "the name of the object (c based on URL) was undeterminable: name must be provided"
    )
    assert await refused({"metadata": {"namespace": "n"}}) == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    assert await refused({"spec": {"devices": 1}}) == (
        'ResourceClaim.resource.k8s.io "c" is invalid: spec.devices: must be an object, not an integer'
    )
    with pytest.raises(Invalid, match=r"a patch must leave an object$"):
        await cluster.patch(ResourceClaim, "c", operations=[{"op": "replace", "path": "", "value": []}])
    assert cluster.snapshot() == (created,)


async def test_text_that_is_no_unicode_is_kept() -> None:
    cluster = MemoryCluster.deterministic()
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "\ud800"}}
    await cluster.create(read_object(raw))
    assert (await cluster.get(unknown_kind("v1", "ConfigMap"), "m")).to_wire()["data"] == {"a": "\ud800"}


# --- admission ------------------------------------------------------------------------------------------------------


class Judge(AdmitAll):
    """Admits what is not called ``bad``."""

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        return obj.with_(metadata=obj.metadata.with_(annotations={"seen": now}))

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]:
        faults = (
            StatusCause("metadata.name", "FieldValueInvalid", "bad"),
            StatusCause("spec", "FieldValueInvalid", "worse"),
        )
        return faults if obj.name == "bad" else ()

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return (
            (StatusCause("metadata.labels", "FieldValueForbidden", "never"),)
            if new.metadata.labels != old.metadata.labels
            else ()
        )

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]:
        return (StatusCause("status", "FieldValueForbidden", "never"),)


async def test_admission_comes_from_outside() -> None:
    cluster = MemoryCluster.deterministic(admission=Judge())
    created = await cluster.create(pod("n", "good"))
    assert created.metadata.annotations == {"seen": "2026-01-01T00:00:00Z"}
    error = await refusal(Invalid, cluster.create(pod("n", "bad")))
    assert str(error) == 'Pod "bad" is invalid: [metadata.name: bad, spec: worse]'
    assert [cause.field for cause in error.causes] == ["metadata.name", "spec"]
    labelled = created.with_(metadata=created.metadata.with_(labels={"a": "b"}))
    assert str(await refusal(Invalid, cluster.update(labelled))) == 'Pod "good" is invalid: metadata.labels: never'
    running = created.with_(status=created.status.with_(phase="Running"))
    assert str(await refusal(Invalid, cluster.update_status(running))) == 'Pod "good" is invalid: status: never'
    assert named(cluster.snapshot()) == [("Pod", "n/good")]


# --- history --------------------------------------------------------------------------------------------------------


async def test_history_is_bounded() -> None:
    cluster = MemoryCluster.deterministic(history=3)
    for name in "abcdefgh":
        await cluster.create(claim("n", name))
    for oldest in ("5", "6", "7"):
        assert told(await events(cluster.watch(ResourceClaim, resource_version=oldest), 8 - int(oldest)))[-1] == (
            "ADDED",
            "h",
        )
    error = await refusal(Gone, anext(aiter(cluster.watch(ResourceClaim, resource_version="4"))))
    assert str(error) == "too old resource version: 4 (5)"


async def test_a_reader_that_falls_behind_must_list_again() -> None:
    cluster = MemoryCluster.deterministic(history=2)
    stream = cluster.watch(ResourceClaim, resource_version="")
    await cluster.create(claim("n", "a"))
    assert told(await events(stream, 1)) == [("ADDED", "a")]
    for name in "bcdefgh":
        await cluster.create(claim("n", name))
    await refusal(Gone, anext(aiter(stream)))


async def test_the_history_of_one_kind_does_not_push_out_another() -> None:
    cluster = MemoryCluster.deterministic(history=2)
    await cluster.create(claim("n", "a"))
    for number in range(20):
        await cluster.create(pod("n", f"p{number}"))
    assert told(await events(cluster.watch(ResourceClaim, resource_version="0"), 1)) == [("ADDED", "a")]
    assert told(await events(cluster.watch(ResourceClaim, resource_version="00"), 1)) == [("ADDED", "a")]


async def test_a_version_that_is_none_is_refused() -> None:
    stream = MemoryCluster.deterministic().watch(Pod, resource_version="yesterday")
    assert (
        str(await refusal(BadRequest, anext(aiter(stream)))) == 'invalid resource version: "yesterday" is not a number'
    )


async def test_a_watcher_that_is_cancelled_leaves_nothing_behind() -> None:
    cluster = MemoryCluster.deterministic()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(aiter(cluster.watch(Pod, resource_version=""))), 0.01)
    assert (await cluster.create(pod("n", "p"))).name == "p"


# --- whole contents -------------------------------------------------------------------------------------------------


OWNED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "owned", "namespace": "n", "uid": "u-1", "resourceVersion": "41",
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "elsewhere", "uid": "u-0"}],
    },
    "spec": {"nodeName": "node"},
    "status": {"phase": "Running"},
}  # fmt: skip


async def test_load_keeps_what_is_given() -> None:
    cluster = MemoryCluster.deterministic()
    cluster.load([read_object(OWNED)])
    (loaded,) = cluster.snapshot()
    assert loaded.to_wire() == {**OWNED, "metadata": {**OWNED["metadata"], "generation": 1}}
    assert cluster.resource_version == "42"
    assert (await cluster.create(pod("n", "next"))).metadata.resource_version == "43"


async def test_load_fills_in_what_is_missing() -> None:
    cluster = MemoryCluster.deterministic()
    cluster.load([
        claim("", "c"),
        DeviceClass(metadata=ObjectMeta(name="d", namespace="stray", resource_version="not-a-number")),
        pod("n", meta=ObjectMeta(generate_name="p-")),
    ])  # fmt: skip
    assert named(cluster.snapshot()) == [("DeviceClass", "d"), ("ResourceClaim", "default/c"), ("Pod", "n/p-bbbbb")]
    for obj in cluster.snapshot():
        meta = obj.metadata
        assert (meta.resource_version, meta.creation_timestamp, len(meta.uid)) == ("1", "2026-01-01T00:00:00Z", 36)
    loaded = await cluster.get(ResourceClaim, "c")
    assert loaded.spec.devices.requests[0].exactly is not None
    assert loaded.spec.devices.requests[0].exactly.allocation_mode == "ExactCount"


async def test_what_was_saved_loads_as_it_was() -> None:
    first = MemoryCluster.deterministic()
    owner = await first.create(pod("n", "p"))
    reference = OwnerReference(api_version="v1", kind="Pod", name="p", uid=owner.metadata.uid)
    await first.create(claim("n", "c", meta=ObjectMeta(owner_references=(reference,), finalizers=("example.com/f",))))
    await first.create(vmi("v", phase="Running"))
    await first.create(
        UnknownObject.from_wire(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}}
        )
    )
    second = MemoryCluster.deterministic()
    second.load([read_object(obj.to_wire()) for obj in first.snapshot()])
    assert [obj.to_wire() for obj in second.snapshot()] == [obj.to_wire() for obj in first.snapshot()]
    await second.delete(Pod, "p", "n")
    assert (await second.get(ResourceClaim, "c", "n")).metadata.deletion_timestamp is not None


async def test_load_takes_all_or_none() -> None:
    cluster = MemoryCluster.deterministic()
    await cluster.create(claim("n", "taken"))
    before = cluster.snapshot()
    for objects, error, message in (
        ([claim("n", "a"), claim("n", "a")], AlreadyExists, 'resourceclaims.resource.k8s.io "a" already exists'),
        (
            [claim("n", "a"), claim("n", "taken")],
            AlreadyExists,
            'resourceclaims.resource.k8s.io "taken" already exists',
        ),
        (
            [claim("n", "a"), claim("n", "")],
            Invalid,
            'ResourceClaim.resource.k8s.io "" is invalid: metadata.name: '
            "Required value: name or generateName is required",
        ),
    ):
        with pytest.raises(error) as caught:
            cluster.load(objects)
        assert str(caught.value) == message
        assert cluster.snapshot() == before


async def test_load_makes_watchers_list_again() -> None:
    cluster = MemoryCluster.deterministic()
    created = await cluster.create(claim("n", "a"))
    stream = aiter(cluster.watch(ResourceClaim, resource_version=created.metadata.resource_version))
    waiting = asyncio.create_task(asyncio.wait_for(anext(stream), 5))
    await asyncio.sleep(0)
    cluster.load([claim("n", "b")])
    with pytest.raises(Gone):
        await waiting
    await refusal(Gone, anext(aiter(cluster.watch(Pod, resource_version="1"))))
    listed = await cluster.list(ResourceClaim)
    await cluster.create(claim("n", "c"))
    again = cluster.watch(ResourceClaim, resource_version=listed.resource_version)
    assert told(await events(again, 1)) == [("ADDED", "c")]


async def test_owners_outside_of_a_loaded_extract_are_alive() -> None:
    cluster = MemoryCluster.deterministic()
    cluster.load([read_object(OWNED)])
    await cluster.patch(Pod, "owned", "n", merge={"metadata": {"labels": {"a": "b"}}})
    assert named(cluster.snapshot()) == [("Pod", "n/owned")]


# --- garbage --------------------------------------------------------------------------------------------------------


def owned_by(kind: str, uid: str) -> ObjectMeta:
    version = next((served.API_VERSION for served in all_kinds() if kind == served.KIND), "v1")
    return ObjectMeta(owner_references=(OwnerReference(api_version=version, kind=kind, name="o", uid=uid),))


async def test_owners_must_be_in_the_same_namespace_or_cluster_scoped() -> None:
    cluster = MemoryCluster.deterministic()
    elsewhere = await cluster.create(pod("m", "o"))
    cluster_wide = await cluster.create(DeviceClass(metadata=ObjectMeta(name="o")))
    await cluster.create(claim("n", "a", meta=owned_by("Pod", elsewhere.metadata.uid)))
    await cluster.create(claim("n", "b", meta=owned_by("DeviceClass", cluster_wide.metadata.uid)))
    assert [obj.name for obj in (await cluster.list(ResourceClaim)).items] == ["b"]


async def test_cluster_scoped_objects_of_namespaced_owners_are_never_collected() -> None:
    cluster = MemoryCluster.deterministic()
    owner = await cluster.create(pod("n", "o"))
    reference = owned_by("Pod", owner.metadata.uid).owner_references
    dependent = device_class("n", "d")
    await cluster.create(dependent.with_(metadata=dependent.metadata.with_(owner_references=reference)))
    await cluster.delete(Pod, "o", "n")
    assert named(cluster.snapshot()) == [("DeviceClass", "n-d")]


async def test_a_long_chain_of_owners_is_collected_at_once() -> None:
    cluster = MemoryCluster.deterministic(admission=AdmitAll())
    uid = first = (await cluster.create(claim("n", "c0"))).metadata.uid
    for number in range(1, 2000):
        uid = (await cluster.create(claim("n", f"c{number}", meta=owned_by("ResourceClaim", uid)))).metadata.uid
    await cluster.delete(ResourceClaim, "c0", "n", uid=first)
    assert cluster.snapshot() == ()


@settings(max_examples=sample(40))
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.sets(st.integers(0, 7), max_size=3)), max_size=8, unique_by=lambda e: e[0]
    ),
    st.integers(0, 7),
)
async def test_after_any_deletion_nothing_is_without_an_owner_that_had_one(
    graph: list[tuple[int, set[int]]], victim: int
) -> None:
    cluster = MemoryCluster.deterministic(admission=AdmitAll())
    uids: dict[int, str] = {}
    for node, owners in graph:
        references = tuple(
            OwnerReference(api_version="v1", kind="Pod", name=f"p{o}", uid=uids[o]) for o in sorted(owners) if o in uids
        )
        uids[node] = (
            await cluster.create(pod("n", f"p{node}", meta=ObjectMeta(owner_references=references)))
        ).metadata.uid
    had_owners = {obj.name for obj in cluster.snapshot() if obj.metadata.owner_references}
    if victim in uids:
        await cluster.delete(Pod, f"p{victim}", "n")
    left = {obj.metadata.uid: obj for obj in cluster.snapshot()}
    for obj in left.values():
        assert all(owner.uid in left for owner in obj.metadata.owner_references)
        assert bool(obj.metadata.owner_references) is (obj.name in had_owners)
