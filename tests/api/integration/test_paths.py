"""Which path a pair takes, and the names that webhook and operator share (K-11,
docs/decisions/0012-real-cluster.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api import names
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.known_drivers import (
    ALWAYS_WRITE,
    DRIVER_OF_CLASS,
    KNOWN_DRIVERS,
    NEVER_WRITE,
    metadata_writers,
    silent_drivers,
)
from virt_dra.api.integration.paths import (
    DEVICE_STATUS_ANNOTATION,
    INTEGRATION_ANNOTATION,
    MDEV_PREFIX,
    PATH_ANNOTATION,
    PCI_PREFIX,
    InvalidPathChoice,
    address_annotation,
    chosen_path,
    decide,
    layout_of,
    metadata_annotation,
    metadata_directory,
    metadata_volume,
    own_pod_annotations,
    resource_variable,
)
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.resource_v1 import DeviceClass

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "paths.yaml").read_text())

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in CASES])
def test_decision(case: dict[str, Any]) -> None:
    source = {"resourceClaimName": case["object"]} if "object" in case else {"resourceClaimTemplateName": "tpl"}
    entry = PodResourceClaim.from_wire({"name": case.get("claim", "c"), **source})
    decision = decide(
        entry,
        case.get("request", "gpu"),
        KubeVirtVersion.parse(str(case["kubevirt"])),
        case.get("choice", "auto"),
        case["drivers"],
        ALWAYS_WRITE | set(case.get("writers", ())),
        silent=NEVER_WRITE | set(case.get("silent", ())),
        in_device_claims=case.get("claims", False),
    )
    assert [decision.path, decision.reason, "fails" if decision.fails else decision.warning] == case["want"]
    assert decision.warning or not decision.fails
    assert decision.message


def test_what_the_administrator_says_of_a_driver_counts() -> None:
    ours = {"passthrough.virt-dra.io"}
    assert metadata_writers() == {"gpu.intel.com"} | ours
    assert silent_drivers() == {"dra.net"}
    classes = [
        DeviceClass.from_wire({"metadata": {"name": "class", "annotations": {f"virt-dra.io/{key}": drivers}}})
        for key, drivers in (
            ("writes-metadata", "a.example.com, b.example.com"),
            ("writes-no-metadata", "gpu.intel.com,b.example.com,"),
        )
    ]
    assert metadata_writers(classes) == {"a.example.com"} | ours
    assert silent_drivers(classes) == {"dra.net", "gpu.intel.com", "b.example.com"}


def test_every_class_of_the_table_leads_to_its_driver() -> None:
    assert DRIVER_OF_CLASS["vfio.gpu.nvidia.com"] == "gpu.nvidia.com"
    assert set(DRIVER_OF_CLASS.values()) <= set(KNOWN_DRIVERS)


@pytest.mark.parametrize(
    ("annotations", "choice"), [({}, "auto"), ({PATH_ANNOTATION: ""}, "auto"), ({PATH_ANNOTATION: "native"}, "native")]
)
def test_the_choice_of_the_user(annotations: dict[str, str], choice: str) -> None:
    assert chosen_path(annotations) == choice


@pytest.mark.parametrize("text", ["none", "Native", "native ", "x" * 100_000])
def test_a_choice_that_is_no_path(text: str) -> None:
    with pytest.raises(InvalidPathChoice) as raised:
        chosen_path({PATH_ANNOTATION: text}, "spec.template.metadata.annotations")
    assert str(raised.value) == (
        f"spec.template.metadata.annotations[virt-dra.io/integration-path]: {text[:40]!r} is no integration path; "
        "write one of auto, native, metadata-shim, device-plugin"
    )


@given(labels, labels)
def test_keys_and_volumes_are_valid_names(claim: str, request: str) -> None:
    assert names.label_key(metadata_annotation(claim, request)) == ()
    assert names.dns1123_label(metadata_volume(claim, request)) == ()


@given(st.tuples(labels, labels), st.tuples(labels, labels))
def test_two_pairs_never_share_a_key_or_volume(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (metadata_annotation(*one) == metadata_annotation(*other)) == (one == other)
    assert (metadata_volume(*one) == metadata_volume(*other)) == (one == other)


def test_keys_are_readable_where_they_fit() -> None:
    assert metadata_annotation("gpus", "gpu") == "metadata.virt-dra.io/gpus.gpu"
    longest = metadata_annotation("a" * 31, "b" * 31)
    assert longest == f"metadata.virt-dra.io/{'a' * 31}.{'b' * 31}"
    shortened = metadata_annotation("a" * 32, "b" * 31)
    assert shortened.startswith(f"metadata.virt-dra.io/{'a' * 32}.{'b' * 13}_")
    assert len(shortened.partition("/")[2]) == 63


@given(st.from_regex(r"[a-z]{1,40}\.[a-z]{1,20}/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True))
def test_a_key_for_every_variable(resource: str) -> None:
    for prefix in (PCI_PREFIX, MDEV_PREFIX):
        assert names.label_key(address_annotation(resource_variable(prefix, resource)).lower()) == ()


def test_variables_are_named_as_kubevirt_does() -> None:
    assert resource_variable(PCI_PREFIX, "vendor.com/gpu-a.b") == "PCI_RESOURCE_VENDOR_COM_GPU-A_B"
    assert address_annotation("PCI_RESOURCE_VENDOR_COM_X") == "addresses.virt-dra.io/PCI_RESOURCE_VENDOR_COM_X"


def test_what_a_tenant_may_not_bring_along_is_named() -> None:
    theirs = ["kubevirt.io/domain", "virt-dra.io/integration-path", "virt-dra.io/device-claims", "metadata.virt-dra.io"]
    ours = [INTEGRATION_ANNOTATION, DEVICE_STATUS_ANNOTATION, "metadata.virt-dra.io/a.b", "addresses.virt-dra.io/ready"]
    assert own_pod_annotations([*theirs, *ours]) == tuple(ours)


@pytest.mark.parametrize(
    ("source", "version", "directory"),
    [
        (
            "resourceClaimTemplateName",
            "1.9",
            "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/entry/gpu",
        ),
        ("resourceClaimName", "1.8.3", "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/object/gpu"),
        ("resourceClaimTemplateName", "1.8.2", "/var/run/dra-device-attributes/entry_/gpu"),
        ("resourceClaimName", "1.8.0", "/var/run/dra-device-attributes/object/gpu"),
    ],
)
def test_the_directory_is_where_kubevirt_looks(source: str, version: str, directory: str) -> None:
    entry = PodResourceClaim.from_wire({"name": "entry", source: "object"})
    assert metadata_directory(entry, "gpu", layout_of(KubeVirtVersion.parse(version))) == directory
