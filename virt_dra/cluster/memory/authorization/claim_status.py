"""Permissions for the parts of a claim's status (C-13.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from virt_dra.api import names
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import AllocatedDeviceStatus, ResourceClaim, ResourceClaimStatus
from virt_dra.cluster.memory.authorization.access_request import AccessRequest, Decision, forbidden
from virt_dra.cluster.port import StatusCause
from virt_dra.cluster.requester import NODE_NAME, Requester


def granular_faults(
    request: AccessRequest, new: TypedObject, old: TypedObject, decide: Callable[[AccessRequest], Decision]
) -> Iterator[StatusCause]:
    """C-13.6: what the requester may not change in a claim's status, though it may write the status as such."""
    if not isinstance(new, ResourceClaim) or not isinstance(old, ResourceClaim):
        return
    if (new.status.allocation, new.status.reserved_for) != (old.status.allocation, old.status.reserved_for):
        why = _refusal(request.about(request.verb, "", "", "binding"), decide)
        if why:
            needed = f'resource="resourceclaims/binding", verb="{request.verb}"'
            yield _fault(
                "status.allocation",
                f"changing status.allocation or status.reservedFor requires {needed} permission: {why}",
            )
    if new.status.allocation is None:  # the devices went with it
        return
    verbs = [f"arbitrary-node:{request.verb}"]
    if _runs_on(request.requester, _only_node(new.status)):
        verbs.insert(0, f"associated-node:{request.verb}")
    for driver in sorted(_changed_drivers(new.status, old.status)):
        refusals = [_refusal(request.about(verb, request.namespace, driver, "driver"), decide) for verb in verbs]
        if all(refusals):
            needed = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
            yield _fault("status.devices", f"changing status.devices requires {needed} permission: {refusals[0]}")


def _refusal(question: AccessRequest, decide: Callable[[AccessRequest], Decision]) -> str:
    """Why the request is denied; empty if it is allowed."""
    decision = decide(question)
    return "" if decision.allowed else str(forbidden(question, decision.reason))


def _fault(path: str, text: str) -> StatusCause:
    return StatusCause(path, "FieldValueForbidden", f"Forbidden: {text}")


def _changed_drivers(new: ResourceClaimStatus, old: ResourceClaimStatus) -> set[str]:
    before, after = _by_device(old), _by_device(new)
    return {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _by_device(status: ResourceClaimStatus) -> dict[tuple[str, ...], AllocatedDeviceStatus]:
    return {(device.driver, device.pool, device.device, device.share_id or ""): device for device in status.devices}


def _only_node(status: ResourceClaimStatus) -> str:
    """The node that the allocation names, if it names one and nothing else."""
    selector = status.allocation.node_selector if status.allocation is not None else None
    terms = selector.node_selector_terms if selector is not None else ()
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    field = terms[0].match_fields[0]
    return field.values[0] if (field.key, field.operator, len(field.values)) == ("metadata.name", "In", 1) else ""


def _runs_on(requester: Requester, node: str) -> bool:
    """Whether it is a service account whose token says that its pod runs on this node."""
    nodes = requester.extra.get(NODE_NAME, ())
    return (
        bool(node) and requester.service_account is not None and nodes == (node,) and not names.dns1123_subdomain(node)
    )
