"""Classes that stand for kinds we have no type for."""

from __future__ import annotations

from functools import lru_cache

from virt_dra.api.meta import UnknownObject


@lru_cache(maxsize=1024)
def unknown_kind(api_version: str, kind: str) -> type[UnknownObject]:
    """A class that stands for a kind we have no type for, to be handed to ``get``, ``list``, ``patch``, ``delete`` and
    ``watch``.

    It is namespaced unless it is one of Kubernetes' own cluster-scoped kinds or is called ``Cluster…``, as is the
    custom of others.
    """
    namespaced = kind not in _CLUSTER_SCOPED and not kind.startswith("Cluster")
    attributes = {"API_VERSION": api_version, "KIND": kind, "NAMESPACED": namespaced}
    return type(kind, (UnknownObject,), {**attributes, "__module__": __name__})


_CLUSTER_SCOPED = frozenset({
    "APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ComponentStatus",
    "CustomResourceDefinition", "DeviceClass", "FlowSchema", "IngressClass", "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume",
    "PriorityClass", "PriorityLevelConfiguration", "RuntimeClass", "StorageClass", "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment", "VolumeAttributesClass",
    "VirtualMachineClusterInstancetype", "VirtualMachineClusterPreference",
})  # fmt: skip
