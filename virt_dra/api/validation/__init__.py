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

from itertools import chain

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
    return _once(metadata.created(obj, _name_rule(obj)), _create(obj, rules))


def validate_update(new: TypedObject, old: TypedObject, rules: Rules = DEFAULT_RULES) -> tuple[FieldError, ...]:
    """The faults of replacing ``old`` by ``new``, both of one kind. Status is not checked."""
    needs_version = isinstance(new, DeviceTaintRule | ResourcePoolStatusRequest | PodGroup | Workload)
    return _once(metadata.updated(new, old, needs_version=needs_version), _update(new, old, rules))


def validate_status_update(new: TypedObject, old: TypedObject, rules: Rules = DEFAULT_RULES) -> tuple[FieldError, ...]:
    """The faults of replacing the status of ``old`` by that of ``new``, which has the stored metadata and spec
    (C-13.1)."""
    return _once(_status_update(new, old))


def _once(*errors: Errors) -> tuple[FieldError, ...]:
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


def _create(obj: TypedObject, rules: Rules) -> Errors:
    match obj:
        case ResourceClaim():
            yield from claims.claim(obj, rules)
        case ResourceClaimTemplate():
            yield from claims.template(obj, rules)
        case ResourceSlice():
            yield from slices.resource_slice(obj, None, rules)
        case DeviceClass():
            yield from classes.device_class(obj, None, rules)
        case DeviceTaintRule():
            yield from taints.taint_rule(obj, None)
        case ResourcePoolStatusRequest():
            yield from pool_requests.pool_request(obj, rules)
        case Pod():
            yield from pods.pod(obj)
        case PodGroup():
            yield from pod_groups.pod_group(obj)
        case Workload():
            yield from pod_groups.workload(obj)
        case VirtDraNodePolicy():
            yield from node_policy(obj)
        case DeviceProfile():
            yield from device_profile(obj, rules)
        case KeepPolicy():
            yield from keep_policy(obj)
        case PriorityClass():
            yield from pod_groups.priority_class(obj)


def _update(new: TypedObject, old: TypedObject, rules: Rules) -> Errors:
    match new, old:
        case ResourceClaim(), ResourceClaim():
            yield from claims.claim_update(new, old)
        case ResourceClaimTemplate(), ResourceClaimTemplate():
            yield from claims.template_update(new, old)
        case ResourceSlice(), ResourceSlice():
            yield from slices.resource_slice(new, old, rules)
        case DeviceClass(), DeviceClass():
            yield from classes.device_class(new, old, rules)
        case DeviceTaintRule(), DeviceTaintRule():
            yield from taints.taint_rule(new, old)
        case ResourcePoolStatusRequest(), ResourcePoolStatusRequest():
            yield from pool_requests.pool_request_update(new, old)
        case Pod(), Pod():
            yield from pods.pod_update(new, old)
        case PodGroup(), PodGroup():
            yield from pod_groups.pod_group_update(new, old)
        case PriorityClass(), PriorityClass():
            yield from pod_groups.priority_class_update(new, old)
        case VirtDraNodePolicy(), VirtDraNodePolicy():
            yield from node_policy(new)
        case DeviceProfile(), DeviceProfile():
            yield from device_profile(new, rules)
        case KeepPolicy(), KeepPolicy():
            yield from keep_policy(new)


def _status_update(new: TypedObject, old: TypedObject) -> Errors:
    match new, old:
        case ResourceClaim(), ResourceClaim():
            yield from claim_status.claim_status_update(new, old)
        case DeviceTaintRule(), DeviceTaintRule():
            yield from taints.taint_rule_status(new)
        case ResourcePoolStatusRequest(), ResourcePoolStatusRequest():
            yield from pool_requests.pool_request_status(new, old)
        case Pod(), Pod():
            yield from pods.pod_status(new)
        case PodGroup(), PodGroup():
            yield from pod_groups.pod_group_status(new)
