"""ResourceClaims: what they have, and whom they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from virt_dra.allocator.model import DeviceId
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.inventory.document_types import ClaimRowJson, device_id_json
from virt_dra.inventory.fields import RowFields
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.usage import ClaimUser, held_since, users_of

PENDING: Final = "pending"
ALLOCATED: Final = "allocated"
RESERVED: Final = "reserved"
DELETING: Final = "deleting"


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim. ``since``: when it was allocated, else when it was created; ``node``: where its devices can be used, if
    that is one node."""

    resource: ClassVar = "resourceclaim.resource.k8s.io"
    FIELDS: ClassVar[RowFields] = {
        "namespace": lambda row: (row.namespace,),
        "name": lambda row: (row.claim.name,),
        "state": lambda row: (row.state,),
        "driver": lambda row: tuple(dict.fromkeys(device.driver for device in row.devices)),
        "pool": lambda row: tuple(dict.fromkeys(device.pool for device in row.devices)),
        "device": lambda row: tuple(device.device for device in row.devices),
        "node": lambda row: (row.node,),
        "class": lambda row: row.classes,
        "vm": lambda row: tuple(user.vm for user in row.users if user.vm),
        "pod": lambda row: tuple(user.name for user in row.users if user.resource == "pods"),
        "since": lambda row: (row.since,),
    }

    claim: ResourceClaim
    state: str
    devices: tuple[DeviceId, ...]
    node: str
    users: tuple[ClaimUser, ...]
    since: str

    @property
    def namespace(self) -> str:
        return self.claim.namespace

    @property
    def name(self) -> str:
        return self.claim.name

    @property
    def names(self) -> tuple[str, ...]:
        return self.claim.name, self.claim.key

    @property
    def identity(self) -> str:
        return self.claim.key

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        return (self.claim.metadata.labels,)

    @property
    def classes(self) -> tuple[str, ...]:
        """The DeviceClasses that its requests name."""
        named = [
            asked.device_class_name
            for request in self.claim.spec.devices.requests
            for asked in ((request.exactly,) if request.exactly is not None else request.first_available)
        ]
        return tuple(dict.fromkeys(filter(None, named)))

    def to_json(self) -> ClaimRowJson:
        return {
            "namespace": self.namespace,
            "name": self.claim.name,
            "state": self.state,
            "devices": [device_id_json(device) for device in self.devices],
            "node": self.node or None,
            "classes": list(self.classes),
            "for": [user.to_json() for user in self.users],
            "since": self.since or None,
        }


def claim_rows(model: ClusterModel) -> list[ClaimRow]:
    """All claims, in order of namespace and name."""
    return [_row(claim, model) for claim in model.of(ResourceClaim)]


def _row(claim: ResourceClaim, model: ClusterModel) -> ClaimRow:
    allocation, users = claim.status.allocation, users_of(claim, model)
    results = allocation.devices.results if allocation is not None else ()
    devices = tuple(DeviceId(result.driver, result.pool, result.device) for result in results)
    if claim.metadata.deletion_timestamp:
        state = DELETING
    else:
        state = PENDING if allocation is None else RESERVED if claim.status.reserved_for else ALLOCATED
    node = claim_node(claim) or next((user.node for user in users if user.node and user.reserved), "")
    since = held_since(claim, users) if allocation is not None else claim.metadata.creation_timestamp or ""
    return ClaimRow(claim, state, devices, node, users, since)
