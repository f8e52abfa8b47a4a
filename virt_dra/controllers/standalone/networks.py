"""The metadata files by which a standalone launcher gets the devices of networks (K-5.32, K-7.21). Pure. Each pair has
an annotation with the content, which the pod's downwardAPI volume mounts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from virt_dra.api import names
from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.integration.device_metadata import PCI_BUS_ID
from virt_dra.api.integration.metadata_content import DeviceMetadata
from virt_dra.api.integration.paths import ClaimRequestPair, metadata_annotation
from virt_dra.api.kubevirt_v1 import DeviceStatusInfo, VirtualMachineInstance
from virt_dra.api.wire import Json, WireError
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.metadata_files import metadata_files
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.report import StatusEntries, one_each
from virt_dra.controllers.devices.subjects import DeviceSubject


def files_of(vmi: VirtualMachineInstance, pod: Pod) -> Mapping[ClaimRequestPair, PodResourceClaim]:
    """The pairs that the pod needs a file for, each with the pod's claim entry; none for invalid names (K-3.2)."""
    entries = {entry.name: entry for entry in reversed(pod.spec.resource_claims)}
    return {
        ClaimRequestPair(network.claim_name, network.request_name): entries[network.claim_name]
        for network in network_devices(vmi, pod)
        if network.claim_name in entries and _named(entries[network.claim_name], network.request_name)
    }


def _named(entry: PodResourceClaim, request: str) -> bool:
    direct = entry.resource_claim_name
    return not (
        names.dns1123_label(entry.name) or names.dns1123_label(request) or (direct and names.dns1123_subdomain(direct))
    )


def annotations_for(inputs: DeviceInputs, pod: Pod) -> Mapping[str, str | None]:
    """The files' contents, as far as they are known. Those that a running VMI was started with are frozen (K-5.14)."""
    filled = metadata_files(inputs, pod, dict.fromkeys(files_of(inputs.vmi, pod), "KEP-5304"), addresses_only=True)
    running = inputs.vmi.status.phase == "Running"
    return {
        key: value for key, value in filled.annotations.items() if not (running and pod.metadata.annotations.get(key))
    }


def started_with(vmi: VirtualMachineInstance, pod: Pod | None) -> StatusEntries:
    """The entries of the networks that the pod was started with, from its files."""
    if pod is None:
        return {}
    entries: list[tuple[str, DeviceStatusInfo]] = []
    for network in network_devices(vmi, pod):
        text = pod.metadata.annotations.get(metadata_annotation(network.claim_name, network.request_name))
        entry = _entry(network, text) if text else None
        if entry is not None:
            entries.append((network.kind, entry))
    return one_each(entries)


def _entry(network: DeviceSubject, text: str) -> DeviceStatusInfo | None:
    """The entry of a network, by its metadata file; None for a text of another form."""
    try:
        file = DeviceMetadata.from_wire(json.loads(text))
    except (WireError, ValueError, RecursionError):
        return None
    devices = [
        device for request in file.requests if request.name == network.request_name for device in request.devices
    ]
    if len(devices) != 1:
        return None
    address = devices[0].attributes.get(PCI_BUS_ID)
    attributes: Json = {"pciAddress": address.string} if address is not None and address.string else {}
    claim_status: Json = {"name": devices[0].name, "resourceClaimName": file.metadata.name, "attributes": attributes}
    return DeviceStatusInfo.from_wire({"name": network.name, "deviceResourceClaimStatus": claim_status})
