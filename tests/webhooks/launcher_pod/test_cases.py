"""What launcher pods get: cases as data, whole patches or whole refusals. ``pod`` is merged (RFC 7396) into a pod as
KubeVirt makes it.

``now``: the cluster is followed, so that what isn't among ``objects`` doesn't exist; without it they were read once.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.webhooks.serving import launcher_pod
from tests.webhooks.lint.test_cases import COMMON
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import parse_time
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.cluster.memory.patches import merged, patched
from webhooks.knowledge import LauncherSettings
from webhooks.launcher_pod.mutation import mutate
from webhooks.lint import LintInputs, Preflight
from webhooks.lint.inputs import KINDS
from webhooks.verdict import INVALID, AdmissionCause, Verdict

FOLDER = Path(__file__).parent / "cases"
OPTIONS = {"objects", "kubevirt", "writers", "image", "pod", "computeLast", "now", "gates"}
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
]


def pod_of(case: dict[str, Any]) -> Any:
    """The pod as it comes to the webhook; ``compute`` of a case is merged into that container."""
    changes = deepcopy(case.get("pod", {}))
    compute = changes.pop("compute", {})
    pod = merged(launcher_pod(), changes)
    assert isinstance(pod, dict)
    containers = pod["spec"]["containers"]
    containers[0] = merged(containers[0], compute)
    if case.get("computeLast"):
        containers.reverse()
    return pod


def knowledge_of(case: dict[str, Any]) -> Preflight:
    objects = [read_object(COMMON[obj] if isinstance(obj, str) else obj) for obj in case.get("objects", ())]
    if "writers" in case:
        metadata = {"name": "told", "annotations": {"virt-dra.io/writes-metadata": ",".join(case["writers"])}}
        objects.append(DeviceClass.from_wire({"metadata": metadata}))
    kinds = (*KINDS,) if "now" in case else None
    version, gates = KubeVirtVersion.parse(case.get("kubevirt", "1.9")), dict.fromkeys(case.get("gates", ()), True)
    world = LintInputs.from_objects(objects, version=version, gates=gates, namespace="team-a", known_kinds=kinds)
    settings = LauncherSettings(case.get("image", ""))
    now = parse_time(case["now"]) if "now" in case else None
    return Preflight(world, launcher=settings, clock=(lambda: now) if now is not None else None)


def told(verdict: Verdict) -> dict[str, Any]:
    answer: dict[str, Any] = {"patch": list(verdict.patch)} if verdict.allowed else {}
    if verdict.causes:
        answer["causes"] = [f"{cause.type} {cause.field}: {cause.message}" for cause in verdict.causes]
    if verdict.warnings:
        answer["warnings"] = list(verdict.warnings)
    return answer


@pytest.mark.parametrize("case", CASES)
def test_patches(case: dict[str, Any]) -> None:
    assert case.keys() <= {"name", "want", *OPTIONS}
    pod, knowledge = pod_of(case), knowledge_of(case)
    before = deepcopy(pod)
    verdict = mutate(pod, "team-a", knowledge)
    assert pod == before
    assert told(verdict) == case["want"]
    if verdict.allowed:
        again = mutate(_as_dict(patched(pod, verdict.patch)), "team-a", knowledge)
        assert again == Verdict(True, warnings=again.warnings), "what was patched is left alone"


def _as_dict(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value


def _many(requests: int) -> dict[str, Any]:
    return {
        "pod": {
            "compute": {"resources": {"claims": [{"name": "c", "request": f"r{number}"} for number in range(requests)]}}
        }
    }


def test_more_than_a_vm_has_devices_is_refused() -> None:
    assert len(mutate(pod_of(_many(128)), "team-a", knowledge_of({})).patch) == 1 + 2 * 128
    field = "spec.containers[0].resources.claims"
    message = "129 requests are used, of which virt-dra would have to serve some; no VM has more than 128 devices"
    assert mutate(pod_of(_many(129)), "team-a", knowledge_of({})) == Verdict(
        False, (AdmissionCause(INVALID, message, field),)
    )


def test_what_nobody_serves_may_be_many() -> None:
    assert mutate(pod_of(_many(2000)), "team-a", knowledge_of({"kubevirt": "1.7"})).allowed
