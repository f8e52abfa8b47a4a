"""The checks of ``virt-dra node-check`` in their order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from node_driver.node_check import device_checks as device
from node_driver.node_check import kernel_checks as kernel
from node_driver.node_check.facts import NodeExamination
from virt_dra.api.integration.check_findings import CheckFinding

NodeCheck = Callable[[NodeExamination], Iterator[CheckFinding]]

CHECKS: Final[tuple[NodeCheck, ...]] = (
    kernel.iommu,
    kernel.vfio,
    kernel.device_nodes,
    kernel.kvm,
    kernel.huge_pages,
    kernel.locked_memory,
    kernel.programs,
    kernel.container_runtimes,
    device.devices,
    device.groups,
    device.resets,
    device.published,
    device.mdev_sweep,
)


def examine_node(node: NodeExamination) -> tuple[CheckFinding, ...]:
    """All findings, by check."""
    return tuple(finding for check in CHECKS for finding in check(node))
