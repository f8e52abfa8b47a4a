"""The claims that a VM keeps: their names, and the VMI that uses them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.keeping.claims import (
    kept_claim,
    kept_claim_name,
    kept_entries,
    other_consumers,
    vm_name_of,
    vm_reference,
    with_kept_claims,
)
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.names import dns1123_subdomain
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.api.wire import Json

KEEP, RECORD = "virt-dra.io/keep-devices", "virt-dra.io/kept-claims"


@pytest.mark.parametrize(
    ("vm", "entry", "name"),
    [
        ("a", "gpu", "a-gpu"),
        ("v" * 59, "gpu", "v" * 59 + "-gpu"),
        ("v" * 60, "gpu", "v" * 54 + "-d1641f7f"),
        ("v" * 63, "gpu", "v" * 54 + "-7c0587a3"),
        ("v" * 53 + "." + "w" * 9, "gpu", "v" * 53 + "-37e922b4"),
    ],
)
def test_a_name_that_is_too_long_ends_in_a_digest(vm: str, entry: str, name: str) -> None:
    assert kept_claim_name(vm, entry) == name


LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(vm=LABEL, entry=LABEL)
def test_every_name_is_one_that_kubernetes_takes(vm: str, entry: str) -> None:
    name = kept_claim_name(vm, entry)
    assert len(name) <= 63
    assert list(dns1123_subdomain(name)) == []


def vmi(entries: list[Json], annotations: dict[str, str] | None = None) -> VirtualMachineInstance:
    return VirtualMachineInstance.from_wire(
        {"metadata": {"name": "a", "namespace": "vms", "annotations": annotations or {}},
         "spec": {"resourceClaims": entries}}
    )  # fmt: skip


def test_entries_of_templates_name_the_vms_own_claims_and_the_templates_are_recorded() -> None:
    asked = {KEEP: "24h"}
    given = vmi([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}, {"name": "nic", "resourceClaimName": "nic"}])
    kept = with_kept_claims(given, asked)
    assert kept.to_wire() == {
        **given.to_wire(),
        "metadata": {
            "name": "a",
            "namespace": "vms",
            "annotations": {KEEP: "24h", RECORD: '{"gpu":"one-gpu"}'},
        },
        "spec": {
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "a-gpu"},
                {"name": "nic", "resourceClaimName": "nic"},
            ]
        },
    }
    assert with_kept_claims(kept, asked) is kept
    assert kept_entries(kept) == {"gpu": "one-gpu"}


def test_an_entry_that_another_webhook_adds_afterwards_joins_the_record() -> None:
    kept = with_kept_claims(vmi([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]), {KEEP: "true"})
    added = kept.with_(
        spec=kept.spec.with_(
            resource_claims=(
                *kept.spec.resource_claims,
                *vmi([{"name": "nic", "resourceClaimTemplateName": "cx7"}]).spec.resource_claims,
            )
        )
    )
    assert kept_entries(with_kept_claims(added, {KEEP: "true"})) == {"gpu": "one-gpu", "nic": "cx7"}


OWN: list[Json] = [{"name": "gpu", "resourceClaimName": "a-gpu"}]


@pytest.mark.parametrize(
    ("entries", "record"),
    [
        (OWN, ""),
        (OWN, "{"),
        (OWN, "[" * 16000),
        (OWN, '["gpu"]'),
        (OWN, '{"gpu":7}'),
        (OWN, '{"gpu":""}'),
        (OWN, json.dumps({"gpu": "t" * 20000})),
        ([{"name": "gpu", "resourceClaimName": "b-gpu"}], '{"gpu":"one-gpu"}'),
        ([], '{"gpu":"one-gpu"}'),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_record_that_the_vmi_does_not_bear_out_counts_for_nothing(entries: list[Json], record: str) -> None:
    assert kept_entries(vmi(entries, {RECORD: record})) == {}


def vm(**metadata: Any) -> VirtualMachine:
    return VirtualMachine.from_wire({"metadata": {"name": "a", "namespace": "vms", "uid": "vm-1", **metadata}})


TEMPLATE = ResourceClaimTemplate.from_wire(
    {
        "metadata": {"name": "one-gpu", "namespace": "vms"},
        "spec": {
            "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        },
    }
)


@pytest.mark.parametrize(
    ("own", "recorded"),
    [({}, {KEEP: "24h"}), ({"annotations": {KEEP: "true"}}, {})],
    ids=["asked for by an instancetype", "asked for by the VM"],
)
def test_a_kept_claim_is_the_vms_own_and_remembers_only_what_the_vm_does_not_say(
    own: dict[str, Any], recorded: dict[str, str]
) -> None:
    claim = kept_claim(vm(**own), "gpu", TEMPLATE, {KEEP: "24h", RECORD: "{}"})
    assert claim.to_wire() == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "a-gpu",
            "namespace": "vms",
            "labels": {"team": "blue", "virt-dra.io/kept": "true"},
            "annotations": {"note": "x", **recorded},
            "ownerReferences": [
                {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "a", "uid": "vm-1",
                 "controller": True}
            ],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }  # fmt: skip
    assert vm_name_of(claim) == "a"


def test_a_claim_without_owner_belongs_to_the_vm_that_still_holds_it() -> None:
    entry = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": "a", "uid": "vm-1"}
    pod = {"resource": "pods", "name": "launcher", "uid": "p"}
    claim = ResourceClaim.from_wire({"status": {"reservedFor": [pod, entry]}})
    assert vm_reference(vm()).to_wire() == entry
    assert vm_name_of(claim) == "a"
    assert [consumer.to_wire() for consumer in other_consumers(claim)] == [pod]
