"""Claim references of gpus and hostDevices, in both spellings (K-1.3, K-1.7, K-1.8)."""

from __future__ import annotations

from typing import Any

import pytest

from virt_dra.api.kubevirt_v1 import GPU, HostDevice
from virt_dra.api.wire import WireError


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"claim": {"name": "c", "request": "r"}}, {"claimName": "c", "requestName": "r"}),
        ({"claim": {"name": "c"}}, {"claimName": "c"}),
        ({"claim": {"request": "r"}, "claimName": "c"}, {"claimName": "c", "requestName": "r"}),
        (
            {"claim": {"name": "c", "request": "r"}, "claimName": "c", "requestName": "r"},
            {"claimName": "c", "requestName": "r"},
        ),
        ({"claim": {"name": "c"}, "claimName": None}, {"claimName": "c"}),
        ({"claim": {"name": None}, "claimName": "c"}, {"claimName": "c"}),
        ({"claim": {}}, {"claimName": None}),
        ({"claim": {"name": ""}}, {"claimName": ""}),
    ],
)
def test_either_spelling_is_read_and_kubevirts_is_written(given: dict[str, Any], written: dict[str, Any]) -> None:
    for kind in (GPU, HostDevice):
        device = kind.from_wire({"name": "d", **given})
        assert (device.to_wire(), device.is_dra) == ({"name": "d", **written}, True)


@pytest.mark.parametrize(
    ("given", "dra", "plugin"),
    [
        ({}, False, False),
        ({"claim": None}, False, False),
        ({"deviceName": ""}, False, False),
        ({"deviceName": None, "requestName": None}, True, False),
        ({"deviceName": "", "claimName": ""}, True, False),
        ({"deviceName": "x/y"}, False, True),
        ({"deviceName": "x/y", "claim": {"name": "c"}}, False, True),
    ],
)
def test_the_presence_of_a_key_makes_a_dra_device(given: dict[str, Any], dra: bool, plugin: bool) -> None:
    device = GPU.from_wire(given)
    assert (device.is_dra, device.is_plugin) == (dra, plugin)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"claim": {"name": "a"}, "claimName": "b"}, "claim.name 'a' and claimName 'b' differ; give only one of them"),
        ({"claim": {"name": "a"}, "claimName": ""}, "claim.name 'a' and claimName '' differ; give only one of them"),
        (
            {"claim": {"request": ""}, "requestName": "r"},
            "claim.request '' and requestName 'r' differ; give only one of them",
        ),
        ({"claim": "c"}, "claim must be an object with name and request"),
        ({"claim": {"name": 1}}, "claimName: must be a string, not an integer"),
    ],
)
def test_spellings_that_contradict_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError) as refusal:
        GPU.from_wire(given)
    assert str(refusal.value) == message
