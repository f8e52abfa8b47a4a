"""KEP-5945: devices that need no preparation on the node, by their slice's `skipNodeOperations`; the node must know how
to skip (A-10.3). Off: where any alpha feature is on, such a device can't be used; with none, the field is ignored
(A-2.3)."""

from __future__ import annotations

from typing import Any

from virt_dra.allocator.features.static import StaticCheck, feature_off
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Check, PoolDevice, Rejection, Request
from virt_dra.api.core_v1 import Node

GATE = "DRAOptionalNodeOperations"
"""The gate, and what a node declares that understands it (`status.declaredFeatures`)."""

NOT_DECLARED = "NodeLacksFeature"
"""The node doesn't declare a feature that the device needs of it."""


def checks(features: Features, node: Node) -> tuple[Check, ...]:
    """The check, if there is anything to check."""
    if features.optional_node_operations:
        return () if GATE in node.status.declared_features else (_NotDeclared(node),)
    return (_Off(),) if features.experimental else ()


class _NoSkipping(StaticCheck):
    def add(self, request: Request, device: PoolDevice) -> bool:
        return not device.slice.skip_node_operations


class _NotDeclared(_NoSkipping):
    def __init__(self, node: Node) -> None:
        self._node = node.name

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        operations = ", ".join(device.slice.skip_node_operations)
        detail = f"its slice skips node operations ({operations}), and node {self._node} does not declare {GATE}"
        return Rejection(NOT_DECLARED, f"node does not declare {GATE}", device.id, detail)


class _Off(_NoSkipping):
    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        return feature_off(device, GATE)


def write(fields: dict[str, Any], device: PoolDevice) -> None:
    """Writes the operations that the node skips (A-18.1)."""
    operations = device.slice.skip_node_operations
    if operations:
        fields["skip_node_operations"] = operations
