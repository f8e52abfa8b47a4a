"""Admin access: allowed only in a namespace with the label for it (A-22.10, C-13.7)."""

from __future__ import annotations

from collections.abc import Mapping

from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ADMIN_ACCESS_LABEL, DeviceClaim, ResourceClaim, ResourceClaimTemplate
from virt_dra.api.validation.field_errors import FieldError, forbidden

_RULE = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"


def admin_access(
    new: TypedObject, old: TypedObject | None, namespace_labels: Mapping[str, str]
) -> tuple[FieldError, ...]:
    """Faults of a claim or template to be created (``old`` None) or of a claim status to be written, in a namespace
    with these labels. Only the first use is reported, and a template's path is that of a claim, as in Kubernetes.
    """
    if namespace_labels.get(ADMIN_ACCESS_LABEL) == "true":
        return ()
    if isinstance(new, ResourceClaim) and isinstance(old, ResourceClaim):
        return () if _has_admin_results(old) else _first_result(new)
    if isinstance(new, ResourceClaim):
        return _first_request(new.spec.devices)
    if isinstance(new, ResourceClaimTemplate) and old is None:
        return _first_request(new.spec.spec.devices)
    return ()


def _first_request(devices: DeviceClaim) -> tuple[FieldError, ...]:
    for index, request in enumerate(devices.requests):
        if request.exactly is not None and request.exactly.admin_access:
            return (forbidden(f"spec.devices.requests[{index}].adminAccess", _RULE),)
    return ()


def _has_admin_results(claim: ResourceClaim) -> bool:
    return bool(_first_result(claim))


def _first_result(claim: ResourceClaim) -> tuple[FieldError, ...]:
    results = claim.status.allocation.devices.results if claim.status.allocation is not None else ()
    for index, result in enumerate(results):
        if result.admin_access:
            return (forbidden(f"status.allocation.devices.results[{index}].adminAccess", _RULE),)
    return ()
