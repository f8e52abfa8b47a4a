"""The report on a VMI's devices: addresses, frozen while the VMI runs; taints and health (K-5.14, K-5.26). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from virt_dra.api.core_v1 import Pod, ResourceHealth
from virt_dra.api.kubevirt_v1 import DeviceStatus, DeviceStatusInfo
from virt_dra.api.resource_v1 import DeviceTaint, DeviceTaintRule
from virt_dra.api.tolerations import taints_of_rules, untolerated
from virt_dra.controllers.deletion import TERMINATING
from virt_dra.controllers.devices.outcomes import (
    DEVICE_NOT_PUBLISHED,
    POD_MISSING,
    POOL_INCOMPLETE,
    DeviceResolution,
    DeviceWarning,
    ResolutionOutcome,
    ResolvedDevice,
    UnresolvedDevice,
    status_of,
)
from virt_dra.controllers.devices.subjects import DeviceSubject
from virt_dra.controllers.pods.launcher_pods import COMPUTE

DEVICE_CHANGED: Final = "DeviceChanged"
"""The VMI runs with another address than what would be resolved now."""
DEVICE_TAINTED: Final = "DeviceTainted"
"""The device of a running VMI has a taint that its claim does not tolerate."""
DEVICE_UNHEALTHY: Final = "DeviceUnhealthy"
"""The driver reported to the kubelet that the device is unhealthy (KEP-4680)."""
HEALTH_WARNINGS: Final = (DEVICE_CHANGED, DEVICE_TAINTED, DEVICE_UNHEALTHY)
"""Reasons of warnings about the health of a device that is in use."""


@dataclass(frozen=True)
class ReportedDevice:
    """A device and what is reported of it. ``entry``: the published entry, ``frozen`` as it was when the VMI started.
    ``taints``: its present taints, tolerated or not. ``obstacle``: why a resolved device doesn't reach the VM."""

    outcome: ResolutionOutcome
    entry: DeviceStatusInfo
    frozen: bool = False
    warnings: tuple[DeviceWarning, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    health: ResourceHealth | None = None
    obstacle: UnresolvedDevice | None = None

    @property
    def subject(self) -> DeviceSubject:
        return self.outcome.subject

    @property
    def problem(self) -> UnresolvedDevice | DeviceWarning | None:
        """The first problem to report; for a device in use only a lasting one, not that its pool is being
        republished."""
        if isinstance(self.outcome, UnresolvedDevice):
            reason, state = self.outcome.reason, self.outcome.state
            transient = reason in (POD_MISSING, TERMINATING, POOL_INCOMPLETE) or (
                reason == DEVICE_NOT_PUBLISHED and state == "pending"
            )
            return None if self.frozen and transient else self.outcome
        return self.obstacle or next(iter(self.warnings), None)

    @property
    def withheld(self) -> UnresolvedDevice | None:
        """Why the VM doesn't have the device, or won't get it; None for one that it has or will start with."""
        if isinstance(self.outcome, UnresolvedDevice):
            return None if self.frozen else self.outcome
        return self.obstacle


@dataclass(frozen=True)
class DeviceReport:
    """The report on all devices of a VMI, in their order."""

    devices: tuple[ReportedDevice, ...]

    @property
    def entries(self) -> tuple[tuple[DeviceSubject, DeviceStatusInfo], ...]:
        return tuple((device.subject, device.entry) for device in self.devices)

    @property
    def unresolved(self) -> tuple[UnresolvedDevice, ...]:
        """Devices without an address, or whose address doesn't reach the VM."""
        return tuple(d.withheld for d in self.devices if d.withheld is not None)

    @property
    def lost(self) -> tuple[UnresolvedDevice, ...]:
        """Why a device of a running VMI could not be resolved now; its entry stays."""
        return tuple(d.outcome for d in self.devices if isinstance(d.outcome, UnresolvedDevice) and d.frozen)

    @property
    def warnings(self) -> tuple[DeviceWarning, ...]:
        return tuple(warned for device in self.devices for warned in device.warnings)

    @property
    def unhealthy(self) -> tuple[UnresolvedDevice | DeviceWarning, ...]:
        """The lasting problems of devices that are in use."""
        frozen = (device for device in self.devices if isinstance(device.outcome, UnresolvedDevice) and device.frozen)
        lost = (device.problem for device in frozen if device.problem is not None)
        return (*lost, *(warned for warned in self.warnings if warned.reason in HEALTH_WARNINGS))

    def device_status(self) -> DeviceStatus | None:
        return status_of(self.entries)


StatusEntries = Mapping[tuple[str, str], DeviceStatusInfo]
"""Kind and name of a device -> its entry."""
NO_ENTRIES: Final[StatusEntries] = MappingProxyType({})


@dataclass(frozen=True)
class ReportContext:
    """Further facts about a VMI. ``before``: the entries that were published last; ``running``: whether they are
    frozen. ``rules`` and ``pod`` may be left out: then taints are those of the slices, and health isn't known."""

    running: bool = False
    before: StatusEntries = field(default_factory=dict)
    rules: Sequence[DeviceTaintRule] = field(default=())
    pod: Pod | None = None


def device_report(resolution: DeviceResolution, context: ReportContext) -> DeviceReport:
    """The report on a resolution. A running VMI keeps its entries, also of a device that vanished or changed
    (K-5.14)."""
    return DeviceReport(tuple(_settled(outcome, resolution, context) for outcome in resolution.outcomes))


def _settled(outcome: ResolutionOutcome, resolution: DeviceResolution, context: ReportContext) -> ReportedDevice:
    subject, now = outcome.subject, outcome.status()
    frozen = context.before.get((subject.kind, subject.name)) if context.running else None
    warnings = [warned for warned in resolution.warnings if warned.subject is subject]
    if isinstance(outcome, UnresolvedDevice):
        return ReportedDevice(outcome, frozen or now, frozen is not None, tuple(warnings))
    if frozen and frozen.to_wire() != now.to_wire():
        message = f"the VMI runs with {_show(frozen)}, its claim now leads to {_show(now)}; restart the VM to use that"
        warnings.append(DeviceWarning(subject, DEVICE_CHANGED, message))
    taints, health = taints_of(outcome, context.rules), health_of(outcome, context.pod)
    if context.running:
        warnings += _tainted(outcome, taints)
    if health is not None and health.health == "Unhealthy":
        detail = f": {health.message}" if health.message else ""
        message = f"device {outcome.result.device} is unhealthy{detail}; see the driver's logs"
        warnings.append(DeviceWarning(subject, DEVICE_UNHEALTHY, message))
    obstacle = next((candidate for candidate in resolution.obstacles if candidate.subject is subject), None)
    return ReportedDevice(outcome, frozen or now, frozen is not None, tuple(warnings), taints, health, obstacle)


def entries_in(status: DeviceStatus | None) -> StatusEntries:
    """The entries of a status that have an address."""
    if status is None:
        return {}
    kinds = (("gpus", status.gpu_statuses), ("hostDevices", status.host_device_statuses))
    return one_each((kind, entry) for kind, entries in kinds for entry in entries if _addressed(entry))


def one_each(entries: Iterable[tuple[str, DeviceStatusInfo]]) -> StatusEntries:
    """The entries by kind and name, without those whose name is not unique."""
    listed = tuple(entries)
    counted = Counter((kind, entry.name) for kind, entry in listed)
    return {(kind, entry.name): entry for kind, entry in listed if counted[kind, entry.name] == 1}


def _addressed(entry: DeviceStatusInfo) -> bool:
    attributes = entry.attributes
    return attributes is not None and bool(attributes.pci_address or attributes.mdev_uuid)


def _show(entry: DeviceStatusInfo) -> str:
    claim_status, attributes = entry.device_resource_claim_status, entry.attributes
    address = (attributes.mdev_uuid or attributes.pci_address) if attributes is not None else None
    return f"device {claim_status.name if claim_status is not None else None} at {address}"


def taints_of(outcome: ResolvedDevice, rules: Iterable[DeviceTaintRule]) -> tuple[DeviceTaint, ...]:
    """The published taints of a device, then those of the rules that select it, by name (A-24, C-3.8)."""
    published = outcome.published
    spec, device = published.slice.spec, published.device
    ordered = sorted(rules, key=lambda rule: rule.name)
    return (*device.taints, *taints_of_rules(ordered, spec.driver, spec.pool.name, device.name))


def _tainted(outcome: ResolvedDevice, taints: Iterable[DeviceTaint]) -> Iterable[DeviceWarning]:
    for taint in untolerated(outcome.result.tolerations, taints):
        message = (
            f"device {outcome.result.device} has taint {taint.key}={taint.value}:{taint.effect}; see the driver's logs"
        )
        yield DeviceWarning(outcome.subject, DEVICE_TAINTED, message)


def health_of(outcome: ResolvedDevice, pod: Pod | None) -> ResourceHealth | None:
    """The device's health in the status of the pod's container ``compute``; None if it isn't reported. The device's own
    entry, else the only one of its request: the kubelet may name a device by its CDI id."""
    statuses = pod.status.container_statuses if pod is not None else ()
    status = next((status for status in statuses if status.name == COMPUTE), None)
    if status is None:
        return None
    claim = f"claim:{outcome.subject.claim_name}"
    names = (f"{claim}/{outcome.subject.request_name}", claim)
    listed = [
        health
        for name in names
        for resource in status.allocated_resources_status
        if resource.name == name
        for health in resource.resources
    ]
    result = outcome.result
    own = [health for health in listed if health.resource_id == f"{result.driver}/{result.pool}/{result.device}"]
    return own[0] if own else listed[0] if len(listed) == 1 else None
