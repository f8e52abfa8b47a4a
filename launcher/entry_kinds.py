"""The two device lists of a VMI, ``gpus`` and ``hostDevices``, and how KubeVirt's conversion of them differs (K-7.2,
K-7.17)."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.addresses.pools import MDEV_PREFIX, PCI_PREFIX, USB_PREFIX
from virt_dra.api.kubevirt_v1 import DeviceEntry, DeviceStatus, DeviceStatusInfo, VirtualMachineInstance


@dataclass(frozen=True)
class EntryKind:
    """One of the lists: its words in messages, its alias prefixes, and the prefixes of its environment variables."""

    path: str
    word: str
    prefixes: tuple[str, ...]
    plugin_alias: str
    dra_alias: str
    plugin_failure: str
    dra_failure: str
    no_status: str

    def entries(self, vmi: VirtualMachineInstance) -> tuple[DeviceEntry, ...]:
        devices = vmi.spec.domain.devices
        return devices.gpus if self is GPUS else devices.host_devices

    def statuses(self, status: DeviceStatus | None) -> tuple[DeviceStatusInfo, ...]:
        if status is None:
            return ()
        return status.gpu_statuses if self is GPUS else status.host_device_statuses

    def field(self, index: int) -> str:
        """``spec.domain.devices.gpus[1]``."""
        return f"spec.domain.devices.{self.path}[{index}]"


GPUS = EntryKind(
    path="gpus",
    word="GPU",
    prefixes=(PCI_PREFIX, MDEV_PREFIX),
    plugin_alias="gpu-",
    dra_alias="dra-gpu-",
    plugin_failure="failed to create GPU host-devices: ",
    dra_failure="failed to create DRA GPU host-devices: ",
    no_status="vmi has dra gpu devices but no device status found",
)
HOST_DEVICES = EntryKind(
    path="hostDevices",
    word="HostDevice",
    prefixes=(PCI_PREFIX, MDEV_PREFIX, USB_PREFIX),
    plugin_alias="hostdevice-",
    dra_alias="dra-hostdevice-",
    plugin_failure="failed to create generic host-devices: ",
    dra_failure="failed to create dra generic host-devices: ",
    no_status="vmi has dra host-devices devices but no device status found",
)
USB_ALIAS = "usb-host-"
SRIOV_ALIAS = "sriov-"
