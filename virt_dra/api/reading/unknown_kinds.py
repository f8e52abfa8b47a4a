"""Classes that stand for kinds we have no type for."""

from __future__ import annotations

from functools import lru_cache

from virt_dra.api.meta import UnknownObject


@lru_cache(maxsize=1024)
def unknown_kind(api_version: str, kind: str) -> type[UnknownObject]:
    """A class that stands for a kind we have no type for, to be handed to ``get``, ``list``, ``patch``, ``delete`` and
    ``watch``.

    Whether it is namespaced, :func:`is_namespaced` says.
    """
    attributes = {"API_VERSION": api_version, "KIND": kind, "NAMESPACED": is_namespaced(kind)}
    return type(kind, (UnknownObject,), {**attributes, "__module__": __name__})


def is_namespaced(kind: str) -> bool:
    """False for one of Kubernetes' own cluster-scoped kinds, and for one that is called ``Cluster…``, as is the custom
    of others."""
    return kind not in _CLUSTER_SCOPED and not kind.startswith("Cluster")


_CLUSTER_SCOPED = frozenset({
    "APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ComponentStatus",
    "CustomResourceDefinition", "DeviceClass", "DeviceTaintRule", "FlowSchema", "IngressClass",
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace",
    "Node", "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourceClass",
    "ResourcePoolStatusRequest", "ResourceSlice", "RuntimeClass", "StorageClass", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VirtualMachineClusterInstancetype",
    "VirtualMachineClusterPreference", "VolumeAttachment", "VolumeAttributesClass",
})  # fmt: skip
