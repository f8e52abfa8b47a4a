"""Options of host devices (K-7.27) as QEMU gets them, and whatever their annotation says. Their rules are cases
(``cases/hostdev_options.yaml``)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devtools.libvirt import witness as libvirt_witness
from launcher import AddressSources, Conversion, LauncherError, convert
from launcher.elements.domain import Domain
from tests.launcher.libvirt_domains import qemu_devices
from tests.launcher.scenarios import cases, converted, vmi_of
from tests.sampling import sample
from virt_dra.api.integration.hostdev_options import OPTIONS

SHARED_SLOT = cases("hostdev_options")[
    "hostdev_options: functions of a card share a guest slot, behind a port of their own"
]


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_qemu_gets_rom_boot_order_and_the_functions_of_one_slot() -> None:
    domain = libvirt_witness.emulated(converted(SHARED_SLOT).domain_xml)
    # libvirt 9.0 makes QEMU's arguments of a PCI device only where the driver is named; starting a guest it needs none.
    domain = domain.replace(
        "<source>\n        <address domain", '<driver name="vfio"/><source>\n        <address domain'
    )

    devices = {device["id"]: device for device in qemu_devices(domain, libvirt_witness.qemu_uri())}

    audio, disk, gpu = (devices[f"ua-{name}"] for name in ("hostdevice-audio", "hostdevice-disk", "gpu-g"))
    assert audio == {
        "driver": "vfio-pci",
        "host": "0000:41:00.1",
        "id": "ua-hostdevice-audio",
        "bus": "pci.1",
        "addr": "0x0.0x1",
    }
    assert gpu == {
        "driver": "vfio-pci",
        "host": "0000:41:00.0",
        "id": "ua-gpu-g",
        "bus": "pci.1",
        "multifunction": True,
        "addr": "0x0",
        "rombar": 1,
        "romfile": "/var/run/virt-dra/roms/vbios.rom",
    }
    assert (disk["bootindex"], disk["rombar"], "multifunction" in disk) == (1, 0, False)


anything = st.none() | st.booleans() | st.integers() | st.text(max_size=12)
options = st.dictionaries(st.sampled_from([*OPTIONS, "rombar", ""]), anything | st.sampled_from(["on", "a.rom", "s"]))
annotation_texts = st.dictionaries(st.sampled_from(["gpus/g", "hostDevices/audio", "x"]), options | anything).map(
    json.dumps
)


@settings(max_examples=sample(150), deadline=None)
@given(annotation_texts | st.text(max_size=20))
def test_any_annotation_is_a_domain_or_a_typed_refusal(annotation: str) -> None:
    result = outcome(annotation)
    if isinstance(result, LauncherError):
        assert result.reason in ("InvalidOptions", "InvalidDomain")
        return
    read = Domain.from_text(result.domain_xml)
    assert read == result.domain
    assert all((device.rom_file or "/var/run/virt-dra/roms/x").count("/") == 5 for device in read.hostdevs)


def outcome(annotation: str) -> Conversion | LauncherError:
    try:
        return convert(vmi_of({**SHARED_SLOT, "annotation": annotation}), AddressSources(SHARED_SLOT["env"]))
    except LauncherError as refusal:
        return refusal
