"""The validating webhooks: from a review and what is known to a verdict. Pure; the server and its paths are :mod:`webhooks.server`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import Json, WireError
from webhooks import vmi
from webhooks.knowledge import Knowledge, Subject
from webhooks.review import BadReview, Review
from webhooks.verdict import INVALID, Cause, Verdict

GROUP = "kubevirt.io"


@dataclass(frozen=True)
class Webhook:
    """One validating webhook: its name in metrics and logs, and the kind that it reviews."""

    name: str
    kind: type[VirtualMachineInstance] | type[VirtualMachine]


WEBHOOKS: Mapping[str, Webhook] = MappingProxyType(
    {
        "/validate-vmi": Webhook("vmi", VirtualMachineInstance),
        "/validate-vm": Webhook("vm", VirtualMachine),
    }
)
"""The webhook behind each path."""

_PASSES = Verdict(allowed=True)


def validate(webhook: Webhook, review: Review, knowledge: Knowledge) -> Verdict:
    """Whether the reviewed object may be stored.

    Created and updated objects are checked (K-2, K-9.3), with the namespace of the request and whatever they say themselves; other
    operations and subresources pass, as they change nothing that the rules look at. An object of the wrong shape is denied with a cause per
    fault. An update that leaves the spec of an unreadable object as it is passes: labels and finalizers of what is stored must remain
    changeable. Raises :class:`BadReview` where the review isn't one that this webhook can be asked.
    """
    if (review.group, review.kind) != (GROUP, webhook.kind.KIND):
        expected = f'"{webhook.kind.KIND}" of "{GROUP}"'
        found = f"{json.dumps(review.kind[:100])} of {json.dumps(review.group[:100])}"
        raise BadReview(400, "BadRequest", f"request.kind: this path reviews {expected}, not {found}; correct the webhook's rules")
    if review.operation not in ("CREATE", "UPDATE") or review.subresource:
        return _PASSES
    if review.object is None:
        raise BadReview(400, "BadRequest", f"request.object is required for {review.operation}")
    if review.operation == "UPDATE" and review.old is None:
        raise BadReview(400, "BadRequest", "request.oldObject is required for UPDATE")
    try:
        subject = _read(webhook.kind, review.object, review.namespace)
        old = _read(webhook.kind, review.old, review.namespace) if review.operation == "UPDATE" and review.old is not None else None
    except WireError as error:
        if review.old is not None and review.operation == "UPDATE" and _same_spec(review.object, review.old):
            return _PASSES
        return Verdict(allowed=False, causes=tuple(Cause(INVALID, message, path) for path, message in error.problems))
    verdict = vmi.review(subject, knowledge.gates, old)
    if not verdict.allowed or (old is not None and isinstance(subject, VirtualMachineInstance)) or _is_going(subject):
        return verdict
    more = knowledge.preflight(subject)
    return Verdict(more.allowed, more.causes, (*verdict.warnings, *more.warnings))


def _read(kind: type[VirtualMachineInstance] | type[VirtualMachine], raw: Json, namespace: str) -> Subject:
    """The object in the namespace of the request: that is the one in which its user was authorised."""
    subject = kind.from_wire(raw)
    return subject if subject.namespace == namespace else subject.with_(metadata=subject.metadata.with_(namespace=namespace))


def _same_spec(new: Json, old: Json) -> bool:
    return bool(new.get("spec") == old.get("spec"))


def _is_going(subject: TypedObject) -> bool:
    return subject.metadata.deletion_timestamp is not None
