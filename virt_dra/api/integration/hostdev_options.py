"""The annotation of a VMI (of a VM: of its template) for what libvirt's ``<hostdev>`` has and a device entry has not
(K-7.27).

``virt-dra.io/hostdev-options`` is a JSON object, from ``gpus/NAME``, ``hostDevices/NAME`` or ``interfaces/NAME`` to an
object with any of the fields of :class:`HostdevOptions`:

    {"gpus/gpu1": {"romBar": "off", "guestSlot": "card"}, "hostDevices/audio": {"guestSlot": "card"}}

Our launcher and the hook sidecar read it, lint and webhook judge it; KubeVirt ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from virt_dra.api.kubevirt_v1 import Devices
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.reading.json_annotations import AnnotationError, parse

HOSTDEV_OPTIONS_ANNOTATION: Final = "virt-dra.io/hostdev-options"
FAULTS: Final = 10
"""The most faults that one error has."""
ROM_FOLDER: Final = "/var/run/virt-dra/roms"
"""The folder in the launcher's container in which ``romFile`` is looked for: a VM's owner may name no other file."""


@dataclass(frozen=True)
class HostdevOptions:
    """The options of one device; None leaves to KubeVirt's rules."""

    rom_bar: str | None = None
    rom_file: str | None = None
    """A name in :data:`ROM_FOLDER`."""
    boot_order: int | None = None
    guest_address: str | None = None
    guest_slot: str | None = None
    """Devices with one text here, functions of one card of the host, are functions of one slot of the guest."""
    iommufd: bool | None = None
    managed: bool | None = None
    mdev_model: str | None = None
    usb_product: str | None = None
    x_vga: bool | None = None


@dataclass(frozen=True)
class _Option:
    """A member of the JSON object: its field, what it must be, and the host devices that it is for."""

    field: str
    rule: str
    syntax: re.Pattern[str] | type
    types: frozenset[str]


_PCI = frozenset({"pci"})
_ALL = frozenset({"pci", "mdev", "usb"})
OPTIONS: Final[Mapping[str, _Option]] = {
    "romBar": _Option("rom_bar", "must be on or off", re.compile("on|off"), _PCI),
    "romFile": _Option(
        "rom_file",
        f"must be the name of a file in {ROM_FOLDER}: letters, digits, '.', '_' and '-'",
        re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}"),
        _PCI,
    ),
    "bootOrder": _Option("boot_order", "must be a whole number from 1 to 65535", int, _ALL),
    "guestAddress": _Option(
        "guest_address",
        "must be a PCI address such as 0000:05:00.0",
        re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"),
        _PCI | {"mdev"},
    ),
    "guestSlot": _Option("guest_slot", "must be a name of up to 63 letters, digits and '-'",
                         re.compile("[A-Za-z0-9-]{1,63}"), _PCI),
    "iommufd": _Option("iommufd", "must be true or false", bool, _PCI),
    "managed": _Option("managed", "must be true or false", bool, _PCI),
    "mdevModel": _Option("mdev_model", "must be vfio-pci, vfio-ap or vfio-ccw", re.compile("vfio-(pci|ap|ccw)"),
                         frozenset({"mdev"})),
    "usbProduct": _Option("usb_product", "must be vendor and product such as 046d:c52b",
                          re.compile("[0-9a-fA-F]{4}:[0-9a-fA-F]{4}"), frozenset({"usb"})),
    "xVga": _Option("x_vga", "must be true or false", bool, _PCI),
}  # fmt: skip
"""The options by their names in JSON."""


def read_hostdev_options(
    annotations: Mapping[str, str], devices: Devices, root: str = "metadata.annotations"
) -> Mapping[str, HostdevOptions]:
    """The options by device, ``gpus/NAME``; {} without the annotation. Raises :class:`AnnotationError` with the first
    faults, at most :data:`FAULTS`."""
    text = annotations.get(HOSTDEV_OPTIONS_ANNOTATION)
    if text is None:
        return {}
    field = f"{root}[{HOSTDEV_OPTIONS_ANNOTATION}]"
    raw = parse(text, field)
    if not isinstance(raw, dict):
        raise AnnotationError(field, [("", 'must be an object such as {"gpus/gpu1": {"romBar": "off"}}')])
    names = dict.fromkeys(f"gpus/{gpu.name}" for gpu in devices.gpus)
    names |= dict.fromkeys(f"hostDevices/{device.name}" for device in devices.host_devices)
    names |= dict.fromkeys(
        f"interfaces/{interface.name}" for interface in devices.interfaces if interface.sriov is not None
    )
    faults = list(
        islice((fault for device, options in raw.items() for fault in _faults(device, options, names)), FAULTS)
    )
    if faults:
        raise AnnotationError(field, faults)
    return {
        device: HostdevOptions(**{OPTIONS[name].field: value for name, value in options.items()})
        for device, options in raw.items()
    }


def _faults(device: str, options: object, names: Collection[str]) -> Iterable[tuple[str, str]]:
    path = f"[{device[:_SHOWN]}]"
    if device not in names:
        yield path, f"is no device of the VM{did_you_mean(device, islice(names, _COMPARED))}"
    elif not isinstance(options, dict):
        yield path, f"must be an object with any of {', '.join(OPTIONS)}"
    else:
        for name, value in options.items():
            option = OPTIONS.get(name)
            if option is None:
                yield f"{path}.{name[:_SHOWN]}", f"is unknown{did_you_mean(name, OPTIONS)}"
            elif not _fits(option, value):
                yield f"{path}.{name}", option.rule


def _fits(option: _Option, value: object) -> bool:
    if isinstance(option.syntax, re.Pattern):
        return isinstance(value, str) and option.syntax.fullmatch(value) is not None
    if option.syntax is bool:
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


_SHOWN: Final = 70
_COMPARED: Final = 64
"""The most names that a wrong one is compared with: both are users' texts, and webhooks read them."""
