"""Equal parts of slices are one object, and reading them so gives what pydantic gives."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pydantic import BaseModel

from tests.api.random_objects import random_object
from tests.sampling import sample
from virt_dra.api.reading.interning import InternTable, TemplateTable
from virt_dra.api.resource_v1 import Device, DeviceAttribute, DeviceCapacity, ResourceSlice
from virt_dra.api.wire import Json, WireError


def slice_of(*devices: object, **spec: object) -> Json:
    return {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": list(devices), **spec}}


def gpu(name: str, uuid: str, **more: object) -> Json:
    attributes = {"model": {"string": "H100"}, "numa": {"int": 1}, "mig": {"bool": True}, "uuid": {"string": uuid}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def anatomy(value: object) -> object:
    """Everything of an object: types, values in order, what was given, what is unknown."""
    if isinstance(value, BaseModel):
        fields = [(name, anatomy(value)) for name, value in value.__dict__.items()]
        return type(value), fields, sorted(value.model_fields_set), sorted((value.model_extra or {}).items(), key=str)
    if isinstance(value, dict):
        return [(key, anatomy(value)) for key, value in value.items()]
    return [anatomy(item) for item in value] if isinstance(value, tuple | list) else (type(value), value)


@pytest.mark.parametrize("seed", range(sample(300)))
def test_slices_are_read_as_by_their_types(seed: int) -> None:
    raw = random_object(ResourceSlice, Random(seed))
    assert anatomy(ResourceSlice.from_wire(raw)) == anatomy(
        ResourceSlice.model_validate(raw, by_alias=True, by_name=False)
    )
    assert (
        ResourceSlice.from_wire(raw).to_wire()
        == ResourceSlice.model_validate(raw, by_alias=True, by_name=False).to_wire()
    )


def test_equal_parts_are_one_object_in_all_slices() -> None:
    first = ResourceSlice.from_wire(slice_of(gpu("a", "1"), gpu("b", "2"))).spec.devices
    other = ResourceSlice.from_wire(slice_of(gpu("a", "3"))).spec.devices[0]
    for device in (*first[1:], other):
        assert device.capacity is first[0].capacity
        assert device.attributes["model"] is first[0].attributes["model"]
    assert [device.attributes["uuid"].string for device in (*first, other)] == ["1", "2", "3"]
    assert [device.name for device in (*first, other)] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        (gpu("a", "1", capacity={"memory": {"value": "80 GB"}}), "spec.devices[0].capacity.memory.value: "),
        (
            {"name": "a", "attributes": {"numa": {"int": True}}},
            "spec.devices[0].attributes.numa.int: must be an integer, not a boolean",
        ),
        (
            {"name": "a", "attributes": {"numa": {"int": 1.0}}},
            "spec.devices[0].attributes.numa.int: must be an integer, not a number",
        ),
        (
            {"name": "a", "attributes": {"numa": 1}},
            "spec.devices[0].attributes.numa: must be an object, not an integer",
        ),
        ({"name": 1, "attributes": {}}, "spec.devices[0].name: must be a string, not an integer"),
        ({"name": "a", "attributes": []}, "spec.devices[0].attributes: must be an object, not a list"),
        ([], "spec.devices[0]: must be an object, not a list"),
    ],
)
def test_errors_name_the_field_though_an_equal_value_was_read_before(device: object, problem: str) -> None:
    ResourceSlice.from_wire(slice_of({"name": "a", "attributes": {"numa": {"int": 1}}}))
    with pytest.raises(WireError) as error:
        ResourceSlice.from_wire(slice_of(device))
    assert str(error.value).startswith(problem)


def test_null_is_absent_or_empty_as_elsewhere() -> None:
    read = ResourceSlice.from_wire(
        slice_of({"name": "a", "attributes": {"x": None, "y": {"int": None}}, "taints": None})
    )
    device = read.spec.devices[0]
    assert device.attributes == {"x": DeviceAttribute(), "y": DeviceAttribute(int_value=None)}
    assert device.taints == ()


@pytest.mark.slow
def test_what_is_remembered_is_bounded() -> None:
    """A driver can publish any number of different values."""
    parts = InternTable(DeviceAttribute)
    devices = TemplateTable(Device, name="name", parts="attributes", part=DeviceAttribute)
    for number in range(40_000):
        parts.read({"string": f"{number:030}"})
        devices.read(gpu("a", f"{number}"))
    for table in (parts, devices):
        assert 0 < sum(len(key) for key in table._known._known) <= 1.01 * 2**20
    long: dict[str, Any] = {"string": "x" * 5_000}
    assert parts.read(long) is not parts.read(long)
    assert devices.read(gpu("a", "x" * 5_000)) is not devices.read(gpu("a", "x" * 5_000))


def test_equal_devices_are_one_object_in_all_slices() -> None:
    slices = [ResourceSlice.from_wire(slice_of(gpu("a", "1"), gpu("b", "1"), gpu("a", "2"))) for _ in range(2)]
    (first, second), devices = (slice_.spec.devices for slice_ in slices), slices[0].spec.devices
    assert all(device is other for device, other in zip(first, second, strict=True))
    assert len({id(device) for device in devices}) == 3
    assert [(device.name, device.attributes["uuid"].string) for device in devices] == [
        ("a", "1"),
        ("b", "1"),
        ("a", "2"),
    ]


def test_a_map_with_a_wrong_part_is_left_to_its_type() -> None:
    templates = TemplateTable(Device, name="name", parts="capacity", part=DeviceCapacity)
    wrong = {"name": "a", "capacity": {"memory": {"value": []}}}
    assert templates.read(wrong) is wrong
    assert templates.read({"name": "a", "capacity": {"memory": {"value": "1Gi"}}}) == Device.from_wire(
        {"name": "a", "capacity": {"memory": {"value": "1Gi"}}}
    )
