"""AdmissionReview v1 on the wire: parses requests, and writes responses. Pure.

    request  := {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {...}}
    response := {"apiVersion", "kind", "response": {"uid", "allowed", "status"?, "warnings"?, "patchType"?, "patch"?}}
    failure  := a metav1 Status, whose message the API server shows to its user

An invalid review gets no verdict: it is a :class:`BadReview`, answered with a failure, and the webhook's
``failurePolicy`` decides about the object.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from virt_dra.api.reading import json_text
from virt_dra.api.reading.document_error import DocumentError
from virt_dra.api.wire import Json
from virt_dra.fairness.use import Tenant
from webhooks.verdict import Verdict

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

MAX_CAUSES = 100
"""Causes beyond this number are only counted."""
MAX_MESSAGE = 16 * 1024
"""Characters of a denial's message."""
MAX_TEXT = 1024
"""Characters of one cause."""
MAX_WARNING = 256
"""The API server truncates longer warnings, and drops those beyond :data:`MAX_WARNINGS` characters together."""
MAX_WARNINGS = 4096
_MAX_UID = 128
_HEAD = 2048
_NAMESPACE = re.compile(rb'"namespace"\s{0,4}:\s{0,4}"([a-z0-9-]{1,63})"')
_USER = re.compile(rb'"userInfo"\s{0,4}:\s{0,4}\{\s{0,4}"username"\s{0,4}:\s{0,4}"([^"\\]{1,256})"')
_WORDS = ((bool, "a boolean"), (str, "a string"), (int | float, "a number"), (list, "a list"), (dict, "an object"))
_MAX_SHOWN = 200


class BadReview(ValueError):
    """An invalid request. ``code``: the HTTP status; ``reason``: of the metav1 Status; the text says what is wrong."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(frozen=True)
class Review:
    """The request of a review. ``object`` and ``old``: None if the operation has none. All texts may be from users."""

    uid: str
    operation: str
    group: str
    version: str
    kind: str
    namespace: str
    name: str
    subresource: str
    user: str
    dry_run: bool
    object: Json | None
    old: Json | None


def check_content_type(content_type: str) -> None:
    """Refuses another media type than JSON; parameters such as a charset are ignored. Raises :class:`BadReview`
    (415)."""
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json":
        message = f"Content-Type must be application/json, not {_shown(media) or 'absent'}"
        raise BadReview(415, "UnsupportedMediaType", message)


def tenant_hint(body: bytes, address: str) -> Tenant:
    """The tenant whose review it is, read without parsing the body: address, account and namespace.

    Others than API servers may lie, so ``address`` is theirs, and "" for a verified caller. The account is the user,
    except where it is a component of the cluster or a ServiceAccount of another namespace: these act for the namespace,
    as virt-controller does.
    """
    namespace, user = (
        match[1].decode("utf-8", "replace") if (match := hint.search(body, 0, _HEAD)) else ""
        for hint in (_NAMESPACE, _USER)
    )
    acts_for = user.startswith("system:") and not user.startswith(f"system:serviceaccount:{namespace}:")
    return address, f"namespace {namespace}" if acts_for or not user else user, namespace


def read_review(body: bytes) -> Review:
    """Parse a request body. Raises :class:`BadReview` (400), whatever the bytes."""
    return _review(_request(_parsed(body)))


def _parsed(body: bytes) -> object:
    if not body.strip():
        raise _bad("the body is empty; an AdmissionReview is expected")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}") from None
    try:
        values = json_text.parse(text, "body")
    except DocumentError as error:
        place = f"line {error.line}, column {error.column}"
        raise _bad(f"the body is not an AdmissionReview: {place}: {_shown(error.message)}") from None
    if len(values) != 1:
        raise _bad(f"the body holds {len(values)} JSON values; one AdmissionReview is expected")
    return values[0].value


def _request(raw: object) -> Json:
    if not isinstance(raw, dict):
        raise _bad(f"an AdmissionReview must be a JSON object, not {_type(raw)}")
    if raw.get("kind") != KIND:
        raise _bad(f"kind must be {KIND}, not {_value(raw.get('kind'))}")
    if raw.get("apiVersion") != API_VERSION:
        raise _bad(
            f"apiVersion must be {API_VERSION}, not {_value(raw.get('apiVersion'))}; list it in admissionReviewVersions"
        )
    request = raw.get("request")
    if not isinstance(request, dict):
        raise _bad(f"request must be an object, not {_type(request)}")
    return request


def _review(request: Json) -> Review:
    uid = _text(request, "uid")
    if not uid:
        raise _bad("request.uid is required")
    if len(uid) > _MAX_UID:
        raise _bad(f"request.uid must be no more than {_MAX_UID} characters")
    operation = _text(request, "operation")
    if operation not in OPERATIONS:
        raise _bad(f"request.operation must be one of {', '.join(OPERATIONS)}, not {_value(request.get('operation'))}")
    kind = _object(request, "kind")
    if kind is None:
        raise _bad("request.kind is required")
    user = _object(request, "userInfo") or {}
    dry_run = request.get("dryRun")
    if dry_run is not None and not isinstance(dry_run, bool):
        raise _bad(f"request.dryRun must be a boolean, not {_type(dry_run)}")
    return Review(
        uid=uid,
        operation=operation,
        group=_text(kind, "group", "request.kind."),
        version=_text(kind, "version", "request.kind."),
        kind=_text(kind, "kind", "request.kind."),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        subresource=_text(request, "subResource"),
        user=_text(user, "username", "request.userInfo."),
        dry_run=dry_run is True,
        object=_object(request, "object"),
        old=_object(request, "oldObject"),
    )


def _text(holder: Json, member: str, path: str = "request.") -> str:
    value = holder.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(f"{path}{member} must be a string, not {_type(value)}")
    return value


def _object(request: Json, member: str) -> Json | None:
    value = request.get(member)
    if value is not None and not isinstance(value, dict):
        raise _bad(f"request.{member} must be an object, not {_type(value)}")
    return value


def _bad(message: str) -> BadReview:
    return BadReview(400, "BadRequest", message)


def _type(value: object) -> str:
    return next((word for kind, word in _WORDS if isinstance(value, kind)), "null")


def _value(value: object) -> str:
    return f'"{_shown(value)}"' if isinstance(value, str) else _type(value)


def _shown(text: str) -> str:
    """A user's text for a message: truncated, and without unprintable characters."""
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text[:_MAX_SHOWN])
    return printable + ("…" if len(text) > _MAX_SHOWN else "")


# --- answers ------------------------------------------------------------------------------------------------------


def answer(uid: str, verdict: Verdict) -> Json:
    """The AdmissionReview with a verdict: denials like KubeVirt's (K-2.1), at most :data:`MAX_CAUSES` causes, texts of
    bounded length."""
    response: Json = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _denial(verdict)
    if verdict.warnings:
        response["warnings"] = _warnings(verdict.warnings)
    if verdict.allowed and verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(verdict.patch).encode()).decode()
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def failure(code: int, reason: str, message: str) -> Json:
    """The metav1 Status of a request without a verdict."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _denial(verdict: Verdict) -> Json:
    shown = verdict.causes[:MAX_CAUSES]
    left = len(verdict.causes) - len(shown)
    message = _cut(", ".join(_cut(cause.message, MAX_TEXT) for cause in shown), MAX_MESSAGE)
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{message}, and {left} more" if left else message,
        "reason": "Invalid",
        "details": {
            "causes": [
                {"reason": cause.type, "message": _cut(cause.message, MAX_TEXT), "field": _cut(cause.field, MAX_TEXT)}
                for cause in shown
            ]
        },
        "code": 422,
    }


def _warnings(warnings: Iterable[str]) -> list[str]:
    kept: list[str] = []
    room = MAX_WARNINGS
    for warning in dict.fromkeys(_cut(text, MAX_WARNING) for text in warnings):
        room -= len(warning)
        if room < 0:
            break
        kept.append(warning)
    return kept


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
