"""The devices and networks of a VM that claims serve: what was allocated to them, where they are, and how a launcher learns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from launcher import HostDevice
from virt_dra.api.core_v1 import Pod
from virt_dra.api.device_metadata import request_directory
from virt_dra.api.integration_paths import SHIM_FILE, metadata_annotation
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.controllers.device_publication import Inputs
from virt_dra.controllers.device_resolution import Outcome, Resolution, Resolved, dra_devices, resolve
from virt_dra.controllers.metadata_shim import metadata_files
from virt_dra.controllers.network_devices import network_devices
from virt_dra.controllers.published_devices import PublishedDevices
from virt_dra.controllers.standalone_networks import files_of
from virt_dra.simulator.outcome import DeviceOutcome


@dataclass(frozen=True)
class Known:
    """What is looked up for one VMI: its pod, the claims of its namespace, and all published devices."""

    vmi: VirtualMachineInstance
    pod: Pod | None
    claims: tuple[ResourceClaim, ...]
    published: PublishedDevices

    def resolution(self) -> Resolution:
        """Of gpus, hostDevices and networks (K-5.32), in this order."""
        devices = dra_devices(self.vmi)
        networks = network_devices(self.vmi, self.pod, len(devices))
        return resolve(self.vmi, self.pod, self.claims, self.published, subjects=(*devices, *networks))

    def network_files(self, now: datetime) -> Mapping[str, str]:
        """Metadata files of the networks' devices, absolute path -> content, as the launcher finds them in its pod (K-7.7, K-7.21).

        Of devices the launcher hears by the VMI's status, which has no place for networks (K-5.12).
        """
        if self.pod is None:
            return {}
        pairs = files_of(self.vmi, self.pod)
        claims = {claim.key: claim for claim in self.claims}
        inputs = Inputs(self.vmi, (self.pod,), self.pod, claims, self.published, (), None, {}, now)
        written = metadata_files(inputs, self.pod, dict.fromkeys(pairs, "KEP-5304"), addresses_only=True).annotations
        found: dict[str, str] = {}
        for pair, entry in pairs.items():
            text = written.get(metadata_annotation(pair.claim, pair.request))
            if text:
                found[f"{request_directory(entry.name, entry.resource_claim_name, pair.request)}/{SHIM_FILE}"] = text
        return found


def entries_of(vmi: VirtualMachineInstance, pod: Pod | None, resolution: Resolution | None = None) -> tuple[DeviceOutcome, ...]:
    """Every device entry in spec order, then every network with a claim, with what the resolution found for those that claims serve."""
    devices = vmi.spec.domain.devices
    found: dict[tuple[str, str], Outcome] = {
        (outcome.subject.kind, outcome.subject.name): outcome for outcome in (resolution.outcomes if resolution else ())
    }
    outcomes = [
        _with(DeviceOutcome(f"{kind}/{entry.name}", entry.claim_name, entry.request_name), found.get((kind, entry.name)))
        for kind, entries in (("gpus", devices.gpus), ("hostDevices", devices.host_devices))
        for entry in entries
    ]
    plugins = {interface.name: interface.binding for interface in reversed(devices.interfaces)}
    for network in network_devices(vmi, pod):
        outcome = DeviceOutcome(str(network), network.claim_name, network.request_name)
        binding = _plugin_name(plugins.get(network.name)) if network.needs == "none" else None
        outcomes.append(_with(replace(outcome, binding=binding), found.get((network.kind, network.name))))
    return tuple(outcomes)


def _plugin_name(binding: Json | None) -> str:
    name = (binding or {}).get("name")
    return name if isinstance(name, str) else ""


def _with(outcome: DeviceOutcome, known: Outcome | None) -> DeviceOutcome:
    if isinstance(known, Resolved):
        allocated = f"{known.result.driver}/{known.result.pool}/{known.result.device}"
        return replace(outcome, allocated=allocated, pci_address=known.addresses.pci, mdev_uuid=known.addresses.mdev)
    return outcome if known is None else replace(outcome, allocated=known.device)


def with_elements(outcomes: Iterable[DeviceOutcome], elements: Iterable[HostDevice]) -> tuple[DeviceOutcome, ...]:
    """With the element that each device got. A network's is that of its interface."""
    by_device = {element.device.replace("interfaces/", "networks/", 1): element for element in elements}
    return tuple(
        replace(outcome, source=by_device[outcome.device].source, xml=by_device[outcome.device].xml)
        if outcome.device in by_device
        else outcome
        for outcome in outcomes
    )
