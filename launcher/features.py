"""The features of libvirt that a domain needs, each with the release since which libvirt has it (K-14.1; iommufd:
K-7.25)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from launcher.elements.domain import Domain
from launcher.elements.hostdev import Hostdev
from launcher.errors import INVALID_DOMAIN, UNSUPPORTED_BY_LIBVIRT, LauncherError

Version = tuple[int, ...]


@dataclass(frozen=True)
class Feature:
    """A feature of ``<hostdev>``, or of the domain around it."""

    name: str
    since: Version
    tested: str
    """How libvirt 9.0 judges it: by its schema, by defining; ``not tested here``: it doesn't know it."""
    of_device: Callable[[Hostdev], bool] = lambda device: False
    of_domain: Callable[[Domain], bool] = lambda domain: False

    @property
    def release(self) -> str:
        return ".".join(map(str, self.since))

    def used(self, domain: Domain) -> bool:
        return self.of_domain(domain) or any(map(self.of_device, domain.hostdevs))


def _has_a_display(domain: Domain) -> bool:
    return any(device.is_display for device in domain.overrides)


_DEFINED = "schema, define"
_JUDGED = "schema"

FEATURES: Final = (
    Feature("PCI function (GPU, NVMe, VF) as host device", (0, 6, 0), _DEFINED, lambda device: device.type == "pci"),
    Feature("USB device by bus and device, or by product", (0, 4, 4), _DEFINED, lambda device: device.type == "usb"),
    Feature("boot order", (0, 8, 8), _DEFINED, lambda device: device.boot_order is not None),
    Feature("functions of one slot", (0, 9, 7), _DEFINED, lambda device: device.guest_multifunction is not None),
    Feature("ROM bar", (0, 9, 7), _DEFINED, lambda device: device.rom_bar is not None),
    Feature("ROM file", (0, 9, 10), _DEFINED, lambda device: device.rom_file is not None),
    Feature("PCIe root port", (1, 2, 19), _DEFINED, of_domain=lambda domain: _has(domain, "pcie-root-port")),
    Feature("PCIe expander", (1, 3, 4), _DEFINED, of_domain=lambda domain: _has(domain, "pcie-expander-bus")),
    Feature("mdev, model vfio-pci", (3, 2, 0), _DEFINED, lambda device: device.model == "vfio-pci"),
    Feature("mdev, model vfio-ccw", (4, 4, 0), _JUDGED, lambda device: device.model == "vfio-ccw"),
    Feature("display of an mdev", (4, 6, 0), _DEFINED, lambda device: device.is_mdev and device.display is not None),
    Feature("mdev, model vfio-ap", (4, 9, 0), _JUDGED, lambda device: device.model == "vfio-ap"),
    Feature("ramfb of an mdev", (5, 10, 0), _DEFINED, lambda device: device.is_mdev and device.ramfb is not None),
    Feature("x-vga", (8, 2, 0), f"{_DEFINED}, QEMU's arguments", of_domain=_has_a_display),
    Feature("iommufd", (12, 2, 0), "not tested here", lambda device: device.iommufd is not None),
)


def _has(domain: Domain, model: str) -> bool:
    return any(controller.model == model for controller in domain.controllers)


def check_supported(domain: Domain, libvirt: str) -> None:
    """Refuses a domain with features that this release of libvirt lacks. Raises :class:`LauncherError` that names every
    one."""
    if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}", libvirt) is None:
        raise LauncherError(INVALID_DOMAIN, "libvirt", f"{libvirt!r} is no release of libvirt; write for example 9.0.0")
    version = tuple(map(int, f"{libvirt}.0".split(".")))
    missing = [feature for feature in FEATURES if feature.since > version and feature.used(domain)]
    if missing:
        needed = ", ".join(f"{feature.name} ({feature.release} and newer)" for feature in missing)
        raise LauncherError(UNSUPPORTED_BY_LIBVIRT, "libvirt", f"libvirt {libvirt} lacks {needed}")
