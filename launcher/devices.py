"""All host devices of a VMI in the order of ``<devices>``, and the constraints between them (K-7.17, K-7.22,
K-5.13)."""

from __future__ import annotations

from launcher.addresses.dra_devices import dra_devices
from launcher.addresses.dra_devices_before_1_8 import dra_devices_before_1_8
from launcher.addresses.plugin_devices import plugin_devices
from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.elements.page import text_of_field
from launcher.entry_kinds import GPUS, HOST_DEVICES
from launcher.errors import DUPLICATE_ADDRESS, DUPLICATE_ALIAS, LauncherError
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
    claimed = dra_devices if request.version >= V1_8_0 else dra_devices_before_1_8
    kinds = (HOST_DEVICES, GPUS)
    of_kinds = (device for kind in kinds for device in plugin_devices(request, kind) + claimed(request, kind))
    devices = (*of_kinds, *networks)
    _check_aliases(devices)
    for first, second in _pairs_with_one_address(devices):
        # K-5.13; KubeVirt accepts it from two plugins (K-7.3).
        if first.is_dra or second.is_dra:
            raise LauncherError(DUPLICATE_ADDRESS, second.device, _both(first, second))
    return devices


def warnings(request: ConversionInputs, devices: tuple[ConvertedDevice, ...]) -> tuple[str, ...]:
    """Faults that didn't prevent the conversion: sources that disagree, addresses that libvirt will refuse, interfaces
    left out."""
    notes = [text for device in devices for text in device.notes]
    refused = [(device, why) for device in devices if (why := device.address.libvirt_refuses)]
    notes += [f"{device.device}: libvirt will refuse {device.address}: {why}" for device, why in refused]
    notes += [_both(first, second) for first, second in _pairs_with_one_address(devices)]
    notes += [*_second_framebuffer(devices), *left_out(request)]
    if is_on_root_complex(request.vmi.metadata.annotations):
        # KubeVirt's slots on bus 0 depend on its network interfaces, which this domain lacks.
        notes.append(f"{ROOT_COMPLEX_ANNOTATION} isn't followed: devices are placed by libvirt, or by node and root")
    return tuple(notes)


def _second_framebuffer(devices: tuple[ConvertedDevice, ...]) -> tuple[str, ...]:
    """A warning if several devices have a ramfb. KubeVirt refuses two explicit ones at admission (K-2.23), but adds one
    by default to the GPUs of device plugins and one to those of claims."""
    first, *others = [d.device for d in devices if d.element.is_mdev and d.element.ramfb == "on"] or [""]
    if not others:
        return ()
    advice = "set virtualGPUOptions.display.ramFB.enabled to false on all but one"
    return (f"{first} and {', '.join(others)} both have ramfb; libvirt accepts one device with it: {advice}",)


def _check_names(request: ConversionInputs) -> None:
    """Refuses a name that XML can't hold: names become aliases (K-7.17). Checked first, since all other messages
    contain names. Raises :class:`LauncherError`."""
    devices = request.vmi.spec.domain.devices
    named = {
        "gpus": [gpu.name for gpu in devices.gpus],
        "hostDevices": [device.name for device in devices.host_devices],
        "interfaces": [interface.name for interface in devices.interfaces],
    }
    for path, names in named.items():
        for index, name in enumerate(names):
            text_of_field(name, f"spec.domain.devices.{path}[{index}].name")


def _check_aliases(devices: tuple[ConvertedDevice, ...]) -> None:
    seen: dict[str | None, ConvertedDevice] = {}
    for device in devices:
        first = seen.setdefault(device.element.alias, device)
        if first is not device:
            raise LauncherError(DUPLICATE_ALIAS, device.device, _same_alias(first, device))


def _same_alias(first: ConvertedDevice, second: ConvertedDevice) -> str:
    if first.field == second.field:
        both = f"{first.address} and {second.address}"
        return f"{first.field} ({first.device}) gets two devices, {both}: two variables serve its resource"
    alias = f"both would get alias {second.element.alias!r}, which libvirt refuses; rename one of them"
    return f"{first.field} and {second.field} have the same name {second.device.partition('/')[2]!r}: {alias}"


def _pairs_with_one_address(devices: tuple[ConvertedDevice, ...]) -> list[tuple[ConvertedDevice, ConvertedDevice]]:
    seen: dict[tuple[str, str], ConvertedDevice] = {}
    pairs = ((seen.setdefault((device.element.type, device.address.identity), device), device) for device in devices)
    return [(first, second) for first, second in pairs if first is not second]


def _both(first: ConvertedDevice, second: ConvertedDevice) -> str:
    both = f"{first.device} and {second.device} are both device {second.address}"
    return f"{both}; libvirt accepts a host device only once"
