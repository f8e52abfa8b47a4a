"""The admission plugin NodeDeclaredFeatures for slices (C-13.13): some devices need nodes that know them."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.api.core_v1 import Node
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.node_selection import NodeMatcher
from virt_dra.api.resource_v1 import Device, ResourceSlice, ResourceSliceSpec
from virt_dra.cluster.memory.plugins.write_request import WriteRequest

FEATURE = "DRANodeAllocatableResources"


def check_node_features(request: WriteRequest) -> tuple[TypedObject, ...]:
    """Raises :class:`Forbidden` for a device that uses its node's resources, if the node doesn't declare the
    feature."""
    if isinstance(request.new, ResourceSlice) and request.gates.node_allocatable_resources:
        for device in request.new.spec.devices:
            if device.node_allocatable_resources:
                for node in _nodes_of(device, request.new.spec, request):
                    if FEATURE not in node.status.declared_features:
                        raise request.refused(f"node {quoted(node.name)} does not support {FEATURE} feature")
    return ()


def _nodes_of(device: Device, spec: ResourceSliceSpec, request: WriteRequest) -> Iterable[Node]:
    where = device if spec.per_device_node_selection else spec
    if where.node_selector is not None:
        matcher = NodeMatcher(where.node_selector, lenient=True)
        return [node for node in request.stored.every(Node) if matcher.matches(node)]
    if where.all_nodes:
        return request.stored.every(Node)
    if not where.node_name:
        lost = (
            f"device {quoted(device.name)} in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
        )
        raise request.refused(lost)
    node = request.stored.find(Node, where.node_name)
    if node is None:
        raise request.refused(f"node {quoted(where.node_name)} not found for device {quoted(device.name)}")
    return (node,)
