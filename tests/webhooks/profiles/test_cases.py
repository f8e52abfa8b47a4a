"""What new VMIs with a line of profiles get: cases as data, whole patches or whole refusals.

``metadata`` and ``spec``: of the VMI, which is ``v`` of the namespace ``team-a``. ``now``: the cluster is followed, so
that a namespace that isn't among ``objects`` has no labels; without it files were read. ``unverified``: the caller may
be anybody.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.webhooks.serving import KNOWLEDGE, review, vmi
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import parse_time
from virt_dra.api.profiles.manifests import rendered
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.validation import DEFAULT_RULES
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.patches import patched
from webhooks.knowledge import Knowledge
from webhooks.lint import LintInputs, Preflight
from webhooks.review import read_review
from webhooks.validation import WEBHOOKS, verdict_on
from webhooks.verdict import Verdict

NAMESPACE = "team-a"
CASES: dict[str, Any] = yaml.load((Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
OPTIONS = {"name", "line", "metadata", "spec", "kubevirt", "now", "unverified", "patch", "causes"}


def asking(case: Json) -> Json:
    annotations = {"virt-dra.io/devices": case["line"]} if "line" in case else {}
    metadata = deepcopy(case.get("metadata", {}))
    metadata["annotations"] = {**annotations, **metadata.get("annotations", {})}
    return vmi(deepcopy(case.get("spec", {"domain": {"devices": {}}})), **metadata)


def knowledge_of(case: Json) -> Knowledge:
    objects = [read_object(obj) for obj in CASES["objects"]]
    inputs = LintInputs.from_objects(objects, version=KubeVirtVersion.parse(case.get("kubevirt", "1.9.0")))
    now = parse_time("2026-01-01T00:00:00Z")
    watched = Preflight(inputs, clock=(lambda: now) if case.get("now") else None)
    return watched.for_unverified if case.get("unverified") else watched


def decided(obj: Json, knowledge: Knowledge, operation: str = "CREATE") -> Verdict:
    old = obj if operation == "UPDATE" else None
    body = review(obj, old, namespace=NAMESPACE, operation=operation)
    return verdict_on(WEBHOOKS["/mutate-vmi"], read_review(json.dumps(body).encode()), knowledge)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_a_new_vmi_gets_the_devices_of_its_line(case: Json) -> None:
    assert case.keys() <= OPTIONS
    obj, knowledge = asking(case), knowledge_of(case)
    before = deepcopy(obj)
    verdict = decided(obj, knowledge)
    assert obj == before
    if "causes" in case:
        assert [f"{cause.type} {cause.message}" for cause in verdict.causes] == case["causes"]
        assert not verdict.allowed
        assert not verdict.patch
        return
    assert verdict == Verdict(allowed=True, patch=tuple(case["patch"]))
    admitted = patched(obj, verdict.patch)
    assert decided(admitted, knowledge) == Verdict(allowed=True), "a second call changes nothing (P-9)"
    assert admitted["spec"] == by_the_command(obj)


def by_the_command(obj: Json) -> Any:
    """The VMI's spec as ``virt-dra render-profile`` writes it."""
    given = [raw for raw in CASES["objects"] if raw["metadata"]["name"] != "broken"]
    source = DocumentSource("test", 1)
    result = rendered([Sourced(read_object(raw), source) for raw in (*given, obj)], NAMESPACE, DEFAULT_RULES)
    assert result.refused == ()
    return result.objects[-1].to_wire()["spec"]


def test_only_creation_writes_a_line_out() -> None:
    case = {"line": "h100"}
    assert decided(asking(case), knowledge_of(case), "UPDATE") == Verdict(allowed=True)


def test_where_no_profile_can_be_known_a_line_is_refused() -> None:
    verdict = decided(asking({"line": "h100"}), KNOWLEDGE)
    assert [cause.message for cause in verdict.causes] == [
        "metadata.annotations[virt-dra.io/devices]: Forbidden: DeviceProfiles aren't known here"
    ]


def test_what_an_object_has_besides_stays_untouched() -> None:
    """Also members that nobody here knows, and those in a form that KubeVirt doesn't have."""
    mine: Json = {"name": "old", "claim": {"name": "c", "request": "r"}, "unknown": [None, {}]}
    obj = asking({"line": "h100", "spec": {"unknown": 1, "domain": {"devices": {"gpus": [mine], "rng": {}}}}})
    admitted = patched(obj, decided(obj, knowledge_of({})).patch)
    added = {"name": "gpu", "claimName": "h100", "requestName": "gpu"}
    assert admitted["spec"] == {
        "unknown": 1,
        "domain": {"devices": {"gpus": [mine, added], "rng": {}}},
        "resourceClaims": [{"name": "h100", "resourceClaimTemplateName": "v-h100"}],
    }
