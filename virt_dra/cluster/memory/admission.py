"""The admission of a write: defaults and validation of each kind, and the namespace's consent to admin access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.resource_v1 import (
    ADMIN_ACCESS_LABEL,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from virt_dra.cluster.port import StatusCause


class Admission(Protocol):
    """The rules of the kinds. Faults are returned, all at once; none means admitted."""

    def defaulted(self, obj: TypedObject, now: str) -> TypedObject:
        """The object with what it implies filled in. ``now`` is RFC 3339."""

    def permitted(self, new: ObjectT, old: ObjectT | None) -> ObjectT:
        """The object without the fields of disabled gates that ``old`` of an update doesn't use already (C-13.4)."""

    def permitted_status(self, new: ObjectT, old: ObjectT) -> ObjectT:
        """The same for the fields of its status."""

    def on_create(self, obj: TypedObject) -> Sequence[StatusCause]: ...

    def on_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]: ...

    def on_status_update(self, new: TypedObject, old: TypedObject) -> Sequence[StatusCause]: ...


def admin_access_on_create(obj: TypedObject, namespace: Namespace | None) -> tuple[StatusCause, ...]:
    """C-13.7: a claim or template that asks for admin access needs its namespace's consent."""
    if isinstance(obj, ResourceClaim):
        requests = obj.spec.devices.requests
    elif isinstance(obj, ResourceClaimTemplate):
        requests = obj.spec.spec.devices.requests
    else:
        return ()
    # The same path for both kinds and without "exactly": upstream's wording.
    paths = (f"spec.devices.requests[{index}].adminAccess" for index, request in enumerate(requests) if _asks(request))
    return _consent(next(paths, None), namespace)


def admin_access_on_status(new: TypedObject, old: TypedObject, namespace: Namespace | None) -> tuple[StatusCause, ...]:
    """C-13.7: an allocation that newly grants admin access needs the namespace's consent, too."""
    if (
        not isinstance(new, ResourceClaim)
        or not isinstance(old, ResourceClaim)
        or any(result.admin_access for result in old.results)
    ):
        return ()
    paths = (
        f"status.allocation.devices.results[{index}].adminAccess"
        for index, result in enumerate(new.results)
        if result.admin_access
    )
    return _consent(next(paths, None), namespace)


def _asks(request: DeviceRequest) -> bool:
    return request.exactly is not None and bool(request.exactly.admin_access)


def _consent(path: str | None, namespace: Namespace | None) -> tuple[StatusCause, ...]:
    if path is None or (namespace is not None and namespace.metadata.labels.get(ADMIN_ACCESS_LABEL) == "true"):
        return ()
    rule = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    return (StatusCause(path, "FieldValueForbidden", f"Forbidden: {rule}"),)
