"""The conversion's rules, as cases: whole elements, whole messages."""

from __future__ import annotations

import pytest
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from launcher import LauncherError
from tests.conftest import Golden
from tests.launcher.scenarios import cases, converted
from virt_dra.api.wire import Json

CASES = cases("plugin_devices", "claimed_devices", "metadata_files", "old_kubevirt", "sriov", "hostdev_options")
GOOD = {name: case for name, case in CASES.items() if "error" not in case}
DEFINABLE = {name: case for name, case in GOOD.items() if "refusal" not in case}
REFUSED = {name: case for name, case in GOOD.items() if "refusal" in case}
BAD = {name: case for name, case in CASES.items() if "error" in case}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_devices_are_converted_by_the_rules(case: Json, golden: Golden) -> None:
    result = converted(case)

    if "want" in case:
        assert [{"device": d.device, "source": d.source, "xml": d.xml} for d in result.hostdevs] == case["want"]
    else:
        assert [f"{d.device} {d.address}" for d in result.hostdevs] == case["order"]
    assert list(result.warnings) == case.get("warnings", [])
    if "golden" in case:
        golden(case["golden"], result.domain_xml)


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_converted_is_refused_in_kubevirts_words(case: Json) -> None:
    with pytest.raises(LauncherError) as refusal:
        converted(case)

    assert str(refusal.value) == case["error"]
    assert refusal.value.subject


_RESOLUTION = ("interfaces/n", "hostDevices/plugin", "hostDevices/claimed", "gpus/plugin", "gpus/claimed")
"""The order in which devices are resolved, which isn't that of their elements (K-7.22a)."""


@pytest.mark.parametrize("kubevirt", ["1.8.0", "1.8", "1.9.0", "main"])
def test_of_several_devices_that_fail_the_one_that_kubevirt_resolves_first_is_named(kubevirt: str) -> None:
    devices: Json = {
        "gpus": [
            {"name": "claimed", "claimName": "c", "requestName": "r"},
            {"name": "plugin", "deviceName": "v.com/g"},
        ],
        "hostDevices": [
            {"name": "claimed", "claimName": "c", "requestName": "r"},
            {"name": "plugin", "deviceName": "v.com/h"},
        ],
        "interfaces": [{"name": "n", "sriov": {}}],
    }
    named = []
    while any(devices.values()):
        with pytest.raises(LauncherError) as refusal:
            converted(
                {
                    "kubevirt": kubevirt,
                    "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
                    "networks": [{"name": "n", "resourceClaim": {"claimName": "c", "requestName": "r"}}],
                    "files": {},
                    **devices,
                }
            )
        kind, _, name = refusal.value.subject.partition("/")
        named.append(refusal.value.subject)
        devices[kind] = [device for device in devices[kind] if device["name"] != name]
        if kubevirt.startswith("1.8"):
            devices["interfaces"] = []  # it has none from claims
    assert named == list(_RESOLUTION[kubevirt.startswith("1.8") :])


@pytest.mark.parametrize("kubevirt", ["1.6", "1.7", "1.8.0", "1.9.0", "main"])
def test_addresses_of_plugin_devices_are_in_the_environment_in_every_release(kubevirt: str) -> None:
    """K-7.1; a claim's device is in the status up to 1.7, and ours takes it from there later, too (K-7.6)."""
    claimed = {"name": "claimed", "deviceResourceClaimStatus": {"attributes": {"pciAddress": "0000:02:00.0"}}}
    devices = converted(
        {
            "kubevirt": kubevirt,
            "resourceClaims": [{"name": "c", "resourceClaimName": "o"}],
            "gpus": [
                {"name": "claimed", "claimName": "c", "requestName": "r"},
                {"name": "plugin", "deviceName": "v.com/g"},
            ],
            "gpuStatuses": [claimed],
            "env": {"PCI_RESOURCE_V_COM_G": "0000:01:00.0"},
        }
    ).hostdevs
    assert [(device.device, device.source, str(device.address)) for device in devices] == [
        ("gpus/plugin", "environment", "0000:01:00.0"),
        ("gpus/claimed", "status", "0000:02:00.0"),
    ]


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("case", DEFINABLE.values(), ids=DEFINABLE.keys())
def test_the_domain_is_one_that_libvirt_defines(case: Json) -> None:
    xml = converted(case).domain_xml
    libvirt_witness.validate(xml)
    for uri in libvirt_witness.URIS:
        libvirt_witness.define(xml, uri)


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_kubevirt_would_write_all_the_same_is_refused_by_libvirt_as_warned(case: Json) -> None:
    with pytest.raises(libvirt_witness.Refused, match=case["refusal"]):
        libvirt_witness.define(converted(case).domain_xml, libvirt_witness.QEMU)


DISPLAY = cases("display")


@pytest.mark.parametrize("case", DISPLAY.values(), ids=DISPLAY.keys())
def test_who_gets_a_display(case: Json) -> None:
    """Addresses are numbered in spec order, so that elements can be matched to GPUs whatever their order."""
    gpus, env, statuses = [], {}, []
    for index, (kind, options) in enumerate(zip(case["gpus"], case["options"], strict=True)):
        address = f"0000:0{index}:00.0" if kind == "pci" else f"{index}a05ad83-3472-497d-8631-8142f31460e8"
        extra = {} if options is None else {"virtualGPUOptions": options}
        if case["kind"] == "plugin":
            gpus.append({"name": f"g{index}", "deviceName": f"v.com/{index}", **extra})
            env[f"{'PCI' if kind == 'pci' else 'MDEV_PCI'}_RESOURCE_V_COM_{index}"] = address
        else:
            gpus.append({"name": f"g{index}", "claimName": "c", "requestName": f"r{index}", **extra})
            attributes = {"pciAddress" if kind == "pci" else "mDevUUID": address}
            statuses.append({"name": f"g{index}", "deviceResourceClaimStatus": {"attributes": attributes}})

    result = converted({**case, "gpus": gpus, "env": env, "gpuStatuses": statuses})

    shown = {
        d.device: " and ".join(a for a in ("display", "ramfb") if etree.fromstring(d.xml).get(a) == "on")
        for d in result.hostdevs
    }
    assert [shown[f"gpus/g{index}"] or "nothing" for index in range(len(gpus))] == case["shown"]
    # A display needs graphics (K-14.1). libvirt's schema knows no display on PCI devices, so those don't count here.
    needs = any(device.element.is_mdev and device.element.display for device in result.hostdevs)
    assert (etree.fromstring(result.domain_xml).find("devices/graphics") is not None) == needs
