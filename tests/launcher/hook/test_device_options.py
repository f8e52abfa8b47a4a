"""Options of devices, shared slots and KubeVirt's root complex in the hook's domains: whole elements, whole messages,
and nothing else changed (K-11.19, K-11.20)."""

from __future__ import annotations

import json
from xml.etree.ElementTree import canonicalize

import pytest
import yaml
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from launcher import LauncherError
from launcher.conversion import AddressSources
from launcher.elements.domain import Domain
from launcher.elements.page import NAMESPACES
from launcher.hook.domain_hook import HookedDomain, hooked_domain
from tests.launcher.hook.test_domain_hook import DOMAIN, FOLDER, HOST, domain_of, without_places
from virt_dra.api.wire import Json

ALL: dict[str, Json] = yaml.safe_load((FOLDER / "device_options.yaml").read_text())
CASES = {name: case for name, case in ALL.items() if "refusal" not in case}
REFUSED = {name: case for name, case in ALL.items() if "refusal" in case}


def hooked(case: Json, domain: bytes) -> HookedDomain:
    texts = {
        "virt-dra.io/pci-placement": case.get("value"),
        "virt-dra.io/hostdev-options": json.dumps(case["options"]) if "options" in case else None,
        "virt-dra.io/device-status": json.dumps(case["device-status"]) if "device-status" in case else None,
        **case.get("annotations", {}),
    }
    devices = {kind: case.get(kind, []) for kind in ("gpus", "hostDevices", "interfaces")}
    claims = [{"name": "c", "resourceClaimTemplateName": "t"}]
    vmi = {
        "metadata": {"name": "trainer", "annotations": {name: text for name, text in texts.items() if text}},
        "spec": {"resourceClaims": claims, "networks": case.get("networks", []), "domain": {"devices": devices}},
    }
    return hooked_domain(domain, json.dumps(vmi).encode(), AddressSources(), HOST)


def plain(element: etree._Element) -> str:
    return canonicalize(etree.tostring(element, encoding="unicode", with_tail=False), strip_text=True)


def controllers(text: bytes) -> dict[str, str]:
    items = etree.fromstring(text).findall("devices/controller[@type='pci']")
    return {item.get("index", ""): item.get("model", "") for item in items}


def overrides(text: bytes) -> list[str]:
    """The properties that are overridden, by device."""
    return [
        " ".join([device.alias, *(f"{item.name}={item.value}" for item in device.frontend)])
        for device in Domain.from_text(text).overrides
    ]


def without_overrides(text: bytes) -> bytes:
    root = etree.fromstring(text)
    for override in root.findall("qemu:override", NAMESPACES):
        root.remove(override)
    return etree.tostring(root)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_devices_get_their_options_and_nothing_else_is_changed(case: Json) -> None:
    domain = domain_of(case)

    result = hooked(case, domain)

    assert list(result.changes) == case["changes"]
    assert list(result.warnings) == case.get("warnings", [])
    before = {plain(hostdev) for hostdev in etree.fromstring(domain).findall("devices/hostdev")}
    hostdevs = [plain(hostdev) for hostdev in etree.fromstring(result.text).findall("devices/hostdev")]
    wanted = [canonicalize(text, strip_text=True) for text in case["hostdevs"]]
    assert [hostdev for hostdev in hostdevs if hostdev not in before] == wanted
    added = {index: model for index, model in controllers(result.text).items() if index not in controllers(domain)}
    assert [f"{index} {model}" for index, model in added.items()] == case.get("controllers", [])
    assert overrides(result.text) == case.get("overrides", [])
    unchanged = without_places(without_overrides(result.text), frozenset(added))
    assert unchanged == without_places(without_overrides(domain), frozenset())
    assert hooked(case, result.text) == HookedDomain(result.text, warnings=result.warnings)
    if not case["changes"]:
        assert result.text == domain


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_libvirt_would_refuse_is_refused_with_its_path(case: Json) -> None:
    with pytest.raises(LauncherError) as refusal:
        hooked(case, domain_of(case))
    assert refusal.value.message == case["refusal"]


def test_a_full_root_complex_is_refused() -> None:
    """KubeVirt keeps the slots 0, 1, 0x1b and 0x1f free, so 28 devices have room."""
    names = [f"g{index}" for index in range(29)]
    statuses = [
        {"name": name, "deviceResourceClaimStatus": {"attributes": {"pciAddress": f"0000:{index:02x}:00.0"}}}
        for index, name in enumerate(names, start=0xA0)
    ]
    case: Json = {
        "value": "none",
        "annotations": {"kubevirt.io/placePCIDevicesOnRootComplex": "true"},
        "gpus": [{"name": name, "claimName": "c", "requestName": name} for name in names[:-3]],
        "device-status": {"gpuStatuses": statuses},
    }
    with pytest.raises(LauncherError) as refusal:
        hooked(case, DOMAIN)
    assert refusal.value.message == (
        "kubevirt.io/placePCIDevicesOnRootComplex: no slot is left on the guest's PCI bus 0 for device 0000:b9:00.0"
    )


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(
    "name",
    [
        "rom-and-boot-order-of-a-plugin's-device",
        "functions-of-one-card-are-behind-a-root-port-of-their-own",
        "functions-of-one-card-where-function-0-is-placed",
        "functions-of-one-card-that-kubevirt-placed-apart",
        "functions-of-one-card-at-a-guest-address",
        "a-gpu-that-is-the-guest's-display",
        "a-device-that-is-added-follows-kubevirt's-on-the-root-complex",
        "functions-of-one-card-that-are-added-take-one-slot-of-the-root-complex",
    ],
)
def test_libvirt_takes_the_result(name: str) -> None:
    """By QEMU's driver, which checks every PCI address; KubeVirt's machine type is one of its own QEMU."""
    domain = domain_of(ALL[name]).replace(b"pc-q35-rhel9.6.0", b"q35")
    libvirt_witness.define(hooked(ALL[name], domain).text.decode(), libvirt_witness.QEMU)
