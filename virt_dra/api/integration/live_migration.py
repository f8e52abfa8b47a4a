"""The device that keeps a VMI from live migration: virt-handler's judgement, in its words (K-10.1, K-10.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.api.kubevirt_v1 import GPU, PermittedHostDevices, VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import V1_9_0, VGPU_LIVE_MIGRATION, Gates

HOST_DEVICE_NOT_LIVE_MIGRATABLE: Final = "HostDeviceNotLiveMigratable"
"""The reason of the condition LiveMigratable=False."""


@dataclass(frozen=True)
class MigrationBlocker:
    """Why a VMI can't migrate: the condition's reason and message, and the path below the spec of the device."""

    message: str
    subject: str
    reason: str = HOST_DEVICE_NOT_LIVE_MIGRATABLE


def device_blocker(
    spec: VirtualMachineInstanceSpec, gates: Gates, permitted: PermittedHostDevices | None = None
) -> MigrationBlocker | None:
    """The first device that keeps the VMI from migrating; None for a VMI that KubeVirt says may migrate.

    Since 1.9 that may be one with a single vGPU of a device plugin; a GPU from a claim never is, as it has no
    ``deviceName`` (K-10.2). A claim whose devices no entry uses doesn't count. ``permitted`` is the KubeVirt
    configuration's permittedHostDevices.
    """
    gpus, host_devices = spec.domain.devices.gpus, spec.domain.devices.host_devices
    if gates.version < V1_9_0:
        return MigrationBlocker("VMI uses a PCI host devices", _first(host_devices)) if host_devices or gpus else None
    if host_devices:
        return MigrationBlocker("VMI specifies non-migratable generic PCI host device", _first(host_devices))
    if not gpus:
        return None
    if len(gpus) > 1:
        return MigrationBlocker("VMI specifies too many GPUs", "domain.devices.gpus[1]")
    if VGPU_LIVE_MIGRATION not in gates:
        message = f"VMI specifies a GPU but feature gate {VGPU_LIVE_MIGRATION} is not enabled"
        return MigrationBlocker(message, _first(()))
    if not _is_permitted_vgpu(gpus[0], permitted):
        return MigrationBlocker("VMI specifies non-migratable GPU device", _first(()))
    return None


def _first(host_devices: tuple[object, ...]) -> str:
    """The path of the first host device, else of the first GPU."""
    return f"domain.devices.{'hostDevices' if host_devices else 'gpus'}[0]"


def _is_permitted_vgpu(gpu: GPU, permitted: PermittedHostDevices | None) -> bool:
    """True for the resource of a mediated device. KubeVirt compares names only, "" included."""
    mediated = permitted.mediated_devices if permitted is not None else ()
    return any(device.resource_name == (gpu.device_name or "") for device in mediated)
