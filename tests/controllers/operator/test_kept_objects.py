"""What the operator keeps of objects: what rules read, and nothing that a tenant or a driver can make large beside
it."""

from __future__ import annotations

import pytest

from tests.controllers.listed_sources import ListedSources
from tests.controllers.published_world import NOW, objects
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.integration.paths import (
    DEVICE_STATUS_ANNOTATION,
    INTEGRATION_ANNOTATION,
    PATH_ANNOTATION,
    RETRY_ANNOTATION,
)
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.controllers.beside_kubevirt.metadata_shim import _fits
from virt_dra.controllers.beside_kubevirt.reconcile import plan
from virt_dra.controllers.devices.inputs import gather
from virt_dra.controllers.pods.current_pod import EPHEMERAL_ANNOTATION
from virt_dra.controllers.transforms import rest_of, trimmed, trimmed_where_read_only

KINDS: dict[str, type[TypedObject]] = {
    kind.KIND: kind
    for kind in (VirtualMachineInstance, Pod, Node, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
}
LARGE = "x" * (256 * 1024 - 100)
NOTES = {
    "note": LARGE,
    "kubectl.kubernetes.io/last-applied-configuration": LARGE,
    "virt-dra.io/whatever": LARGE,
    "virt-dra.io/lint-ignore": LARGE,
    "virt-dra.io/device-claims": LARGE,
    EPHEMERAL_ANNOTATION: LARGE,
}


def _with(kind: type[TypedObject], annotations: dict[str, str]) -> TypedObject:
    managed = [{"manager": "m", "fieldsV1": {f"f:{n}": {} for n in range(2000)}}]
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", "annotations": annotations, "managedFields": managed}
    return kind.from_wire({"metadata": metadata, "unknown": LARGE})


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_however_large_the_annotations_are_little_is_kept(kind: type[TypedObject]) -> None:
    kept = trimmed(_with(kind, NOTES))
    assert len(kept.model_dump_json(exclude_unset=True)) < 18 * 1024
    assert (kept.name, kept.metadata.uid, kept.metadata.resource_version) == ("x", "u", "7")


@pytest.mark.parametrize("kind", [Node, ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule])
def test_standalone_trims_what_it_never_writes(kind: type[TypedObject]) -> None:
    assert len(trimmed_where_read_only(_with(kind, NOTES)).model_dump_json(exclude_unset=True)) < 1024


@pytest.mark.parametrize("kind", [VirtualMachineInstance, Pod])
def test_standalone_keeps_what_pods_are_rendered_from(kind: type[TypedObject]) -> None:
    whole = _with(kind, NOTES)
    assert trimmed_where_read_only(whole) is whole


def test_annotations_that_rules_read_are_kept_as_they_are() -> None:
    vmi = trimmed(
        _with(
            VirtualMachineInstance, {PATH_ANNOTATION: "native", DEVICE_STATUS_ANNOTATION: LARGE, RETRY_ANNOTATION: "t"}
        )
    )
    assert vmi.metadata.annotations == {
        PATH_ANNOTATION: "native",
        DEVICE_STATUS_ANNOTATION: LARGE,
        RETRY_ANNOTATION: "t",
    }
    ours = {
        INTEGRATION_ANNOTATION: "{}",
        "metadata.virt-dra.io/a.b": "{}",
        "addresses.virt-dra.io/X": "0",
        "addresses.virt-dra.io/ready": "1",
    }
    assert trimmed(_with(Pod, ours)).metadata.annotations == ours
    assert EPHEMERAL_ANNOTATION in trimmed(_with(Pod, {EPHEMERAL_ANNOTATION: "true"})).metadata.annotations


def test_the_size_of_the_rest_still_counts_against_what_a_pod_may_have() -> None:
    for whole in (
        {"note": LARGE},
        {"a": "é" * 1000, "b": LARGE[:200_000]},
        {"note": LARGE[: 200 * 1024]},
        {"size-of-the-rest": "9" * 50},
        {},
    ):
        pod = _with(Pod, whole)
        kept = trimmed(pod)
        assert isinstance(pod, Pod)
        assert isinstance(kept, Pod)
        assert rest_of(kept.metadata.annotations) == sum(
            len(key.encode()) + len(value.encode()) for key, value in whole.items()
        )
        for size in (10, 100, 60_000):
            changes = {"metadata.virt-dra.io/a.b": "y" * size}
            assert _fits(kept, changes) == _fits(pod, changes)


def test_what_is_planned_is_the_same_from_trimmed_objects() -> None:
    noted = objects(
        {f"{where}.metadata.annotations": {"note": "x" * 1000} for where in ("vmi", "pod", "claims.0", "slices.0")}
    )
    plans = []
    for given in (noted, tuple(map(trimmed, noted))):
        of = {
            kind: [obj for obj in given if isinstance(obj, kind)]
            for kind in (VirtualMachineInstance, Pod, ResourceClaim, ResourceSlice)
        }
        sources = ListedSources(of[VirtualMachineInstance], of[Pod], of[ResourceClaim], of[ResourceSlice])  # type: ignore[arg-type]  # by kind
        inputs = gather(sources, "lab/fedora", NOW)
        assert inputs is not None
        planned = plan(inputs)
        assert planned.then
        plans.append((planned.first, planned.then, planned.events, planned.problems))
    assert repr(plans[0]) == repr(plans[1])
