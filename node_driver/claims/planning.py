"""What a claim needs done on the node, and whether it may have it: pure, over the checkpoint's state and the host's
properties as they are now."""

from __future__ import annotations

import json
import uuid
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from node_driver.claims.allocation import AllocatedDevice, NodeAllocation
from node_driver.claims.refusals import ClaimRefusal, ClaimRefusalReason
from node_driver.devices import DeviceKind, PassthroughDevice, Sanitizing
from node_driver.host.binding import Binding
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.records import ClaimRecord, DeviceRecord, DriverState, Stage, UncleanDevice
from virt_dra.api.integration.device_metadata import MDEV_UUID

MDEV_NAMESPACE: Final = uuid.UUID("a3f8f6a4-6a0b-5d0e-9a52-0d2f3a7c6f51")
"""Makes an mdev's UUID of claim and device, so that a retry finds it (D-49)."""
NO_PROFILE: Final = "0"
NO_MDEV: Final = ""

Observed = Mapping[tuple[HostProperty, str], str]
"""Property and target -> its value now. Targets that are gone are absent."""


@dataclass(frozen=True, slots=True)
class WantedValue:
    """A property that a device must have while a claim holds it."""

    property: HostProperty
    target: str
    value: str

    def is_met(self, now: str) -> bool:
        """A function that is bound to the right driver is left as it is, however it got there (D-44)."""
        if self.property is HostProperty.DRIVER:
            return Binding.parse(now).driver == Binding.parse(self.value).driver
        if self.property is HostProperty.NETWORK_FUNCTION:
            return self.before(now) == self.value
        return now == self.value

    def before(self, now: str) -> str:
        """What has to be put back: of a network function, the settings that are changed."""
        if self.property is not HostProperty.NETWORK_FUNCTION:
            return now
        settings = json.loads(now)
        return json.dumps({name: settings.get(name) for name in json.loads(self.value)}, sort_keys=True)


def new_record(claim: NodeAllocation, published: Mapping[str, PassthroughDevice]) -> ClaimRecord:
    """The record of a claim that nothing has been done for. Raises :class:`ClaimRefusal` for a device that isn't
    published."""
    devices = tuple(_record(claim.uid, allocated, published) for allocated in claim.devices)
    pods, name_in_pod = claim.pods, claim.pod_claim_name
    return ClaimRecord(claim.uid, claim.namespace, claim.name, Stage.STARTED, pods, name_in_pod, devices)


def _record(claim_uid: str, allocated: AllocatedDevice, published: Mapping[str, PassthroughDevice]) -> DeviceRecord:
    device = published.get(allocated.device)
    if device is None:
        message = f"device {allocated.device} isn't published (any more); virt-dra node-driver --plan says why"
        raise ClaimRefusal(ClaimRefusalReason.NOT_PUBLISHED, message)
    if allocated.network and device.kind is not DeviceKind.SRIOV:
        message = "isn't an SR-IOV function: the parameters' field network doesn't apply to it"
        raise ClaimRefusal(ClaimRefusalReason.BAD_PARAMETERS, f"device {device.name} {message}")
    is_mdev = device.kind is DeviceKind.MDEV
    address = str(uuid.uuid5(MDEV_NAMESPACE, f"{claim_uid}/{device.name}")) if is_mdev else device.address
    attributes = {name: attribute.to_wire() for name, attribute in device.attributes.items()}
    if is_mdev and not allocated.admin_access:
        attributes[MDEV_UUID] = {"string": address}
    return DeviceRecord(
        device.name,
        device.kind,
        allocated.request,
        address,
        parent=device.address if is_mdev else "",
        type_id=device.type_id,
        members=device.members,
        target_driver=device.target_driver,
        exclusive=device.exclusive,
        sanitizing=device.sanitizing,
        network=allocated.network,
        attributes=attributes,
        admin_access=allocated.admin_access,
        share_id=allocated.share_id,
    )


def refreshed(record: ClaimRecord, claim: NodeAllocation) -> ClaimRecord | None:
    """The record with what may change while it is prepared, the pods; None if the claim has got other devices."""
    devices = [(device.device, device.request, device.admin_access, device.share_id) for device in record.devices]
    if devices != [(device.device, device.request, device.admin_access, device.share_id) for device in claim.devices]:
        return None
    return replace(record, pods=claim.pods)


def wanted_values(device: DeviceRecord) -> Iterator[WantedValue]:
    """What has to be true of the host, in the order in which it is made so. Nothing for adminAccess (D-47)."""
    if device.admin_access:
        return
    if device.kind is DeviceKind.MDEV:
        yield WantedValue(HostProperty.MDEV, device.address, f"{device.parent}/{device.type_id}")
    elif device.kind is DeviceKind.VGPU:
        yield WantedValue(HostProperty.VGPU_PROFILE, device.address, device.type_id)
    else:
        if device.network:
            yield WantedValue(HostProperty.NETWORK_FUNCTION, device.address, device.network)
        for member in device.members:
            yield WantedValue(HostProperty.DRIVER, member, str(Binding.to(device.target_driver)))


def with_changes(record: ClaimRecord, observed: Observed, state: DriverState) -> ClaimRecord:
    """The record with a change for each value that isn't as wanted. A change that it has already is kept, as is what
    another claim that shares the function knows of before: now it may be half done. Raises :class:`ClaimRefusal` where
    somebody else has set a value, or a target is gone."""
    earlier = {
        (change.property, change.target): change.before for other in state.claims.values() for change in other.changes
    }
    devices = []
    for device in record.devices:
        changes = {(change.property, change.target): change for change in device.changes}
        for wanted in wanted_values(device):
            key = wanted.property, wanted.target
            now = observed.get(key)
            if now is None:
                message = f"device {device.device}: {wanted.target} is gone from the node; is it plugged in?"
                raise ClaimRefusal(ClaimRefusalReason.GONE, message)
            if key in changes:
                continue
            shared = key in earlier and wanted.is_met(now)
            if not shared and _has_other_owner(wanted, now):
                state_now = f"{wanted.target} has {wanted.property} {now}, which this driver hasn't set"
                raise ClaimRefusal(ClaimRefusalReason.HELD, f"{state_now}; clear it on the node first")
            if wanted.is_met(now):
                continue
            before = earlier.get(key, wanted.before(now))
            changes[key] = HostChange(wanted.property, wanted.target, before, wanted.value)
        devices.append(replace(device, changes=tuple(changes.values())))
    return replace(record, devices=tuple(devices))


def _has_other_owner(wanted: WantedValue, now: str) -> bool:
    """Profiles and mdevs that weren't made by this driver belong to somebody else (D-61, D-65): a profile also where it
    is the one that is wanted, since a VM may use it. The claim's own mdev is named by the claim."""
    if wanted.property is HostProperty.VGPU_PROFILE:
        return now != NO_PROFILE
    return wanted.property is HostProperty.MDEV and now != NO_MDEV and not wanted.is_met(now)


def unmet(record: ClaimRecord, observed: Observed) -> list[HostChange]:
    """The changes that have to be made, or made again, for the wanted values to hold."""
    wanted = [value for device in record.devices for value in wanted_values(device)]
    missing = {
        (value.property, value.target)
        for value in wanted
        if (now := observed.get((value.property, value.target))) is None or not value.is_met(now)
    }
    return [change for change in record.changes if (change.property, change.target) in missing]


def check_free(state: DriverState, record: ClaimRecord) -> None:
    """Raises :class:`ClaimRefusal` if another claim has one of the devices, or another pod something that goes with it
    (D-43, D-47)."""
    ours = [device for device in record.devices if not device.admin_access]
    names = {name for device in ours for name in device.names} - {""}
    for other in state.claims.values():
        if other.uid == record.uid:
            continue
        same_pods = bool(record.pods) and set(other.pods) == set(record.pods)
        for theirs in other.devices:
            if names.isdisjoint(theirs.names):
                continue  # most claims share no name: the exact check below is for the few that do
            for device in () if theirs.admin_access else ours:
                if reason := conflict(device, theirs, same_pods):
                    holder = f"ResourceClaim {other.namespace}/{other.name} ({other.uid}), which {_HOLDS[other.stage]}"
                    message = f"device {device.device} {reason} {holder}; delete the pod that uses that claim"
                    raise ClaimRefusal(ClaimRefusalReason.HELD, message)


_HOLDS: Final = {
    Stage.STARTED: "is being prepared",
    Stage.DONE: "is prepared on this node",
    Stage.REMOVING: "is being released",
}


def conflict(device: DeviceRecord, other: DeviceRecord, same_pods: bool) -> str:
    """How a device clashes with another claim's, "" if it doesn't. What clashes has one of ``names`` in common:
    :func:`check_free` asks for no others."""
    if device.device == other.device or device.address == other.address:
        return "is held by"
    if device.parent in other.members or other.parent in device.members:
        return "is the parent of a mediated device of, or made from a device of,"
    if not same_pods and device.held_names & other.held_names:
        return "shares an IOMMU group or a card with a device of"
    return ""


def handed_over(state: DriverState, record: ClaimRecord) -> tuple[DriverState, ClaimRecord]:
    """Moves the changes of a claim that is released to another claim that needs them, too: a function that two claims
    of one pod have bound is put back by the last of them (D-43)."""
    kept: list[DeviceRecord] = []
    for device in record.devices:
        changes = []
        for change in device.changes:
            heir = _heir(state, record, change)
            if heir is None:
                changes.append(change)
            else:
                state = state.with_claim(heir)
        kept.append(replace(device, changes=tuple(changes)))
    record = replace(record, devices=tuple(kept))
    return state.with_claim(record), record


def _heir(state: DriverState, record: ClaimRecord, change: HostChange) -> ClaimRecord | None:
    """The record of another claim that needs the change, with it."""
    for other in state.claims.values():
        if other.uid == record.uid or other.stage is Stage.REMOVING:
            continue
        for index, device in enumerate(other.devices):
            if (change.property, change.target) in ((value.property, value.target) for value in wanted_values(device)):
                changes = (change, *(mine for mine in device.changes if mine.target != change.target))
                devices = list(other.devices)
                devices[index] = replace(device, changes=changes)
                return replace(other, devices=tuple(devices))
    return None


def unclean_devices(record: ClaimRecord) -> dict[str, UncleanDevice]:
    """What a claim leaves behind that its containers could use: address -> how it is cleaned."""
    why = "it was in use and hasn't been cleaned since"
    return {
        device.address: UncleanDevice(device.device, device.sanitizing, device.members, why)
        for device in record.devices
        if not device.admin_access and device.members and device.sanitizing is not Sanitizing.NONE
    }


def cleanable(state: DriverState, record: ClaimRecord) -> dict[str, UncleanDevice]:
    """The unclean devices among those of a claim that can be cleaned while it has them, or has just had them: a group
    that another claim of the pod still uses waits until that one is released."""
    members = {member for device in record.devices if not device.admin_access for member in device.members}
    ours = {address: unclean for address, unclean in state.unclean.items() if not members.isdisjoint(unclean.members)}
    if not ours:  # of a thousand claims, mostly none
        return {}
    others = [other for other in state.claims.values() if other.uid != record.uid and other.stage is Stage.DONE]
    in_use = {member for other in others for device in other.devices for member in device.members}
    return {address: unclean for address, unclean in ours.items() if in_use.isdisjoint(unclean.members)}


def to_clean(state: DriverState, record: ClaimRecord) -> dict[str, UncleanDevice]:
    """The unclean devices that a claim would get, which are reset first. Raises :class:`ClaimRefusal` for one that has
    to be erased, and for mdevs of an unclean card. Nothing is reset of a claim that may be in use."""
    entries = {} if record.stage is Stage.DONE else cleanable(state, record)
    for unclean in entries.values():
        if unclean.sanitizing is Sanitizing.ERASE:
            message = f"device {unclean.device} is erased before anybody gets it again: {unclean.message}"
            raise ClaimRefusal(ClaimRefusalReason.UNCLEAN, f"{message}; it is tried again")
    for unclean in state.unclean.values() if record.stage is not Stage.DONE else ():
        if parents := record.parents & set(unclean.members):
            message = f"{min(parents)} was given out as device {unclean.device}: {unclean.message}"
            cure = "a claim of that device cleans it, then it has mediated devices again"
            raise ClaimRefusal(ClaimRefusalReason.UNCLEAN, f"{message}; {cure}")
    return entries


def cleaned(state: DriverState, addresses: Container[str]) -> DriverState:
    """The state in which the devices at these addresses may be given out again."""
    dirty = {address: unclean for address, unclean in state.unclean.items() if address not in addresses}
    return replace(state, unclean=dirty)


def after_reboot(state: DriverState, boot_id: str, observed: Observed) -> DriverState:
    """The state of an earlier boot, with the host's values after the reboot as what was before: nothing of ours is left
    on the host, and what drivers bind by themselves may have changed (D-51)."""
    if state.boot_id == boot_id:  # another instance was faster
        return state
    claims = {}
    for uid, record in state.claims.items():
        devices = (replace(device, changes=tuple(_rebased(device, observed))) for device in record.devices)
        claims[uid] = replace(record, devices=tuple(devices))
    return replace(state, boot_id=boot_id, claims=claims, stuck={})


def _rebased(device: DeviceRecord, observed: Observed) -> Iterator[HostChange]:
    wanted = {(value.property, value.target): value for value in wanted_values(device)}
    for change in device.changes:
        key = change.property, change.target
        now = observed.get(key)
        if now is None:
            yield change
        elif key not in wanted or not wanted[key].is_met(now):
            yield replace(change, before=wanted[key].before(now) if key in wanted else now)
