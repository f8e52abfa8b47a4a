"""The driver's metadata files as KubeVirt's launchers read them (D-34 to D-36, K-7.9, K-7.11).

The same files were read by KubeVirt 1.9.0's own code (pkg/dra), with the same outcome.
"""

from __future__ import annotations

import pytest

from launcher.addresses.metadata_files import FileDevice, MetadataError, device_of
from node_driver.devices import DeviceKind
from node_driver.metadata import container_file, metadata_document
from node_driver.state.records import ClaimRecord, DeviceRecord, Stage
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.device_metadata import BASE
from virt_dra.api.kubevirt_versions import KubeVirtVersion

DRIVER, UUID, ADDRESS = "passthrough.virt-dra.io", "8d1f2c3a-0d4e-4a56-9b7c-1e2f3a4b5c6d", "0000:41:00.1"
DIRECT = PodResourceClaim(name="entry", resource_claim_name="claim")
OF_TEMPLATE = PodResourceClaim(name="entry", resource_claim_template_name="template")
PCI = DeviceRecord(
    "pci", DeviceKind.SRIOV, "nic", ADDRESS, attributes={"resource.kubernetes.io/pciBusID": {"string": ADDRESS}}
)
MDEV = DeviceRecord("mdev", DeviceKind.MDEV, "gpu", UUID, attributes={"mdevUUID": {"string": UUID}})
ALTERNATIVE = DeviceRecord("pci", DeviceKind.VFIO, "nic/big", ADDRESS, attributes=PCI.attributes)


def read_by(version: str, entry: PodResourceClaim, device: DeviceRecord, request: str) -> FileDevice:
    """What a launcher of that KubeVirt reads of the claim's device."""
    claim = entry.resource_claim_name or "vm-entry-x7k2p"
    pod_claim_name = "" if entry.resource_claim_name else entry.name
    record = ClaimRecord("uid", "ns", claim, Stage.DONE, ("pod",), pod_claim_name, (device,))
    path = container_file(DRIVER, record, device.base_request)
    files = {path: metadata_document(DRIVER, "node-a", record, device.base_request)}
    return device_of(files, (entry,), entry.name, request, KubeVirtVersion.parse(version))


@pytest.mark.parametrize("version", ["1.8.3", "1.9.0"])
@pytest.mark.parametrize(
    ("entry", "folder"),
    [(DIRECT, "resourceclaims/claim"), (OF_TEMPLATE, "resourceclaimtemplates/entry")],
    ids=["claim", "template"],
)
def test_launchers_since_1_8_3_read_the_address(version: str, entry: PodResourceClaim, folder: str) -> None:
    pci = read_by(version, entry, PCI, "nic")
    assert pci == FileDevice(f"{BASE}/{folder}/nic/{DRIVER}-metadata.json", ADDRESS, "")
    mdev = read_by(version, entry, MDEV, "gpu")
    assert mdev == FileDevice(f"{BASE}/{folder}/gpu/{DRIVER}-metadata.json", "", UUID)


@pytest.mark.parametrize(
    ("version", "device", "message"),
    [
        ("1.8.2", PCI, 'metadata not found for claim "claim" request "nic"'),
        (
            "1.9.0",
            ALTERNATIVE,
            'request "nic" not found in metadata for claim "claim" (available requests: [nic/big])',
        ),
    ],
    ids=["1.8.2 looks elsewhere", "chosen alternative"],
)
def test_what_kubevirt_doesnt_read_by_itself(version: str, device: DeviceRecord, message: str) -> None:
    with pytest.raises(MetadataError) as refused:
        read_by(version, DIRECT, device, "nic")
    assert str(refused.value) == message
