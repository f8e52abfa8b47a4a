"""Which VMI KubeVirt says can't migrate because of a device, by release (K-10.1, K-10.2)."""

from __future__ import annotations

import pytest

from virt_dra.api.integration.live_migration import MigrationBlocker, device_blocker
from virt_dra.api.kubevirt_v1 import PermittedHostDevices, VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import VGPU_LIVE_MIGRATION, Gates, KubeVirtVersion
from virt_dra.api.wire import Json

PLUGIN: Json = {"name": "a", "deviceName": "v.com/vgpu"}
WHOLE: Json = {"name": "b", "deviceName": "v.com/whole"}
CLAIMED: Json = {"name": "c", "claimName": "c", "requestName": "r"}
NAMELESS: Json = {"name": "d"}
PERMITTED = PermittedHostDevices.from_wire(
    {
        "mediatedDevices": [{"mdevNameSelector": "Q", "resourceName": "v.com/vgpu"}],
        "pciHostDevices": [{"pciVendorSelector": "10DE:1EB8", "resourceName": "v.com/whole"}],
    }
)
PCI = "VMI uses a PCI host devices"
GENERIC = "VMI specifies non-migratable generic PCI host device"
MANY = "VMI specifies too many GPUs"
OFF = "VMI specifies a GPU but feature gate VGPULiveMigration is not enabled"
OTHER = "VMI specifies non-migratable GPU device"


@pytest.mark.parametrize("version", ["1.6", "1.7.0", "1.8.3", "1.9.0", "main"])
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    ("gpus", "host_devices", "before_1_9", "gate_off", "gate_on", "subject"),
    [
        ((), (), None, None, None, ""),
        ((), (PLUGIN,), PCI, GENERIC, GENERIC, "hostDevices[0]"),
        ((PLUGIN,), (CLAIMED,), PCI, GENERIC, GENERIC, "hostDevices[0]"),
        ((PLUGIN,), (), PCI, OFF, None, "gpus[0]"),
        ((WHOLE,), (), PCI, OFF, OTHER, "gpus[0]"),
        ((CLAIMED,), (), PCI, OFF, OTHER, "gpus[0]"),
        ((NAMELESS,), (), PCI, OFF, OTHER, "gpus[0]"),
    ],
)
def test_a_device_keeps_a_vmi_from_migrating(
    version: str, gate: bool, gpus: tuple[Json, ...], host_devices: tuple[Json, ...], before_1_9: str | None,
    gate_off: str | None, gate_on: str | None, subject: str,
) -> None:  # fmt: skip
    release = KubeVirtVersion.parse(version)
    gates = Gates.for_version(release, {VGPU_LIVE_MIGRATION: gate})
    message = before_1_9 if release < KubeVirtVersion(1, 9, 0) else gate_on if gate else gate_off
    wanted = MigrationBlocker(message, f"domain.devices.{subject}") if message else None
    assert device_blocker(spec_of(gpus, host_devices), gates, PERMITTED) == wanted


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("1.8", MigrationBlocker(PCI, "domain.devices.gpus[0]")),
        ("1.9", MigrationBlocker(MANY, "domain.devices.gpus[1]")),
    ],
)
def test_several_gpus_never_migrate(version: str, wanted: MigrationBlocker) -> None:
    gates = Gates.for_version(KubeVirtVersion.parse(version), {VGPU_LIVE_MIGRATION: True})
    assert device_blocker(spec_of((PLUGIN, PLUGIN), ()), gates, PERMITTED) == wanted


def test_a_vgpu_is_known_by_the_configuration_only() -> None:
    gates = Gates.for_version(KubeVirtVersion.parse("1.9"), {VGPU_LIVE_MIGRATION: True})
    assert device_blocker(spec_of((PLUGIN,), ()), gates) == MigrationBlocker(OTHER, "domain.devices.gpus[0]")


@pytest.mark.parametrize("version", ["1.6", "1.8", "1.9", "main"])
def test_a_claim_that_no_device_uses_does_not_count(version: str) -> None:
    """K-10.2: although a claim that is named directly may pin the VM to its node."""
    claims = [{"name": "c", "resourceClaimName": "gpu"}]
    claimed = VirtualMachineInstanceSpec.from_wire({"resourceClaims": claims, "domain": {"devices": {}}})
    assert device_blocker(claimed, Gates.for_version(KubeVirtVersion.parse(version))) is None


def spec_of(gpus: tuple[Json, ...], host_devices: tuple[Json, ...]) -> VirtualMachineInstanceSpec:
    devices: Json = {"gpus": list(gpus), "hostDevices": list(host_devices)}
    return VirtualMachineInstanceSpec.from_wire({"domain": {"devices": devices}})
