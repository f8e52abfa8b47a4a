"""From a pod's claim entry to the claim object and back (C-3)."""

from __future__ import annotations

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.scheduling.claim_references import (
    NotCreatedYet,
    NotForPod,
    NotNeeded,
    Resolved,
    UnsupportedClaimSource,
    claim_name,
    consumer_reference,
    is_for_pod,
    is_reserved_for,
    not_for_pod,
    pod_group_name,
)


def pod(entry: Json | None = None, *statuses: Json, group: str = "") -> Pod:
    spec: Json = {
        "resourceClaims": [entry] if entry else [],
        **({"schedulingGroup": {"podGroupName": group}} if group else {}),
    }
    return Pod.from_wire(
        {
            "metadata": {"name": "p", "namespace": "lab", "uid": "u1"},
            "spec": spec,
            "status": {"resourceClaimStatuses": list(statuses)},
        }
    )


TEMPLATE: Json = {"name": "gpu", "resourceClaimTemplateName": "t"}


@pytest.mark.parametrize(
    ("entry", "statuses", "found"),
    [
        ({"name": "gpu", "resourceClaimName": "c"}, [], Resolved("c", must_check_owner=False)),
        ({**TEMPLATE, "resourceClaimName": "c"}, [{"name": "gpu"}], Resolved("c", must_check_owner=False)),
        (
            TEMPLATE,
            [{"name": "nic", "resourceClaimName": "n"}, {"name": "gpu", "resourceClaimName": "g"}],
            Resolved("g", must_check_owner=True),
        ),
        (TEMPLATE, [{"name": "gpu"}], NotNeeded()),
        (TEMPLATE, [{"name": "nic"}], NotCreatedYet('pod "lab/p": ResourceClaim not created yet')),
    ],
)
def test_an_entry_stands_for_a_claim(entry: Json, statuses: list[Json], found: object) -> None:
    subject = pod(entry, *statuses)
    assert claim_name(subject, subject.spec.resource_claims[0]) == found


def test_an_entry_without_a_source_is_an_error() -> None:
    subject = pod({"name": "gpu"})
    with pytest.raises(UnsupportedClaimSource) as refusal:
        claim_name(subject, subject.spec.resource_claims[0])
    assert str(refusal.value) == 'pod "lab/p", spec.resourceClaim "gpu": none of the supported fields are set'


def claim(*, owner: Json | None = None, namespace: str = "lab", reserved: tuple[Json, ...] = ()) -> ResourceClaim:
    metadata: Json = {"name": "c", "namespace": namespace, "ownerReferences": [owner] if owner else []}
    return ResourceClaim.from_wire({"metadata": metadata, "status": {"reservedFor": list(reserved)}})


OWNER: Json = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1", "controller": True}
GROUP: Json = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "name": "g",
    "uid": "x",
    "controller": True,
}
NOT_OWNER = "ResourceClaim lab/c was not created for Pod lab/p (Pod is not owner)"
NEITHER = "ResourceClaim lab/c was not created for Pod lab/p (neither Pod nor PodGroup g is the owner)"


@pytest.mark.parametrize(
    ("subject", "owned", "workload", "why"),
    [
        (pod(), claim(owner=OWNER), False, ""),
        (pod(), claim(owner={**OWNER, "uid": "u2"}), False, NOT_OWNER),
        (pod(), claim(owner={**OWNER, "controller": False}), False, NOT_OWNER),
        (pod(), claim(), False, NOT_OWNER),
        (
            pod(),
            claim(owner=OWNER, namespace="other"),
            False,
            "ResourceClaim other/c is not in the same namespace as Pod lab/p",
        ),
        (pod(group="g"), claim(owner=GROUP), False, NOT_OWNER),
        (pod(group="g"), claim(owner=GROUP), True, ""),
        (pod(group="g"), claim(owner=OWNER), True, ""),
        (pod(group="g"), claim(), True, NEITHER),
        (pod(group="g"), claim(owner={**GROUP, "name": "h"}), True, NEITHER),
        (pod(group="g"), claim(owner={**GROUP, "kind": "Group"}), True, NEITHER),
        (pod(group="g"), claim(owner={**GROUP, "apiVersion": "scheduling.k8s.io.evil/v1"}), True, NEITHER),
        (pod(), claim(owner=GROUP), True, NOT_OWNER),
    ],
)
def test_a_claim_is_for_the_pod_that_controls_it(subject: Pod, owned: ResourceClaim, workload: bool, why: str) -> None:
    assert not_for_pod(owned, subject, workload_claims=workload) == (NotForPod(why) if why else None)
    assert is_for_pod(owned, subject, workload_claims=workload) is not bool(why)


@pytest.mark.parametrize(
    ("reserved", "workload", "is_reserved"),
    [
        ((), True, False),
        (({"resource": "pods", "name": "p", "uid": "u2"},), True, False),
        (({"resource": "jobs", "name": "x", "uid": "u2"}, {"resource": "pods", "name": "p", "uid": "u1"}), False, True),
        (({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"},), False, False),
        (({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"},), True, True),
        (({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "h", "uid": "x"},), True, False),
        (({"resource": "podgroups", "name": "g", "uid": "x"},), True, False),
    ],
)
def test_a_reservation_counts_by_uid_and_for_a_group_by_name(
    reserved: tuple[Json, ...], workload: bool, is_reserved: bool
) -> None:
    held = claim(reserved=reserved)
    assert is_reserved_for(held, pod(group="g"), workload_claims=workload) is is_reserved


def test_the_reference_to_a_pod_and_its_group() -> None:
    assert consumer_reference(pod()).to_wire() == {"resource": "pods", "name": "p", "uid": "u1"}
    assert (pod_group_name(pod()), pod_group_name(pod(group="g"))) == (None, "g")
