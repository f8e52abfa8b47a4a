"""A new VMI whose VM keeps its devices names the VM's own claims, once and for all, and isn't refused for their being
made only afterwards."""

from __future__ import annotations

import json
from typing import Any

from devtools.webhooks.serving import review, vmi
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.patches import patched
from webhooks.lint import LintInputs, Preflight
from webhooks.review import read_review
from webhooks.validation import WEBHOOKS, verdict_on
from webhooks.verdict import AdmissionCause, Verdict

KEEP = "virt-dra.io/keep-devices"
OWNER: Json = {
    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "v", "uid": "vm-1", "controller": True
}  # fmt: skip
SPEC: Json = {
    "domain": {"devices": {"gpus": [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]}},
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
}
KNOWLEDGE = Preflight(LintInputs.from_objects([], version=KubeVirtVersion.parse("1.9.0")))


def starting(keep: str, **metadata: Any) -> Json:
    return vmi(SPEC, annotations={KEEP: keep}, ownerReferences=[OWNER], **metadata)


def decided(obj: Json, webhook: str = "/mutate-vmi") -> Verdict:
    body = review(obj, None, namespace="team-a", operation="CREATE")
    return verdict_on(WEBHOOKS[webhook], read_review(json.dumps(body).encode()), KNOWLEDGE)


def test_its_entries_name_the_vms_own_claims() -> None:
    given = starting("24h")
    verdict = decided(given)
    assert verdict == Verdict(
        allowed=True,
        patch=(
            {"op": "add", "path": "/spec/resourceClaims", "value": [{"name": "gpu", "resourceClaimName": "v-gpu"}]},
            {"op": "add", "path": "/metadata/annotations/virt-dra.io~1kept-claims", "value": '{"gpu":"one-gpu"}'},
        ),
    )
    assert decided(patched(given, verdict.patch)) == Verdict(allowed=True)


def test_it_is_admitted_before_its_claim_is_made() -> None:
    given = starting("true")
    kept = patched(given, decided(given).patch)
    assert decided(kept, "/validate-vmi").allowed


def test_one_that_does_not_keep_is_left_alone() -> None:
    assert decided(starting("false")) == Verdict(allowed=True)
    assert decided(vmi(SPEC, annotations={KEEP: "true"})) == Verdict(allowed=True)


def test_a_value_that_means_nothing_is_refused() -> None:
    message = (
        'metadata.annotations[virt-dra.io/keep-devices]: Invalid value: "soon": must be "true", "false" or a duration '
        "between 1s and 3650d, such as 30m, 24h or 1d12h"
    )
    cause = AdmissionCause("FieldValueInvalid", message, "metadata.annotations[virt-dra.io/keep-devices]")
    assert decided(starting("soon")) == Verdict(False, (cause,))
