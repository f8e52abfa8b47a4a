"""The outcome of resolving one device: its address, or the reason why there is none yet (K-5.12). Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from virt_dra.api.integration.attribute_keys import CONFLICTING_ATTRIBUTES, NO_ADDRESS, Addresses
from virt_dra.api.kubevirt_v1 import DeviceStatus, DeviceStatusInfo
from virt_dra.api.resource_v1 import DeviceRequestAllocationResult
from virt_dra.api.wire import Json, present
from virt_dra.controllers.devices.subjects import DeviceSubject
from virt_dra.model.published import PublishedDevice

POD_MISSING: Final = "PodMissing"
"""The VMI has no current launcher pod (K-5.1)."""
CLAIM_NOT_LISTED: Final = "ClaimNotListed"
"""No usable entry of resourceClaims has the device's claimName (K-5.2)."""
CLAIM_NOT_GENERATED: Final = "ClaimNotGenerated"
"""No claim has been made from the template yet (K-5.3)."""
CLAIM_NOT_NEEDED: Final = "ClaimNotNeeded"
"""The pod's status says that the entry needs no claim (K-5.3)."""
CLAIM_MISSING: Final = "ClaimMissing"
"""The claim object does not exist (K-5.4)."""
CLAIM_FOREIGN: Final = "ClaimForeign"
"""The claim belongs to another pod, or status and spec of the pod disagree about it (K-5.3, K-5.4)."""
NOT_RESERVED: Final = "NotReserved"
"""The claim is allocated but not reserved for this pod (K-5.4)."""
CLAIM_IN_USE: Final = "ClaimInUse"
"""Another pod was reserved for the claim first, and a device can be passed to one VM at a time (K-5.36)."""
NOT_ALLOCATED: Final = "NotAllocated"
"""The claim has no allocation yet (K-5.5)."""
REQUEST_NOT_IN_CLAIM: Final = "RequestNotInClaim"
"""The allocation has no result for the device's requestName (K-5.6)."""
ADMIN_ACCESS: Final = "AdminAccess"
"""The device was allocated for administration, which a VM never gets (K-5.7)."""
TOO_MANY_DEVICES: Final = "TooManyDevices"
"""More devices were allocated than entries ask for (K-5.8)."""
TOO_FEW_DEVICES: Final = "TooFewDevices"
"""Option spread: more entries of one claim and request than devices (K-5.23)."""
POOL_INCOMPLETE: Final = "PoolIncomplete"
"""The driver is still publishing the pool's newest generation (K-5.9)."""
NODE_MISMATCH: Final = "NodeMismatch"
"""The device is on another node than the pod (K-5.9)."""
DEVICE_NOT_PUBLISHED: Final = "DeviceNotPublished"
"""No slice of the pool's newest generation has the device (K-5.9)."""
AMBIGUOUS_DEVICE: Final = "AmbiguousDevice"
"""The newest generation has the device more than once (K-5.10)."""
DUPLICATE_ADDRESS: Final = "DuplicateAddress"
"""Another device of this VMI has the same address (K-5.13)."""
REASONS: Final = (
    POD_MISSING, CLAIM_NOT_LISTED, CLAIM_NOT_GENERATED, CLAIM_NOT_NEEDED, CLAIM_MISSING, CLAIM_FOREIGN, NOT_ALLOCATED,
    NOT_RESERVED, CLAIM_IN_USE, REQUEST_NOT_IN_CLAIM, ADMIN_ACCESS, TOO_MANY_DEVICES, TOO_FEW_DEVICES, POOL_INCOMPLETE,
    NODE_MISMATCH, DEVICE_NOT_PUBLISHED, AMBIGUOUS_DEVICE, CONFLICTING_ATTRIBUTES, NO_ADDRESS, DUPLICATE_ADDRESS,
)  # fmt: skip
"""Every reason, in the order of the steps."""
PARENT_ADDRESS_IGNORED: Final = "ParentAddressIgnored"
"""Warning: the PCI address published beside an mdev is malformed and was left out (K-5.22)."""
SHARED_ADDRESS: Final = "SharedAddress"
"""Warning: another VMI on the same node has the same address (K-5.13)."""


OutcomeState = Literal["pending", "error"]


@dataclass(frozen=True)
class ResolvedDevice:
    """A device with its address. ``claim`` is the object's name, ``published`` what the driver says of the device."""

    subject: DeviceSubject
    claim: str
    result: DeviceRequestAllocationResult
    addresses: Addresses
    published: PublishedDevice

    def status(self) -> DeviceStatusInfo:
        attributes = present({"pciAddress": self.addresses.pci, "mDevUUID": self.addresses.mdev})
        return _status(
            self.subject, {"name": self.result.device, "resourceClaimName": self.claim, "attributes": attributes}
        )

    def withheld(self, reason: str, message: str, state: OutcomeState = "error") -> UnresolvedDevice:
        """Why the VM doesn't get the device all the same."""
        return UnresolvedDevice(self.subject, reason, state, message, self.claim, self.result.device)


@dataclass(frozen=True)
class UnresolvedDevice:
    """Why a device has no address yet (``pending``) or won't get one (``error``), and what is known so far (K-5.12)."""

    subject: DeviceSubject
    reason: str
    state: OutcomeState
    message: str
    claim: str | None = None
    device: str | None = None

    def status(self) -> DeviceStatusInfo:
        return _status(self.subject, present({"name": self.device, "resourceClaimName": self.claim}))


ResolutionOutcome = ResolvedDevice | UnresolvedDevice


def _status(subject: DeviceSubject, claim_status: Json) -> DeviceStatusInfo:
    return DeviceStatusInfo.from_wire(
        {"name": subject.name, **({"deviceResourceClaimStatus": claim_status} if claim_status else {})}
    )


@dataclass(frozen=True)
class DeviceWarning:
    """A warning about a device that can be used all the same."""

    subject: DeviceSubject
    reason: str
    message: str


@dataclass(frozen=True)
class DeviceResolution:
    """The outcomes of a VMI's DRA devices, one each, gpus before hostDevices, in spec order."""

    outcomes: tuple[ResolutionOutcome, ...]
    warnings: tuple[DeviceWarning, ...] = ()
    obstacles: tuple[UnresolvedDevice, ...] = ()
    """Of resolved devices: why the VM doesn't get them all the same (``delivery``)."""

    @property
    def unresolved(self) -> tuple[UnresolvedDevice, ...]:
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, UnresolvedDevice))

    def device_status(self) -> DeviceStatus | None:
        """The design's status object; None when the VMI has no DRA device (K-5.12)."""
        return status_of((outcome.subject, outcome.status()) for outcome in self.outcomes)


def status_of(entries: Iterable[tuple[DeviceSubject, DeviceStatusInfo]]) -> DeviceStatus | None:
    """The two status lists, in the given order; one without entries is absent. Networks have no list (K-5.12)."""
    lists: dict[str, tuple[DeviceStatusInfo, ...]] = {}
    for subject, entry in entries:
        if subject.kind != "networks":
            field = "gpu_statuses" if subject.kind == "gpus" else "host_device_statuses"
            lists[field] = (*lists.get(field, ()), entry)
    return DeviceStatus(**lists) if lists else None
