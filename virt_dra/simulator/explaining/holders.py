"""Who holds a device: the claim, the pod and VM that it is reserved for, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim

Holders = Mapping[DeviceId, tuple["Holder", ...]]
"""By device; several share one."""


@dataclass(frozen=True)
class Holder:
    """A claim that has devices. ``vm``, ``pod``: keys of the VMI and of the pod that use it, if they are known.
    ``since``: an RFC 3339 time, of the allocation if it says so, else of the pod's start, else of the claim's creation;
    "" if unknown."""

    claim: ResourceClaim
    vm: str = ""
    pod: Pod | None = None
    since: str = ""

    @property
    def user(self) -> str:
        """``VM ns/name``, else the pod, else the claim."""
        if self.vm:
            return f"VM {self.vm}"
        return f"pod {self.pod.key}" if self.pod is not None else f"claim {self.claim.key}"

    def __str__(self) -> str:
        of = "" if self.user.startswith("claim ") else f" (claim {self.claim.name})"
        return f"{self.user}{of}{f' since {self.since}' if self.since else ''}"


def holder_of(claim: ResourceClaim, pods: Mapping[str, Pod]) -> Holder:
    """``pods``: by UID."""
    consumers = [pods[each.uid] for each in claim.status.reserved_for if each.uid in pods]
    pod = consumers[0] if consumers else None
    allocation = claim.status.allocation
    since = (
        (allocation.allocation_timestamp if allocation is not None else None)
        or _started(pod)
        or claim.metadata.creation_timestamp
    )
    return Holder(claim, _vm_of(pod), pod, since or "")


def holders_by_device(claims: Iterable[ResourceClaim], pods: Mapping[str, Pod]) -> Holders:
    """``pods``: by UID. Devices of admin access aren't held."""
    found: defaultdict[DeviceId, list[Holder]] = defaultdict(list)
    for claim in claims:
        if claim.status.allocation is None:
            continue
        holder = holder_of(claim, pods)
        for result in claim.status.allocation.devices.results:
            if not result.admin_access:
                found[DeviceId(result.driver, result.pool, result.device)].append(holder)
    return {device: tuple(each) for device, each in found.items()}


def _vm_of(pod: Pod | None) -> str:
    """The key of the VMI that controls a pod."""
    owner = pod.metadata.controller_owner if pod is not None else None
    return (
        f"{pod.namespace}/{owner.name}"
        if pod is not None and owner is not None and owner.kind == VirtualMachineInstance.KIND
        else ""
    )


def _started(pod: Pod | None) -> str:
    given = (pod.status.model_extra or {}).get("startTime") if pod is not None else None
    return given if isinstance(given, str) else ""
