"""virt-dra.io/v1alpha1: the state of a VMI's devices, in an object of our own (K-9.2,
docs/decisions/0012-real-cluster.md).

A :class:`VirtualMachineInstanceDevices` is named like its VMI, which owns it; garbage collection removes it. Its status
is no subresource: it has one writer, which writes all of it at once.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from virt_dra.api.kubevirt_v1 import DeviceStatus
from virt_dra.api.meta import Condition, TypedObject
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.api.wire import List, Str, Wire

GROUP: Final = "virt-dra.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"

DEVICES_RESOLVED: Final = "DevicesResolved"
"""Condition: whether every device has an address. Its reason is that of the first device that has none."""
DEVICES_HEALTHY: Final = "DevicesHealthy"
"""Condition: no device has vanished, changed, been tainted or become unhealthy. Unknown before devices are resolved."""
ALLOCATABLE: Final = "Allocatable"
"""Condition, while the pod waits for a node: whether its claims can be allocated anywhere, and if not, why (K-12.4)."""
PROFILES_APPLIED: Final = "ProfilesApplied"
"""Condition, of a VMI with a line of device profiles: whether it has what that stands for now, and if not, why."""


class DeviceHealth(Wire):
    """The health that the driver reported to the kubelet (KEP-4680). ``status``: Healthy, Unhealthy or Unknown."""

    status: Str = ""
    message: Str | None = None


class VmiDevice(Wire):
    """One DRA device entry, or network from a claim, of the VMI and what is known about it.

    ``kind``: gpus, hostDevices or networks. ``state``: Resolved, Pending, Error or Released, with reason and message
    (K-5) for all but the first. A resolved device has an address, but for a network that a binding plugin serves
    (K-5.32), and the address reaches the VM.
    """

    name: Str = ""
    kind: Str = ""
    claim_name: Str = ""
    request_name: Str = ""
    resource_claim_name: Str | None = None
    driver: Str | None = None
    pool: Str | None = None
    device: Str | None = None
    pci_address: Str | None = None
    mdev_uuid: Str | None = Field(default=None, alias="mdevUUID")
    integration_path: Str | None = None
    state: Str = ""
    reason: Str | None = None
    message: Str | None = None
    taints: List[DeviceTaint] = ()
    health: DeviceHealth | None = None


class MigrationTarget(Wire):
    """The pod that the VMI migrates to and its devices, until it is the current pod (K-10.5)."""

    ready: Str | None = None
    node_name: Str | None = None
    pod_name: Str = ""
    pod_uid: Str = Field(default="", alias="podUID")
    devices: List[VmiDevice] = ()


class VirtualMachineInstanceDevicesStatus(Wire):
    """The devices of a VMI. ``ready``: as in ``1/2``: resolved devices, of all. ``integration_paths``: those in use,
    each once, comma-separated."""

    ready: Str | None = None
    node_name: Str | None = None
    pod_name: Str | None = None
    pod_uid: Str | None = Field(default=None, alias="podUID")
    integration_paths: Str | None = None
    device_status: DeviceStatus | None = None
    devices: List[VmiDevice] = ()
    migration_target: MigrationTarget | None = None
    conditions: List[Condition] = ()


class VirtualMachineInstanceDevices(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    PLURAL: ClassVar[str] = "virtualmachineinstancedevices"
    HAS_STATUS: ClassVar[bool] = False

    status: VirtualMachineInstanceDevicesStatus = VirtualMachineInstanceDevicesStatus.empty()
