"""Who holds a device, since when: its claims, and the pods and VMs that these are for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.inventory.known_objects import KnownObjects, vm_of_pod, vm_of_pod_name


@dataclass(frozen=True, slots=True)
class ClaimUser:
    """A pod (or another consumer, by its resource) that a claim is reserved for, or that the claim was made for."""

    resource: str
    name: str
    vm: str = ""
    """The VM whose launcher the pod is."""
    node: str = ""
    reserved: bool = True

    def __str__(self) -> str:
        return f"VM {self.vm}" if self.vm else f"{'pod' if self.resource == 'pods' else self.resource} {self.name}"

    def to_json(self) -> Json:
        return {
            "resource": self.resource,
            "name": self.name,
            "vm": self.vm or None,
            "node": self.node or None,
            "reserved": self.reserved,
        }


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A claim that a device is allocated to. ``since``: the time of the allocation, "" if it isn't known; ``share``: of
    a shared device."""

    namespace: str
    claim: str
    request: str
    users: tuple[ClaimUser, ...]
    since: str = ""
    share: str = ""
    admin: bool = False

    def __str__(self) -> str:
        who = self.users[0] if len(self.users) == 1 else None
        what, name = "claim", self.claim
        if who is not None and who.vm:
            what, name = "VM", who.vm
        elif who is not None and who.resource == "pods":
            what, name = "pod", who.name
        return f"{what} {self.namespace}/{name}" + (" (admin access)" if self.admin else "")

    @property
    def vm(self) -> str:
        """The VM, if there is one."""
        return next((user.vm for user in self.users if user.vm), "")

    def to_json(self) -> Json:
        return {
            "namespace": self.namespace,
            "claim": self.claim,
            "request": self.request,
            "vm": self.vm or None,
            "users": [user.to_json() for user in self.users],
            "since": self.since or None,
            "shareID": self.share or None,
            "adminAccess": self.admin,
        }


def holders_of(known: KnownObjects) -> Mapping[DeviceId, tuple[DeviceHolder, ...]]:
    """The holders of all devices that are allocated, in the order of the claims."""
    found: dict[DeviceId, tuple[DeviceHolder, ...]] = defaultdict(tuple)
    for claim in known.of(ResourceClaim):
        allocation = claim.status.allocation
        if allocation is None:
            continue
        users, since = users_of(claim, known), allocation.allocation_timestamp or ""
        for result in allocation.devices.results:
            holder = DeviceHolder(
                claim.namespace,
                claim.name,
                result.request,
                users,
                since,
                result.share_id or "",
                bool(result.admin_access),
            )
            found[DeviceId(result.driver, result.pool, result.device)] += (holder,)
    return found


def users_of(claim: ResourceClaim, known: KnownObjects) -> tuple[ClaimUser, ...]:
    """Whom a claim is reserved for; before that, the pod that it was made for."""
    if claim.status.reserved_for:
        return tuple(
            _user(claim, known, each.name) if each.resource == "pods" else ClaimUser(each.resource, each.name)
            for each in claim.status.reserved_for
        )
    owner = next((each for each in claim.metadata.owner_references if each.kind == Pod.KIND), None)
    return (_user(claim, known, owner.name, reserved=False),) if owner is not None else ()


def _user(claim: ResourceClaim, known: KnownObjects, name: str, *, reserved: bool = True) -> ClaimUser:
    pod = known.pods.get((claim.namespace, name))
    if pod is None:
        return ClaimUser("pods", name, vm_of_pod_name(name), reserved=reserved)
    return ClaimUser("pods", name, vm_of_pod(pod), pod.spec.node_name or "", reserved)
