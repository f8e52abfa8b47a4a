"""The table of known DRA drivers (K-6.7), besides their address keys: lint, webhook and operator share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

MetadataSupport = Literal["always", "optional", "never", "unknown"]
"""Whether a driver writes KEP-5304 metadata files: ``optional`` only where its administrator turned it on."""


@dataclass(frozen=True)
class KnownDriver:
    """A driver that is known by name. ``classes``: DeviceClasses that it brings along. ``unfit``: why its devices can't
    serve VMs, or ""."""

    name: str
    metadata: MetadataSupport
    classes: tuple[str, ...] = ()
    unfit: str = ""


NVIDIA: Final = "gpu.nvidia.com"

KNOWN_DRIVERS: Final[Mapping[str, KnownDriver]] = MappingProxyType(
    {
        driver.name: driver
        for driver in (
            KnownDriver(NVIDIA, "optional", ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com")),
            KnownDriver("gpu.intel.com", "always", ("gpu.intel.com", "gpu-vfio.intel.com")),
            KnownDriver("sriovnetwork.k8snetworkplumbingwg.io", "optional", ("sriovnetwork.k8snetworkplumbingwg.io",)),
            KnownDriver("gpu.amd.com", "unknown", ("gpu.amd.com",)),
            KnownDriver(
                "dra.net",
                "never",
                unfit="it does not publish network cards that are bound to vfio-pci, and writes no metadata files",
            ),
        )
    }
)

DRIVER_OF_CLASS: Final[Mapping[str, str]] = MappingProxyType(
    {device_class: driver.name for driver in KNOWN_DRIVERS.values() for device_class in driver.classes}
)
"""The driver of each DeviceClass that a driver installs; used only where no published device shows the driver."""

ALWAYS_WRITE: Final = frozenset(driver.name for driver in KNOWN_DRIVERS.values() if driver.metadata == "always")


def metadata_writers(turned_on: Iterable[str] = (), turned_off: Iterable[str] = ()) -> frozenset[str]:
    """The drivers that write metadata files: those that always do, as changed by the administrator's settings."""
    return (ALWAYS_WRITE | frozenset(turned_on)) - frozenset(turned_off)
