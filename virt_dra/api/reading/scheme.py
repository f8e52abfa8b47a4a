"""The class for each apiVersion and kind; the one way from a JSON object to a typed one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from virt_dra.api.conversion import to_v1
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.wire import WireError

_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "core_v1": ("Pod", "Node", "Namespace"),
    "resource_v1": (
        "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule",
        "ResourcePoolStatusRequest"
    ),
    "policies.quota_v1": ("ResourceQuota",),
    "policies.storage_v1": ("PersistentVolumeClaim", "PersistentVolume", "StorageClass"),
    "policies.node_policy_v1alpha1": ("VirtDraNodePolicy",),
    "profiles.device_profile_v1alpha1": ("DeviceProfile",),
    "keeping.keep_policy_v1alpha1": ("KeepPolicy",),
    "policies.rbac_v1": ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    "scheduling_v1": ("PodDisruptionBudget", "PriorityClass", "PodGroup", "Workload"),
    "kubevirt_v1": ("VirtualMachineInstance", "VirtualMachine", "KubeVirt"),
    "virt_dra_v1alpha1": ("VirtualMachineInstanceDevices",),
}  # fmt: skip
"""Module of virt_dra.api -> the kinds in it. It is imported for the first object of its kinds: 5 to 25 ms each."""
_MODULE_OF: Final = {kind: module for module, kinds in _MODULES.items() for kind in kinds}


@cache
def _imported(kind: str) -> type[TypedObject]:
    imported: type[TypedObject] = getattr(import_module(f"virt_dra.api.{_MODULE_OF[kind]}"), kind)
    return imported


def known_kind(api_version: str, kind: str) -> type[TypedObject] | None:
    """The class that reads objects of a kind; None if we know none."""
    if kind not in _MODULE_OF:
        return None
    imported = _imported(kind)
    return imported if api_version == imported.API_VERSION else None


@cache
def all_kinds() -> tuple[type[TypedObject], ...]:
    """Every class that reads a kind."""
    return tuple([_imported(kind) for kind in _MODULE_OF])


_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_API_VERSION = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}/)?[a-z0-9]{1,63}")


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
    kind = known_kind(converted["apiVersion"], converted["kind"]) or UnknownObject
    return kind.from_wire(converted)
