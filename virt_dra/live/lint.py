"""What ``virt-dra lint --live`` reads of a cluster: once, kind by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.instancetypes import expansion as instancetypes
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.kinds import unknown_kind
from virt_dra.cluster.port import Forbidden, NotFound, Reader

NEEDED: Final[tuple[type[TypedObject], ...]] = (ResourceClaimTemplate, ResourceClaim, DeviceClass, ResourceSlice, Node)
OPTIONAL: Final[tuple[type[TypedObject], ...]] = (DeviceTaintRule, KubeVirt, VirtualMachine, VirtualMachineInstance)
"""What a cluster may not serve: KubeVirt's kinds, and taint rules where Kubernetes is older."""


INSTANCETYPES: Final = tuple(unknown_kind(instancetypes.API_VERSION, kind) for kind in instancetypes.KINDS)
REVISIONS: Final = unknown_kind("apps/v1", instancetypes.REVISION)


@dataclass(frozen=True)
class Gathered:
    """What was read of a cluster.

    ``unknown``: kinds that the user may not read. A kind that the cluster doesn't serve has no objects, and is known.
    """

    objects: tuple[TypedObject, ...]
    unknown: frozenset[str] = frozenset()


async def gather(cluster: Reader) -> Gathered:
    """All objects that the lint reads, of all namespaces. Raises ApiError."""
    found: list[TypedObject] = []
    unknown: set[str] = set()
    for kind in NEEDED:
        found += (await cluster.list(kind)).items
    for kind in OPTIONAL:
        try:
            found += (await cluster.list(kind)).items
        except NotFound:
            continue
    for named in (*INSTANCETYPES, REVISIONS):
        labels = instancetypes.REVISED if named is REVISIONS else ""  # all others are of workloads
        try:
            found += (await cluster.list(named, labels=labels)).items
        except NotFound:
            continue
        except Forbidden:
            unknown.add(named.KIND)
    return Gathered(tuple(found), frozenset(unknown))
