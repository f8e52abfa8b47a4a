"""All host devices of a VMI in the order of ``<devices>``, and the constraints between them (K-7.17, K-7.22,
K-5.13)."""

from __future__ import annotations

from launcher.addresses.dra_devices import dra_devices
from launcher.addresses.dra_devices_before_1_8 import dra_devices_before_1_8
from launcher.addresses.plugin_devices import plugin_devices
from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.elements.page import XmlTextError, checked_text
from launcher.entry_kinds import GPUS, HOST_DEVICES, EntryKind
from launcher.errors import DUPLICATE_ADDRESS, DUPLICATE_ALIAS, UNWRITABLE_TEXT, LauncherError
from launcher.sriov import left_out, sriov_devices
from virt_dra.api.integration.pci_placement import ROOT_COMPLEX_ANNOTATION, is_on_root_complex
from virt_dra.api.kubevirt_versions import V1_8_0


def host_devices(request: ConversionInputs) -> tuple[ConvertedDevice, ...]:
    """The host devices: hostDevices before gpus, in each those of device plugins before those of claims, SR-IOV last
    (K-7.22).

    Raises :class:`LauncherError` for the first fault in KubeVirt's order of resolution, in which SR-IOV comes first
    (K-7.22a).
    """
    _check_names(request)
    networks = sriov_devices(request)
    devices = tuple(device for kind in (HOST_DEVICES, GPUS) for device in _of_kind(request, kind)) + networks
    _check_aliases(devices)
    _check_addresses(devices)
    return devices


def _of_kind(request: ConversionInputs, kind: EntryKind) -> tuple[ConvertedDevice, ...]:
    claimed = dra_devices if request.version >= V1_8_0 else dra_devices_before_1_8
    return plugin_devices(request, kind) + claimed(request, kind)


def warnings(request: ConversionInputs, devices: tuple[ConvertedDevice, ...]) -> tuple[str, ...]:
    """Faults that didn't prevent the conversion: sources that disagree, addresses that libvirt will refuse, interfaces
    left out."""
    notes = [text for device in devices for text in device.notes]
    notes += [
        f"{d.device}: libvirt will refuse {d.address}: {d.address.libvirt_refuses}"
        for d in devices
        if d.address.libvirt_refuses
    ]
    notes += [_both(first, second) for first, second in _pairs_with_one_address(devices)]
    return (*notes, *_second_framebuffer(devices), *left_out(request), *_not_on_root_complex(request))


def _not_on_root_complex(request: ConversionInputs) -> tuple[str, ...]:
    """A warning if the VMI asks for slots on bus 0: KubeVirt's depend on its network interfaces, which this domain
    lacks."""
    if not is_on_root_complex(request.vmi.metadata.annotations):
        return ()
    return (f"{ROOT_COMPLEX_ANNOTATION} isn't followed: devices are placed by libvirt, or by node and root",)


def _second_framebuffer(devices: tuple[ConvertedDevice, ...]) -> tuple[str, ...]:
    """A warning if several devices have a ramfb. KubeVirt refuses two explicit ones at admission (K-2.23), but adds one
    by default to the GPUs of device plugins and one to those of claims."""
    first, *others = [
        device.device for device in devices if device.element.is_mdev and device.element.ramfb == "on"
    ] or [""]
    if not others:
        return ()
    advice = "set virtualGPUOptions.display.ramFB.enabled to false on all but one"
    return (f"{first} and {', '.join(others)} both have ramfb; libvirt accepts one device with it: {advice}",)


def _check_names(request: ConversionInputs) -> None:
    """Refuses a name that XML can't hold: names become aliases (K-7.17). Checked first, since all other messages
    contain names. Raises :class:`LauncherError`."""
    devices = request.vmi.spec.domain.devices
    named = [(f"gpus[{index}]", gpu.name) for index, gpu in enumerate(devices.gpus)]
    named += [(f"hostDevices[{index}]", entry.name) for index, entry in enumerate(devices.host_devices)]
    named += [(f"interfaces[{index}]", interface.name) for index, interface in enumerate(devices.interfaces)]
    for path, name in named:
        try:
            checked_text(name)
        except XmlTextError as error:
            field = f"spec.domain.devices.{path}.name"
            raise LauncherError(UNWRITABLE_TEXT, field, f"{field}: {error}") from None


def _check_aliases(devices: tuple[ConvertedDevice, ...]) -> None:
    seen: dict[str | None, ConvertedDevice] = {}
    for device in devices:
        first = seen.setdefault(device.element.alias, device)
        if first is not device:
            raise LauncherError(DUPLICATE_ALIAS, device.device, _same_alias(first, device))


def _same_alias(first: ConvertedDevice, second: ConvertedDevice) -> str:
    if first.field == second.field:
        return (
            f"{first.field} ({first.device}) gets two devices, {first.address} and "
            f"{second.address}: two variables serve its resource"
        )
    alias = f"both would get alias {second.element.alias!r}, which libvirt refuses; rename one of them"
    return f"{first.field} and {second.field} have the same name {second.device.partition('/')[2]!r}: {alias}"


def _check_addresses(devices: tuple[ConvertedDevice, ...]) -> None:
    """Refuses two devices with one address if one is of a claim (K-5.13). KubeVirt accepts it from two plugins (K-7.3).
    Raises :class:`LauncherError`."""
    for first, second in _pairs_with_one_address(devices):
        if first.is_dra or second.is_dra:
            raise LauncherError(DUPLICATE_ADDRESS, second.device, _both(first, second))


def _pairs_with_one_address(devices: tuple[ConvertedDevice, ...]) -> list[tuple[ConvertedDevice, ConvertedDevice]]:
    seen: dict[tuple[str, str], ConvertedDevice] = {}
    pairs = ((seen.setdefault((device.element.type, device.address.identity), device), device) for device in devices)
    return [(first, second) for first, second in pairs if first is not second]


def _both(first: ConvertedDevice, second: ConvertedDevice) -> str:
    return (
        f"{first.device} and {second.device} are both device {second.address}; libvirt accepts a host device only once"
    )
