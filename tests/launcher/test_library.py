"""The library as its users see it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from devtools.libvirt import witness as libvirt_witness
from launcher import KUBEVIRT, AddressSources, LauncherError, convert, domain_xml, hostdevs
from launcher.addresses.metadata_files import read_folder
from launcher.errors import LIBVIRT_REFUSED, LIBVIRT_UNAVAILABLE
from tests.launcher.libvirt_domains import define, dumpxml, undefine
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.wire import Json, WireError

VMI: Json = {
    "metadata": {"namespace": "ns", "name": "library-test"},
    "spec": {
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        "domain": {"devices": {"gpus": [{"name": "gpu1", "claimName": "c", "requestName": "r"}]}},
    },
}
POD: Json = {"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "pod-c-x"}]}}
ENV = {"PCI_RESOURCE_pod-c-x_r": "0000:41:00.0"}
SOURCES = AddressSources(env=ENV, pod=Pod.from_wire(POD))


def test_a_dict_and_a_typed_vmi_give_the_same() -> None:
    typed = hostdevs(VirtualMachineInstance.from_wire(VMI), SOURCES)

    assert hostdevs(VMI, SOURCES) == typed
    (gpu,) = typed
    assert (gpu.device, gpu.source, str(gpu.address), gpu.field) == (
        "gpus/gpu1",
        "environment",
        "0000:41:00.0",
        "spec.domain.devices.gpus[0]",
    )
    assert gpu.xml == (
        '<hostdev type="pci" managed="no"><source><address type="pci" domain="0x0000" '
        'bus="0x41" slot="0x00" function="0x0"/></source>'
        '<alias name="ua-dra-gpu-gpu1"/></hostdev>'
    )


def test_a_virtual_machine_stands_for_the_vmi_it_would_start() -> None:
    machine = {"kind": "VirtualMachine", "metadata": VMI["metadata"], "spec": {"template": {"spec": VMI["spec"]}}}

    assert domain_xml(machine, SOURCES) == domain_xml(VMI, SOURCES)
    assert domain_xml({**machine, "kind": None}, SOURCES) == domain_xml(VMI, SOURCES)
    assert domain_xml(VirtualMachine.from_wire(machine), SOURCES) == domain_xml(VMI, SOURCES)


def test_a_dict_that_is_no_vmi_is_refused_with_the_field() -> None:
    with pytest.raises(WireError, match=r"spec\.domain\.devices\.gpus: must be a list, not an object"):
        hostdevs({"spec": {"domain": {"devices": {"gpus": {}}}}})


def test_an_object_of_another_kind_is_refused() -> None:
    with pytest.raises(WireError, match=r"^kind: must be VirtualMachineInstance or VirtualMachine$"):
        hostdevs({"kind": "Pod"})


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'nine' is no KubeVirt version"):
        hostdevs(VMI, kubevirt="nine")
    with pytest.raises(ValueError, match=r"KubeVirt 1\.99 is newer than the releases known here"):
        hostdevs(VMI, kubevirt="1.99")


def test_the_callers_own_environment_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LauncherError, match="has no mdevUUID or pciBusID"):
        hostdevs(VMI, AddressSources(pod=SOURCES.pod))


def test_metadata_files_are_found_where_drivers_and_downward_volumes_put_them(tmp_path: Path) -> None:
    base = tmp_path / "var/run/kubernetes.io/dra-device-attributes"
    driver, volume = base / "resourceclaims/o/r", base / "resourceclaimtemplates/c/r"
    hidden = volume / "..2026_11_21"
    for folder in (driver, hidden):
        folder.mkdir(parents=True)
    (driver / "gpu.example.com-metadata.json").write_text("driver")
    (driver / "notes.json").write_text("no metadata file")
    (hidden / "shim-metadata.json").write_text("volume")
    (volume / "..data").symlink_to(hidden.name)
    (volume / "shim-metadata.json").symlink_to("..data/shim-metadata.json")

    assert read_folder(tmp_path) == {
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/o/r/gpu.example.com-metadata.json": "driver",
        "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/r/shim-metadata.json": "volume",
    }


def test_the_domain_can_be_written_as_kubevirt_would() -> None:
    xml = convert(VMI, SOURCES, dialect=KUBEVIRT).domain_xml
    assert '<address type="pci" domain="0x0000" bus="0x41"' in xml


def test_without_the_binding_libvirt_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(LauncherError) as refusal:
        define("<domain/>")
    assert refusal.value.reason == LIBVIRT_UNAVAILABLE
    assert str(refusal.value).startswith("libvirt's Python binding is not installed (")
    assert str(refusal.value).endswith("install it with: pip install 'virt-dra[libvirt]'")


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_a_domain_is_defined_read_back_and_forgotten(capfd: pytest.CaptureFixture[str]) -> None:
    libvirt_witness.require_binding()
    conversion, uri = convert(VMI, SOURCES), libvirt_witness.qemu_uri()

    assert define(libvirt_witness.emulated(conversion.domain_xml), uri) == conversion.domain.uuid
    assert "ua-dra-gpu-gpu1" in dumpxml("ns_library-test", uri)
    undefine("ns_library-test", uri)
    with pytest.raises(LauncherError) as refusal:
        dumpxml("ns_library-test", uri)
    assert refusal.value.reason == LIBVIRT_REFUSED
    assert str(refusal.value).startswith(f"{uri}: Domain not found")
    with pytest.raises(LauncherError) as unreachable:
        define("<domain/>", "nosuch:///system")
    assert unreachable.value.reason == LIBVIRT_UNAVAILABLE
    assert capfd.readouterr() == ("", "")


def test_what_kubevirt_alone_places_is_said() -> None:
    """K-7.24."""
    vmi = {
        "metadata": {"name": "vm", "annotations": {"kubevirt.io/placePCIDevicesOnRootComplex": "true"}},
        "spec": {"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "v.com/gpu"}]}}},
    }
    result = convert(vmi, AddressSources({"PCI_RESOURCE_V_COM_GPU": "0000:41:00.0"}))
    assert result.warnings == (
        "kubevirt.io/placePCIDevicesOnRootComplex isn't followed: devices are placed by libvirt, or by node and root",
    )
    assert result.hostdevs[0].element.guest_type is None
