"""Claims that the pods of a group share (C-3.1, C-3.5)."""

from __future__ import annotations

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.api.wire import Json
from virt_dra.scheduling.claim_references import (
    NotCreatedYet,
    NotNeeded,
    Resolved,
    UnsupportedClaimSource,
    bind_to,
    group_claim_name,
    is_of_group,
    not_for_group,
)

POD = {"resource": "pods", "name": "p", "uid": "pod-1"}
OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group-1"}


def pod(entry: Json) -> Pod:
    spec = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": [entry]}
    return Pod.from_wire({"metadata": {"name": "p", "namespace": "lab", "uid": "pod-1"}, "spec": spec})


def group(entry: Json, *statuses: Json) -> PodGroup:
    meta = {"name": "g", "namespace": "lab", "uid": "group-1"}
    return PodGroup.from_wire(
        {"metadata": meta, "spec": {"resourceClaims": [entry]}, "status": {"resourceClaimStatuses": list(statuses)}}
    )


@pytest.mark.parametrize(
    ("own", "shared", "consumer"),
    [
        ({"name": "a", "resourceClaimName": "c"}, {"name": "a", "resourceClaimName": "c"}, OF_GROUP),
        ({"name": "a", "resourceClaimTemplateName": "t"}, {"name": "a", "resourceClaimTemplateName": "t"}, OF_GROUP),
        ({"name": "b", "resourceClaimName": "c"}, {"name": "a", "resourceClaimName": "c"}, POD),
        ({"name": "a", "resourceClaimName": "d"}, {"name": "a", "resourceClaimName": "c"}, POD),
        ({"name": "a", "resourceClaimName": "c"}, {"name": "a", "resourceClaimTemplateName": "c"}, POD),
    ],
)
def test_a_claim_is_reserved_for_the_group_if_the_whole_entry_is_equal(own: Json, shared: Json, consumer: Json) -> None:
    """C-3.5"""
    of = pod(own)
    assert bind_to(of, group(shared), of.spec.resource_claims[0]).to_wire() == consumer
    assert is_of_group(bind_to(of, group(shared), of.spec.resource_claims[0])) is (consumer is OF_GROUP)
    assert bind_to(of, None, of.spec.resource_claims[0]).to_wire() == POD


@pytest.mark.parametrize(
    ("entry", "statuses", "name"),
    [
        ({"name": "a", "resourceClaimName": "c"}, [], Resolved("c", must_check_owner=False)),
        (
            {"name": "a", "resourceClaimTemplateName": "t"},
            [],
            NotCreatedYet("PodGroup lab/g: ResourceClaim not created yet"),
        ),
        ({"name": "a", "resourceClaimTemplateName": "t"}, [{"name": "a"}], NotNeeded()),
        (
            {"name": "a", "resourceClaimTemplateName": "t"},
            [{"name": "a", "resourceClaimName": "x"}],
            Resolved("x", must_check_owner=True),
        ),
    ],
)
def test_the_claim_of_an_entry_of_a_group(entry: Json, statuses: list[Json], name: object) -> None:
    """C-3.1, for PodGroups"""
    of = group(entry, *statuses)
    assert group_claim_name(of, of.spec.resource_claims[0]) == name


def test_an_entry_without_a_source_is_refused() -> None:
    of = group({"name": "a"})
    with pytest.raises(
        UnsupportedClaimSource, match=r"PodGroup lab/g, spec\.resourceClaim a: none of the supported fields are set"
    ):
        group_claim_name(of, of.spec.resource_claims[0])


@pytest.mark.parametrize(
    ("namespace", "uid", "why"),
    [
        ("lab", "group-1", None),
        ("lab", "group-0", "ResourceClaim lab/c was not created for PodGroup lab/g (PodGroup is not owner)"),
        ("other", "group-1", "ResourceClaim other/c is not in the same namespace as PodGroup lab/g"),
    ],
)
def test_a_claim_is_the_groups_by_its_uid(namespace: str, uid: str, why: str | None) -> None:
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g", "uid": uid, "controller": True}
    claim = ResourceClaim.from_wire({"metadata": {"name": "c", "namespace": namespace, "ownerReferences": [owner]}})
    refusal = not_for_group(claim, group({"name": "a", "resourceClaimName": "c"}))
    assert (refusal.message if refusal else None) == why
