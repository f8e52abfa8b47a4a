"""The ``<disk>`` element of each ``spec.domain.devices.disks`` entry, with the path at which KubeVirt's launcher has
its volume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, product
from string import ascii_lowercase
from typing import Annotated, ClassVar

from launcher.elements.page import Page, text_of_field
from launcher.errors import invalid_domain
from virt_dra.api.kubevirt_v1 import Disk as DiskEntry
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

IMAGE = "/var/run/kubevirt-private/vmi-disks/{}/disk.img"
BLOCK_DEVICE = "/dev/{}"
_TARGETS: Mapping[str, str] = {"virtio": "vd", "sata": "sd", "scsi": "sd", "usb": "sd"}
_BUSES: Mapping[str, tuple[str, ...]] = {
    "disk": tuple(_TARGETS),
    "cdrom": ("sata", "scsi", "usb"),
    "lun": ("virtio", "scsi"),
}
"""The buses that libvirt accepts for each kind of disk."""


@dataclass(frozen=True, kw_only=True)
class DiskElement(Page):
    """A ``<disk>``. A field that is ``None`` or ``False`` is not written."""

    TAG: ClassVar[str] = "disk"

    type: Annotated[str | None, "@type"] = None
    device: Annotated[str | None, "@device"] = None
    driver: Annotated[str | None, "driver/@name"] = None
    format: Annotated[str | None, "driver/@type"] = None
    file: Annotated[str | None, "source/@file"] = None
    block: Annotated[str | None, "source/@dev"] = None
    target: Annotated[str, "target/@dev"]
    bus: Annotated[str | None, "target/@bus"] = None
    readonly: Annotated[bool, "readonly"] = False
    boot_order: Annotated[int | None, "boot/@order"] = None


def disks(vmi: VirtualMachineInstance) -> tuple[DiskElement, ...]:
    """The disks in spec order, each backed by its volume's image (a LUN by its block device), with target
    names counted per prefix (``vda``, ``vdb``, ``sda``). Raises :class:`LauncherError`."""
    counters: dict[str, Iterator[str]] = {prefix: _letters() for prefix in _TARGETS.values()}
    built = []
    for index, entry in enumerate(vmi.spec.domain.devices.disks):
        field = f"spec.domain.devices.disks[{index}]"
        device, bus = _device_and_bus(entry, field, "scsi" if vmi.spec.architecture in ("arm64", "s390x") else "sata")
        prefix = _TARGETS[bus]
        order = (entry.model_extra or {}).get("bootOrder")
        if order is not None and (not isinstance(order, int) or isinstance(order, bool)):
            raise invalid_domain(f"{field}.bootOrder", "must be an integer")
        volume, is_lun = _volume(entry.name, field), device == "lun"
        disk = DiskElement(
            type="block" if is_lun else "file",
            device=device,
            driver="qemu",
            format="raw",
            file=None if is_lun else IMAGE.format(volume),
            block=BLOCK_DEVICE.format(volume) if is_lun else None,
            target=prefix + next(counters[prefix]),
            bus=bus,
            readonly=device == "cdrom",
            boot_order=order,
        )
        built.append(disk)
    return tuple(built)


def _device_and_bus(entry: DiskEntry, field: str, cdrom_bus: str) -> tuple[str, str]:
    """The kind of disk and its bus; by default ``disk`` on virtio, as in KubeVirt."""
    extra = entry.model_extra or {}
    device = next((kind for kind in _BUSES if isinstance(extra.get(kind), dict)), "disk")
    options = extra.get(device)
    bus = options.get("bus") if isinstance(options, dict) else None
    bus = bus or (cdrom_bus if device == "cdrom" else "virtio")
    if not isinstance(bus, str) or bus not in _BUSES[device]:
        raise invalid_domain(f"{field}.{device}.bus", f"{bus!r} is not one of {', '.join(_BUSES[device])}")
    return device, bus


def _volume(name: str, field: str) -> str:
    """The name of a volume. It becomes part of a path, so it must not contain separators."""
    if not name or "/" in name or "\n" in name or name in (".", ".."):
        raise invalid_domain(f"{field}.name", f"{name!r} can't be the name of a volume")
    return text_of_field(name, f"{field}.name")


def _letters() -> Iterator[str]:
    """The letters of target names: a … z, aa, ab, …"""
    return ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))
