"""The contract of every cluster: lists, selectors, watches. See running.py."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.contract.running import (
    RUN_LABEL,
    claim,
    contract,
    device_class,
    events,
    pod,
    refusal,
    resource_slice,
    told,
)
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from virt_dra.cluster.port import BadRequest, Cluster, WatchEvent

FINALIZER = "contract.example.com/hold"

LABELS = {
    "a": {"tier": "gold", "rack": "1"},
    "b": {"tier": "silver", "rack": "20"},
    "c": {"rack": "x"},
    "d": {},
}
"""Name of a claim -> its labels."""


@contract
async def test_list_is_ordered_and_carries_a_version_to_watch_from(cluster: Cluster, namespace: str) -> None:
    for name in ("b", "a", "c"):
        await cluster.create(claim(namespace, name))
    listed = await cluster.list(ResourceClaim, namespace)
    assert [obj.name for obj in listed.items] == ["a", "b", "c"]
    await cluster.delete(ResourceClaim, "b", namespace)
    stream = cluster.watch(ResourceClaim, namespace, resource_version=listed.resource_version)
    assert told(await events(stream, 1)) == [("DELETED", "b")]


@contract
async def test_list_of_all_namespaces_has_this_one(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "a"))
    assert (namespace, "a") in [(obj.namespace, obj.name) for obj in (await cluster.list(ResourceClaim)).items]


@contract
async def test_list_of_another_kind_or_namespace_is_empty(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "a"))
    assert (await cluster.list(Pod, namespace)).items == ()
    assert (await cluster.list(ResourceClaim, f"{namespace}-no")).items == ()


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("", "abcd"),
        ("tier=gold", "a"),
        ("tier==gold", "a"),
        ("tier = gold , rack=1", "a"),
        ("tier!=gold", "bcd"),
        ("tier", "ab"),
        ("!tier", "cd"),
        ("tier in (gold, silver)", "ab"),
        ("tier in (gold,)", "a"),
        ("tier notin (gold)", "bcd"),
        ("rack>1", "b"),
        ("rack<20", "a"),
        ("tier,rack!=1", "b"),
        ("tier=", ""),
        ("missing in ()", ""),
    ],
)
@contract
async def test_label_selectors(cluster: Cluster, namespace: str, selector: str, wanted: str) -> None:
    for name, labels in LABELS.items():
        await cluster.create(claim(namespace, name, meta=ObjectMeta(labels=labels)))
    listed = await cluster.list(ResourceClaim, namespace, labels=selector)
    assert "".join(obj.name for obj in listed.items) == wanted


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "a>b",
            'unable to parse requirement: values[0]: Invalid value: "b": for '
            "'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
@contract
async def test_label_selectors_that_cannot_be_read(
    cluster: Cluster, namespace: str, selector: str, message: str
) -> None:
    assert str(await refusal(BadRequest, cluster.list(ResourceClaim, namespace, labels=selector))) == message


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "b"),
        ("spec.nodeName==n1", "a"),
        ("spec.driver=net.example.com", "b"),
        ("spec.driver=gpu.example.com,spec.nodeName=n2", ""),
        ("spec.pool.name=NAMESPACE-b", "b"),
    ],
)
@contract
async def test_slices_are_selected_by_fields(cluster: Cluster, namespace: str, selector: str, wanted: str) -> None:
    """By node, driver, pool and name (C-2.4)."""
    await cluster.create(resource_slice(namespace, "a", node="n1"))
    await cluster.create(resource_slice(namespace, "b", node="n2", driver="net.example.com"))
    fields = (
        selector.replace("NAMESPACE", namespace)
        .replace("name=a", f"name={namespace}-a")
        .replace("name!=a", f"name!={namespace}-a")
    )
    listed = await cluster.list(ResourceSlice, labels=f"{RUN_LABEL}={namespace}", fields=fields)
    assert "".join(obj.name.removeprefix(f"{namespace}-") for obj in listed.items) == wanted


@contract
async def test_pods_are_selected_by_node_and_phase(cluster: Cluster, namespace: str) -> None:
    bound = pod(namespace, "bound")
    await cluster.create(bound.with_(spec=bound.spec.with_(node_name="n1")))
    await cluster.create(pod(namespace, "free"))
    assert [obj.name for obj in (await cluster.list(Pod, namespace, fields="spec.nodeName=n1")).items] == ["bound"]
    assert [
        obj.name for obj in (await cluster.list(Pod, namespace, fields="spec.nodeName=,status.phase=Pending")).items
    ] == ["free"]


@contract
async def test_field_selectors_that_are_not_supported(cluster: Cluster, namespace: str) -> None:
    error = await refusal(BadRequest, cluster.list(ResourceClaim, namespace, fields="spec.x=1"))
    assert str(error) == '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    error = await refusal(BadRequest, cluster.list(Pod, namespace, fields="spec.x=1"))
    assert str(error) == "field label not supported: spec.x"
    error = await refusal(BadRequest, cluster.list(ResourceSlice, fields="spec.x=1"))
    assert str(error) == "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x"
    error = await refusal(BadRequest, cluster.list(Pod, namespace, fields="metadata.name"))
    assert str(error) == "invalid selector: 'metadata.name'; can't understand 'metadata.name'"


# --- watch ----------------------------------------------------------------------------------------------------------


@contract
async def test_watch_tells_every_change_in_order(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(ResourceClaim, namespace)).resource_version
    created = await cluster.create(claim(namespace, "a"))
    await cluster.create(pod(namespace, "of-another-kind"))
    changed = await cluster.patch(ResourceClaim, "a", namespace, merge={"metadata": {"labels": {"a": "b"}}})
    await cluster.delete(ResourceClaim, "a", namespace)
    again = await cluster.create(claim(namespace, "a"))
    seen = await events(cluster.watch(ResourceClaim, namespace, resource_version=start), 4)
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert [seen[i].object for i in (0, 1, 3)] == [created, changed, again]
    versions = [int(event.object.metadata.resource_version) for event in seen]
    assert versions == sorted(set(versions))


@contract
async def test_watch_tells_a_deletion_with_the_last_state(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "a", meta=ObjectMeta(labels={"a": "b"}, finalizers=(FINALIZER,))))
    await cluster.delete(ResourceClaim, "a", namespace)
    await cluster.patch(ResourceClaim, "a", namespace, merge={"metadata": {"finalizers": None, "labels": None}})
    marked, gone = await events(
        cluster.watch(ResourceClaim, namespace, resource_version=created.metadata.resource_version), 2
    )
    assert (marked.type, gone.type) == ("MODIFIED", "DELETED")
    assert (gone.object.metadata.labels, gone.object.metadata.uid) == ({"a": "b"}, created.metadata.uid)
    assert int(gone.object.metadata.resource_version) > int(marked.object.metadata.resource_version)


@contract
async def test_watch_from_a_version_leaves_out_what_was_before(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "a"))
    middle = await cluster.create(claim(namespace, "b"))
    await cluster.create(claim(namespace, "c"))
    stream = cluster.watch(ResourceClaim, namespace, resource_version=middle.metadata.resource_version)
    assert told(await events(stream, 1)) == [("ADDED", "c")]


@contract
async def test_watch_without_a_version_starts_with_what_is_there(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "a"))
    stream = cluster.watch(ResourceClaim, namespace, resource_version="")
    assert told(await events(stream, 1)) == [("ADDED", "a")]
    await cluster.delete(ResourceClaim, "a", namespace)
    assert told(await events(stream, 1)) == [("DELETED", "a")]


@contract
async def test_watch_shows_selected_objects_coming_and_going(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(ResourceClaim, namespace)).resource_version
    await cluster.create(claim(namespace, "a"))
    for labels in ({"tier": "gold"}, {"tier": "gold", "x": "y"}, {"tier": "tin"}, {"tier": "gold"}):
        await cluster.patch(ResourceClaim, "a", namespace, merge={"metadata": {"labels": {"x": None, **labels}}})
    await cluster.delete(ResourceClaim, "a", namespace)
    seen = await events(cluster.watch(ResourceClaim, namespace, resource_version=start, labels="tier=gold"), 5)
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert seen[2].object.metadata.labels == {"tier": "gold", "x": "y"}


@contract
async def test_watch_by_name_sees_one_object(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(ResourceClaim, namespace)).resource_version
    for name in ("a", "b"):
        await cluster.create(claim(namespace, name))
    stream = cluster.watch(ResourceClaim, namespace, resource_version=start, fields="metadata.name=b")
    assert told(await events(stream, 1)) == [("ADDED", "b")]


@contract
async def test_watch_sees_one_namespace_only(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(ResourceClaim, namespace)).resource_version
    stream = cluster.watch(ResourceClaim, f"{namespace}-no", resource_version=start)
    await cluster.create(claim(namespace, "a"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(aiter(stream)), 0.2)


@contract
async def test_watch_leaves_out_updates_that_changed_nothing(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "a"))
    await cluster.update(created)
    await cluster.delete(ResourceClaim, "a", namespace)
    stream = cluster.watch(ResourceClaim, namespace, resource_version=created.metadata.resource_version)
    assert told(await events(stream, 1)) == [("DELETED", "a")]


@contract
async def test_watchers_wake_up_on_later_writes(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(DeviceClass)).resource_version

    async def watching() -> list[WatchEvent[DeviceClass]]:
        return await events(cluster.watch(DeviceClass, resource_version=start, labels=f"{RUN_LABEL}={namespace}"), 2)

    watchers = [asyncio.create_task(watching()) for _ in range(3)]
    await asyncio.sleep(0.01)
    await cluster.create(device_class(namespace, "a"))
    await asyncio.sleep(0.01)
    await cluster.create(device_class(namespace, "b"))
    for watcher in watchers:
        assert told(await watcher, f"{namespace}-") == [("ADDED", "a"), ("ADDED", "b")]


@contract
async def test_watch_with_a_selector_that_cannot_be_read_is_refused(cluster: Cluster, namespace: str) -> None:
    stream = cluster.watch(ResourceClaim, namespace, resource_version="", labels="a in b")
    error = await refusal(BadRequest, anext(aiter(stream)))
    assert str(error) == "unable to parse requirement: found 'b' expected: '('"
