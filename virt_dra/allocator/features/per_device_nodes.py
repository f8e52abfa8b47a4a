"""KEP-4815, per-device node selection: a slice can hold devices of several nodes, each saying which (A-8.3, AC-21a)."""

from __future__ import annotations

from virt_dra.allocator.model import Filter, PoolDevice, Rejection, Request
from virt_dra.allocator.pools import Pools
from virt_dra.api.core_v1 import Node

NOT_ON_NODE = "DeviceNotOnNode"
"""The device's own node selection excludes the node."""


class PerDeviceNodes(Filter):
    """Runs after the selectors: a selector error on a device of another node is an error too (A-8.3)."""

    reusable = True

    def __init__(self, pools: Pools, node: Node) -> None:
        self._pools = pools
        self._node = node

    def admits(self, request: Request, device: PoolDevice) -> bool:
        if not device.slice.per_device_node_selection:
            return True
        published = device.published
        selector = published.node_selector
        if (
            not published.node_name
            and not published.all_nodes
            and selector is not None
            and len(selector.node_selector_terms) > 1
        ):
            return False  # no result could be written for it (AC-21a)
        return self._pools.selects_device(published, self._node)

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        return Rejection(
            NOT_ON_NODE, "device is not on this node", device.id, f"its node selection excludes node {self._node.name}"
        )
