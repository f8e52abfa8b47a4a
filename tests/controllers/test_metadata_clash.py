"""A driver's metadata file that can't be mounted because the pod has a volume of ours there."""

from __future__ import annotations

import json

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration_record import Integration
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.device_resolution import Resolution, dra_devices, resolve
from virt_dra.controllers.metadata_clash import METADATA_CLASH, with_clashes
from virt_dra.controllers.published_devices import PublishedDevices

MESSAGE = (
    "driver gpu.intel.com mounts a metadata file of its own where the pod has virt-dra's volume, so its container can't be made: no device "
    "of this driver was known when the pod was made, or path metadata-shim was asked for. Restart the VM"
)


def resolution(driver: str) -> Resolution:
    """One GPU, resolved."""
    gpu = {"name": "g", "claimName": "c", "requestName": "r"}
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "mine"}], "domain": {"devices": {"gpus": [gpu]}}}
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "vm", "namespace": "lab", "uid": "u"}, "spec": spec})
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm", "uid": "u", "controller": True}
    pod = Pod.from_wire({
        "metadata": {"name": "p", "namespace": "lab", "uid": "pod-1", "ownerReferences": [owner]},
        "spec": {"resourceClaims": spec["resourceClaims"], "nodeName": "n"},
    })  # fmt: skip
    result = {"request": "r", "driver": driver, "pool": "n", "device": "d"}
    reserved = [{"resource": "pods", "name": "p", "uid": "pod-1"}]
    status: Json = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    claim = ResourceClaim.from_wire({"metadata": {"name": "mine", "namespace": "lab"}, "status": status})
    device = {"name": "d", "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    slice_ = ResourceSlice.from_wire(
        {"metadata": {"name": "s"}, "spec": {"driver": driver, "nodeName": "n", "pool": pool, "devices": [device]}}
    )
    return resolve(vmi, pod, [claim], PublishedDevices.of([slice_]), subjects=dra_devices(vmi))


def record(path: str = "metadata-shim", layout: str | None = "KEP-5304", request: str = "r") -> Integration:
    pair = {"claim": "c", "request": request, "path": path} | ({"layout": layout} if layout else {})
    found = Integration.from_annotations({"virt-dra.io/integration": json.dumps({"format": 1, "pairs": [pair], "devices": []})})
    assert found is not None
    return found


def test_a_device_whose_driver_writes_metadata_clashes_with_our_volume() -> None:
    (warned,) = with_clashes(resolution("gpu.intel.com"), record(), running=False).warnings
    assert (warned.subject.name, warned.reason, warned.message) == ("g", METADATA_CLASH, MESSAGE)


@pytest.mark.parametrize(
    ("driver", "given", "running"),
    [
        ("gpu.example.com", record(), False),
        ("gpu.intel.com", record(), True),
        ("gpu.intel.com", record(layout="KubeVirt-1.8.0"), False),
        ("gpu.intel.com", record("native", None), False),
        ("gpu.intel.com", record(request="other"), False),
        ("gpu.intel.com", None, False),
    ],
)
def test_nothing_clashes(driver: str, given: Integration | None, running: bool) -> None:
    before = resolution(driver)
    assert with_clashes(before, given, running=running) is before
