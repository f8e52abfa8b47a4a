"""The devices and networks of a VM that come from claims: allocations, addresses, and the launcher's input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from launcher import ConvertedDevice
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.device_metadata import request_directory
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, SHIM_FILE, metadata_annotation, no_metadata_read
from virt_dra.api.integration.slice_readers import is_read, reads_slices, where_read
from virt_dra.api.kubevirt_v1 import DeviceEntry, DeviceStatus, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim
from virt_dra.api.wire import Json, WireError
from virt_dra.controllers.devices.delivery import NO_INTEGRATION_PATH
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.metadata_files import metadata_files
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.outcomes import DeviceResolution, ResolvedDevice, UnresolvedDevice
from virt_dra.controllers.devices.report import DeviceReport, ReportedDevice, entries_in
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import dra_devices
from virt_dra.controllers.loops.device_status import own_report
from virt_dra.controllers.pods.launcher_pods import COMPUTE
from virt_dra.controllers.standalone.networks import files_of, started_with
from virt_dra.model.published import PublishedDevices
from virt_dra.simulator.outcome import DeviceOutcome


@dataclass(frozen=True)
class DeviceSources:
    """The objects that one VMI's devices are resolved from: its pod, the pod's claims, and all published devices."""

    vmi: VirtualMachineInstance
    pod: Pod | None
    claims: tuple[ResourceClaim, ...]
    published: PublishedDevices

    def resolution(self) -> DeviceResolution:
        """The resolution of gpus, hostDevices and networks (K-5.32), in this order."""
        devices = dra_devices(self.vmi)
        networks = network_devices(self.vmi, self.pod, len(devices))
        return resolve(self.vmi, self.pod, self.claims, self.published, subjects=(*devices, *networks))

    def settled(self, rules: tuple[DeviceTaintRule, ...]) -> DeviceReport:
        """The report on the devices; a running VMI keeps the recorded devices it was started with (K-5.14)."""
        return own_report(self.vmi, self.resolution(), rules, self.pod, started_with(self.vmi, self.pod))

    def network_files(self, now: datetime) -> Mapping[str, str]:
        """Metadata files of the networks' devices, absolute path -> content, as the launcher finds them in its pod
        (K-7.7, K-7.21). Devices reach the launcher in the VMI's status, which has no place for networks (K-5.12)."""
        if self.pod is None or not self.vmi.spec.networks:
            return {}
        pairs = files_of(self.vmi, self.pod)
        claims = {claim.key: claim for claim in self.claims}
        inputs = DeviceInputs(self.vmi, (self.pod,), self.pod, claims, self.published, (), None, {}, now)
        written = metadata_files(inputs, self.pod, dict.fromkeys(pairs, "KEP-5304"), addresses_only=True).annotations
        files: dict[str, str] = {}
        for pair, entry in pairs.items():
            annotation = metadata_annotation(pair.claim, pair.request)
            text = written.get(annotation) or self.pod.metadata.annotations.get(annotation)
            if text:
                files[f"{request_directory(entry.name, entry.resource_claim_name, pair.request)}/{SHIM_FILE}"] = text
        return files


def unread_devices(
    report: DeviceReport, stored: VirtualMachineInstance | None, kubevirt: KubeVirtVersion
) -> tuple[UnresolvedDevice, ...]:
    """The devices whose address KubeVirt 1.6 or 1.7 doesn't find, and nothing brings it (K-5.16, K-5.17). ``stored``:
    the VMI of the input, of which the guest may run, or KubeVirt may have found the address."""
    if not reads_slices(kubevirt) or (stored is not None and stored.status.phase == "Running"):
        return ()
    served = entries_in(stored.status.device_status) if stored is not None else {}
    withheld: list[UnresolvedDevice] = []
    for outcome in (device.outcome for device in report.devices):
        if not isinstance(outcome, ResolvedDevice) or outcome.subject.kind == "networks":
            continue
        subject, result, published = outcome.subject, outcome.result, outcome.published
        if (subject.kind, subject.name) in served:
            continue
        if result.request != subject.request_name:
            why = f"KubeVirt {kubevirt} finds no device of a request with alternatives"
        elif is_read(published.device, published.slice.spec.node_name or ""):
            continue
        else:
            why = f"device {result.device} has no address {where_read(kubevirt)}"
        message = f"{why}, and {no_metadata_read(kubevirt)}"
        withheld.append(UnresolvedDevice(subject, NO_INTEGRATION_PATH, "error", message, outcome.claim, result.device))
    return tuple(withheld)


def published_status(vmi: VirtualMachineInstance) -> DeviceStatus | None:
    """The status that the operator recorded on a running VMI beside KubeVirt (K-5.21); None if it can't be read."""
    text = vmi.metadata.annotations.get(DEVICE_STATUS_ANNOTATION)
    if text is None or vmi.status.phase != "Running":
        return None
    try:
        return DeviceStatus.from_wire(json.loads(text))
    except (WireError, ValueError, RecursionError):
        return None


def entries_of(
    vmi: VirtualMachineInstance, pod: Pod | None, report: DeviceReport | None = None
) -> tuple[DeviceOutcome, ...]:
    """Every device entry in spec order, then every network with a claim, with the devices from claims."""
    devices = vmi.spec.domain.devices
    reported: dict[tuple[str, str], ReportedDevice] = {
        (device.subject.kind, device.subject.name): device for device in (report.devices if report is not None else ())
    }
    outcomes = [
        _with(
            DeviceOutcome(f"{kind}/{entry.name}", entry.claim_name, entry.request_name),
            reported.get((kind, entry.name)),
        )
        for kind, entries in _listed(vmi)
        for entry in entries
    ]
    plugins = {interface.name: interface.binding for interface in reversed(devices.interfaces)}
    for network in network_devices(vmi, pod):
        outcome = DeviceOutcome(str(network), network.claim_name, network.request_name)
        binding = _plugin_name(plugins.get(network.name)) if network.needs == "none" else None
        outcomes.append(_with(replace(outcome, binding=binding), reported.get((network.kind, network.name))))
    return tuple(outcomes)


def _plugin_name(binding: Json | None) -> str:
    name = (binding or {}).get("name")
    return name if isinstance(name, str) else ""


def _with(outcome: DeviceOutcome, reported: ReportedDevice | None) -> DeviceOutcome:
    if reported is None:
        return outcome
    entry = reported.entry.device_resource_claim_status
    attributes = entry.attributes if entry is not None else None
    if attributes is not None:
        outcome = replace(outcome, pci_address=attributes.pci_address, mdev_uuid=attributes.mdev_uuid)
    if isinstance(reported.outcome, ResolvedDevice):
        result = reported.outcome.result
        return replace(outcome, allocated=f"{result.driver}/{result.pool}/{result.device}")
    return replace(outcome, allocated=reported.outcome.device)


_OF_ANNOTATION = re.compile(r"metadata\.annotations\['([^']+)'\]")


def variables_of(pod: Pod) -> Mapping[str, str]:
    """The variables of the container ``compute`` whose values the pod has: literally, or in an annotation (K-11.2)."""
    compute = next((container for container in pod.spec.containers if container.name == COMPUTE), None)
    values: dict[str, str] = {}
    for variable in compute.env if compute is not None else ():
        reference = (variable.value_from or {}).get("fieldRef")
        path = reference.get("fieldPath") if isinstance(reference, dict) else None
        named = _OF_ANNOTATION.fullmatch(path) if isinstance(path, str) else None
        text = pod.metadata.annotations.get(named[1]) if named else variable.value
        if text:
            values[variable.name] = text
    return values


def without_plugin_devices(vmi: VirtualMachineInstance) -> tuple[VirtualMachineInstance, tuple[str, ...]]:
    """The VMI without device-plugin devices, whose addresses only the launcher knows, and a sentence about them."""
    devices = vmi.spec.domain.devices
    names = [f"{kind}/{entry.name}" for kind, entries in _listed(vmi) for entry in entries if entry.is_plugin]
    kept = devices.with_(
        gpus=tuple(entry for entry in devices.gpus if not entry.is_plugin),
        host_devices=tuple(entry for entry in devices.host_devices if not entry.is_plugin),
    )
    bare = vmi.with_(spec=vmi.spec.with_(domain=vmi.spec.domain.with_(devices=kept)))
    return bare, (
        f"the domain is shown without {', '.join(names)}: only the running "
        "launcher knows the devices of device plugins",
    )


def _listed(vmi: VirtualMachineInstance) -> tuple[tuple[str, tuple[DeviceEntry, ...]], ...]:
    devices = vmi.spec.domain.devices
    return ("gpus", devices.gpus), ("hostDevices", devices.host_devices)


def with_elements(outcomes: Iterable[DeviceOutcome], elements: Iterable[ConvertedDevice]) -> tuple[DeviceOutcome, ...]:
    """The outcomes with the XML element of each device. A network's element is that of its interface."""
    by_device = {element.device.replace("interfaces/", "networks/", 1): element for element in elements}
    return tuple(
        replace(outcome, source=by_device[outcome.device].source, xml=by_device[outcome.device].xml)
        if outcome.device in by_device
        else outcome
        for outcome in outcomes
    )
