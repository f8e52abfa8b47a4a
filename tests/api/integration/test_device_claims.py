"""The annotation that lets claims take the place of plugin devices: read strictly, with field paths in errors, assigned
deterministically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.integration.device_claims import assign, pod_claims, read_device_claims
from virt_dra.api.integration.paths import DEVICE_CLAIMS_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.reading.json_annotations import AnnotationError

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "device_claims.yaml").read_text())
FIELD = "metadata.annotations[virt-dra.io/device-claims]"


def vmi_of(case: dict[str, Any]) -> VirtualMachineInstance:
    devices = {
        kind: [{"name": name, "deviceName": d} for name, d in case.get(kind, {}).items()]
        for kind in ("gpus", "hostDevices")
    }
    devices["gpus"] += [
        {"name": name, "claimName": claim, "requestName": "r"} for name, claim in case.get("dra", {}).items()
    ]
    claims = [{"name": name, "resourceClaimTemplateName": "other"} for name in case.get("entries", ())]
    metadata = {"name": "vm", "annotations": {DEVICE_CLAIMS_ANNOTATION: case["text"]}}
    return VirtualMachineInstance.from_wire(
        {"metadata": metadata, "spec": {"resourceClaims": claims, "domain": {"devices": devices}}}
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in CASES])
def test_device_claims(case: dict[str, Any]) -> None:
    vmi = vmi_of(case)
    if "faults" in case:
        with pytest.raises(AnnotationError) as raised:
            assign(vmi, read_device_claims(vmi.metadata.annotations), case.get("taken", ()))
        assert str(raised.value) == "; ".join(f"{FIELD}{fault}" for fault in case["faults"])
        return
    assigned = assign(vmi, read_device_claims(vmi.metadata.annotations), case.get("taken", ()))

    def source(claim: Any) -> str:
        return (
            f"claim {claim.resource_claim_name}"
            if claim.resource_claim_name
            else f"template {claim.resource_claim_template_name}"
        )

    assert [[d.kind, d.name, d.entry.name, source(d.entry), d.request] for d in assigned] == case["want"]
    assert [entry.name for entry in pod_claims(assigned)] == sorted({device.entry.name for device in assigned})


def test_without_the_annotation_there_are_no_device_claims() -> None:
    assert read_device_claims({}) == ()


@pytest.mark.slow
@given(
    st.one_of(
        st.text(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        ).map(json.dumps),
    )
)
def test_whatever_a_tenant_writes_is_read_or_refused_with_its_field(text: str) -> None:
    try:
        read_device_claims({DEVICE_CLAIMS_ANNOTATION: text})
    except AnnotationError as error:
        assert str(error).startswith(FIELD)  # noqa: PT017 - most inputs are refused, some are not


def test_deep_and_long_annotations_are_refused_at_once() -> None:
    for text, fault in (
        ("[" * 60_000, "nested more than 200 levels deep"),
        ("{" + " " * 70_000 + "}", "is longer than 64 KiB"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested"),
    ):
        with pytest.raises(AnnotationError) as raised:
            read_device_claims({DEVICE_CLAIMS_ANNOTATION: text})
        assert fault in str(raised.value)
        assert len(str(raised.value)) < 1000
