"""The contract of every cluster: custom resources, which differ from Kubernetes' own kinds. See running.py."""

from __future__ import annotations

from typing import Any

from tests.cluster.contract.running import WIDGET, claim, contract, events, eventually, refusal, told
from virt_dra.api.meta import ObjectMeta, OwnerReference, UnknownObject
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.port import AlreadyExists, BadRequest, Cluster, Conflict, Invalid, NotFound

STALE = "the object has been modified; please apply your changes to the latest version and try again"


def widget(namespace: str, name: str, **fields: Any) -> UnknownObject:
    return WIDGET.from_wire({"metadata": {"name": name, "namespace": namespace}, **fields})


def fields_of(obj: UnknownObject) -> dict[str, Any]:
    return {key: value for key, value in obj.to_wire().items() if key not in ("apiVersion", "kind", "metadata")}


@contract
async def test_everything_but_status_is_stored_as_given(cluster: Cluster, namespace: str) -> None:
    spec = {"empty": {}, "none": [], "text": "", "no": False, "zero": 0, "deep": [{"a": {"b": [1, "2", 3.5, None]}}]}
    created = await cluster.create(widget(namespace, "w", spec=spec, other=[], status={"x": 1}))
    assert fields_of(created) == {"spec": spec, "other": []}
    assert (created.metadata.generation, created.api_version, created.kind) == (1, "contract.example.com/v1", "Widget")
    assert await cluster.get(WIDGET, "w", namespace) == created
    assert (await cluster.list(WIDGET, namespace)).items == (created,)


@contract
async def test_update_needs_a_version(cluster: Cluster, namespace: str) -> None:
    await cluster.create(widget(namespace, "w"))
    error = await refusal(Invalid, cluster.update(widget(namespace, "w", spec={"x": 1})))
    text = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert str(error) == f'widgets.contract.example.com "w" is invalid: {text}'


@contract
async def test_generation_counts_changes_of_everything_but_metadata_and_status(
    cluster: Cluster, namespace: str
) -> None:
    created = await cluster.create(widget(namespace, "w", spec={"x": 1}))
    relabelled = await cluster.update(created.with_(metadata=created.metadata.with_(labels={"a": "b"})))
    assert relabelled.metadata.generation == 1
    changed = await cluster.update(widget(namespace, "w", spec={"x": 2}).with_(metadata=relabelled.metadata))
    assert (changed.metadata.generation, changed.metadata.labels) == (2, {"a": "b"})
    told_ = await cluster.update_status(
        widget(namespace, "w", status={"y": 1}, spec={"x": 3}).with_(metadata=changed.metadata)
    )
    assert (told_.metadata.generation, fields_of(told_)) == (2, {"spec": {"x": 2}, "status": {"y": 1}})
    kept = await cluster.update(widget(namespace, "w", spec={"x": 2}, status={"y": 7}).with_(metadata=told_.metadata))
    assert kept == told_
    more = await cluster.update(widget(namespace, "w", spec={"x": 2}, more={}).with_(metadata=told_.metadata))
    assert (more.metadata.generation, fields_of(more)) == (3, {"spec": {"x": 2}, "more": {}, "status": {"y": 1}})


@contract
async def test_an_empty_field_is_not_an_absent_one(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(widget(namespace, "w", spec={}))
    same = await cluster.update(created)
    assert same.metadata.resource_version == created.metadata.resource_version
    emptied = await cluster.update(widget(namespace, "w", spec={"devices": []}).with_(metadata=created.metadata))
    assert emptied.metadata.resource_version != created.metadata.resource_version
    assert fields_of(emptied) == {"spec": {"devices": []}}


@contract
async def test_patches(cluster: Cluster, namespace: str) -> None:
    await cluster.create(widget(namespace, "w", spec={"x": 1, "list": [1, 2]}))
    merged = await cluster.patch(
        WIDGET, "w", namespace, merge={"spec": {"x": None, "y": {}, "list": [3]}, "status": {"z": 1}}
    )
    assert fields_of(merged) == {"spec": {"y": {}, "list": [3]}}
    status = await cluster.patch(WIDGET, "w", namespace, merge={"spec": None, "status": {"z": 1}}, subresource="status")
    assert fields_of(status) == {"spec": {"y": {}, "list": [3]}, "status": {"z": 1}}
    operations = [{"op": "test", "path": "/status/z", "value": 1}, {"op": "add", "path": "/spec/list/-", "value": 4}]
    assert fields_of(await cluster.patch(WIDGET, "w", namespace, operations=operations))["spec"] == {
        "y": {},
        "list": [3, 4],
    }
    await refusal(Invalid, cluster.patch(WIDGET, "w", namespace, operations=[{"op": "remove", "path": "/spec/absent"}]))
    stale = {"metadata": {"resourceVersion": merged.metadata.resource_version}, "spec": {"x": 9}}
    error = await refusal(Conflict, cluster.patch(WIDGET, "w", namespace, merge=stale))
    assert str(error) == f'Operation cannot be fulfilled on widgets.contract.example.com "w": {STALE}'


@contract
async def test_patch_of_the_status_looks_at_no_uid(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(widget(namespace, "w"))
    told_ = await cluster.patch(
        WIDGET, "w", namespace, merge={"metadata": {"uid": "other"}, "status": {"x": 1}}, subresource="status"
    )
    assert (fields_of(told_), told_.metadata.uid) == ({"status": {"x": 1}}, created.metadata.uid)
    merge = {"metadata": {"uid": "other", "resourceVersion": created.metadata.resource_version}, "status": {"x": 2}}
    error = await refusal(Conflict, cluster.patch(WIDGET, "w", namespace, merge=merge, subresource="status"))
    assert str(error) == f'Operation cannot be fulfilled on widgets.contract.example.com "w": {STALE}'
    invalid = await refusal(Invalid, cluster.patch(WIDGET, "w", namespace, merge={"metadata": {"uid": "other"}}))
    assert (
        str(invalid)
        == 'Widget.contract.example.com "w" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )


@contract
async def test_refusals_name_the_resource(cluster: Cluster, namespace: str) -> None:
    await cluster.create(widget(namespace, "w"))
    assert (
        str(await refusal(AlreadyExists, cluster.create(widget(namespace, "w"))))
        == 'widgets.contract.example.com "w" already exists'
    )
    assert (
        str(await refusal(NotFound, cluster.get(WIDGET, "x", namespace)))
        == 'widgets.contract.example.com "x" not found'
    )
    error = await refusal(BadRequest, cluster.list(WIDGET, namespace, fields="spec.x=1"))
    assert str(error) == "field label not supported: spec.x"


@contract
async def test_finalizers_hold_and_the_last_one_ends(cluster: Cluster, namespace: str) -> None:
    held = widget(namespace, "w", spec={"x": 1}).with_(
        metadata=ObjectMeta(name="w", namespace=namespace, finalizers=("contract.example.com/hold",))
    )
    created = await cluster.create(held)
    await cluster.delete(WIDGET, "w", namespace)
    marked = await cluster.get(WIDGET, "w", namespace)
    assert marked.metadata.deletion_timestamp is not None
    assert marked.metadata.generation == 2
    await cluster.update(marked.with_(metadata=marked.metadata.with_(finalizers=())))
    await refusal(NotFound, cluster.get(WIDGET, "w", namespace))
    stream = cluster.watch(WIDGET, namespace, resource_version=created.metadata.resource_version)
    assert told(await events(stream, 2)) == [("MODIFIED", "w"), ("DELETED", "w")]


@contract
async def test_what_it_owned_goes_with_it(cluster: Cluster, namespace: str) -> None:
    owner = await cluster.create(widget(namespace, "w"))
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    await cluster.create(claim(namespace, "child", meta=ObjectMeta(owner_references=(reference,))))
    await cluster.delete(WIDGET, "w", namespace)

    async def nothing_is_left() -> None:
        assert (await cluster.list(ResourceClaim, namespace)).items == ()

    await eventually(nothing_is_left)
