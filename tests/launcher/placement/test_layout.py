"""VMIs on a host: pinned vCPUs, NUMA cells, devices behind expanders, as whole domains (K-8)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from lxml import etree

from devtools.libvirt import daemon as libvirt_daemon
from devtools.libvirt import witness as libvirt_witness
from launcher import AddressSources, Conversion, LauncherError, convert
from launcher.placement.cpu_lists import parse_cpu_list
from launcher.placement.host import HostTopology, PciLocation
from tests.conftest import Golden
from tests.launcher.libvirt_domains import define, dumpxml, undefine
from virt_dra.api.wire import Json

CASES = {
    case["name"]: case
    for case in yaml.load((Path(__file__).parent / "cases/layouts.yaml").read_text(), yaml.CSafeLoader)
}
GOOD = [name for name, case in CASES.items() if "error" not in case]
HOST = HostTopology(
    nodes={0: parse_cpu_list("0-3,16-19"), 1: parse_cpu_list("4-7,20-23")},
    functions={
        "0000:41:00.0": PciLocation(0, "pci0000:40"),
        "0000:42:00.0": PciLocation(0, "pci0000:40"),
        "0000:c1:00.1": PciLocation(0, "pci0000:c0"),
        "0000:81:00.0": PciLocation(1, "pci0000:80"),
        "0000:e1:00.0": PciLocation(None, "pci0000:e0"),
    },
    siblings={cpu: (cpu % 16, cpu % 16 + 16) for first in (0, 16) for cpu in range(first, first + 8)},
)


def laid_out(case: Json, host: HostTopology | None = HOST) -> Conversion:
    """Each device is a hostDevice of a device plugin."""
    devices: dict[str, str] = case["devices"]
    spec = case["spec"]
    entries = [{"name": name, "deviceName": f"v.com/{name}"} for name in devices]
    domain = {**spec.get("domain", {}), "devices": {"hostDevices": entries}}
    metadata = {"namespace": "ns", "name": "vm", "annotations": case.get("annotations", {})}
    return convert(
        {"metadata": metadata, "spec": {**spec, "domain": domain}},
        AddressSources({f"PCI_RESOURCE_V_COM_{name.upper()}": address for name, address in devices.items()}),
        kubevirt=case.get("kubevirt", "1.9"),
        topology=host,
        cpus=parse_cpu_list(case["cpus"]) if "cpus" in case else None,
    )


@pytest.mark.parametrize("name", GOOD)
def test_a_vmi_lies_on_its_host_as_the_rules_say(name: str, golden: Golden) -> None:
    result = laid_out(CASES[name])

    golden(f"{name}.xml", result.domain_xml)
    assert list(result.warnings) == CASES[name].get("warnings", [])


@pytest.mark.parametrize("name", [name for name in CASES if name not in GOOD])
def test_a_vmi_that_fits_on_no_host_like_this_is_refused(name: str) -> None:
    with pytest.raises(LauncherError) as refusal:
        laid_out(CASES[name])
    assert str(refusal.value) == CASES[name]["error"]


def test_without_a_topology_nothing_is_placed_and_the_annotation_has_no_effect() -> None:
    case = CASES["mirrored-by-pcie-root"]
    result = laid_out(case, None)

    assert result.domain == laid_out({**case, "annotations": {}}, None).domain
    assert {controller.model for controller in result.domain.controllers} == {"pcie-root", "pcie-root-port"}
    assert result.warnings == ("virt-dra.io/pci-placement has no effect: the host's topology isn't known",)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("name", GOOD)
def test_libvirt_accepts_the_domain(name: str) -> None:
    xml = laid_out(CASES[name]).domain_xml
    libvirt_witness.validate(xml)
    if "arm64" not in name:  # no emulator for it is installed with the tools
        for uri in libvirt_witness.URIS:
            libvirt_witness.define(xml, uri)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_libvirt_keeps_every_device_on_its_expander() -> None:
    uri = libvirt_daemon.SHARED.uri()
    define(libvirt_witness.emulated(laid_out(CASES["mirrored-by-pcie-root"]).domain_xml), uri)
    try:
        domain = etree.fromstring(dumpxml("ns_vm", uri))
    finally:
        undefine("ns_vm", uri)

    bus_of_port = {
        int(controller.get("index", "")): int(address.get("bus", ""), 16)
        for controller in domain.iterfind("devices/controller[@model='pcie-root-port']")
        for address in controller.iterfind("address")
    }
    node_of_bus = {
        int(controller.get("index", "")): controller.findtext("target/node")
        for controller in domain.iterfind("devices/controller[@model='pcie-expander-bus']")
    }
    expanders = {
        alias.get("name"): bus_of_port[int(address.get("bus", ""), 16)]
        for hostdev in domain.iterfind("devices/hostdev")
        for alias, address in zip(hostdev.iterfind("alias"), hostdev.iterfind("address"), strict=True)
    }
    assert expanders == {
        "ua-hostdevice-gpu-a": 1,
        "ua-hostdevice-nic": 1,
        "ua-hostdevice-other": 4,
        "ua-hostdevice-gpu-b": 6,
    }
    assert node_of_bus == {1: "0", 4: "0", 6: "1"}
