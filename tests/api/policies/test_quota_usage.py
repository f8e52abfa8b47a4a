"""What objects count for in a quota (C-15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.pod_resources import pod_total, service_class
from virt_dra.api.policies.quota_usage import QuotaContext, in_scope, matching_names, missing_amounts, shown, usage
from virt_dra.api.policies.quota_v1 import ResourceQuota
from virt_dra.api.resource_v1 import DeviceClass, DeviceClassSpec, ResourceClaim

CLAIMS = "resourceclaims.resource.k8s.io"
CASES = yaml.safe_load((Path(__file__).parent / "cases_quota.yaml").read_text(encoding="utf-8"))


def context(
    classes: Mapping[str, str | None] | None = None, pods: Iterable[Pod] = (), claims: Iterable[ResourceClaim] = ()
) -> QuotaContext:
    made = {
        name: DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))
        for name, resource in (classes or {}).items()
    }
    by_name = {pod.name: pod for pod in pods}
    return QuotaContext(made, lambda _, name: by_name.get(name), lambda _: claims, datetime(2026, 1, 1, tzinfo=UTC))


def texts(obj: Any, plural: str, **around: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage(obj, plural, context(**around)).items()}


def pod(spec: Mapping[str, object], **more: object) -> Pod:
    return Pod.from_wire({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, **more})


def asking(requests: Mapping[str, str], limits: Mapping[str, str] | None = None) -> dict[str, object]:
    return {"containers": [{"name": "c", "resources": {"requests": dict(requests), "limits": dict(limits or {})}}]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_a_claim_counts_for_its_classes(case: Mapping[str, Any]) -> None:
    """C-15.1, C-15.2, C-15.3"""
    claim = ResourceClaim.from_wire({"spec": {"devices": {"requests": case["requests"]}}})
    messages = texts(claim, CLAIMS, classes=case.get("classes"))
    assert messages == {f"count/{CLAIMS}": "1", **case["wanted"]}


def extended_claim(name: str, created: str = "2026-01-01T00:00:00Z", *, uid: str = "u") -> ResourceClaim:
    return ResourceClaim.from_wire(
        {
            "metadata": {
                "name": name,
                "namespace": "n",
                "creationTimestamp": created,
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}],
            },
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
        }
    )


def test_a_pod_and_its_extended_claim_are_charged_once() -> None:
    """C-15.3, C-15.4: less what the pod was charged, for the claim of that pod and the oldest one only."""
    owner, classes = pod(asking({"example.com/gpu": "2"})), {"gpu": "example.com/gpu"}
    assert texts(owner, "pods")["requests.example.com/gpu"] == "2"
    first, second = extended_claim("first"), extended_claim("second", "2026-01-01T00:00:01Z")
    around = {"classes": classes, "pods": (owner,), "claims": (first, second)}
    assert "requests.example.com/gpu" not in texts(first, CLAIMS, **around)
    assert texts(second, CLAIMS, **around)["requests.example.com/gpu"] == "2"
    assert texts(extended_claim("other", uid="v"), CLAIMS, **around)["requests.example.com/gpu"] == "2"
    named = owner.from_wire(
        {**owner.to_wire(), "status": {"extendedResourceClaimStatus": {"resourceClaimName": "second"}}}
    )
    assert "requests.example.com/gpu" not in texts(second, CLAIMS, **{**around, "pods": (named,)})


def test_which_names_concern_claims() -> None:
    """C-15.5: an implicit name those of a class without an explicit name, too; not those of a class that isn't
    there."""
    names = (
        f"count/{CLAIMS}", "pods", "gpu.deviceclass.resource.k8s.io/devices", "requests.example.com/gpu",
        "requests.example.com/other", "requests.deviceclass.resource.kubernetes.io/plain",
        "requests.deviceclass.resource.kubernetes.io/missing",
    )  # fmt: skip
    around = context({"gpu": "example.com/gpu", "plain": None})
    assert matching_names(names, CLAIMS, around) == (names[0], names[2], names[3], names[5])
    assert matching_names(names, "pods", around) == ("pods", *names[3:])
    assert matching_names(("count/configmaps", "configmaps", "pods"), "configmaps", around) == (
        "count/configmaps",
        "configmaps",
    )


def test_a_finished_pod_counts_as_an_object_only() -> None:
    """C-15.7"""
    assert texts(pod(asking({"cpu": "1"}), status={"phase": "Succeeded"}), "pods") == {"count/pods": "1"}
    late = {"deletionTimestamp": "2025-12-31T00:00:00Z", "deletionGracePeriodSeconds": 30, "name": "p"}
    assert texts(Pod.from_wire({"metadata": late, "spec": asking({"cpu": "1"})}), "pods") == {"count/pods": "1"}


def test_a_pod_asks_for_the_larger_of_start_and_run() -> None:
    spec = {
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "init", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
        ],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}],
        "overhead": {"cpu": "250m"},
    }
    assert shown(pod_total(pod(spec), "requests")) == "cpu=4250m,memory=1Gi"
    assert shown(pod_total(pod(spec), "limits")) == "cpu=2250m"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (asking({}), "BestEffort"),
        (asking({"cpu": "1"}), "Burstable"),
        (asking({"cpu": "1", "memory": "1"}, {"cpu": "1", "memory": "1"}), "Guaranteed"),
        (asking({"cpu": "1", "memory": "1"}, {"cpu": "2", "memory": "1"}), "Burstable"),
    ],
)
def test_classes_of_service(spec: dict[str, object], wanted: str) -> None:
    assert service_class(pod(spec)) == wanted


def test_scopes_and_what_must_be_asked_for() -> None:
    best_effort = ResourceQuota.from_wire({"spec": {"scopes": ["BestEffort"]}})
    assert in_scope(best_effort, pod(asking({})))
    assert not in_scope(best_effort, pod(asking({"cpu": "1"})))
    assert not in_scope(best_effort, ResourceClaim())
    assert (
        missing_amounts(pod(asking({"cpu": "1"})), ("requests.cpu", "limits.memory", "pods"))
        == "must specify limits.memory for: c"
    )
