"""The table of known DRA drivers (K-6.7), besides their address keys: lint, webhook and operator share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from virt_dra.api.resource_v1 import DeviceClass

MetadataSupport = Literal["always", "optional", "never", "unknown"]
"""Whether a driver writes KEP-5304 metadata files: ``optional`` only where its administrator turned it on."""


@dataclass(frozen=True)
class KnownDriver:
    """A driver known by name. ``classes``: that it brings along. ``unfit``: why its devices can't serve VMs, if so."""

    name: str
    metadata: MetadataSupport
    classes: tuple[str, ...] = ()
    unfit: str = ""


NVIDIA: Final = "gpu.nvidia.com"
PASSTHROUGH_DRIVER: Final = "passthrough.virt-dra.io"
"""The project's own driver, for devices that are passed through."""

KNOWN_DRIVERS: Final[Mapping[str, KnownDriver]] = MappingProxyType(
    {
        driver.name: driver
        for driver in (
            KnownDriver(
                PASSTHROUGH_DRIVER,
                "always",
                ("vfio.virt-dra.io", "sriov.virt-dra.io", "mdev.virt-dra.io", "vgpu.virt-dra.io"),
            ),
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
NEVER_WRITE: Final = frozenset(driver.name for driver in KNOWN_DRIVERS.values() if driver.metadata == "never")

WRITES_METADATA_ANNOTATION: Final = "virt-dra.io/writes-metadata"
"""On DeviceClasses, by the administrator: names of drivers, with commas, that are configured to write metadata files.
It counts for the whole cluster, whichever class has it."""
WRITES_NO_METADATA_ANNOTATION: Final = "virt-dra.io/writes-no-metadata"
"""The same for drivers that are configured not to write any; a driver in both writes none."""
WRITER_ANNOTATIONS: Final = (WRITES_METADATA_ANNOTATION, WRITES_NO_METADATA_ANNOTATION)


def metadata_writers(classes: Iterable[DeviceClass] = ()) -> frozenset[str]:
    """The drivers that write metadata files: those that always do, as annotations of DeviceClasses change them."""
    classes = tuple(classes)
    return (ALWAYS_WRITE | _named(classes, WRITES_METADATA_ANNOTATION)) - _named(classes, WRITES_NO_METADATA_ANNOTATION)


def silent_drivers(classes: Iterable[DeviceClass] = ()) -> frozenset[str]:
    """The drivers that certainly write no metadata files: those that never do, and those that are declared so."""
    classes = tuple(classes)
    return (NEVER_WRITE - _named(classes, WRITES_METADATA_ANNOTATION)) | _named(classes, WRITES_NO_METADATA_ANNOTATION)


def _named(classes: Iterable[DeviceClass], annotation: str) -> frozenset[str]:
    """The drivers that an annotation of some DeviceClass names."""
    values = (device_class.metadata.annotations.get(annotation, "") for device_class in classes)
    return frozenset(name.strip() for value in values for name in value.split(",")) - {""}
