"""The record on the launcher pod: what is written is read again, what somebody else writes is refused with its
place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.device_claims import AssignedDevice
from virt_dra.api.integration.paths import INTEGRATION_ANNOTATION, ClaimRequestPair, PathDecision
from virt_dra.api.integration.record import Integration
from virt_dra.api.reading.json_annotations import AnnotationError

FIELD = "metadata.annotations[virt-dra.io/integration]"
RECORD = Integration.from_decisions(
    [
        PathDecision(ClaimRequestPair("gpus", "gpu"), "metadata-shim", "DriverWritesNoMetadata", "…"),
        PathDecision(ClaimRequestPair("gpus", ""), "none", "NoRequest", "…", warning=True),
        PathDecision(ClaimRequestPair("virt-dra-0", "nic"), "device-plugin", "InDeviceClaims", "…"),
    ],
    [AssignedDevice("hostDevices", 0, "card", "v.com/nic", PodResourceClaim(name="virt-dra-0"), "nic")],
    "KEP-5304",
)


def test_what_is_written_is_read_again() -> None:
    text = RECORD.to_annotation()
    assert text == (
        '{"devices":[{"claim":"virt-dra-0","kind":"hostDevices","name":"card","request":"nic","resource":"v.com/nic"}],"format":1,'
        '"pairs":[{"claim":"gpus","layout":"KEP-5304","path":"metadata-shim","reason":"DriverWritesNoMetadata","request":"gpu"},'
        '{"claim":"gpus","path":"none","reason":"NoRequest","request":""},'
        '{"claim":"virt-dra-0","path":"device-plugin","reason":"InDeviceClaims","request":"nic"}]}'
    )
    assert Integration.from_annotations({INTEGRATION_ANNOTATION: text}) == RECORD
    assert Integration.from_annotations({}) is None
    assert [RECORD.path_of(pair) for pair in (ClaimRequestPair("gpus", "gpu"), ClaimRequestPair("gpus", "other"))] == [
        "metadata-shim",
        "none",
    ]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", ": must be one JSON value, not 0"),
        ("{} {}", ": must be one JSON value, not 2"),
        ("null", ": must be an object, not null"),
        ('{"format": 2}', ".format: Input should be 1"),
        ('{"keys": ["metadata.virt-dra.io/x"]}', ".keys: Extra inputs are not permitted"),
        ('{"pairs": [{"claim": "c", "request": "r", "path": "native", "layout": "KEP-5304"}]}',
         ".pairs[0].layout: belongs to path metadata-shim and only to it"),
        ('{"pairs": [{"claim": "c", "request": "r", "path": "metadata-shim"}]}',
         ".pairs[0].layout: belongs to path metadata-shim and only to it"),
        ('{"pairs": [' + ",".join(['{"claim": "c", "path": "none"}'] * 257) + "]}",
         ": has 257 pairs and 0 devices; no pod has more than 256 of either"),
    ],
)  # fmt: skip
def test_what_is_no_record(text: str, reported: str) -> None:
    with pytest.raises(AnnotationError) as raised:
        Integration.from_annotations({INTEGRATION_ANNOTATION: text})
    assert str(raised.value) == f"{FIELD}{reported}"


@pytest.mark.parametrize("name", ["../x", "A", "a.b", "", "a" * 64])
def test_names_that_are_no_labels_are_refused(name: str) -> None:
    device = f'{{"kind": "gpus", "name": "n", "resource": "v.com/x", "claim": "{name}", "request": "r"}}'
    with pytest.raises(AnnotationError) as raised:
        Integration.from_annotations({INTEGRATION_ANNOTATION: f'{{"devices": [{device}]}}'})
    assert str(raised.value).startswith(f"{FIELD}.devices[0].claim: ")


@given(st.text(max_size=100))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        Integration.from_annotations({INTEGRATION_ANNOTATION: text})
    except AnnotationError as error:
        assert str(error).startswith(FIELD)  # noqa: PT017 - some texts are records
