"""What is known about published DRA drivers besides their address keys (K-6.7): the one table that lint, webhook and operator ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

MetadataSupport = Literal["always", "optional", "never", "unknown"]
"""Whether a driver writes KEP-5304 metadata files: ``optional`` only where its administrator turned it on."""


@dataclass(frozen=True)
class KnownDriver:
    """``classes``: DeviceClasses that the driver brings along. ``unfit``: why its devices can't serve VMs, or ""."""

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
"""Which driver serves a class that it brings along; to be asked only where no published device tells."""

ALWAYS_WRITE: Final = frozenset(driver.name for driver in KNOWN_DRIVERS.values() if driver.metadata == "always")


def metadata_writers(turned_on: Iterable[str] = (), turned_off: Iterable[str] = ()) -> frozenset[str]:
    """The drivers that count as writing metadata files: those that always do, as the administrator's word changes them."""
    return (ALWAYS_WRITE | frozenset(turned_on)) - frozenset(turned_off)
