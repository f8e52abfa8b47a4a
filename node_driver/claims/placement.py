"""Where a claim's files are, and what is in them (D-27 to D-36). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from node_driver import cdi, metadata
from node_driver.cdi import CdiDevice, CdiMount
from node_driver.state.records import ClaimRecord
from node_driver.wire.service import HandedDevice, ReadyClaim

METADATA_MODE = 0o644
CDI_MODE = 0o644


@dataclass(frozen=True, slots=True)
class FilePlacement:
    """``pool``: the node's name (D-21). Folders are absolute."""

    driver: str
    pool: str
    plugin_folder: str
    cdi_folder: str

    @property
    def metadata_folder(self) -> str:
        return f"{self.plugin_folder}/{metadata.HOST_FOLDER}"

    def metadata_files(self, record: ClaimRecord) -> Iterator[tuple[str, str]]:
        """Path and content of each request's metadata file on the host."""
        for request in _base_requests(record):
            text = metadata.metadata_document(self.driver, self.pool, record, request)
            yield metadata.host_file(self.plugin_folder, record, request), text

    def cdi_files(self, record: ClaimRecord, nodes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
        """Path and content of each CDI file: the devices', and one for each request's metadata. ``nodes``: device's
        name -> its nodes."""
        devices = [
            CdiDevice(cdi.device_name(record.uid, device.device), nodes[device.device])
            for device in record.devices
            if not device.admin_access
        ]
        if devices:
            text = cdi.cdi_document(self.driver, cdi.DEVICE_CLASS, devices)
            yield cdi.device_file(self.cdi_folder, self.driver, record.uid), text
        for request in _base_requests(record):
            on_host = metadata.host_file(self.plugin_folder, record, request)
            mount = CdiMount(on_host, metadata.container_file(self.driver, record, request))
            device = CdiDevice(cdi.metadata_device_name(record.uid, request), mounts=(mount,))
            text = cdi.cdi_document(self.driver, cdi.METADATA_CLASS, [device])
            yield cdi.metadata_file(self.cdi_folder, self.driver, record.uid, request), text

    def paths(self, record: ClaimRecord) -> tuple[str, ...]:
        """All files that are written for a claim."""
        requests = _base_requests(record)
        return (
            cdi.device_file(self.cdi_folder, self.driver, record.uid),
            *(cdi.metadata_file(self.cdi_folder, self.driver, record.uid, request) for request in requests),
            *(metadata.host_file(self.plugin_folder, record, request) for request in requests),
        )

    def answer(self, record: ClaimRecord) -> ReadyClaim:
        """The answer for the kubelet. A device's own id comes first; a request's first device brings its metadata
        (D-13, D-34)."""
        described: set[str] = set()
        handed = []
        for device in record.devices:
            ids = []
            if not device.admin_access:
                name = cdi.device_name(record.uid, device.device)
                ids.append(cdi.cdi_id(self.driver, cdi.DEVICE_CLASS, name))
            if device.base_request not in described:
                described.add(device.base_request)
                name = cdi.metadata_device_name(record.uid, device.base_request)
                ids.append(cdi.cdi_id(self.driver, cdi.METADATA_CLASS, name))
            handed.append(HandedDevice((device.base_request,), self.pool, device.device, tuple(ids), device.share_id))
        return ReadyClaim(tuple(handed))


def _base_requests(record: ClaimRecord) -> list[str]:
    return list(dict.fromkeys(device.base_request for device in record.devices))
