"""From a review to a verdict."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from devtools.webhooks.serving import KNOWLEDGE, SPEC, launcher_pod, review, vm, vmi
from webhooks.knowledge import KubeVirtOnly
from webhooks.lint import LintInputs, LintSettings, Preflight
from webhooks.review import BadReview, answer, read_review
from webhooks.rules.reviewed_spec import VmObject
from webhooks.validation import WEBHOOKS, verdict_on
from webhooks.verdict import INVALID, AdmissionCause, Verdict

ADMITTED = Verdict(allowed=True)
NO_REQUEST: dict[str, Any] = {**SPEC, "domain": {"devices": {"gpus": [{"name": "g", "claimName": "c"}]}}}
MALFORMED: dict[str, Any] = {"domain": {"devices": {"gpus": "all"}}}


def _verdict(obj: object, old: object = None, path: str = "/validate-vmi", **members: object) -> Verdict:
    return verdict_on(WEBHOOKS[path], read_review(json.dumps(review(obj, old, **members)).encode()), KNOWLEDGE)


def _denied(verdict: Verdict) -> list[tuple[str, str]]:
    assert not verdict.allowed
    return [(cause.field, cause.message) for cause in verdict.causes]


MISSING = "requestName is required for DRA GPU"


def test_a_good_object_is_admitted() -> None:
    assert _verdict(vmi()) == ADMITTED
    assert _verdict(vm(), path="/validate-vm") == ADMITTED


def test_a_bad_one_is_denied_with_its_path() -> None:
    assert _denied(_verdict(vmi(NO_REQUEST))) == [("spec.domain.devices.gpus[0].requestName", MISSING)]
    assert _denied(_verdict(vm(NO_REQUEST), path="/validate-vm")) == [
        ("spec.template.spec.domain.devices.gpus[0].requestName", MISSING)
    ]


def test_an_update_of_a_vm_is_checked() -> None:
    assert _denied(_verdict(vm(NO_REQUEST), vm(), "/validate-vm")) == [
        ("spec.template.spec.domain.devices.gpus[0].requestName", MISSING)
    ]


def test_claims_of_a_vmi_cannot_change() -> None:
    assert _denied(_verdict(vmi({}), vmi())) == [
        ("spec.resourceClaims", "update of VMI object is restricted"),
        ("spec.domain.devices.gpus", "update of VMI object is restricted"),
    ]


def test_an_object_of_the_wrong_shape_is_denied() -> None:
    assert _denied(_verdict(vmi(MALFORMED))) == [("spec.domain.devices.gpus", "must be a list, not a string")]


@pytest.mark.parametrize("kind", ["vmi", "vm"])
def test_labels_of_what_is_stored_can_change_even_where_it_cannot_be_read(kind: str) -> None:
    make = {"vmi": vmi, "vm": vm}[kind]
    path = f"/validate-{kind}"
    assert _verdict(make(MALFORMED, labels={"a": "b"}), make(MALFORMED), path) == ADMITTED
    assert not _verdict(make({"domain": {"devices": {"gpus": "none"}}}), make(MALFORMED), path).allowed


def test_a_vm_that_cannot_be_read_can_be_corrected() -> None:
    assert _verdict(vm(), vm(MALFORMED), "/validate-vm") == ADMITTED


def test_a_vmi_that_cannot_be_read_cannot_be_compared() -> None:
    unreadable = "the stored object can't be read, so it can't be compared: must be a list, not a string"
    assert _denied(_verdict(vmi(), vmi(MALFORMED))) == [("spec.domain.devices.gpus", unreadable)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"resourceClaims": [0] * 1_000_000}, id="one list"),
        pytest.param({"x": [[[]] * 200] * 200}, id="many lists"),
        pytest.param({"x": {str(number): "" for number in range(30_000)}}, id="one object"),
    ],
)
def test_objects_of_a_size_that_no_machine_has_are_denied_unread(spec: dict[str, Any]) -> None:
    many = "must have no more than 6000 members and items in all; no virtual machine has that many"
    assert _denied(_verdict(vmi(spec))) == [("", many)]
    assert _verdict(vmi(spec, labels={"a": "b"}), vmi(spec)) == ADMITTED, "but its labels can change"


@pytest.mark.parametrize(
    "members", [{"operation": "DELETE", "object": None}, {"operation": "CONNECT"}, {"subResource": "status"}]
)
def test_what_changes_no_device_passes(members: dict[str, Any]) -> None:
    assert _verdict(vmi(NO_REQUEST), **members) == ADMITTED


@pytest.mark.parametrize(
    ("path", "members", "want"),
    [
        (
            "/validate-vm",
            {},
            'request.kind: this path reviews "VirtualMachine" of "kubevirt.io", '
            'not "VirtualMachineInstance" of "kubevirt.io"; '
            "correct the webhook's rules",
        ),
        (
            "/validate-vmi",
            {"kind": {"group": "", "version": "v1", "kind": "Pod"}},
            'request.kind: this path reviews "VirtualMachineInstance" of "kubevirt.io", '
            'not "Pod" of ""; correct the webhook\'s rules',
        ),
        ("/validate-vmi", {"object": None}, "request.object is required for CREATE"),
        ("/validate-vmi", {"operation": "UPDATE"}, "request.oldObject is required for UPDATE"),
    ],
)
def test_a_review_that_is_not_ours_to_answer(path: str, members: dict[str, Any], want: str) -> None:
    with pytest.raises(BadReview) as caught:
        _verdict(vmi(), None, path, **members)
    assert (caught.value.code, str(caught.value)) == (400, want)


_NOTHING = Verdict(allowed=True)


@dataclass(frozen=True)
class Seeing(KubeVirtOnly):
    """Knowledge that notes what it was asked and finds the same each time."""

    answer: Verdict = _NOTHING
    asked: list[VmObject] = field(default_factory=list)
    before: list[VmObject | None] = field(default_factory=list)

    def preflight(self, subject: VmObject, old: VmObject | None = None) -> Verdict:
        self.asked.append(subject)
        self.before.append(old)
        return self.answer


def _seen(seeing: Seeing, obj: object, old: object = None, path: str = "/validate-vmi", **members: object) -> Verdict:
    return verdict_on(WEBHOOKS[path], read_review(json.dumps(review(obj, old, **members)).encode()), seeing)


def test_what_an_object_names_is_looked_at_in_the_namespace_of_the_request() -> None:
    seeing = Seeing(KNOWLEDGE.gates, answer=Verdict(allowed=True, warnings=("no such template",)))
    assert _seen(seeing, vmi(namespace="somebody-else's")) == Verdict(allowed=True, warnings=("no such template",))
    assert [subject.namespace for subject in seeing.asked] == ["team-a"]


def test_of_an_update_what_was_is_told() -> None:
    seeing = Seeing(KNOWLEDGE.gates, answer=Verdict(allowed=True))
    for old in (None, vm(labels={"a": "b"}), vm(MALFORMED)):
        _seen(seeing, vm(), old, "/validate-vm")
    assert [old and old.metadata.labels for old in seeing.before] == [None, {"a": "b"}, None]


def test_what_is_found_can_deny() -> None:
    cause = AdmissionCause(INVALID, "there is no such template", "spec.resourceClaims[0]")
    assert _seen(Seeing(KNOWLEDGE.gates, answer=Verdict(allowed=False, causes=(cause,))), vmi()) == Verdict(
        allowed=False, causes=(cause,)
    )


@pytest.mark.parametrize(
    ("obj", "old", "path"),
    [
        pytest.param(vmi(NO_REQUEST), None, "/validate-vmi", id="denied already"),
        pytest.param(vmi(), vmi(), "/validate-vmi", id="a VMI that exists"),
        pytest.param(vm(deletionTimestamp="2026-01-01T00:00:00Z"), vm(), "/validate-vm", id="a VM that goes"),
    ],
)
def test_nothing_is_looked_up_where_it_would_not_matter(obj: object, old: object, path: str) -> None:
    seeing = Seeing(KNOWLEDGE.gates, answer=Verdict(allowed=False))
    _seen(seeing, obj, old, path)
    assert seeing.asked == []


UNUSED = {
    "resourceClaims": [*SPEC["resourceClaims"], {"name": "d", "resourceClaimTemplateName": "t"}],
    "domain": SPEC["domain"],
}


@pytest.mark.parametrize(("unwanted_warnings", "warnings"), [((), 1), (("unused-claim",), 0), (("other",), 1)])
def test_warnings_of_the_rules_can_be_left_out(unwanted_warnings: tuple[str, ...], warnings: int) -> None:
    verdict = _seen(Seeing(KNOWLEDGE.gates, unwanted_warnings=unwanted_warnings), vmi(UNUSED))
    assert (verdict.allowed, len(verdict.warnings)) == (True, warnings)


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        (LintSettings.for_admission(), (True, 1)),
        (LintSettings.for_admission(ignore={"unused-claim"}), (True, 0)),
        (LintSettings.for_admission(deny={"unused-claim"}), (False, 0)),
    ],
)
def test_warnings_of_the_rules_are_ignored_and_denied_by_their_ids(
    settings: LintSettings, want: tuple[bool, int]
) -> None:
    knowledge = Preflight(LintInputs.from_objects([], known_kinds=()), settings)
    verdict = verdict_on(WEBHOOKS["/validate-vmi"], read_review(json.dumps(review(vmi(UNUSED))).encode()), knowledge)
    assert (verdict.allowed, len(verdict.warnings)) == want


# --- launcher pods ---


def test_a_launcher_pod_is_changed_when_it_is_created() -> None:
    verdict = _verdict(launcher_pod(), path="/mutate-launcher-pod")
    assert verdict.allowed
    assert [operation["path"] for operation in verdict.patch] == [
        "/metadata/annotations/virt-dra.io~1integration",
        "/spec/volumes/-",
        "/spec/containers/0/volumeMounts/-",
    ]
    answered = answer("u", verdict)["response"]
    assert answered["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(answered["patch"])) == list(verdict.patch)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"old": launcher_pod()}, id="an update"),
        pytest.param({"operation": "DELETE"}, id="a deletion"),
        pytest.param({"subResource": "binding"}, id="a subresource"),
    ],
)
def test_afterwards_it_is_left_alone(members: dict[str, Any]) -> None:
    assert _verdict(launcher_pod(), path="/mutate-launcher-pod", **members) == ADMITTED


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {"kubevirt.io": "virt-handler"}}, id="not a launcher"),
        pytest.param({"labels": None}, id="no labels"),
        pytest.param({"labels": [1]}, id="labels of a wrong shape, on a pod of which nothing is known"),
        pytest.param({"annotations": {"kubevirt.io/ephemeral-provisioning": ""}}, id="it holds a place only"),
    ],
)
def test_other_pods_are_left_alone(metadata: dict[str, Any]) -> None:
    assert _verdict(launcher_pod(**metadata), path="/mutate-launcher-pod") == ADMITTED


def test_a_launcher_pod_of_the_wrong_shape_is_denied() -> None:
    pod = launcher_pod()
    pod["spec"]["volumes"] = [{"name": 3, "downwardAPI": "x"}]
    want = [
        ("spec.volumes[0].name", "must be a string, not an integer"),
        ("spec.volumes[0].downwardAPI", "must be an object, not a string"),
    ]
    assert _denied(_verdict(pod, path="/mutate-launcher-pod")) == want


def test_a_launcher_pod_of_a_million_parts_is_denied_unread() -> None:
    pod = launcher_pod()
    pod["spec"]["volumes"] = [{}] * 30_000
    assert _denied(_verdict(pod, path="/mutate-launcher-pod")) == [
        ("", "must have no more than 6000 members and items in all; no virtual machine has that many")
    ]


def test_other_kinds_are_not_reviewed_as_pods() -> None:
    with pytest.raises(BadReview) as caught:
        _verdict(vmi(), path="/mutate-launcher-pod")
    told = (
        'request.kind: this path reviews "Pod" of "", not "VirtualMachineInstance" '
        'of "kubevirt.io"; correct the webhook\'s rules'
    )
    assert str(caught.value) == told
