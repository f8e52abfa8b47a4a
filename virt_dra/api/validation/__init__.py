"""Validation as in an API server: the rules of resource.k8s.io and of the claims in a Pod, in Kubernetes' words
(A-22.6..A-22.12, C-14).

    validate_create(obj)               an object about to be stored, defaults filled in, namespace and name settled
    validate_update(new, old)          a change of anything but status
    validate_status_update(new, old)   a change of status

Each returns every fault at once, in the order of the object's fields; a valid object has none. The metadata of every
kind is checked; beyond that ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceClass, DeviceTaintRule and
ResourcePoolStatusRequest, VirtDraNodePolicy, DeviceProfile and KeepPolicy whole, and of a Pod ``spec.resourceClaims``,
``resources.claims`` and ``status.resourceClaimStatuses``. No other field of another kind is checked.

Pure and below CEL: who can compile expressions hands a check in (:class:`Rules`). Admin access needs the namespace's
labels and so is a check of its own, :func:`admin_access` (A-22.10). The writer's permissions (C-13.6) are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final

from virt_dra.api import names
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.policy_rules import keep_policy
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.policies.node_policy_rules import node_policy
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.rules import device_profile
from virt_dra.api.resource_v1 import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from virt_dra.api.scheduling_v1 import PodGroup, PriorityClass, Workload
from virt_dra.api.validation import (
    claim_status,
    claims,
    classes,
    metadata,
    pod_groups,
    pods,
    pool_requests,
    slices,
    taints,
)
from virt_dra.api.validation.admin_access import admin_access
from virt_dra.api.validation.field_errors import Errors, ErrorType, FieldError, invalid_message
from virt_dra.api.validation.rules import DEFAULT_RULES, TOO_COMPLEX, ExpressionCheck, Rules

__all__ = [
    "DEFAULT_RULES",
    "TOO_COMPLEX",
    "ErrorType",
    "ExpressionCheck",
    "FieldError",
    "Rules",
    "admin_access",
    "invalid_message",
    "kind_with_group",
    "validate_create",
    "validate_status_update",
    "validate_update",
]


def validate_create(obj: TypedObject, rules: Rules = DEFAULT_RULES) -> tuple[FieldError, ...]:
    """The faults of an object that is to be created. Its status is not checked: creation clears it (C-13.1)."""
    rule = _CREATE.get(type(obj))
    return _once(metadata.created(obj, _name_rule(obj)), rule(obj, rules) if rule else ())


def validate_update(new: TypedObject, old: TypedObject, rules: Rules = DEFAULT_RULES) -> tuple[FieldError, ...]:
    """The faults of replacing ``old`` by ``new``, both of one kind. Status is not checked."""
    needs_version = isinstance(new, DeviceTaintRule | ResourcePoolStatusRequest | PodGroup | Workload)
    rule = _UPDATE.get(type(new)) if type(new) is type(old) else None
    return _once(metadata.updated(new, old, needs_version=needs_version), rule(new, old, rules) if rule else ())


def validate_status_update(new: TypedObject, old: TypedObject, rules: Rules = DEFAULT_RULES) -> tuple[FieldError, ...]:
    """The faults of replacing ``old``'s status by that of ``new``, which has the stored metadata and spec (C-13.1)."""
    rule = _STATUS_UPDATE.get(type(new)) if type(new) is type(old) else None
    return _once(rule(new, old) if rule else ())


def _once(*errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    """Equal faults, as two empty parts of a name have them, are one."""
    return tuple(dict.fromkeys(chain(*errors)))


def kind_with_group(obj: TypedObject) -> str:
    """``ResourceClaim.resource.k8s.io``; in the core group just ``Pod``. As :func:`invalid_message` wants it."""
    group = (obj.api_version or obj.API_VERSION).rpartition("/")[0]
    kind = obj.kind or obj.KIND
    return f"{kind}.{group}" if group else kind


def _name_rule(obj: TypedObject) -> metadata.NameRule:
    if isinstance(obj, UnknownObject):
        return metadata.path_segment
    if isinstance(obj, DeviceClass):
        return lambda name: names.dns1123_subdomain(name, "bytes")
    return names.dns1123_label if isinstance(obj, Namespace | DeviceProfile) else names.dns1123_subdomain


_CREATE: Final[Mapping[type[TypedObject], Callable[[Any, Rules], Errors]]] = {
    ResourceClaim: claims.claim,
    ResourceClaimTemplate: claims.template,
    ResourceSlice: lambda obj, rules: slices.resource_slice(obj, None, rules),
    DeviceClass: lambda obj, rules: classes.device_class(obj, None, rules),
    DeviceTaintRule: lambda obj, _: taints.taint_rule(obj, None),
    ResourcePoolStatusRequest: pool_requests.pool_request,
    Pod: lambda obj, _: pods.pod(obj),
    PodGroup: lambda obj, _: pod_groups.pod_group(obj),
    Workload: lambda obj, _: pod_groups.workload(obj),
    VirtDraNodePolicy: lambda obj, _: node_policy(obj),
    DeviceProfile: device_profile,
    KeepPolicy: lambda obj, _: keep_policy(obj),
    PriorityClass: lambda obj, _: pod_groups.priority_class(obj),
}
_UPDATE: Final[Mapping[type[TypedObject], Callable[[Any, Any, Rules], Errors]]] = {
    ResourceClaim: lambda new, old, _: claims.claim_update(new, old),
    ResourceClaimTemplate: lambda new, old, _: claims.template_update(new, old),
    ResourceSlice: slices.resource_slice,
    DeviceClass: classes.device_class,
    DeviceTaintRule: lambda new, old, _: taints.taint_rule(new, old),
    ResourcePoolStatusRequest: lambda new, old, _: pool_requests.pool_request_update(new, old),
    Pod: lambda new, old, _: pods.pod_update(new, old),
    PodGroup: lambda new, old, _: pod_groups.pod_group_update(new, old),
    PriorityClass: lambda new, old, _: pod_groups.priority_class_update(new, old),
    **{
        kind: lambda new, _, rules: _CREATE[type(new)](new, rules)
        for kind in (VirtDraNodePolicy, DeviceProfile, KeepPolicy)
    },
}
_STATUS_UPDATE: Final[Mapping[type[TypedObject], Callable[[Any, Any], Errors]]] = {
    ResourceClaim: claim_status.claim_status_update,
    DeviceTaintRule: lambda new, _: taints.taint_rule_status(new),
    ResourcePoolStatusRequest: pool_requests.pool_request_status,
    Pod: lambda new, _: pods.pod_status(new),
    PodGroup: lambda new, _: pod_groups.pod_group_status(new),
}
