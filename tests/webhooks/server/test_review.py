"""AdmissionReview on the wire: what is understood, what is refused and how, and the shape of answers."""

from __future__ import annotations

import json
import threading
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from devtools.webhooks.serving import KNOWLEDGE, body, request, review, vmi
from webhooks.review import BadReview, Review, answer, check_content_type, read_review, tenant_hint
from webhooks.server import deciding
from webhooks.validation import WEBHOOKS
from webhooks.verdict import INVALID, AdmissionCause, Verdict


def test_a_review_is_read() -> None:
    assert read_review(body(vmi({}), subResource="status", dryRun=True)) == Review(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        operation="CREATE",
        group="kubevirt.io",
        version="v1",
        kind="VirtualMachineInstance",
        namespace="team-a",
        name="v",
        subresource="status",
        user="alice",
        dry_run=True,
        object=vmi({}),
        old=None,
    )


def _without(member: str) -> dict[str, Any]:
    given = review(vmi())
    del given["request"][member]
    return given


def _text(value: object) -> bytes:
    return json.dumps(value).encode()


NOT_A_REVIEW = "the body is not an AdmissionReview: line 1, column "
DEEP = f"{NOT_A_REVIEW}1: nested more than 200 levels deep; no Kubernetes object needs that"


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(b"", "the body is empty; an AdmissionReview is expected", id="empty"),
        pytest.param(b" \n", "the body is empty; an AdmissionReview is expected", id="blank"),
        pytest.param(b"\xff{}", "the body is not UTF-8: byte 0 is 0xff", id="not UTF-8"),
        pytest.param(b'{"kind": "\xc3', "the body is not UTF-8: byte 10 is 0xc3", id="a cut character"),
        pytest.param(b"kind: AdmissionReview", f"{NOT_A_REVIEW}1: not JSON: Expecting value", id="YAML"),
        pytest.param(b'{"kind": "A', f"{NOT_A_REVIEW}10: not JSON: Unterminated string starting at", id="cut off"),
        pytest.param(
            b'{"a": 1, "a": 2}',
            f'{NOT_A_REVIEW}10: key "a" is given twice in the same object; remove one of them',
            id="a key twice",
        ),
        pytest.param(b'{"a": NaN}', f"{NOT_A_REVIEW}1: NaN is not a number that JSON can express", id="NaN"),
        pytest.param(
            b'{"a": 1e999}',
            f"{NOT_A_REVIEW}1: the number 1e999 is out of range; write it as a string if a quantity is meant",
            id="1e999",
        ),
        pytest.param(
            b'{"a": ' + b"1" * 5000 + b"}", f"{NOT_A_REVIEW}1: an integer has too many digits", id="5,000 digits"
        ),
        pytest.param(b"[" * 300 + b"]" * 300, DEEP, id="300 levels"),
        pytest.param(b"[" * 1_000_000, DEEP, id="a million levels"),
        pytest.param(b'{"a":' * 100_000, DEEP, id="deep objects"),
        pytest.param(
            b'{"a": "\\ud800"}',
            f"{NOT_A_REVIEW}8: \\ud800 is half of a surrogate pair and no character",
            id="half a character",
        ),
        pytest.param(b"{} {}", "the body holds 2 JSON values; one AdmissionReview is expected", id="two values"),
        pytest.param(b"[]", "an AdmissionReview must be a JSON object, not a list", id="a list"),
        pytest.param(b"{}", "kind must be AdmissionReview, not null", id="no kind"),
        pytest.param(
            _text({"kind": "Pod\n\u202e"}), 'kind must be AdmissionReview, not "Pod\ufffd\ufffd"', id="another kind"
        ),
        pytest.param(
            _text({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}),
            'apiVersion must be admission.k8s.io/v1, not "admission.k8s.io/v1beta1"; '
            "list it in admissionReviewVersions",
            id="another version",
        ),
        pytest.param(_text({**review(), "request": None}), "request must be an object, not null", id="no request"),
        pytest.param(_text(_without("uid")), "request.uid is required", id="no uid"),
        pytest.param(body(uid=7), "request.uid must be a string, not a number", id="uid of another type"),
        pytest.param(body(uid="u" * 129), "request.uid must be no more than 128 characters", id="a long uid"),
        pytest.param(
            body(operation="PATCH"),
            'request.operation must be one of CREATE, UPDATE, DELETE, CONNECT, not "PATCH"',
            id="an operation",
        ),
        pytest.param(_text(_without("kind")), "request.kind is required", id="no kind of object"),
        pytest.param(body(kind={"group": 1}), "request.kind.group must be a string, not a number", id="a group"),
        pytest.param(body(object=[]), "request.object must be an object, not a list", id="object is a list"),
        pytest.param(
            body(oldObject="x"), "request.oldObject must be an object, not a string", id="oldObject is a string"
        ),
        pytest.param(
            body(userInfo={"username": True}), "request.userInfo.username must be a string, not a boolean", id="a user"
        ),
        pytest.param(body(dryRun="no"), "request.dryRun must be a boolean, not a string", id="dryRun"),
    ],
)
def test_what_is_no_review_is_told(given: bytes, want: str) -> None:
    with pytest.raises(BadReview) as caught:
        read_review(given)
    assert (caught.value.code, caught.value.reason, str(caught.value)) == (400, "BadRequest", want)


@pytest.mark.parametrize("given", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_taken(given: str) -> None:
    check_content_type(given)


@pytest.mark.parametrize(
    ("given", "shown"),
    [("", "absent"), ("text/plain", "text/plain"), ("application/json-patch+json", "application/json-patch+json")],
)
def test_other_content_is_not(given: str, shown: str) -> None:
    with pytest.raises(BadReview) as caught:
        check_content_type(given)
    assert (caught.value.code, str(caught.value)) == (415, f"Content-Type must be application/json, not {shown}")


def _answered(verdict: Verdict) -> Any:
    wire = answer("u", verdict)
    assert {key: wire[key] for key in ("apiVersion", "kind")} == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
    }
    return wire["response"]


def test_an_object_is_admitted_with_warnings() -> None:
    assert _answered(Verdict(allowed=True)) == {"uid": "u", "allowed": True}
    assert _answered(Verdict(allowed=True, warnings=("a", "b", "a"))) == {
        "uid": "u",
        "allowed": True,
        "warnings": ["a", "b"],
    }


def test_a_denial_has_every_cause() -> None:
    verdict = Verdict(
        allowed=False,
        causes=(AdmissionCause(INVALID, "first", "spec.a"), AdmissionCause("FieldValueRequired", "second", "spec.b")),
    )
    assert _answered(verdict) == {
        "uid": "u",
        "allowed": False,
        "status": {
            "metadata": {},
            "status": "Failure",
            "message": "first, second",
            "reason": "Invalid",
            "details": {
                "causes": [
                    {"reason": "FieldValueInvalid", "message": "first", "field": "spec.a"},
                    {"reason": "FieldValueRequired", "message": "second", "field": "spec.b"},
                ]
            },
            "code": 422,
        },
    }


def test_answers_are_bounded() -> None:
    causes = tuple(AdmissionCause(INVALID, f"{n}" + "x" * 5000, "f" * 5000) for n in range(1000))
    response = _answered(
        Verdict(allowed=False, causes=causes, warnings=tuple(f"{n}" + "w" * 1000 for n in range(1000)))
    )
    assert len(response["status"]["details"]["causes"]) == 100
    assert response["status"]["message"].endswith("x…, and 900 more")
    assert len(response["status"]["message"]) == 16 * 1024 + len(", and 900 more")
    assert {len(cause["message"]) for cause in response["status"]["details"]["causes"]} == {1024}
    assert [len(warning) for warning in response["warnings"]] == [256] * 16


def test_a_request_without_a_user_or_object_is_read() -> None:
    given = request()
    del given["userInfo"]
    read = read_review(json.dumps({**review(), "request": given}).encode())
    assert (read.user, read.object, read.old) == ("", None, None)


_USER = b'"userInfo":{"username":"%s"}'


@pytest.mark.parametrize(
    ("body", "tenant"),
    [
        (
            b'{"kind":"AdmissionReview","request":{"uid":"1","name":"x","namespace":"team-a",'
            b'"userInfo":{"username":"alice","groups":[]},"object":{"metadata":{"namespace":"b"}}}}',
            ("alice", "team-a"),
        ),
        (b'{"request": {"namespace" : "team-a"}}', ("namespace team-a", "team-a")),
        (b'{"request": {}}', ("namespace ", "")),
        (b'{"request": {"namespace": "UPPER"}}', ("namespace ", "")),
        (b" " * 3000 + b'{"request": {"namespace": "late"}}', ("namespace ", "")),
        (b"", ("namespace ", "")),
        (
            b'{"namespace":"a",%s}' % (_USER % b"system:serviceaccount:kubevirt:kubevirt-controller"),
            ("namespace a", "a"),
        ),
        (b'{"namespace":"a",%s}' % (_USER % b"system:serviceaccount:a:bot"), ("system:serviceaccount:a:bot", "a")),
        (b'{"namespace":"a",%s}' % (_USER % b"\xff"), ("\N{REPLACEMENT CHARACTER}", "a")),
    ],
)
def test_the_tenant_is_found_without_reading_the_body(body: bytes, tenant: tuple[str, str]) -> None:
    assert tenant_hint(body, "192.0.2.1") == ("192.0.2.1", *tenant)


@pytest.mark.parametrize(("annotations", "on_the_loop"), [({}, True), ({"virt-dra.io/devices": "a, b"}, False)])
async def test_a_review_of_a_line_is_decided_in_a_thread(
    annotations: dict[str, str], on_the_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it costs depends on the profiles that it names."""
    threads: list[bool] = []

    def verdict(*arguments: object) -> Verdict:
        threads.append(threading.current_thread() is threading.main_thread())
        return Verdict(allowed=True)

    monkeypatch.setattr(deciding, "verdict_on", verdict)
    decides = deciding.Deciding(AsyncMock(), 1.0, Mock())
    await decides.decide(WEBHOOKS["/validate-vmi"], body(vmi(annotations=annotations)), "127.0.0.1", KNOWLEDGE)
    decides.close()
    assert threads == [on_the_loop]
