"""The golden domains as QEMU would get them: libvirt's own translation names each host device that was asked for, and
each PCIe expander with its bus and its guest cell; the guest's display has ``x-vga``."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from launcher.elements.domain import Domain
from launcher.elements.hostdev import Hostdev
from tests.launcher.libvirt_domains import qemu_devices
from virt_dra.api.wire import Json

HERE = Path(__file__).parent
GOLDEN = {
    f"{path.parent.parent.name}/{path.stem}": path.read_text(encoding="utf-8")
    for folder in (HERE / "golden", HERE / "placement" / "golden")
    for path in sorted(folder.glob("*.xml"))
}
PASSED_THROUGH = {name: text for name, text in GOLDEN.items() if "<hostdev " in text and '<type arch="x86_64"' in text}


def translatable(text: str) -> str:
    """The domain without KVM, huge pages and nodes of the host, which the machine of the tests needn't have.

    libvirt 9.0 makes QEMU's arguments of a PCI device only where the driver is named; starting a guest it needs none.
    """
    domain = etree.fromstring(libvirt_witness.emulated(text))
    for needed in (*domain.findall("memoryBacking"), *domain.findall("numatune")):
        domain.remove(needed)
    for hostdev in domain.findall("devices/hostdev[@type='pci']"):
        hostdev.insert(0, etree.Element("driver", name="vfio"))
    return etree.tostring(domain, encoding="unicode")


def host_side(device: Json) -> str:
    """What QEMU opens for it, "" for an emulated device."""
    if device["driver"] == "usb-host":
        bus, number = device["hostdevice"].split("/")[-2:]
        return f"{int(bus)}:{int(number)}"
    return str(device.get("host") or device.get("sysfsdev", "").rpartition("/")[2]).lower()


def asked(hostdev: Hostdev) -> str:
    if hostdev.type == "usb":
        return f"{hostdev.source_bus}:{hostdev.source_device}"
    if hostdev.type == "mdev":
        return str(hostdev.source_uuid).lower()
    parts = (hostdev.source_domain, hostdev.source_bus, hostdev.source_slot, hostdev.source_function)
    domain, bus, slot, function = (int(part or "0", 16) for part in parts)
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("text", PASSED_THROUGH.values(), ids=PASSED_THROUGH.keys())
def test_qemu_gets_the_devices_and_expanders_that_were_asked_for(text: str) -> None:
    domain = Domain.from_text(text)

    devices = qemu_devices(translatable(text), libvirt_witness.qemu_uri())

    opened = {str(device.get("id")): host for device in devices if (host := host_side(device))}
    assert sorted(opened.values()) == sorted(asked(hostdev) for hostdev in domain.hostdevs)
    assert {hostdev.alias: asked(hostdev) for hostdev in domain.hostdevs if hostdev.alias}.items() <= opened.items()
    expanders = [(device["bus_nr"], device.get("numa_node")) for device in devices if device["driver"] == "pxb-pcie"]
    wanted = [(item.bus_nr, item.node) for item in domain.controllers if item.model == "pcie-expander-bus"]
    assert expanders == wanted
    overridden = {str(device["id"]) for device in devices if device.get("x-vga") is True}
    assert overridden == {device.alias for device in domain.overrides if device.is_display}
