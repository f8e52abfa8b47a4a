"""The webhooks: from a review and what is known to a verdict. Pure; the server and its paths are :mod:`webhooks.server.app`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.wire import Json, WireError
from webhooks import vmi
from webhooks.knowledge import Knowledge
from webhooks.launcher_pod import mutation as launcher_pod
from webhooks.review import BadReview, Review
from webhooks.rules.reviewed_spec import VmObject
from webhooks.verdict import INVALID, AdmissionCause, Verdict


@dataclass(frozen=True)
class Webhook:
    """One webhook: its name in metrics and logs, and the kind that it reviews. Pods it changes, VMs and VMIs it validates."""

    name: str
    kind: type[VirtualMachineInstance] | type[VirtualMachine] | type[Pod]

    @property
    def group(self) -> str:
        return self.kind.API_VERSION.rpartition("/")[0]


WEBHOOKS: Mapping[str, Webhook] = MappingProxyType(
    {
        "/validate-vmi": Webhook("vmi", VirtualMachineInstance),
        "/validate-vm": Webhook("vm", VirtualMachine),
        "/mutate-launcher-pod": Webhook("launcher-pod", Pod),
    }
)
"""The webhook behind each path."""

MAX_MEMBERS = 6_000
"""Members and items of one object, at all levels: some three times those of a VM with 500 devices and the fields that its managers own.
Reading and checking so many takes 50 ms, half of it in one piece, for which the event loop waits."""
_PASSES = Verdict(allowed=True)


def verdict_on(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """What a webhook answers to a review. Raises :class:`BadReview` where the review isn't one that this webhook can be asked."""
    if (review.group, review.kind) != (webhook.group, webhook.kind.KIND):
        expected = f'"{webhook.kind.KIND}" of "{webhook.group}"'
        found = f"{json.dumps(review.kind[:100])} of {json.dumps(review.group[:100])}"
        raise BadReview(400, "BadRequest", f"request.kind: this path reviews {expected}, not {found}; correct the webhook's rules")
    return _changed(review, knowledge) if webhook.kind is Pod else validate(webhook, review, knowledge)


def _changed(review: Review, knowledge: Knowledge) -> Verdict:
    """What a launcher pod gets when it is created (K-11). Other pods and operations pass: their specs can't be changed any more."""
    if review.operation != "CREATE" or review.subresource:
        return _PASSES
    raw = _required(review)
    if not launcher_pod.is_launcher(raw):
        return _PASSES
    try:
        _check_size(raw, Pod.KIND)
        return launcher_pod.mutate(raw, review.namespace, knowledge)
    except WireError as error:
        return Verdict(allowed=False, causes=tuple(AdmissionCause(INVALID, message, path) for path, message in error.problems))


def _required(review: Review) -> Json:
    if review.object is None:
        raise BadReview(400, "BadRequest", f"request.object is required for {review.operation}")
    return review.object


def validate(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """Whether the reviewed VM or VMI may be stored.

    Created and updated objects are checked (K-2, K-9.3), with the namespace of the request and whatever they say themselves; other
    operations and subresources pass, as they change nothing that the rules look at. An object of the wrong shape is denied with a cause per
    fault. An update that leaves the spec of an unreadable object as it is passes: labels and finalizers of what is stored must remain
    changeable. Raises :class:`BadReview` where the review lacks an object.
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
        if _same_spec(review):
            return _PASSES
        return Verdict(allowed=False, causes=tuple(AdmissionCause(INVALID, message, path) for path, message in error.problems))
    if review.operation == "UPDATE" and isinstance(subject, VirtualMachine) and subject.metadata.deletion_timestamp is not None:
        return _PASSES
    verdict = vmi.review(subject, knowledge.gates, old, knowledge.unwanted_warnings)
    if not verdict.allowed or isinstance(old, VirtualMachineInstance):
        return verdict
    more = knowledge.preflight(subject, old)
    return Verdict(more.allowed, more.causes, (*verdict.warnings, *more.warnings))


def _old(webhook: Webhook, review: Review) -> VmObject | None:
    """What the object was, for an update. A VM that can't be read any more may be replaced by another, which is checked as a new one."""
    if review.operation == "CREATE" or review.old is None:
        return None
    try:
        return _read(webhook, review.old, review.namespace)
    except WireError as error:
        if webhook.kind is VirtualMachine:
            return None
        stored = tuple((path, f"what is stored can't be read, so it can't be compared: {message}") for path, message in error.problems)
        raise WireError(error.kind, stored) from None


def _read(webhook: Webhook, raw: Json, namespace: str) -> VmObject:
    """The object in the namespace of the request: that is the one in which its user was authorised. Raises WireError."""
    _check_size(raw, webhook.kind.KIND)
    kind = VirtualMachine if webhook.kind is VirtualMachine else VirtualMachineInstance
    subject: VmObject = kind.from_wire(raw)
    return subject if subject.namespace == namespace else subject.with_(metadata=subject.metadata.with_(namespace=namespace))


def _check_size(raw: Json, kind: str) -> None:
    """Raises WireError."""
    if _has_more_members(raw, MAX_MEMBERS):
        message = f"must have no more than {MAX_MEMBERS} members and items in all; no virtual machine has that many"
        raise WireError(kind, (("", message),))


def _has_more_members(raw: Json, limit: int) -> bool:
    """Whether an object has more members and items, at all levels, than ``limit``; looks at no more than that."""
    left: list[dict[str, Any] | list[Any]] = [raw]
    count = 0
    while left:
        holder = left.pop()
        count += len(holder)
        if count > limit:
            return True
        left += [inner for inner in (holder.values() if isinstance(holder, dict) else holder) if isinstance(inner, dict | list)]
    return False


def _same_spec(review: Review) -> bool:
    if review.operation != "UPDATE" or review.object is None or review.old is None:
        return False
    return bool(review.object.get("spec") == review.old.get("spec"))
