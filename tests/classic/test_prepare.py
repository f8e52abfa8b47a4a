"""The kubelet's view of classic claims (C-18.8)."""

from __future__ import annotations

import pytest

from tests.classic.lab import claim
from virt_dra.api.core_v1 import Pod
from virt_dra.api.wire import Json
from virt_dra.classic.objects import ClassicClaim
from virt_dra.classic.prepare import ClaimToPrepare, NotPreparable, prepare_calls
from virt_dra.classic.release import ClassicRelease
from virt_dra.classic.versions import read_classic

POD = Pod.from_wire({"metadata": {"name": "p", "namespace": "lab", "uid": "1"}})


def _claim(name: str, **status: object) -> ClassicClaim:
    raw: Json = claim(name, "c")
    read = read_classic({**raw, "metadata": {**raw["metadata"], "uid": f"u-{name}"}, "status": status})
    assert isinstance(read, ClassicClaim)
    return read


def _allocated(name: str, *handles: Json) -> ClassicClaim:
    reserved = [{"resource": "pods", "name": "p", "uid": "1"}]
    return _claim(name, driverName="a.io", allocation={"resourceHandles": list(handles)}, reservedFor=reserved)


BOTH = (
    _allocated("x", {"driverName": "a.io", "data": "1"}, {"driverName": "b.io", "data": "2"}),
    _allocated("y", {"data": "3"}),
)


def test_each_driver_gets_its_handles_with_opaque_data_in_one_call() -> None:
    """C-18.8: batched by driver since 1.27; a handle without a driver is the claim's."""
    x, y = ClaimToPrepare("lab", "x", "u-x", "1"), ClaimToPrepare("lab", "y", "u-y", "3")
    assert prepare_calls(POD, BOTH) == {"a.io": ((x, y),), "b.io": ((ClaimToPrepare("lab", "x", "u-x", "2"),),)}
    assert prepare_calls(POD, BOTH, ClassicRelease(26))["a.io"] == ((x,), (y,))


def test_an_allocation_without_handles_goes_to_the_claims_driver_without_data() -> None:
    """C-18.8."""
    assert prepare_calls(POD, [_allocated("x")]) == {"a.io": ((ClaimToPrepare("lab", "x", "u-x", ""),),)}


@pytest.mark.parametrize(("status", "text"), [
    ({}, "ResourceClaim lab/x is not allocated"),
    ({"allocation": {}, "driverName": "a.io"}, "ResourceClaim lab/x is not reserved for pod lab/p"),
])  # fmt: skip
def test_what_isnt_the_pods_is_not_prepared(status: Json, text: str) -> None:
    """C-18.8."""
    with pytest.raises(NotPreparable) as refused:
        prepare_calls(POD, [_claim("x", **status)])
    assert str(refused.value) == text
