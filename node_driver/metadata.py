"""The metadata file of a request: what a container may know of its devices (KEP-5304; D-34 to D-36). Pure; the format
is :mod:`virt_dra.api.integration.device_metadata`'s."""

from __future__ import annotations

import json
from typing import Final

from node_driver.state.records import ClaimRecord, DeviceRecord
from virt_dra.api.integration.device_metadata import FILE_SUFFIX, METADATA_KIND, METADATA_VERSIONS, request_directory
from virt_dra.api.integration.metadata_content import DeviceMetadata, MetadataDevice, MetadataRequest
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceAttribute, NetworkDeviceData

HOST_FOLDER: Final = "dra-device-metadata"
"""Below the plugin's folder."""


def host_file(plugin_folder: str, record: ClaimRecord, base_request: str) -> str:
    return f"{plugin_folder}/{HOST_FOLDER}/{record.namespace}_{record.name}/{base_request}/metadata.json"


def container_file(driver: str, record: ClaimRecord, base_request: str) -> str:
    claim = None if record.pod_claim_name else record.name
    return f"{request_directory(record.pod_claim_name, claim, base_request)}/{driver}{FILE_SUFFIX}"


def metadata_document(driver: str, pool: str, record: ClaimRecord, base_request: str) -> str:
    """One JSON object for each version that readers know, the newest first (D-35). A device's request has its
    subrequest in the name."""
    requests: dict[str, list[MetadataDevice]] = {}
    for device in record.devices:
        if device.base_request == base_request:
            requests.setdefault(device.request, []).append(_device(driver, pool, device))
    metadata = DeviceMetadata(
        kind=METADATA_KIND,
        metadata=ObjectMeta(name=record.name, namespace=record.namespace, uid=record.uid, generation=record.generation),
        **({"pod_claim_name": record.pod_claim_name} if record.pod_claim_name else {}),
        requests=tuple(MetadataRequest(name=name, devices=tuple(devices)) for name, devices in requests.items()),
    ).to_wire()
    return "".join(json.dumps({**metadata, "apiVersion": version}) + "\n" for version in METADATA_VERSIONS)


def _device(driver: str, pool: str, device: DeviceRecord) -> MetadataDevice:
    network = NetworkDeviceData(hardware_address=device.hardware_address) if device.hardware_address else None
    return MetadataDevice(
        driver=driver,
        pool=pool,
        name=device.device,
        attributes={name: DeviceAttribute.from_wire(value) for name, value in device.attributes.items()},
        **({"network_data": network} if network else {}),
    )
