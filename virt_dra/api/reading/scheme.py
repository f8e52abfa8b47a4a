"""Which class reads which apiVersion and kind; the one way from a JSON object to a typed one."""

from __future__ import annotations

import re
from typing import Any

from virt_dra.api import core_v1, kubevirt_v1, resource_v1, scheduling_v1, virt_dra_v1alpha1
from virt_dra.api.conversion import to_v1
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.policies import quota_v1, rbac_v1
from virt_dra.api.wire import WireError

KINDS: tuple[type[TypedObject], ...] = (
    core_v1.Pod,
    core_v1.Node,
    core_v1.Namespace,
    resource_v1.ResourceSlice,
    resource_v1.ResourceClaim,
    resource_v1.ResourceClaimTemplate,
    resource_v1.DeviceClass,
    resource_v1.DeviceTaintRule,
    resource_v1.ResourcePoolStatusRequest,
    quota_v1.ResourceQuota,
    rbac_v1.Role,
    rbac_v1.ClusterRole,
    rbac_v1.RoleBinding,
    rbac_v1.ClusterRoleBinding,
    scheduling_v1.PodDisruptionBudget,
    scheduling_v1.PriorityClass,
    scheduling_v1.PodGroup,
    scheduling_v1.Workload,
    kubevirt_v1.VirtualMachineInstance,
    kubevirt_v1.VirtualMachine,
    kubevirt_v1.KubeVirt,
    virt_dra_v1alpha1.VirtualMachineInstanceDevices,
)

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_API_VERSION = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}/)?[a-z0-9]{1,63}")
_BY_KIND = {(kind.API_VERSION, kind.KIND): kind for kind in KINDS}


def read_object(raw: object) -> TypedObject:
    """A JSON object -> the typed object in its storage version (v1 for resource.k8s.io and kubevirt.io).

    Objects of a kind we don't know come back as :class:`UnknownObject`, whole. Raises :class:`WireError`.
    """
    if not isinstance(raw, dict):
        raise WireError("Object", (("", "a Kubernetes object must be a JSON object"),))
    for field in ("apiVersion", "kind"):
        if not isinstance(raw.get(field), str) or not raw[field]:
            raise WireError("Object", ((field, "is required and must be a string"),))
    if not _KIND.fullmatch(raw["kind"]):
        raise WireError("Object", (("kind", "must be letters and digits, such as ResourceClaim"),))
    if not _API_VERSION.fullmatch(raw["apiVersion"]):
        raise WireError("Object", (("apiVersion", "must be a version or group/version, such as resource.k8s.io/v1"),))
    converted: dict[str, Any] = to_v1(raw)
    kind = _BY_KIND.get((converted["apiVersion"], converted["kind"]), UnknownObject)
    return kind.from_wire(converted)
