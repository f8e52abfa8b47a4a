"""What ``virt-dra lint --live`` reads of a cluster: once, kind by kind."""

from __future__ import annotations

from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.port import NotFound, Reader

NEEDED: Final[tuple[type[TypedObject], ...]] = (ResourceClaimTemplate, ResourceClaim, DeviceClass, ResourceSlice, Node)
OPTIONAL: Final[tuple[type[TypedObject], ...]] = (DeviceTaintRule, KubeVirt, VirtualMachine, VirtualMachineInstance)
"""What a cluster may not serve: KubeVirt's kinds, and taint rules where Kubernetes is older."""


async def gather(cluster: Reader) -> tuple[TypedObject, ...]:
    """All objects that the lint looks at, of all namespaces. Raises ApiError."""
    found: list[TypedObject] = []
    for kind in NEEDED:
        found += (await cluster.list(kind)).items
    for kind in OPTIONAL:
        try:
            found += (await cluster.list(kind)).items
        except NotFound:
            continue
    return tuple(found)
