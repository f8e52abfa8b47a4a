"""The base of the wire types: what reads null, and objects that are made by the thousand."""

from __future__ import annotations

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import DeviceRequestAllocationResult
from virt_dra.api.wire import Stamp, WireError


def test_what_is_stamped_is_what_the_constructor_makes() -> None:
    stamp = Stamp(DeviceRequestAllocationResult, {"request": "r"}, "device")
    one, other = stamp(device="a"), stamp(device="b")
    made = DeviceRequestAllocationResult(request="r", device="a")
    assert (one, one.to_wire(), one.model_fields_set) == (made, {"request": "r", "device": "a"}, {"request", "device"})
    changed = one.with_(pool="p").without("device")
    assert changed.to_wire() == {"request": "r", "pool": "p"}
    assert [obj.to_wire() for obj in (one, other, stamp(device="c"))] == [
        {"request": "r", "device": name} for name in "abc"
    ]


def test_null_in_place_of_an_object_is_refused_as_everything_else() -> None:
    with pytest.raises(WireError) as raised:
        Pod.from_wire(None)
    assert str(raised.value) == "must be an object, not null"
