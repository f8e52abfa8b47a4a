"""Namespaces and nodes that an input needs and doesn't have, and labels that every node has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virt_dra.api import names
from virt_dra.api.core_v1 import Namespace, Node
from virt_dra.api.integration.dedicated_cpus import CPU_MANAGER_LABEL
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.resource_v1 import ResourceSlice

NODE_LABELS: Mapping[str, str] = {
    "kubevirt.io/schedulable": "true",
    CPU_MANAGER_LABEL: "true",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
}
"""Labels that virt-handler and the kubelet set on every node; a node's own values take precedence."""
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""An API server sets it on every namespace. A stand-in, of which no label is known, doesn't have it."""
SOLE_NODE = "node-1"
"""The node of a cluster for which neither nodes nor slices name one."""


def labelled(obj: ObjectT) -> ObjectT:
    """A node with the labels of :data:`NODE_LABELS` and its host name's, unless it has them; a namespace with its own;
    others unchanged."""
    if isinstance(obj, Node):
        host = {"kubernetes.io/hostname": obj.name} if not names.label_value(obj.name) else {}
        labels = {**NODE_LABELS, **host, **obj.metadata.labels}
    elif isinstance(obj, Namespace):
        labels = {**obj.metadata.labels, NAMESPACE_LABEL: obj.name}
    else:
        return obj
    return obj if labels == obj.metadata.labels else obj.with_(metadata=obj.metadata.with_(labels=labels))


def stand_ins(objects: Iterable[TypedObject], wanted_node: str | None) -> tuple[TypedObject, ...]:
    """The namespaces of objects, and, for an input without Nodes, the nodes that slices name (or a single one)."""
    objects = tuple(objects)
    namespaces = dict.fromkeys(obj.namespace for obj in objects if obj.namespace)
    existing = {obj.name for obj in objects if isinstance(obj, Namespace)}
    made: list[TypedObject] = [Namespace(metadata=ObjectMeta(name=name)) for name in namespaces if name not in existing]
    if not any(isinstance(obj, Node) for obj in objects):
        slices = [obj for obj in objects if isinstance(obj, ResourceSlice)]
        names = {obj.spec.node_name: None for obj in slices if obj.spec.node_name}
        names |= {device.node_name: None for obj in slices for device in obj.spec.devices if device.node_name}
        if wanted_node is not None:
            names[wanted_node] = None
        made += [Node(metadata=ObjectMeta(name=name)) for name in (names or {SOLE_NODE: None}) if name]
    return tuple(made)
