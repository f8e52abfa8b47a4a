"""VMs: the devices that each has or waits for. A VM is a VirtualMachine or a VirtualMachineInstance; where neither is
known, its launcher pod, or a claim that is for such a pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import ClassVar, Final

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import FINISHED, Pod
from virt_dra.api.integration.attribute_keys import Addresses, DriverKeys, addresses
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE, VirtualMachineInstanceDevices, VmiDevice
from virt_dra.controllers.beside_kubevirt.current_devices import current_devices, own_object
from virt_dra.controllers.beside_kubevirt.devices_object import (
    FINISHED_VMI,
    RESOLVED,
    listed_devices,
    reported_for,
)
from virt_dra.controllers.deletion import TERMINATING, deletion_text
from virt_dra.controllers.devices.delivery import GUEST_NOT_STARTED, NOT_FILLED_IN
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.options import ResolutionOptions
from virt_dra.controllers.devices.outcomes import CLAIM_MISSING, DEVICE_NOT_PUBLISHED, NOT_ALLOCATED, POD_MISSING
from virt_dra.controllers.devices.subjects import dra_devices
from virt_dra.controllers.pods.current_pod import current_pod
from virt_dra.inventory.document_types import VmDeviceJson, VmRowJson, device_id_json
from virt_dra.inventory.fields import RowFields
from virt_dra.inventory.vm_inputs import inputs_of
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.devices import published_device
from virt_dra.model.launchers import launchers, launchers_of
from virt_dra.model.usage import users_of

NOT_READ: Final = "NotRead"
"""Reason: what would say where the device is couldn't be read."""
STOPPED: Final = "Stopped"
UNKNOWN: Final = "Unknown"


class Readiness(Enum):
    """Whether a VM runs with all that it asks for. One that was stopped, or whose guest shut itself down, isn't ready,
    and lacks nothing."""

    READY = "ready"
    NOT_READY = "not ready"
    STOPPED = "stopped"


RUNNING: Final = "running with all devices"
"""What :attr:`Readiness.READY` means; "ready" alone reads as READY of ``virt-dra get vms``, which counts devices."""


def of_those_to_run(readiness: Mapping[Readiness, int]) -> str:
    """How many VMs are ready, of those that aren't stopped: ``2 of 3``."""
    ready = readiness.get(Readiness.READY, 0)
    return f"{ready:,} of {ready + readiness.get(Readiness.NOT_READY, 0):,}"


def and_stopped(readiness: Mapping[Readiness, int]) -> str:
    """``, 2 stopped``, after how many VMs are ready or not; "" if none is stopped."""
    stopped = readiness.get(Readiness.STOPPED, 0)
    return f", {stopped:,} stopped" if stopped else ""


@dataclass(frozen=True, slots=True)
class VmDevice:
    """A device entry or network of a VM. ``address``: "" until there is one; ``reason``: of what is in the way or
    wrong, "" if the device is usable."""

    name: str
    kind: str
    address: str = ""
    claim: str = ""
    request: str = ""
    id: DeviceId | None = None
    resolved: bool = False
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        return f"{self.name}={self.address or ('-' if self.id is None else self.id.device)}"

    def to_json(self) -> VmDeviceJson:
        return {
            "name": self.name,
            "kind": self.kind,
            "address": self.address or None,
            "claim": self.claim or None,
            "request": self.request or None,
            "device": device_id_json(self.id) if self.id is not None else None,
            "resolved": self.resolved,
            "reason": self.reason or None,
            "message": self.message or None,
        }


@dataclass(frozen=True, slots=True)
class VmRow:
    """A VM. ``kind``: of the object that is known of it: VirtualMachine, VirtualMachineInstance, Pod or ResourceClaim.
    ``reason`` and ``message``: why it isn't ready, "" if it is."""

    FIELDS: ClassVar[RowFields] = {
        "namespace": lambda row: (row.namespace,),
        "name": lambda row: (row.name,),
        "kind": lambda row: (row.kind,),
        "phase": lambda row: (row.phase,),
        "node": lambda row: (row.node,),
        "driver": lambda row: tuple(dict.fromkeys(id.driver for id in row.ids)),
        "pool": lambda row: tuple(dict.fromkeys(id.pool for id in row.ids)),
        "device": lambda row: tuple(id.device for id in row.ids),
        "address": lambda row: tuple(device.address for device in row.devices if device.address),
        "claim": lambda row: tuple(dict.fromkeys(device.claim for device in row.devices if device.claim)),
        "pod": lambda row: (row.pod,),
        "ready": lambda row: (str(row.readiness is Readiness.READY).lower(),),
        "reason": lambda row: (row.reason,),
        "age": lambda row: (row.created,),
    }

    namespace: str
    name: str
    kind: str
    phase: str
    node: str
    pod: str
    devices: tuple[VmDevice, ...]
    reason: str
    message: str
    created: str
    labels: Sequence[Mapping[str, str]]

    @property
    def resource(self) -> str:
        """A VM of which only a launcher pod or a claim is known is called as the instance that they are for."""
        kind = VirtualMachine if self.kind == VirtualMachine.KIND else VirtualMachineInstance
        return f"{kind.KIND.lower()}.kubevirt.io"

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, f"{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ready(self) -> str:
        """How many of its devices are there, with an address where it needs one, as ``1/2``."""
        return f"{sum(device.resolved for device in self.devices)}/{len(self.devices)}"

    @property
    def readiness(self) -> Readiness:
        if (self.phase == STOPPED and not self.reason) or (
            self.phase == "Succeeded" and self.reason in ("", FINISHED_VMI)
        ):
            return Readiness.STOPPED
        return Readiness.READY if self.phase == "Running" and not self.reason else Readiness.NOT_READY

    @property
    def ids(self) -> list[DeviceId]:
        """Its devices, as far as they are known."""
        return [device.id for device in self.devices if device.id is not None]

    def to_json(self) -> VmRowJson:
        return {
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "phase": self.phase or None,
            "node": self.node or None,
            "pod": self.pod or None,
            "devices": [device.to_json() for device in self.devices],
            "ready": self.ready,
            "reason": self.reason or None,
            "message": self.message or None,
            "created": self.created or None,
        }


def vm_rows(model: ClusterModel, now: datetime, keys: tuple[DriverKeys, ...] = ()) -> list[VmRow]:
    """All VMs, in order of namespace and name. ``keys``: attributes that are addresses, besides the well-known ones."""
    options = ResolutionOptions(keys=keys, now=now)
    vms, vmis = model.by_key(VirtualMachine), model.by_key(VirtualMachineInstance)
    rows = [_of_instance(vmi, model, options, now) for vmi in vmis.values()]
    rows += (_stopped(vm) for key, vm in vms.items() if key not in vmis)
    there = {*vms, *vmis}
    orphans = {key: pods for key, pods in launchers(model).items() if key not in there}
    rows += (_of_pod(key, pods, model, options) for key, pods in orphans.items())
    there |= orphans.keys()
    rows += _of_claims(there, model, options)
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def _of_instance(vmi: VirtualMachineInstance, model: ClusterModel, options: ResolutionOptions, now: datetime) -> VmRow:
    vm = model.by_key(VirtualMachine).get(vmi.key)
    pod = current_pod(vmi, launchers_of(model, vmi.key))
    subjects = dra_devices(vmi)
    subjects += network_devices(vmi, pod, len(subjects))
    phase = vmi.status.phase or "Pending"
    devices: tuple[VmDevice, ...] = ()
    stored = model.by_key(VirtualMachineInstanceDevices).get(vmi.key)
    if subjects and pod is None and not model.knows(Pod) and phase == "Running":
        listed = {(device.kind, device.name) for device in (stored.status.devices if stored is not None else ())}
        devices = tuple(
            VmDevice(
                subject.name, subject.kind, request=subject.request_name, reason=NOT_READ, message="pods can't be read"
            )
            for subject in subjects
            if (subject.kind, subject.name) not in listed
        )
    elif phase not in FINISHED or stored is None:
        devices = _current(vmi, model, options, now)
    devices += _only_stored(devices, stored)
    if phase in FINISHED:
        # Without the operator's object nothing says more of a device than that the pod has ended, too.
        devices = tuple(
            replace(device, resolved=False, reason=FINISHED_VMI, message=f"the VMI has finished ({phase})")
            if device.resolved or (stored is None and device.reason == POD_MISSING)
            else device
            for device in devices
        )
    why, text = _allocatable(vmi, stored)
    if why:
        devices = tuple(
            replace(device, reason=why, message=text) if device.reason == NOT_ALLOCATED else device
            for device in devices
        )
    reason, message = _why_not(devices)
    deletion = deletion_text(vm, vmi)
    if deletion and (pod is None or not reason):
        reason, message = TERMINATING, deletion
    if phase == "Failed" and vmi.status.reason:
        reason, message = vmi.status.reason, ""
    node = vmi.status.node_name or (pod.spec.node_name if pod is not None else None) or ""
    created = (vm or vmi).metadata.creation_timestamp or ""
    labels = [{**(vm.metadata.labels if vm is not None else {}), **vmi.metadata.labels}]
    name = pod.name if pod is not None else ""
    return VmRow(
        vmi.namespace, vmi.name, (vm or vmi).KIND, phase, node, name, devices, reason, message, created, labels
    )


def _current(
    vmi: VirtualMachineInstance, model: ClusterModel, options: ResolutionOptions, now: datetime
) -> tuple[VmDevice, ...]:
    inputs = inputs_of(vmi, model, now, options)
    current = current_devices(inputs)
    if current is None:
        return ()
    before = {(device.kind, device.name): device for device in reported_for(own_object(inputs), inputs.pod)}
    listed = listed_devices(current.report, inputs.pod, current.record, tuple(before.values()))
    if vmi.status.phase != "Running":
        # The operator knows what it couldn't fill in.
        listed = tuple(
            kept
            if kept is not None
            and kept.reason in NOT_FILLED_IN
            and (device.state == RESOLVED or device.reason == GUEST_NOT_STARTED)
            else device
            for device, kept in ((device, before.get((device.kind, device.name))) for device in listed)
        )
    return tuple(_unless_unread(_of_stored(device), model) for device in listed)


def _unless_unread(device: VmDevice, model: ClusterModel) -> VmDevice:
    for missing, kind in ((DEVICE_NOT_PUBLISHED, ResourceSlice), (CLAIM_MISSING, ResourceClaim)):
        if device.reason == missing and not model.knows(kind):
            return replace(device, reason=NOT_READ, message=f"{kind.PLURAL} can't be read")
    return device


def _only_stored(listed: Iterable[VmDevice], stored: VirtualMachineInstanceDevices | None) -> tuple[VmDevice, ...]:
    """Devices that the operator's object alone says something of."""
    there = {(device.kind, device.name) for device in listed}
    reported = stored.status.devices if stored is not None else ()
    return tuple(_of_stored(device) for device in reported if (device.kind, device.name) not in there)


def _of_stored(device: VmiDevice) -> VmDevice:
    id = (
        DeviceId(device.driver, device.pool, device.device) if device.driver and device.pool and device.device else None
    )
    return VmDevice(
        device.name, device.kind, device.mdev_uuid or device.pci_address or "", device.resource_claim_name or "",
        device.request_name, id,
        device.state == RESOLVED, device.reason or "", device.message or "",
    )  # fmt: skip


def _allocatable(vmi: VirtualMachineInstance, stored: VirtualMachineInstanceDevices | None) -> tuple[str, str]:
    """Reason and message of the operator's condition Allocatable while it is False, as it is beside KubeVirt or without
    it."""
    conditions = [condition.to_wire() for condition in stored.status.conditions] if stored is not None else []
    for condition in (*conditions, *vmi.status.conditions):
        if condition.get("type") == ALLOCATABLE and condition.get("status") == "False":
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    return "", ""


def _why_not(devices: Iterable[VmDevice]) -> tuple[str, str]:
    first = next((device for device in devices if device.reason), None)
    return (first.reason, f"{first.kind}/{first.name}: {first.message}") if first is not None else ("", "")


def _stopped(vm: VirtualMachine) -> VmRow:
    status = vm.status.get("printableStatus")
    spec = vm.spec.template.spec
    vmi = VirtualMachineInstance(metadata=vm.metadata, spec=spec)
    subjects = (*dra_devices(vmi), *network_devices(vmi, None))
    devices = tuple(VmDevice(subject.name, subject.kind, request=subject.request_name) for subject in subjects)
    halted = vm.spec.run_strategy == "Halted" or vm.spec.running is False
    phase = status if isinstance(status, str) and status else STOPPED if halted else UNKNOWN
    created = vm.metadata.creation_timestamp or ""
    message = deletion_text(vm)
    reason = TERMINATING if message else ""
    return VmRow(vm.namespace, vm.name, vm.KIND, phase, "", "", devices, reason, message, created, [vm.metadata.labels])


def _of_pod(key: str, pods: Sequence[Pod], model: ClusterModel, options: ResolutionOptions) -> VmRow:
    """The row of a VM whose objects can't be read, by the newest of its launcher pods."""
    pod = max(
        pods,
        key=lambda candidate: (not candidate.finished, candidate.metadata.creation_timestamp or "", candidate.name),
    )
    names = pod.claim_names
    devices: list[VmDevice] = []
    for entry in pod.spec.resource_claims:
        name = names.get(entry.name, "")
        claim = model.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            devices.append(VmDevice(entry.name, "resourceClaims", claim=name))
        else:
            devices += _of_claim(claim, entry.name, model, options)
    reason = next(
        (
            condition.reason or ""
            for condition in pod.status.conditions
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        "",
    )
    reason = next((device.reason for device in devices if device.reason), reason)
    return VmRow(
        pod.namespace, key.partition("/")[2], Pod.KIND, pod.status.phase or "Pending", pod.spec.node_name or "",
        pod.name, tuple(devices), reason, "", pod.metadata.creation_timestamp or "", [pod.metadata.labels],
    )  # fmt: skip


def _of_claims(there: set[str], model: ClusterModel, options: ResolutionOptions) -> Iterator[VmRow]:
    claims_of: dict[str, list[tuple[ResourceClaim, str, str]]] = {}
    for claim in model.of(ResourceClaim):
        for user in users_of(claim, model):
            if user.vm and f"{claim.namespace}/{user.vm}" not in there:
                claims_of.setdefault(f"{claim.namespace}/{user.vm}", []).append((claim, user.name, user.node))
    for key, listed in claims_of.items():
        devices = tuple(device for claim, _, _ in listed for device in _of_claim(claim, claim.name, model, options))
        objects: list[TypedObject] = [claim for claim, _, _ in listed]
        created = min(object_.metadata.creation_timestamp or "" for object_ in objects)
        _, pod, node = listed[0]
        labels = [object_.metadata.labels for object_ in objects]
        reason = next((device.reason for device in devices if device.reason), "")
        namespace, _, name = key.partition("/")
        yield VmRow(namespace, name, ResourceClaim.KIND, UNKNOWN, node, pod, devices, reason, "", created, labels)


def _of_claim(claim: ResourceClaim, name: str, model: ClusterModel, options: ResolutionOptions) -> Iterator[VmDevice]:
    """The devices of a claim, named by the claim's entry, or its object, and request."""
    allocation = claim.status.allocation
    if allocation is None:
        yield VmDevice(name, "resourceClaims", claim=claim.name, reason=NOT_ALLOCATED)
        return
    results = allocation.devices.results
    for result in results:
        id = DeviceId(result.driver, result.pool, result.device)
        published = published_device(model, id)
        resolved = (
            addresses(result.driver, published.device.attributes, options.keys) if published is not None else None
        )
        address = (resolved.mdev or resolved.pci or "") if isinstance(resolved, Addresses) else ""
        shown = name if len(results) == 1 else f"{name}/{result.request}"
        reason = "" if published is not None else DEVICE_NOT_PUBLISHED if model.knows(ResourceSlice) else NOT_READ
        yield VmDevice(shown, "resourceClaims", address, claim.name, result.request, id, published is not None, reason)
