"""PodGroups, Workloads and PriorityClasses on the embedded API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.scheduling_v1 import POD_GROUP_FINALIZER, PodGroup
from virt_dra.api.wire import Json
from virt_dra.cel.validation import compiled_rules
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.rules import KindRules
from virt_dra.cluster.port import Invalid, NotFound

GROUPS = replace(PLAIN, generic_workload=True)
CLAIMS = replace(GROUPS, workload_resource_claims=True)
BETA = "scheduling.k8s.io/v1beta1"
TEMPLATED = {"name": "gpu", "resourceClaimTemplateName": "t"}


def cluster(gates: FeatureGates = CLAIMS) -> MemoryCluster:
    return MemoryCluster.deterministic(admission=KindRules(compiled_rules(gates)))


def group(**spec: Any) -> TypedObject:
    return read_object(
        {
            "apiVersion": BETA,
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"basic": {}}, **spec},
        }
    )


async def test_a_new_pod_group_is_protected_and_may_be_disrupted_pod_by_pod() -> None:
    api = cluster()
    created = await api.create(group(resourceClaims=[TEMPLATED]))
    assert isinstance(created, PodGroup)
    assert created.metadata.finalizers == (POD_GROUP_FINALIZER,)
    assert created.spec.to_wire() == {
        "schedulingPolicy": {"basic": {}},
        "resourceClaims": [TEMPLATED],
        "disruptionMode": {"single": {}},
    }
    await api.delete(PodGroup, "g")
    assert (await api.get(PodGroup, "g")).metadata.deletion_timestamp


async def test_without_the_gate_pod_groups_are_not_served_and_pods_lose_their_group() -> None:
    api = cluster(PLAIN)
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await api.create(group())
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"schedulingGroup": {"podGroupName": "g"}},
    }
    stored = await api.create(read_object(pod))
    assert isinstance(stored, Pod)
    assert stored.spec.scheduling_group is None


async def test_claims_of_a_group_need_their_own_gate() -> None:
    api = cluster(GROUPS)
    created = await api.create(group(resourceClaims=[TEMPLATED]))
    assert isinstance(created, PodGroup)
    assert created.spec.resource_claims == ()
    status: Json = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}}
    assert (await api.patch(PodGroup, "g", merge=status, subresource="status")).status.resource_claim_statuses == ()


REFUSED: tuple[tuple[Json, str], ...] = (
    ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
    (
        {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
        'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
    ),
    ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
    (
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
    ),
    (
        {"resourceClaims": [{"name": "a"}]},
        'spec.resourceClaims[0]: Invalid value: "": must specify one of: '
        "`resourceClaimName`, `resourceClaimTemplateName`",
    ),
    (
        {"resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "a", "resourceClaimName": "x"}]},
        'spec.resourceClaims[1]: Duplicate value: {"name":"a","resourceClaimName":"x"}',
    ),
    (
        {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": "x"} for i in range(5)]},
        "spec.resourceClaims: Too many: 5: must have at most 4 items",
    ),
    ({"workloadRef": {"workloadName": "w"}}, "spec.workloadRef.templateName: Required value"),
)


@pytest.mark.parametrize(("spec", "fault"), REFUSED, ids=lambda value: None)
async def test_a_wrong_pod_group_is_refused_with_the_field(spec: Json, fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        await cluster().create(group(**spec))
    assert str(refused.value) == f'PodGroup.scheduling.k8s.io "g" is invalid: {fault}'


async def test_of_a_pod_group_only_the_number_of_a_gang_may_change() -> None:
    api = cluster()
    await api.create(group(schedulingPolicy={"gang": {"minCount": 2}}, resourceClaims=[TEMPLATED]))
    grown = await api.patch(PodGroup, "g", merge={"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    assert grown.spec.scheduling_policy.to_wire() == {"gang": {"minCount": 3}}
    with pytest.raises(Invalid, match=r"spec\.resourceClaims: Invalid value: null: field is immutable"):
        await api.patch(PodGroup, "g", merge={"spec": {"resourceClaims": []}})
    with pytest.raises(
        Invalid, match=r"spec\.schedulingPolicy\.gang: Invalid value: null: field cannot be cleared once set"
    ):
        await api.patch(PodGroup, "g", merge={"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}})
    with pytest.raises(Invalid, match=r"resourceVersion: Invalid value: 0: must be specified for an update"):
        await api.update(group(schedulingPolicy={"gang": {"minCount": 2}}))


async def test_the_status_names_only_entries_of_the_group() -> None:
    api = cluster()
    await api.create(group(resourceClaims=[TEMPLATED]))
    status: Json = {"status": {"resourceClaimStatuses": [{"name": "other", "resourceClaimName": "c"}]}}
    with pytest.raises(Invalid) as refused:
        await api.patch(PodGroup, "g", merge=status, subresource="status")
    assert str(refused.value) == (
        'PodGroup.scheduling.k8s.io "g" is invalid: status.resourceClaimStatuses[0].name: Invalid value: "other": '
        "must match the name of an entry in `spec.resourceClaims`"
    )


async def test_a_pod_names_its_group_by_a_subdomain() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulingGroup": {}}}
    with pytest.raises(Invalid) as refused:
        await cluster().create(read_object(pod))
    assert (
        str(refused.value) == 'Pod "p" is invalid: spec.schedulingGroup.podGroupName: Invalid '
        "value: null: must specify one of: `podGroupName`"
    )


async def test_a_workload_has_templates_of_one_kind() -> None:
    api = cluster()
    workload = {"apiVersion": BETA, "kind": "Workload", "metadata": {"name": "w"}}
    with pytest.raises(Invalid, match="must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"):
        await api.create(read_object({**workload, "spec": {}}))
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
    created = await api.create(read_object({**workload, "spec": {"podGroupTemplates": [template]}}))
    assert created.to_wire()["spec"] == {"podGroupTemplates": [template]}


async def test_a_priority_class_keeps_its_value() -> None:
    api = cluster()
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    created = await api.create(read_object({**kind, "metadata": {"name": "high"}, "value": 1000}))
    assert created.to_wire()["preemptionPolicy"] == "PreemptLowerPriority"
    with pytest.raises(Invalid, match=r"value: Forbidden: may not be changed in an update\."):
        await api.patch(type(created), "high", merge={"value": 1001})
    with pytest.raises(Invalid, match="maximum allowed value of a user defined priority is 1000000000"):
        await api.create(read_object({**kind, "metadata": {"name": "huge"}, "value": 1_000_000_001}))
    with pytest.raises(Invalid, match="system-mine is not a known system priority class"):
        await api.create(read_object({**kind, "metadata": {"name": "system-mine"}, "value": 1}))
