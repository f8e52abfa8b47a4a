"""The namespace of an object that names none."""

from __future__ import annotations

from virt_dra.api.meta import ObjectT, UnknownObject
from virt_dra.api.reading.scheme import known_kind


def in_namespace(obj: ObjectT, namespace: str) -> ObjectT:
    """The object in a namespace: its own, else the given one; none for a kind without namespaces."""
    if obj.namespace:
        return obj
    namespaced = is_namespaced(obj.api_version, obj.kind) if isinstance(obj, UnknownObject) else obj.NAMESPACED
    if not namespaced:
        return obj
    return obj.with_(metadata=obj.metadata.with_(namespace=namespace))


def is_namespaced(api_version: str, kind: str) -> bool:
    """Whether objects of the kind live in namespaces. Of kinds without a type, Kubernetes' own cluster-scoped ones and
    those called ``Cluster…``, as is the custom of others, don't."""
    typed = known_kind(api_version, kind)
    if typed is not None:
        return typed.NAMESPACED
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
