"""The contract of every cluster: creating, reading, changing and deleting objects. See running.py."""

from __future__ import annotations

from typing import Literal

from tests.cluster.contract.running import (
    RUN_LABEL,
    claim,
    contract,
    delete_whatever_finalizers,
    device_class,
    eventually,
    pod,
    refusal,
    resource_slice,
)
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import ObjectMeta, OwnerReference, TypedObject, UnknownObject, parse_time
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import (
    AllocatedDeviceStatus,
    AllocationResult,
    CELDeviceSelector,
    DeviceAllocationResult,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from virt_dra.cluster.memory.names import ALPHABET
from virt_dra.cluster.port import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cluster,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    StatusCause,
    TooLarge,
)

STALE = "the object has been modified; please apply your changes to the latest version and try again"
FINALIZER = "contract.example.com/hold"
CONSENT = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)


def owned_by(*owners: TypedObject) -> ObjectMeta:
    references = (
        OwnerReference(api_version=o.API_VERSION, kind=o.KIND, name=o.name, uid=o.metadata.uid) for o in owners
    )
    return ObjectMeta(owner_references=tuple(references))


def allocated(*, admin_access: bool | None = None, data: object = None) -> ResourceClaimStatus:
    result = DeviceRequestAllocationResult(
        request="gpu", driver="gpu.example.com", pool="a", device="gpu-0", admin_access=admin_access
    )
    # No pod: a control plane takes the reservation of a pod that doesn't exist back.
    consumer = ResourceClaimConsumerReference(api_group="contract.example.com", resource="things", name="p", uid="u-1")
    devices = (
        () if data is None else (AllocatedDeviceStatus(driver="gpu.example.com", pool="a", device="gpu-0", data=data),)
    )
    return ResourceClaimStatus(
        allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,))),
        reserved_for=(consumer,),
        devices=devices,
    )


# --- create and get -------------------------------------------------------------------------------------------------


@contract
async def test_create_fills_in_what_the_server_owns(cluster: Cluster, namespace: str) -> None:
    submitted = claim(
        namespace, "c", meta=ObjectMeta(uid="mine", creation_timestamp="2001-01-01T00:00:00Z", labels={"a": "b"})
    )
    created = await cluster.create(submitted)
    meta = created.metadata
    assert (meta.name, meta.namespace, meta.labels, meta.generation, meta.deletion_timestamp) == (
        "c",
        namespace,
        {"a": "b"},
        None,
        None,
    )
    assert meta.uid not in ("", "mine")
    assert int(meta.resource_version) > 0
    assert parse_time(str(meta.creation_timestamp)).year > 2001
    assert await cluster.get(ResourceClaim, "c", namespace) == created


@contract
async def test_create_writes_defaults_out(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    exactly = created.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)


@contract
async def test_create_clears_status_where_it_is_a_subresource(cluster: Cluster, namespace: str) -> None:
    """A claim is created without a status (C-13.1), and its devices come later."""
    created = await cluster.create(claim(namespace, "c").with_(status=allocated()))
    assert created.status == ResourceClaimStatus()


@contract
async def test_create_of_a_pod_starts_pending(cluster: Cluster, namespace: str) -> None:
    assert (await cluster.create(pod(namespace, "p"))).status.phase == "Pending"


@contract
async def test_create_twice_is_refused(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c"))
    error = await refusal(AlreadyExists, cluster.create(claim(namespace, "c")))
    assert str(error) == 'resourceclaims.resource.k8s.io "c" already exists'


@contract
async def test_create_with_a_version_is_refused(cluster: Cluster, namespace: str) -> None:
    error = await refusal(ApiError, cluster.create(claim(namespace, "c", meta=ObjectMeta(resource_version="1"))))
    assert str(error) == "resourceVersion should not be set on objects to be created"


@contract
async def test_create_in_a_missing_namespace_is_refused(cluster: Cluster, namespace: str) -> None:
    error = await refusal(NotFound, cluster.create(claim(f"{namespace}-no", "c")))
    assert str(error) == f'namespaces "{namespace}-no" not found'


@contract
async def test_create_reports_every_fault_at_once(cluster: Cluster, namespace: str) -> None:
    faulty = claim(
        namespace, "c", requests=(DeviceRequest(name="gpu"), DeviceRequest(name="gpu", exactly=ExactDeviceRequest()))
    )
    error = await refusal(Invalid, cluster.create(faulty))
    assert [(cause.field, cause.reason) for cause in error.causes] == [
        ("spec.devices.requests[0]", "FieldValueRequired"),
        ("spec.devices.requests[1].exactly.deviceClassName", "FieldValueRequired"),
        ("spec.devices.requests[1]", "FieldValueDuplicate"),
    ]
    assert str(error).startswith(
        'ResourceClaim.resource.k8s.io "c" is invalid: [spec.devices.requests[0]: Required value: exactly one of '
    )


@contract
async def test_create_compiles_selectors(cluster: Cluster, namespace: str) -> None:
    selector = DeviceSelector(cel=CELDeviceSelector(expression="device.drive == 'd'"))
    broken = device_class(namespace, "d").with_(spec=DeviceClassSpec(selectors=(selector,)))
    error = await refusal(Invalid, cluster.create(broken))
    assert [(cause.field, cause.reason) for cause in error.causes] == [
        ("spec.selectors[0].cel.expression", "FieldValueInvalid")
    ]
    assert error.causes[0].message.startswith(
        "Invalid value: \"device.drive == 'd'\": compilation failed: ERROR: <input>:1:7: undefined field 'drive'"
    )


@contract
async def test_create_without_a_name_is_refused(cluster: Cluster, namespace: str) -> None:
    error = await refusal(Invalid, cluster.create(claim(namespace, "")))
    assert str(error) == (
        'ResourceClaim.resource.k8s.io "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert error.causes == (
        StatusCause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required"),
    )


@contract
async def test_create_of_megabytes_is_refused(cluster: Cluster, namespace: str) -> None:
    error = await refusal(
        TooLarge, cluster.create(claim(namespace, "c", meta=ObjectMeta(annotations={"a": "x" * 3 * 1024 * 1024})))
    )
    assert str(error).startswith("Request entity too large: limit is 3145728")


@contract
async def test_generate_name_adds_five_characters(cluster: Cluster, namespace: str) -> None:
    created = [await cluster.create(pod(namespace, meta=ObjectMeta(generate_name="p-"))) for _ in range(5)]
    names = [obj.name for obj in created]
    assert len(set(names)) == 5
    for name in names:
        assert name.startswith("p-")
        assert len(name) == 7
        assert set(name[2:]) <= set(ALPHABET)


@contract
async def test_generate_name_is_cut_to_make_a_name(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "", meta=ObjectMeta(generate_name="x" * 70)))
    assert created.name[:58] == "x" * 58
    assert len(created.name) == 63


@contract
async def test_get_of_nothing_is_refused(cluster: Cluster, namespace: str) -> None:
    assert str(await refusal(NotFound, cluster.get(Pod, "p", namespace))) == 'pods "p" not found'
    error = await refusal(NotFound, cluster.get(DeviceClass, f"{namespace}-no"))
    assert str(error) == f'deviceclasses.resource.k8s.io "{namespace}-no" not found'


@contract
async def test_equal_names_in_other_namespaces_and_kinds_are_other_objects(cluster: Cluster, namespace: str) -> None:
    other = (await cluster.create(Namespace(metadata=ObjectMeta(generate_name="contract-")))).name
    uids = {
        (await cluster.create(obj)).metadata.uid
        for obj in (claim(namespace, "x"), claim(other, "x"), pod(namespace, "x"))
    }
    assert len(uids) == 3
    await cluster.delete(Namespace, other)


@contract
async def test_objects_of_kinds_without_a_type_are_kept_whole(cluster: Cluster, namespace: str) -> None:
    config_map = unknown_kind("v1", "ConfigMap")
    raw = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": namespace},
        "data": {"a": "b"},
    }
    await cluster.create(UnknownObject.from_wire(raw))
    assert (await cluster.get(config_map, "m", namespace)).to_wire()["data"] == {"a": "b"}
    await cluster.patch(config_map, "m", namespace, merge={"data": {"a": None, "c": "d"}})
    listed = (await cluster.list(config_map, namespace, fields="metadata.name=m")).items
    assert [obj.to_wire()["data"] for obj in listed] == [{"c": "d"}]
    await cluster.delete(config_map, "m", namespace)
    assert str(await refusal(NotFound, cluster.get(config_map, "m", namespace))) == 'configmaps "m" not found'


# --- update ---------------------------------------------------------------------------------------------------------


@contract
async def test_update_raises_the_version(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    updated = await cluster.update(created.with_(metadata=created.metadata.with_(labels={"a": "b"})))
    assert updated.metadata.labels == {"a": "b"}
    assert int(updated.metadata.resource_version) > int(created.metadata.resource_version)
    assert await cluster.get(ResourceClaim, "c", namespace) == updated


@contract
async def test_update_that_changes_nothing_keeps_the_version(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    assert await cluster.update(created) == created
    patched = await cluster.patch(ResourceClaim, "c", namespace, merge={"metadata": {"labels": None}})
    assert patched.metadata.resource_version == created.metadata.resource_version


@contract
async def test_update_of_a_stale_object_is_refused(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    await cluster.update(created.with_(metadata=created.metadata.with_(labels={"a": "b"})))
    stale = created.with_(metadata=created.metadata.with_(labels={"c": "d"}))
    error = await refusal(Conflict, cluster.update(stale))
    assert str(error) == f'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "c": {STALE}'
    error = await refusal(Conflict, cluster.update_status(created.with_(status=allocated())))
    assert str(error) == f'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "c": {STALE}'


@contract
async def test_update_without_a_version_overwrites(cluster: Cluster, namespace: str) -> None:
    """Claims, templates, slices and classes may be updated without a version (C-13.2)."""
    created = await cluster.create(claim(namespace, "c"))
    updated = await cluster.update(claim(namespace, "c", meta=ObjectMeta(labels={"a": "b"})))
    assert (updated.metadata.uid, updated.metadata.labels) == (created.metadata.uid, {"a": "b"})
    assert updated.metadata.creation_timestamp == created.metadata.creation_timestamp


@contract
async def test_update_without_a_version_is_refused_for_taint_rules(cluster: Cluster, namespace: str) -> None:
    """Taint rules and pool requests may not (C-13.2)."""
    spec = DeviceTaintRuleSpec(
        device_selector=DeviceTaintSelector(driver="d"), taint=DeviceTaint(key="k", effect="NoSchedule")
    )
    rule = DeviceTaintRule(metadata=ObjectMeta(name=namespace, labels={RUN_LABEL: namespace}), spec=spec)
    await cluster.create(rule)
    error = await refusal(Invalid, cluster.update(rule.with_(metadata=rule.metadata.with_(labels={}))))
    assert str(error) == (
        f'devicetaintrules.resource.k8s.io "{namespace}" is invalid: '
        "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    )


@contract
async def test_update_of_another_uid_is_refused(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    other = created.with_(metadata=created.metadata.with_(uid="other", labels={"a": "b"}))
    error = await refusal(Conflict, cluster.update(other))
    assert str(error).endswith(
        f"Precondition failed: UID in precondition: other, UID in object meta: {created.metadata.uid}"
    )


@contract
async def test_update_of_nothing_is_refused(cluster: Cluster, namespace: str) -> None:
    error = await refusal(NotFound, cluster.update(claim(namespace, "c")))
    assert str(error) == 'resourceclaims.resource.k8s.io "c" not found'


@contract
async def test_update_ignores_status(cluster: Cluster, namespace: str) -> None:
    """An update of the main resource leaves the status as it was (C-13.1)."""
    created = await cluster.create(claim(namespace, "c"))
    assert await cluster.update(created.with_(status=allocated())) == created
    updated = await cluster.update_status(created.with_(status=allocated()))
    kept = await cluster.update(
        updated.with_(status=ResourceClaimStatus(), metadata=updated.metadata.with_(labels={"a": "b"}))
    )
    assert kept.status == allocated()


@contract
async def test_update_of_an_immutable_field_is_refused(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    error = await refusal(Invalid, cluster.update(created.with_(spec=claim(namespace, "c", requests=()).spec)))
    assert str(error) == 'ResourceClaim.resource.k8s.io "c" is invalid: spec: Invalid value: null: field is immutable'


@contract
async def test_update_status_ignores_everything_else(cluster: Cluster, namespace: str) -> None:
    """An update of the status leaves metadata and spec as they were (C-13.1)."""
    created = await cluster.create(claim(namespace, "c"))
    other = claim(namespace, "c", meta=ObjectMeta(labels={"a": "b"}), requests=())
    updated = await cluster.update_status(other.with_(status=allocated()))
    assert (updated.status, updated.spec, updated.metadata.labels) == (allocated(), created.spec, {})


@contract
async def test_update_status_of_kinds_without_it_is_refused(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(device_class(namespace, "d"))
    assert (
        str(await refusal(NotFound, cluster.update_status(created)))
        == "the server could not find the requested resource"
    )
    attempt = cluster.patch(DeviceClass, created.name, merge={"status": {}}, subresource="status")
    assert str(await refusal(NotFound, attempt)) == "the server could not find the requested resource"


@contract
async def test_generation_counts_changes_of_spec(cluster: Cluster, namespace: str) -> None:
    """The generation of slices, classes and taint rules counts changes of the spec (C-13.1)."""
    created = await cluster.create(device_class(namespace, "d"))
    labelled = await cluster.patch(DeviceClass, created.name, merge={"metadata": {"labels": {"a": "b"}}})
    changed = await cluster.update(labelled.with_(spec=DeviceClassSpec(extended_resource_name="example.com/gpu")))
    assert [obj.metadata.generation for obj in (created, labelled, changed)] == [1, 1, 2]


@contract
async def test_device_data_goes_with_the_allocation(cluster: Cluster, namespace: str) -> None:
    """Whoever deallocates need not know of device data (C-13.5)."""
    created = await cluster.create(claim(namespace, "c"))
    with_data = await cluster.update_status(created.with_(status=allocated(data={"mac": "52:54:00:00:00:01"})))
    assert len(with_data.status.devices) == 1
    released = await cluster.update_status(
        with_data.with_(status=ResourceClaimStatus(devices=with_data.status.devices))
    )
    assert released.status == ResourceClaimStatus()


# --- admin access ---------------------------------------------------------------------------------------------------


ADMIN = (DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu", admin_access=True)),)


@contract
async def test_admin_access_needs_the_consent_of_the_namespace(cluster: Cluster, namespace: str) -> None:
    """Claims and templates alike, with one path for both (C-13.7)."""
    asking = claim(namespace, "c", requests=ADMIN)
    template = ResourceClaimTemplate(
        metadata=ObjectMeta(name="t", namespace=namespace), spec=ResourceClaimTemplateSpec(spec=asking.spec)
    )
    for obj, kind in ((asking, "ResourceClaim"), (template, "ResourceClaimTemplate")):
        error = await refusal(Invalid, cluster.create(obj))
        fault = f"spec.devices.requests[0].adminAccess: Forbidden: {CONSENT}"
        assert str(error) == f'{kind}.resource.k8s.io "{obj.name}" is invalid: {fault}'
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await cluster.patch(Namespace, namespace, merge={"metadata": {"labels": labels}})
    assert (await cluster.create(asking)).name == "c"
    assert (await cluster.create(template)).name == "t"


@contract
async def test_admin_access_in_a_status_needs_the_consent_of_the_namespace(cluster: Cluster, namespace: str) -> None:
    """An allocation that newly has admin results (C-13.7)."""
    created = await cluster.create(claim(namespace, "c"))
    error = await refusal(Invalid, cluster.update_status(created.with_(status=allocated(admin_access=True))))
    fault = f"status.allocation.devices.results[0].adminAccess: Forbidden: {CONSENT}"
    assert str(error) == f'ResourceClaim.resource.k8s.io "c" is invalid: {fault}'


# --- patch ----------------------------------------------------------------------------------------------------------


@contract
async def test_merge_patch_changes_what_it_names(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c", meta=ObjectMeta(labels={"a": "1", "b": "2"}, annotations={"x": "y"})))
    patched = await cluster.patch(ResourceClaim, "c", namespace, merge={"metadata": {"labels": {"a": None, "c": "3"}}})
    assert (patched.metadata.labels, patched.metadata.annotations) == ({"b": "2", "c": "3"}, {"x": "y"})


@contract
async def test_json_patch_applies_its_operations_in_order(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c", meta=ObjectMeta(labels={"a": "1"})))
    patched = await cluster.patch(
        ResourceClaim, "c", namespace,
        operations=[
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"},
            {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/example.com~1c"},
            {"op": "replace", "path": "/metadata/labels/b", "value": "2"},
            {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/f"]},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ],
    )  # fmt: skip
    assert (patched.metadata.labels, patched.metadata.finalizers) == ({"b": "2", "example.com/c": "1"}, ())


@contract
async def test_json_patch_that_fails_changes_nothing(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    operations: list[dict[str, object]] = [
        {"op": "add", "path": "/metadata/labels", "value": {"a": "1"}},
        {"op": "test", "path": "/metadata/labels/a", "value": "2"},
    ]
    error = await refusal(Invalid, cluster.patch(ResourceClaim, "c", namespace, operations=operations))
    assert str(error).startswith("the server rejected our request due to an error in our request")
    assert await cluster.get(ResourceClaim, "c", namespace) == created


@contract
async def test_patch_of_the_status_subresource_changes_only_status(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c"))
    merge = {"status": allocated().to_wire(), "metadata": {"labels": {"a": "b"}}}
    patched = await cluster.patch(ResourceClaim, "c", namespace, merge=merge, subresource="status")
    assert (patched.status, patched.metadata.labels) == (allocated(), {})
    ignored = await cluster.patch(ResourceClaim, "c", namespace, merge={"status": None})
    assert ignored == patched


@contract
async def test_patch_bound_to_a_version_is_refused_when_stale(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    await cluster.patch(ResourceClaim, "c", namespace, merge={"metadata": {"labels": {"a": "b"}}})
    merge = {"metadata": {"resourceVersion": created.metadata.resource_version, "labels": {"a": "c"}}}
    error = await refusal(Conflict, cluster.patch(ResourceClaim, "c", namespace, merge=merge))
    assert str(error) == f'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "c": {STALE}'


@contract
async def test_patch_that_changes_the_uid_is_refused(cluster: Cluster, namespace: str) -> None:
    """A patch states a UID as a change, not as a precondition (C-13.12)."""
    await cluster.create(claim(namespace, "c"))
    merge = {"metadata": {"uid": "other", "labels": {"a": "c"}}}
    error = await refusal(Invalid, cluster.patch(ResourceClaim, "c", namespace, merge=merge))
    assert (
        str(error)
        == 'ResourceClaim.resource.k8s.io "c" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )


@contract
async def test_patch_that_changes_the_uid_of_a_stale_object_is_stale(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(pod(namespace, "p"))
    changed = await cluster.patch(Pod, "p", namespace, merge={"metadata": {"labels": {"a": "b"}}})
    subresources: tuple[Literal["", "status"], ...] = ("", "status")
    for subresource in subresources:
        merge = {
            "metadata": {"uid": "other", "resourceVersion": created.metadata.resource_version, "labels": {"a": "c"}}
        }
        error = await refusal(Conflict, cluster.patch(Pod, "p", namespace, merge=merge, subresource=subresource))
        assert str(error) == f'Operation cannot be fulfilled on pods "p": {STALE}'
        merge = {
            "metadata": {"uid": "other", "resourceVersion": changed.metadata.resource_version, "labels": {"a": "c"}}
        }
        invalid = await refusal(Invalid, cluster.patch(Pod, "p", namespace, merge=merge, subresource=subresource))
        assert [cause.field for cause in invalid.causes] == ["metadata.uid"]
    assert await cluster.get(Pod, "p", namespace) == changed


@contract
async def test_patch_is_validated(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c"))
    error = await refusal(Invalid, cluster.patch(ResourceClaim, "c", namespace, merge={"spec": None}))
    assert str(error) == 'ResourceClaim.resource.k8s.io "c" is invalid: spec: Invalid value: null: field is immutable'


@contract
async def test_patch_of_nothing_is_refused(cluster: Cluster, namespace: str) -> None:
    error = await refusal(NotFound, cluster.patch(ResourceClaim, "c", namespace, merge={}))
    assert str(error) == 'resourceclaims.resource.k8s.io "c" not found'


@contract
async def test_patch_needs_exactly_one_form(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c"))
    await refusal(BadRequest, cluster.patch(ResourceClaim, "c", namespace))
    await refusal(BadRequest, cluster.patch(ResourceClaim, "c", namespace, merge={}, operations=[]))


# --- delete ---------------------------------------------------------------------------------------------------------


@contract
async def test_delete_removes(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c"))
    await cluster.delete(ResourceClaim, "c", namespace)
    await refusal(NotFound, cluster.get(ResourceClaim, "c", namespace))
    error = await refusal(NotFound, cluster.delete(ResourceClaim, "c", namespace))
    assert str(error) == 'resourceclaims.resource.k8s.io "c" not found'


@contract
async def test_delete_waits_for_finalizers(cluster: Cluster, namespace: str) -> None:
    """As the claim controller's finalizer holds a claim in use (C-13.10, C-1.8)."""
    created = await cluster.create(claim(namespace, "c", meta=ObjectMeta(finalizers=(FINALIZER, f"{FINALIZER}-2"))))
    await cluster.delete(ResourceClaim, "c", namespace)
    marked = await cluster.get(ResourceClaim, "c", namespace)
    assert marked.metadata.deletion_timestamp is not None
    assert int(marked.metadata.resource_version) > int(created.metadata.resource_version)
    await cluster.delete(ResourceClaim, "c", namespace)
    assert await cluster.get(ResourceClaim, "c", namespace) == marked
    one_less = await cluster.update(marked.with_(metadata=marked.metadata.with_(finalizers=(FINALIZER,))))
    await cluster.update(one_less.with_(metadata=one_less.metadata.with_(finalizers=())))
    await refusal(NotFound, cluster.get(ResourceClaim, "c", namespace))


@contract
async def test_delete_marks_the_generation(cluster: Cluster, namespace: str) -> None:
    obj = device_class(namespace, "d")
    created = await cluster.create(obj.with_(metadata=obj.metadata.with_(finalizers=(FINALIZER,))))
    await cluster.delete(DeviceClass, created.name)
    marked = await cluster.get(DeviceClass, created.name)
    assert (created.metadata.generation, marked.metadata.generation) == (1, 2)


@contract
async def test_deletion_cannot_be_taken_back(cluster: Cluster, namespace: str) -> None:
    await cluster.create(claim(namespace, "c", meta=ObjectMeta(finalizers=(FINALIZER,))))
    await cluster.delete(ResourceClaim, "c", namespace)
    marked = await cluster.get(ResourceClaim, "c", namespace)
    assert await cluster.patch(ResourceClaim, "c", namespace, merge={"metadata": {"deletionTimestamp": None}}) == marked
    error = await refusal(
        Invalid,
        cluster.patch(
            ResourceClaim, "c", namespace, merge={"metadata": {"finalizers": [FINALIZER, "example.com/more"]}}
        ),
    )
    rule = "no new finalizers can be added if the object is being deleted, found new finalizers"
    assert str(error) == (
        'ResourceClaim.resource.k8s.io "c" is invalid: metadata.finalizers: Forbidden: '
        + rule
        + ' []string{"example.com/more"}'
    )
    await delete_whatever_finalizers(cluster, marked)


@contract
async def test_deletion_under_preconditions(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(claim(namespace, "c"))
    version, uid = created.metadata.resource_version, created.metadata.uid
    await cluster.patch(ResourceClaim, "c", namespace, merge={"metadata": {"labels": {"a": "b"}}})
    current = (await cluster.get(ResourceClaim, "c", namespace)).metadata.resource_version
    error = await refusal(Conflict, cluster.delete(ResourceClaim, "c", namespace, uid="other"))
    assert str(error) == (
        'Operation cannot be fulfilled on ResourceClaim.resource.k8s.io "c": '
        "the UID in the precondition (other) does not match "
        f"the UID in record ({uid}). The object might have been deleted and then recreated"
    )
    error = await refusal(Conflict, cluster.delete(ResourceClaim, "c", namespace, resource_version=version))
    assert str(error) == (
        'Operation cannot be fulfilled on ResourceClaim.resource.k8s.io "c": '
        f"the ResourceVersion in the precondition ({version}) "
        f"does not match the ResourceVersion in record ({current}). The object might have been modified"
    )
    await cluster.delete(ResourceClaim, "c", namespace, uid=uid, resource_version=current)
    await refusal(NotFound, cluster.get(ResourceClaim, "c", namespace))


@contract
async def test_garbage_goes_when_all_its_owners_are_gone(cluster: Cluster, namespace: str) -> None:
    first, two = [await cluster.create(pod(namespace, name)) for name in ("one", "two")]
    child = await cluster.create(claim(namespace, "child", meta=owned_by(first, two)))
    await cluster.create(claim(namespace, "grandchild", meta=owned_by(child)))

    await cluster.delete(Pod, "one", namespace)

    async def only_the_living_owner_is_left() -> None:
        left = await cluster.get(ResourceClaim, "child", namespace)
        assert [owner.name for owner in left.metadata.owner_references] == ["two"]

    await eventually(only_the_living_owner_is_left)
    await cluster.delete(Pod, "two", namespace)

    async def nothing_is_left() -> None:
        assert (await cluster.list(ResourceClaim, namespace)).items == ()

    await eventually(nothing_is_left)


@contract
async def test_garbage_waits_for_its_own_finalizers(cluster: Cluster, namespace: str) -> None:
    owner = await cluster.create(pod(namespace, "owner"))
    child = await cluster.create(claim(namespace, "child", meta=owned_by(owner).with_(finalizers=(FINALIZER,))))
    await cluster.delete(Pod, "owner", namespace)

    async def it_is_marked() -> None:
        assert (await cluster.get(ResourceClaim, "child", namespace)).metadata.deletion_timestamp is not None

    await eventually(it_is_marked)
    await delete_whatever_finalizers(cluster, child)


@contract
async def test_garbage_is_told_by_uid_not_by_name(cluster: Cluster, namespace: str) -> None:
    first = await cluster.create(pod(namespace, "owner"))
    await cluster.delete(Pod, "owner", namespace)
    await cluster.create(pod(namespace, "owner"))
    await cluster.create(claim(namespace, "child", meta=owned_by(first)))

    async def it_is_gone() -> None:
        assert (await cluster.list(ResourceClaim, namespace)).items == ()

    await eventually(it_is_gone)


@contract
async def test_a_namespace_goes_with_its_content(cluster: Cluster, namespace: str) -> None:
    doomed = (await cluster.create(Namespace(metadata=ObjectMeta(generate_name="contract-")))).name
    held = await cluster.create(claim(doomed, "held", meta=ObjectMeta(finalizers=(FINALIZER,))))
    await cluster.create(pod(doomed, "p"))
    await cluster.delete(Namespace, doomed)

    async def only_the_held_is_left() -> None:
        assert (await cluster.list(Pod, doomed)).items == ()
        assert (await cluster.get(ResourceClaim, "held", doomed)).metadata.deletion_timestamp is not None

    await eventually(only_the_held_is_left)
    assert (await cluster.get(Namespace, doomed)).metadata.deletion_timestamp is not None
    error = await refusal(Forbidden, cluster.create(claim(doomed, "late")))
    assert str(error) == (
        f'resourceclaims.resource.k8s.io "late" is forbidden: unable to create new content in namespace {doomed} '
        "because it is being terminated"
    )
    await delete_whatever_finalizers(cluster, held)

    async def the_namespace_is_gone() -> None:
        assert doomed not in [obj.name for obj in (await cluster.list(Namespace)).items]

    await eventually(the_namespace_is_gone)
    await refusal(NotFound, cluster.get(Namespace, doomed))


@contract
async def test_fields_without_a_type_survive_a_change_of_others(cluster: Cluster, namespace: str) -> None:
    novel = {"hostNetwork": True, "volumes": [{"name": "v", "hostPath": {"path": "/x", "type": "Directory"}}]}
    raw = pod(namespace, "p").to_wire()
    raw["spec"] |= novel
    await cluster.create(Pod.from_wire(raw))
    read = await cluster.get(Pod, "p", namespace)
    changed = await cluster.update(read.with_(metadata=read.metadata.with_(labels={"a": "b"})))
    assert changed.metadata.labels == {"a": "b"}
    assert changed.with_(metadata=read.metadata) == read
    spec = changed.to_wire()["spec"]
    assert {key: spec[key] for key in novel} == novel


@contract
async def test_slices_of_one_node_live_side_by_side(cluster: Cluster, namespace: str) -> None:
    slices = [await cluster.create(resource_slice(namespace, name, node="n")) for name in ("a", "b")]
    assert [obj.metadata.generation for obj in slices] == [1, 1]
