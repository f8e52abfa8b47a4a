"""The webhooks and their paths: a function from a review and the knowledge of the cluster to a verdict. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT
from virt_dra.api.wire import Json, WireError
from webhooks import vmi
from webhooks.knowledge import Knowledge
from webhooks.launcher_pod import mutation as launcher_pod
from webhooks.profiles import mutation as profiles
from webhooks.review import BadReview, Review
from webhooks.rules.reviewed_spec import VmObject
from webhooks.verdict import INVALID, AdmissionCause, Verdict

MAX_MEMBERS = 6_000
"""Limit of the members and items of one object, at all levels: three times those of a VM with 500 devices and its
managed fields. Reading and checking so many takes 50 ms, half of it without a pause for the event loop."""
_PASSES = Verdict(allowed=True)


def verdict_on(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """The verdict on a review. Raises :class:`BadReview` if the review isn't for this webhook."""
    if (review.group, review.kind) != (webhook.group, webhook.kind.KIND):
        expected = f'"{webhook.kind.KIND}" of "{webhook.group}"'
        actual = f"{json.dumps(review.kind[:100])} of {json.dumps(review.group[:100])}"
        message = f"request.kind: this path reviews {expected}, not {actual}; correct the webhook's rules"
        raise BadReview(400, "BadRequest", message)
    return webhook.decide(webhook, review, knowledge)


def mutate_vmi(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """The devices of a new VMI's line (P-9). Other operations pass unchanged."""
    if review.operation != "CREATE" or review.subresource:
        return _PASSES
    raw = _required(review)
    try:
        _check_size(raw, webhook.kind.KIND)
        vmi = VirtualMachineInstance.from_wire(raw)
        return profiles.mutate(_in_namespace(vmi, review.namespace), raw, knowledge)
    except WireError as error:
        return _malformed(error)


def mutate_pod(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """The mutation of a launcher pod on creation (K-11). Other pods and operations pass unchanged."""
    if review.operation != "CREATE" or review.subresource:
        return _PASSES
    raw = _required(review)
    if not launcher_pod.is_launcher(raw):
        return _PASSES
    try:
        _check_size(raw, webhook.kind.KIND)
        return launcher_pod.mutate(raw, review.namespace, knowledge)
    except WireError as error:
        return _malformed(error)


def _malformed(error: WireError) -> Verdict:
    return Verdict(False, tuple(AdmissionCause(INVALID, message, path) for path, message in error.problems))


def _required(review: Review) -> Json:
    if review.object is None:
        raise BadReview(400, "BadRequest", f"request.object is required for {review.operation}")
    return review.object


def validate(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """The verdict on a VM or VMI.

    Created and updated objects are checked (K-2, K-9.3), in the namespace of the request, whatever theirs is; other
    operations and subresources pass, since they change nothing that rules read. An object with invalid types is denied
    with a cause for each. An update that keeps the spec of such an object passes, so that labels and finalizers can
    still be changed. Raises :class:`BadReview` if the review has no object.
    """
    if review.operation not in ("CREATE", "UPDATE") or review.subresource:
        return _PASSES
    raw = _required(review)
    if review.operation == "UPDATE" and review.old is None:
        raise BadReview(400, "BadRequest", "request.oldObject is required for UPDATE")
    try:
        subject = _read(webhook, raw, review.namespace)
        old = _old(webhook, review)
    except WireError as error:
        if review.operation == "UPDATE" and review.old is not None and raw.get("spec") == review.old.get("spec"):
            return _PASSES
        return _malformed(error)
    is_deleted = subject.metadata.deletion_timestamp is not None
    if review.operation == "UPDATE" and isinstance(subject, VirtualMachine) and is_deleted:
        return _PASSES
    verdict = vmi.review(subject, knowledge.gates, old, knowledge.unwanted_warnings)
    if not verdict.allowed or isinstance(old, VirtualMachineInstance):
        return verdict
    more = knowledge.preflight(subject, old)
    return Verdict(more.allowed, more.causes, (*verdict.warnings, *more.warnings))


def _old(webhook: Webhook, review: Review) -> VmObject | None:
    """The object before an update. A stored VM that can't be read may be replaced, and the new one is then checked as
    on creation."""
    if review.operation == "CREATE" or review.old is None:
        return None
    try:
        return _read(webhook, review.old, review.namespace)
    except WireError as error:
        if webhook.kind is VirtualMachine:
            return None
        why = "the stored object can't be read, so it can't be compared"
        raise WireError(error.kind, tuple((path, f"{why}: {message}") for path, message in error.problems)) from None


def _read(webhook: Webhook, raw: Json, namespace: str) -> VmObject:
    """The object in the namespace of the request, in which its user is authorised. Raises WireError."""
    _check_size(raw, webhook.kind.KIND)
    kind = VirtualMachine if webhook.kind is VirtualMachine else VirtualMachineInstance
    return _in_namespace(kind.from_wire(raw), namespace)


def _in_namespace(subject: ObjectT, namespace: str) -> ObjectT:
    if subject.namespace == namespace:
        return subject
    return subject.with_(metadata=subject.metadata.with_(namespace=namespace))


def _check_size(raw: Json, kind: str) -> None:
    """Refuses an object that is too large. Raises WireError."""
    if _has_more_members(raw, MAX_MEMBERS):
        message = f"must have no more than {MAX_MEMBERS} members and items in all; no virtual machine has that many"
        raise WireError(kind, (("", message),))


def _has_more_members(raw: Json, limit: int) -> bool:
    """True if an object has more members and items, at all levels, than ``limit``. Stops counting there."""
    left: list[dict[str, Any] | list[Any]] = [raw]
    count = 0
    while left:
        holder = left.pop()
        count += len(holder)
        if count > limit:
            return True
        members = holder.values() if isinstance(holder, dict) else holder
        left += [inner for inner in members if isinstance(inner, dict | list)]
    return False


@dataclass(frozen=True)
class Webhook:
    """One webhook: its name in metrics and logs, the kind that it reviews, and what decides. ``at_once``: False if even
    a small review takes too long for the event loop."""

    name: str
    kind: type[VirtualMachineInstance] | type[VirtualMachine] | type[Pod]
    decide: Callable[[Webhook, Review, Knowledge], Verdict]
    at_once: bool = True

    @property
    def group(self) -> str:
        return self.kind.API_VERSION.rpartition("/")[0]


WEBHOOKS: Mapping[str, Webhook] = MappingProxyType(
    {
        "/validate-vmi": Webhook("vmi", VirtualMachineInstance, validate),
        "/validate-vm": Webhook("vm", VirtualMachine, validate),
        "/mutate-vmi": Webhook("profiles", VirtualMachineInstance, mutate_vmi, at_once=False),
        "/mutate-launcher-pod": Webhook("launcher-pod", Pod, mutate_pod),
    }
)
"""The webhooks by path."""
