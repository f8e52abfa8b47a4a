"""What keeps the address of a resolved device from the VM: it isn't ready, and the message says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.known_drivers import ALWAYS_WRITE
from virt_dra.api.integration.record import Integration
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.controllers.devices.delivery import (
    METADATA_CLASH,
    NO_INTEGRATION_PATH,
    NOT_IN_RECORD,
    REQUEST_NOT_USED,
    with_obstacles,
)
from virt_dra.controllers.devices.outcomes import DeviceResolution, UnresolvedDevice
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import dra_devices
from virt_dra.model.published import PublishedDevices

GPU = {"name": "g", "claimName": "c", "requestName": "r"}
SPEC = {"resourceClaims": [{"name": "c", "resourceClaimName": "mine"}], "domain": {"devices": {"gpus": [GPU]}}}
CLASH = (
    "driver gpu.intel.com mounts a metadata file of its own where the pod has "
    "virt-dra's volume, so its container can't be made: {} "
    "Restart the VM"
)
UNKNOWN = "no device that matches the request was known when the pod was made."
OTHERS = "the devices that matched the request when the pod was made were of drivers that write no such file."


def vmi(**status: Any) -> VirtualMachineInstance:
    return VirtualMachineInstance.from_wire(
        {"metadata": {"name": "vm", "namespace": "lab", "uid": "u"}, "spec": SPEC, "status": status}
    )


def pod(uses: object = ({"name": "c", "request": "r"},)) -> Pod:
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "vm",
        "uid": "u",
        "controller": True,
    }
    listed: Any = uses
    compute = {"name": "compute", "resources": {"claims": list(listed)}}
    return Pod.from_wire({
        "metadata": {"name": "p", "namespace": "lab", "uid": "pod-1", "ownerReferences": [owner]},
        "spec": {"resourceClaims": SPEC["resourceClaims"], "nodeName": "n", "containers": [compute]},
    })  # fmt: skip


def resolution(driver: str = "gpu.example.com") -> DeviceResolution:
    """One GPU, resolved."""
    result = {"request": "r", "driver": driver, "pool": "n", "device": "d"}
    reserved = [{"resource": "pods", "name": "p", "uid": "pod-1"}]
    status: Json = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    claim = ResourceClaim.from_wire({"metadata": {"name": "mine", "namespace": "lab"}, "status": status})
    device = {"name": "d", "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    slice_ = ResourceSlice.from_wire(
        {"metadata": {"name": "s"}, "spec": {"driver": driver, "nodeName": "n", "pool": pool, "devices": [device]}}
    )
    return resolve(vmi(), pod(), [claim], PublishedDevices.from_slices([slice_]), subjects=dra_devices(vmi()))


def record(
    path: str = "metadata-shim", reason: str = "", layout: str | None = "KEP-5304", request: str = "r"
) -> Integration:
    pair = {"claim": "c", "request": request, "path": path, "reason": reason} | ({"layout": layout} if layout else {})
    integration = Integration.from_annotations(
        {"virt-dra.io/integration": json.dumps({"format": 1, "pairs": [pair], "devices": []})}
    )
    assert integration is not None
    return integration


def obstacle(driver: str, made: Pod, known: Integration | None, **status: Any) -> UnresolvedDevice:
    (obstacle,) = with_obstacles(resolution(driver), vmi(**status), made, known, ALWAYS_WRITE, running=False).obstacles
    assert (obstacle.subject.name, obstacle.state, obstacle.device, obstacle.claim) == ("g", "error", "d", "mine")
    return obstacle


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("DriverUnknown", UNKNOWN),
        ("DriverWritesNoMetadata", OTHERS),
        (
            "AskedFor",
            "annotation virt-dra.io/integration-path asked for path metadata-shim. "
            "Remove it or set it to native, and restart the VM",
        ),
    ],
)
def test_a_driver_that_writes_metadata_clashes_with_our_volume(reason: str, why: str) -> None:
    unresolved = obstacle("gpu.intel.com", pod(), record(reason=reason))
    wanted = CLASH.format(why).removesuffix(" Restart the VM" if reason == "AskedFor" else "")
    assert (unresolved.reason, unresolved.message) == (METADATA_CLASH, wanted)


def test_so_does_one_that_was_told_to_write_them() -> None:
    writers = ALWAYS_WRITE | {"gpu.example.com"}
    (obstacle,) = with_obstacles(resolution(), vmi(), pod(), record(), writers, running=False).obstacles
    assert obstacle.reason == METADATA_CLASH


def test_a_request_that_the_container_does_not_use_gives_it_no_device() -> None:
    unresolved = obstacle("gpu.example.com", pod([{"name": "c", "request": "other"}]), record(request="other"))
    assert unresolved.reason == REQUEST_NOT_USED
    assert unresolved.message.startswith(
        "container compute of pod p doesn't use request r of claim c, so it gets no device of it: KubeVirt before"
    )


def test_a_kubevirt_that_reads_no_files_has_no_path() -> None:
    recorded = record("none", "NoMetadataRead", layout=None)
    unresolved = obstacle("gpu.example.com", pod(), recorded)
    assert (unresolved.reason, unresolved.message) == (
        NO_INTEGRATION_PATH,
        "this KubeVirt reads no metadata files, so the device's address does not "
        "reach it: use KubeVirt 1.8.0 or newer, or give the device "
        "a deviceName and the VM the annotation virt-dra.io/device-claims, and restart the VM",
    )
    entry = {"name": "g", "deviceResourceClaimStatus": {"name": "d", "attributes": {"pciAddress": "0000:01:00.0"}}}
    before = resolution()
    known_to_kubevirt = vmi(deviceStatus={"gpuStatuses": [entry]})
    assert with_obstacles(before, known_to_kubevirt, pod(), recorded, ALWAYS_WRITE, running=False) is before


def test_a_request_that_the_record_lacks_is_not_filled_in() -> None:
    assert obstacle("gpu.example.com", pod(), record(request="other")).reason == NOT_IN_RECORD


@pytest.mark.parametrize(
    ("driver", "made", "given", "running"),
    [
        ("gpu.example.com", pod(), record(), False),
        ("gpu.intel.com", pod(), record(), True),
        ("gpu.intel.com", pod(), record(layout="KubeVirt-1.8.0"), False),
        ("gpu.intel.com", pod(), record("native", layout=None), False),
        ("gpu.intel.com", pod(), None, False),
        ("gpu.example.com", pod(), record("none", "NoMetadataRead", layout=None), True),
        ("gpu.example.com", pod([{"name": "c", "request": "other"}]), None, True),
        ("gpu.example.com", pod([{"name": "c"}]), None, False),
        ("gpu.example.com", Pod(), None, False),
        ("gpu.example.com", None, None, False),
    ],
)
def test_nothing_is_in_the_way(driver: str, made: Pod | None, given: Integration | None, running: bool) -> None:
    before = resolution(driver)
    assert with_obstacles(before, vmi(), made, given, ALWAYS_WRITE, running=running) is before
