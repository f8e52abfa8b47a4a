"""The admission plugin NodeDeclaredFeatures for slices (C-13.13): devices that use a node's own resources need nodes
that know them."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.api.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import Device, ResourceSlice, ResourceSliceSpec
from virt_dra.cluster.memory.plugins.write_request import WriteRequest

FEATURE = "DRANodeAllocatableResources"


def check_node_features(request: WriteRequest) -> tuple[TypedObject, ...]:
    """Refuses a slice with a device that uses a node's own resources, where the node isn't there or doesn't declare the
    feature. Raises :class:`Forbidden`."""
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
        selector = where.node_selector
        return [node for node in request.stored.every(Node) if _selects(selector, node)]
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


def _selects(selector: NodeSelector, node: Node) -> bool:
    return any(_fulfils(term, node) for term in selector.node_selector_terms)


def _fulfils(term: NodeSelectorTerm, node: Node) -> bool:
    """An empty term selects nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_meets(requirement, node.metadata.labels) for requirement in term.match_expressions) and all(
        _meets(requirement, fields) for requirement in term.match_fields
    )


def _meets(requirement: NodeSelectorRequirement, values: dict[str, str]) -> bool:
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            bound = requirement.values[0] if len(requirement.values) == 1 else ""
            if value is None or not _is_number(value) or not _is_number(bound):
                return False
            return int(value) > int(bound) if requirement.operator == "Gt" else int(value) < int(bound)
    return False


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 19
