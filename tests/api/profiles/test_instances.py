"""VMIs as they are admitted: their devices, and the record of the profiles that these were made from."""

from __future__ import annotations

import pytest

from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.profiles.asking import RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.instances import (
    RECORD_ANNOTATION,
    ProfilesRecord,
    ProfileVersion,
    admitted_instance,
    expanded_instance,
)
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.api.wire import Json

LINE = "gpu=h100 x 2, h100"
PROFILES = {
    "h100": DeviceProfile.from_wire({
        "metadata": {"name": "h100", "uid": "u1", "generation": 3},
        "spec": {"devices": [{"name": "card", "deviceClassName": "gpu"}]},
    })
}  # fmt: skip
RECORD = '{"line":"gpu=h100 x 2, h100","profiles":{"h100":{"generation":3,"uid":"u1"}}}'


def vmi(annotations: Json, **spec: object) -> VirtualMachineInstance:
    metadata = {"name": "vm", "namespace": "team", "annotations": annotations}
    return VirtualMachineInstance.from_wire({"metadata": metadata, "spec": spec})


def test_a_vmi_gets_its_devices_and_their_record() -> None:
    asking = vmi({"virt-dra.io/devices": LINE})
    admitted = admitted_instance(asking, PROFILES, {})
    expanded = expanded_instance(asking, PROFILES, {})
    assert expanded is not None
    assert admitted.spec == expanded.spec
    assert [gpu.name for gpu in admitted.spec.domain.devices.gpus] == ["gpu-1", "gpu-2", "card"]
    assert admitted.metadata.annotations == {"virt-dra.io/devices": LINE, RECORD_ANNOTATION: RECORD}
    assert ProfilesRecord.from_annotations(admitted.metadata.annotations) == ProfilesRecord(
        line=LINE, profiles={"h100": ProfileVersion(uid="u1", generation=3)}
    )


def test_admitting_again_changes_nothing() -> None:
    once = admitted_instance(vmi({"virt-dra.io/devices": LINE}), PROFILES, {})
    assert admitted_instance(once, PROFILES, {}).to_wire() == once.to_wire()


def test_a_record_of_the_users_is_replaced() -> None:
    forged = vmi({"virt-dra.io/devices": LINE, RECORD_ANNOTATION: "{"})
    assert admitted_instance(forged, PROFILES, {}).metadata.annotations[RECORD_ANNOTATION] == RECORD


def test_a_vmi_without_a_line_stays_as_it_is() -> None:
    plain = vmi({"a": "b"})
    assert admitted_instance(plain, PROFILES, {}) is plain
    assert expanded_instance(plain, PROFILES, {}) is None


def test_a_line_that_cannot_be_expanded_is_refused() -> None:
    with pytest.raises(RefusedLineError, match=r"metadata\.annotations\[virt-dra\.io/devices\]: Not found: \"h10\""):
        admitted_instance(vmi({"virt-dra.io/devices": "h10"}), PROFILES, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1, column 2"),
        ("[]", "must be an object"),
        ('{"line":"a","more":1}', "more"),
        ('{"profiles":{"a":{"generation":"3"}}}', "generation"),
        ('{"profiles":{' + ",".join(f'"p{number}":{{}}' for number in range(17)) + "}}", "at most 16 profiles"),
        (" " * 70_000, "longer than 64 KiB"),
    ],
)
def test_a_record_that_is_none_is_refused(text: str, problem: str) -> None:
    with pytest.raises(AnnotationError) as refused:
        ProfilesRecord.from_annotations({RECORD_ANNOTATION: text})
    assert problem in str(refused.value)


def test_no_record_is_read_as_none() -> None:
    assert ProfilesRecord.from_annotations({"virt-dra.io/devices": LINE}) is None
