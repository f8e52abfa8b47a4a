"""The namespace of an object that names none."""

from __future__ import annotations

from virt_dra.api.meta import ObjectT, UnknownObject


def in_namespace(obj: ObjectT, namespace: str) -> ObjectT:
    """The object in a namespace: its own, else the given one; none for a kind without namespaces."""
    if obj.namespace or not (is_namespaced(obj.kind) if isinstance(obj, UnknownObject) else obj.NAMESPACED):
        return obj
    return obj.with_(metadata=obj.metadata.with_(namespace=namespace))


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
