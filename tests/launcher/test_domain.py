"""The domain around the devices: name, identity, memory, vCPUs, machine, disks, boot."""

from __future__ import annotations

import pytest
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from launcher import AddressSources, LauncherError, convert
from launcher.elements.domain import Domain
from tests.conftest import Golden
from virt_dra.api.wire import Json

GPU = {"name": "g", "deviceName": "v.com/x"}
SOURCES = AddressSources({"PCI_RESOURCE_V_COM_X": "0000:01:00.0"})

SPECS: dict[str, Json] = {
    "bare": {},
    "memory-of-the-guest": {"domain": {"memory": {"guest": "1536Mi"}, "resources": {"requests": {"memory": "1Gi"}}}},
    "memory-requested": {"domain": {"resources": {"requests": {"memory": "2G"}, "limits": {"memory": "3G"}}}},
    "memory-limit": {"domain": {"resources": {"limits": {"memory": "3G"}}}},
    "hugepages": {"domain": {"memory": {"guest": "2Gi", "hugepages": {"pageSize": "2Mi"}}}},
    "topology": {"domain": {"cpu": {"sockets": 2, "cores": 3, "threads": 2}}},
    "cores-only": {"domain": {"cpu": {"cores": 4, "sockets": 0}}},
    "cpus-requested": {"domain": {"resources": {"requests": {"cpu": "1500m"}}}},
    "cpus-limited": {
        "domain": {"cpu": {"model": "host-model"}, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}}
    },
    "cpu-model": {"domain": {"cpu": {"model": "Skylake-Server"}}},
    "machine": {"domain": {"machine": {"type": "pc-q35-7.2"}}},
    "old-machine": {"domain": {"machine": {"type": "pc"}}},
    "disks": {
        "domain": {
            "devices": {
                "disks": [
                    {"name": "system", "disk": {"bus": "virtio"}, "bootOrder": 2},
                    {"name": "data"},
                    {"name": "iso", "cdrom": {}, "bootOrder": 1},
                    {"name": "raw", "lun": {"bus": "scsi"}},
                    {"name": "old", "disk": {"bus": "sata"}},
                ]
            }
        }
    },
    "arm64": {"architecture": "arm64", "domain": {"devices": {"disks": [{"name": "iso", "cdrom": {}}]}}},
    "s390x": {"architecture": "s390x"},
}
UNKNOWN_HERE = {"arm64", "s390x"}
"""No emulator for these is installed with the tools; the schema still judges them."""


def vmi_with(spec: Json) -> Json:
    """The spec with one GPU in it."""
    domain = spec.get("domain", {})
    devices = {**domain.get("devices", {}), "gpus": [GPU]}
    return {"metadata": {"namespace": "ns", "name": "vm"}, "spec": {**spec, "domain": {**domain, "devices": devices}}}


def page_of(spec: Json) -> Domain:
    return convert(vmi_with(spec), SOURCES).domain


@pytest.mark.parametrize("name", SPECS)
def test_the_domain_of_a_spec(name: str, golden: Golden) -> None:
    golden(f"domain-{name}.xml", convert(vmi_with(SPECS[name]), SOURCES).domain_xml)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("name", SPECS)
def test_libvirt_accepts_the_domain_of_a_spec(name: str) -> None:
    xml = convert(vmi_with(SPECS[name]), SOURCES).domain_xml
    libvirt_witness.validate(xml)
    if name not in UNKNOWN_HERE:
        for uri in libvirt_witness.URIS:
            libvirt_witness.define(xml, uri)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_libvirts_own_tool_agrees_with_its_schema() -> None:
    good = convert(vmi_with(SPECS["disks"]), SOURCES).domain_xml
    bad = good.replace("<vcpu ", "<vcpus ").replace("</vcpu>", "</vcpus>")

    libvirt_witness.validate_with_tool(good)
    for check in (libvirt_witness.validate, libvirt_witness.validate_with_tool):
        with pytest.raises(libvirt_witness.Refused):
            check(bad)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_libvirt_keeps_the_device_its_alias_and_the_memory() -> None:
    defined = etree.fromstring(libvirt_witness.define(convert(vmi_with({}), SOURCES).domain_xml, libvirt_witness.QEMU))

    source = defined.find("devices/hostdev/source/address")
    assert source is not None
    assert {str(key): str(value) for key, value in source.attrib.items()} == {
        "domain": "0x0000",
        "bus": "0x01",
        "slot": "0x00",
        "function": "0x0",
    }
    assert [alias.get("name") for alias in defined.findall("devices/hostdev/alias")] == ["ua-gpu-g"]
    assert defined.findtext("memory") == str(1024 * 1024)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"namespace": "ns", "name": "vm"}, "ns_vm"),
        ({"name": "vm"}, "default_vm"),
        ({"generateName": "vm-"}, "default_vm"),
        ({}, "default_vmi"),
        ({"namespace": "ns", "name": "<&\"'>"}, "ns_<&\"'>"),
    ],
)
def test_the_domain_is_called_after_namespace_and_name(metadata: Json, name: str) -> None:
    xml = convert({"metadata": metadata}).domain_xml
    assert etree.fromstring(xml).findtext("name") == name


def test_the_uid_is_the_domains_uuid() -> None:
    uid = "eb331b53-e695-4983-84d2-89ac82bc3311"
    assert convert({"metadata": {"uid": uid}}).domain.uuid == uid


def test_without_a_uid_the_same_name_is_the_same_domain() -> None:
    first, again, other = (convert({"metadata": {"name": n, "uid": "7"}}).domain.uuid for n in ("vm", "vm", "other"))
    assert first == again != other


def spec_error(spec: Json, metadata: Json | None = None) -> str:
    with pytest.raises(LauncherError) as refusal:
        convert({"metadata": metadata or {}, "spec": spec})
    return str(refusal.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"architecture": "riscv64"}, "spec.architecture: 'riscv64' is not one of amd64, arm64, s390x"),
        (
            {"domain": {"memory": {"guest": "0"}}},
            "spec.domain.memory.guest: 0 is no amount of memory for a guest; write for example 2Gi",
        ),
        (
            {"domain": {"resources": {"requests": {"memory": "-1Gi"}}}},
            "spec.domain.resources.requests.memory: -1Gi is no amount of memory for a guest; write for example 2Gi",
        ),
        (
            {"domain": {"cpu": {"cores": -1}}},
            "spec.domain.cpu: 1 sockets of -1 cores of 1 threads are no topology; "
            "all must be positive, together at most 65535",
        ),
        (
            {"domain": {"cpu": {"sockets": 256, "cores": 256}}},
            "spec.domain.cpu: 256 sockets of 256 cores of 1 threads are no topology; "
            "all must be positive, together at most 65535",
        ),
        (
            {"domain": {"machine": {"type": "q\u0001"}}},
            "spec.domain.machine.type: 'q\\x01' is no machine type; write for example q35",
        ),
        (
            {"domain": {"cpu": {"model": "q\u0001"}}},
            "spec.domain.cpu.model: 'q\\x01' contains '\\x01' (U+0001), which XML can't contain; remove it",
        ),
        (
            {"domain": {"devices": {"disks": [{"name": "../x"}]}}},
            "spec.domain.devices.disks[0].name: '../x' can't be the name of a volume",
        ),
        (
            {"domain": {"devices": {"disks": [{"name": "x\n"}]}}},
            "spec.domain.devices.disks[0].name: 'x\\n' can't be the name of a volume",
        ),
        (
            {"domain": {"devices": {"disks": [{"name": "x", "cdrom": {"bus": "virtio"}}]}}},
            "spec.domain.devices.disks[0].cdrom.bus: 'virtio' is not one of sata, scsi, usb",
        ),
        (
            {"domain": {"devices": {"disks": [{"name": "x", "lun": {"bus": "sata"}}]}}},
            "spec.domain.devices.disks[0].lun.bus: 'sata' is not one of virtio, scsi",
        ),
        (
            {"domain": {"machine": {"type": "q 35"}}},
            "spec.domain.machine.type: 'q 35' is no machine type; write for example q35",
        ),
        (
            {"domain": {"devices": {"disks": [{"name": "x", "disk": {"bus": "ide"}}]}}},
            "spec.domain.devices.disks[0].disk.bus: 'ide' is not one of virtio, sata, scsi, usb",
        ),
        (
            {"domain": {"devices": {"disks": [{"name": "x", "bootOrder": "1"}]}}},
            "spec.domain.devices.disks[0].bootOrder: must be an integer",
        ),
        ({"domain": {"devices": {"disks": [{"name": "x", "bootOrder": 0}]}}}, "disks/x.bootOrder: 0 must be 1 or more"),
        (
            {"domain": {"devices": {"disks": [{"name": "x", "bootOrder": 1}, {"name": "y", "bootOrder": 1}]}}},
            "disks/y.bootOrder: 1 is also that of disks/x; libvirt wants each order once",
        ),
    ],
)
def test_a_spec_from_which_no_domain_can_be_made_is_refused_with_its_field(spec: Json, message: str) -> None:
    assert spec_error(spec) == message


@pytest.mark.parametrize("name", ["a/b", "a\nb"])
def test_a_name_that_libvirt_takes_for_no_domain_is_refused(name: str) -> None:
    assert (
        spec_error({}, {"name": name})
        == f"metadata.name: {name!r} contains '/' or a line break, which libvirt doesn't accept in a domain's name"
    )


def test_twenty_eight_disks_are_lettered_beyond_z() -> None:
    disks = [{"name": f"d{index}"} for index in range(28)]
    page = convert({"spec": {"domain": {"devices": {"disks": disks}}}}).domain
    assert [disk.target for disk in page.disks][25:] == ["vdz", "vdaa", "vdab"]
