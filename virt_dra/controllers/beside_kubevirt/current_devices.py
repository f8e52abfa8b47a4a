"""The devices of a VMI beside KubeVirt as they are now: resolved, and with what keeps their addresses from the VM (K-5,
K-11, K-12.9). Pure. The operator publishes them, and ``virt-dra get``, ``describe`` and ``report`` show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.device_claims import assign, read_device_claims
from virt_dra.api.integration.record import Integration
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.beside_kubevirt.devices_object import frozen_in
from virt_dra.controllers.beside_kubevirt.pod_creation import with_creation_failure
from virt_dra.controllers.devices.delivery import NOTHING_UNFILLED, with_obstacles
from virt_dra.controllers.devices.inputs import DeviceInputs, with_shared
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.report import DeviceReport, ReportContext, device_report
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import DeviceSubject, device_entries, dra_devices
from virt_dra.controllers.events import Event, shortened, warning

if TYPE_CHECKING:  # it needs the scheduler, which the inventory doesn't
    from virt_dra.controllers.profiles.reconcile import AppliedProfiles

BAD_RECORD: Final = "BadIntegrationAnnotation"
"""Event: the pod's annotation can't be read, so the webhook's changes to the pod are unknown."""


@dataclass(frozen=True)
class DevicesOfPod:
    """The report on the devices that a VMI gets through a pod. ``record``: what the pod webhook did to the pod, None
    where it left the pod alone. ``events``: of a record that can't be read."""

    record: Integration | None
    report: DeviceReport
    events: tuple[Event, ...] = ()


def current_devices(
    inputs: DeviceInputs, unfilled: Mapping[str, str] = NOTHING_UNFILLED, applied: AppliedProfiles | None = None
) -> DevicesOfPod | None:
    """The devices through the current pod, or before there is one; None if the VMI has none. ``unfilled``: why the
    operator can't fill in the pod (``delivery.NOT_FILLED_IN``). ``applied``: of the VMI's line of profiles."""
    vmi, pod = inputs.vmi, inputs.pod
    record, events = _record(vmi, pod)
    devices = _subjects(vmi, pod, record)
    if not devices:
        return None
    options = replace(inputs.options, now=inputs.now)
    resolution = with_shared(resolve(vmi, pod, inputs.claims.values(), inputs.published, options, devices), inputs)
    running = vmi.status.phase == "Running"
    if pod is None:
        resolution = with_creation_failure(resolution, vmi, inputs.now, options.count_from)
    if applied is not None:
        resolution = applied.shown_in(resolution)
    resolution = with_obstacles(
        resolution, vmi, pod, record, inputs.writers, running=running, unfilled=unfilled, options=options
    )
    frozen = frozen_in(own_object(inputs), pod)
    return DevicesOfPod(record, device_report(resolution, ReportContext(running, frozen, inputs.rules, pod)), events)


def target_devices(inputs: DeviceInputs, pod: Pod) -> DevicesOfPod:
    """The devices through the pod that the VMI migrates to (K-10.5). Nothing is frozen: the guest isn't there yet."""
    vmi = inputs.vmi
    record, events = _record(vmi, pod)
    options = replace(inputs.options, now=inputs.now, migration_target=True)
    devices = _subjects(vmi, pod, record)
    resolution = resolve(vmi, pod, inputs.claims.values(), inputs.published, options, devices)
    resolution = with_obstacles(resolution, vmi, pod, record, inputs.writers, running=False)
    return DevicesOfPod(record, device_report(resolution, ReportContext(rules=inputs.rules, pod=pod)), events)


def own_object(inputs: DeviceInputs) -> VirtualMachineInstanceDevices | None:
    """The stored object if it is this VMI's, not that of an earlier one of its name."""
    return inputs.stored if inputs.stored is not None and inputs.stored.is_controlled_by(inputs.vmi) else None


def _subjects(vmi: VirtualMachineInstance, pod: Pod | None, record: Integration | None) -> tuple[DeviceSubject, ...]:
    """The published devices: DRA devices, devices of the device-plugin path, networks with claims."""
    claimed = dra_devices(vmi)
    plugins = _plugin_devices(vmi, pod, record, len(claimed))
    return (*claimed, *plugins, *network_devices(vmi, pod, len(claimed) + len(plugins)))


def _record(vmi: VirtualMachineInstance, pod: Pod | None) -> tuple[Integration | None, tuple[Event, ...]]:
    if pod is None:
        return None, ()
    try:
        return Integration.from_annotations(pod.metadata.annotations), ()
    except AnnotationError as error:
        return Integration(), (warning(vmi, BAD_RECORD, shortened(f"pod {pod.name}: {error}")),)


def _wanted_plugin_devices(vmi: VirtualMachineInstance, first: int) -> tuple[DeviceSubject, ...]:
    """The devices that the VMI's annotation names, before there is a pod; none if it is invalid: there won't be one."""
    try:
        wanted = read_device_claims(vmi.metadata.annotations)
        assigned = assign(vmi, wanted) if wanted else ()
    except AnnotationError:
        return ()
    return tuple(
        DeviceSubject(first + n, device.kind, device.name, device.entry.name, device.request)
        for n, device in enumerate(assigned)
    )


def _plugin_devices(
    vmi: VirtualMachineInstance, pod: Pod | None, record: Integration | None, first: int
) -> tuple[DeviceSubject, ...]:
    """The devices of the device-plugin path: those of the record that the VMI has. gpus first, in spec order."""
    if pod is None:
        return _wanted_plugin_devices(vmi, first)
    recorded = {
        (device.kind, device.name, device.resource): device for device in (record.devices if record is not None else ())
    }
    plugins = ((kind, entry.name, entry.device_name or "") for kind, entry in device_entries(vmi) if entry.is_plugin)
    devices = (recorded[plugin] for plugin in plugins if plugin in recorded)
    return tuple(
        DeviceSubject(number, device.kind, device.name, device.claim, device.request)
        for number, device in enumerate(devices, first)
    )
