"""The hook's decision on KubeVirt's domains: whole lists of host devices, whole messages, and nothing else changed
(K-11.17, K-11.18)."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import canonicalize

import pytest
import yaml
from lxml import etree

from devtools.libvirt import witness as libvirt_witness
from launcher import LauncherError
from launcher.conversion import AddressSources
from launcher.hook.domain_hook import HookedDomain, hooked_domain
from launcher.placement.host import HostTopology, PciLocation
from virt_dra.api.wire import Json

FOLDER = Path(__file__).parent.parent / "cases" / "hook"
DOMAIN = (FOLDER / "domain.xml").read_bytes()
PLACEMENTS: dict[str, Json] = yaml.safe_load((FOLDER / "placement.yaml").read_text())
NO_HOST = HostTopology({}, {})
HOST = HostTopology(
    nodes={0: tuple(range(32)), 1: tuple(range(32, 64))},
    functions={
        "0000:41:00.0": PciLocation(0, "pci0000:40"),
        "0000:42:00.0": PciLocation(0, "pci0000:40"),
        "0000:81:00.0": PciLocation(1, "pci0000:80"),
        "0000:82:00.0": PciLocation(1, "pci0000:c0"),
    },
)
ALL: dict[str, Json] = yaml.safe_load((FOLDER / "host_devices.yaml").read_text())
CASES = {name: case for name, case in ALL.items() if "refusal" not in case}
PLACED = {name: case for name, case in PLACEMENTS.items() if "refusal" not in case}
REFUSED = {name: case for name, case in {**ALL, **PLACEMENTS}.items() if "refusal" in case}


def vmi_of(case: Json) -> bytes:
    value = None if "default" in case else "none"
    annotations = {} if (value := case.get("value", value)) is None else {"virt-dra.io/pci-placement": value}
    if "device-status" in case:
        annotations["virt-dra.io/device-status"] = json.dumps(case["device-status"])
    return json.dumps(
        {
            "metadata": {"name": "trainer", "namespace": "team-a", "annotations": annotations},
            "spec": {
                "resourceClaims": case.get("claims", [{"name": "c", "resourceClaimTemplateName": "t"}]),
                "networks": case.get("networks", []),
                "domain": {"devices": {kind: case.get(kind, []) for kind in ("gpus", "hostDevices", "interfaces")}},
            },
            "status": {"deviceStatus": case["status"]} if "status" in case else {},
        }
    ).encode()


def domain_of(case: Json) -> bytes:
    text = DOMAIN.decode()
    for old, new in case.get("domain", []):
        assert old in text
        text = text.replace(old, new)
    return text.encode()


def hooked(case: Json, domain: bytes) -> HookedDomain:
    sources = AddressSources(case.get("env", {}), case.get("files", {}))
    return hooked_domain(domain, vmi_of(case), sources, HOST, case.get("default"))


def described(hostdev: etree._Element) -> str:
    """Alias, type and source; then the names of the element's further attributes and children, sorted."""
    (address,), (alias,) = hostdev.findall("source/address"), hostdev.findall("alias")
    source = address.get("uuid") or "{}:{}:{}.{}".format(
        *(address.get(name) for name in ("domain", "bus", "slot", "function"))
    )
    further = {*hostdev.attrib, *(str(child.tag) for child in hostdev)} - {"type", "managed", "source", "alias"}
    return " ".join([alias.get("name", ""), hostdev.get("type", ""), source, *sorted(further)])


def without_hostdevs(domain: bytes) -> str:
    root = etree.fromstring(domain)
    (devices,) = root.findall("devices")
    for hostdev in devices.findall("hostdev"):
        devices.remove(hostdev)
    return canonicalize(etree.tostring(root, encoding="unicode"), strip_text=True)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_host_devices_are_added_and_corrected_and_nothing_else(case: Json) -> None:
    domain = domain_of(case)

    result = hooked(case, domain)

    assert list(result.changes) == case["changes"]
    if not case["changes"]:
        assert result.text == domain
        return
    hostdevs = etree.fromstring(result.text).findall("devices/hostdev")
    assert [described(hostdev) for hostdev in hostdevs] == case["hostdevs"]
    assert without_hostdevs(result.text) == without_hostdevs(domain)
    assert hooked(case, result.text) == HookedDomain(result.text)


def shown_controller(controller: etree._Element) -> str:
    index = controller.get("index")
    for address in controller.findall("address"):
        return f"{index} port on {address.get('bus')} slot {address.get('slot')}"
    return f"{index} expander busNr {controller[0].get('busNr')} node {controller.findtext('target/node')}"


def shown_place(hostdev: etree._Element) -> str:
    """The alias, and the guest's bus; nothing else of the guest address may vary."""
    (alias,), addresses = hostdev.findall("alias"), hostdev.findall("address")
    name = alias.get("name", "")
    if not addresses:
        return name
    ((bus, *rest),) = [
        [address.get(key) for key in ("bus", "type", "domain", "slot", "function")] for address in addresses
    ]
    assert rest == ["pci", "0x0000", "0x00", "0x0"]
    return f"{name} at {(bus or '').removeprefix('0x')}"


def without_places(domain: bytes, indexes: frozenset[str]) -> str:
    """The domain without these PCI controllers and without the hostdevs."""
    root = etree.fromstring(domain)
    (devices,) = root.findall("devices")
    for controller in devices.findall("controller[@type='pci']"):
        if controller.get("index") in indexes:
            devices.remove(controller)
    return without_hostdevs(etree.tostring(root))


@pytest.mark.parametrize("case", PLACED.values(), ids=PLACED.keys())
def test_devices_are_placed_and_nothing_else_is_changed(case: Json) -> None:
    """K-8.2 to K-8.4, and by PCIe root."""
    domain = domain_of(case)

    result = hooked(case, domain)

    root, before = etree.fromstring(result.text), etree.fromstring(domain)
    present = {controller.get("index") for controller in before.findall("devices/controller[@type='pci']")}
    controllers = [item for item in root.findall("devices/controller[@type='pci']") if item.get("index") not in present]
    assert [shown_controller(controller) for controller in controllers] == case["controllers"]
    assert [shown_place(hostdev) for hostdev in root.findall("devices/hostdev")] == case["devices"]
    assert list(result.warnings) == case.get("warnings", [])
    indexes = frozenset(controller.get("index", "") for controller in controllers)
    assert without_places(result.text, indexes) == without_places(domain, frozenset())
    assert hooked(case, result.text) == HookedDomain(result.text, warnings=result.warnings)
    if not case["controllers"]:
        assert result.text == domain


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize(
    "name", ["by-numa-node", "by-pcie-root", "indexes-continue-and-a-device-at-a-guest-address-stays"]
)
def test_libvirt_takes_what_is_placed(name: str) -> None:
    """By QEMU's driver, which checks every PCI address; KubeVirt's machine type is one of its own QEMU."""
    case = PLACEMENTS[name]
    domain = domain_of(case).replace(b"pc-q35-rhel9.6.0", b"q35")
    libvirt_witness.define(hooked(case, domain).text.decode(), libvirt_witness.QEMU)


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_completed_is_refused_with_its_device(case: Json) -> None:
    with pytest.raises(LauncherError) as refusal:
        hooked(case, domain_of(case))
    assert refusal.value.message == case["refusal"]


def test_without_the_annotation_the_domain_is_not_even_read() -> None:
    for domain in (DOMAIN, b"<!DOCTYPE x>", b"\xff"):
        assert hooked_domain(domain, b'{"metadata": {"name": "vm"}}', AddressSources({}, {}), NO_HOST) == HookedDomain(
            domain
        )


def test_an_added_device_is_on_a_line_of_its_own() -> None:
    lines = hooked(ALL["a-missing-device-is-added-behind-the-others"], DOMAIN).text.decode().splitlines()
    at = next(index for index, line in enumerate(lines) if "nvme" in line)
    before, added, after = lines[at - 1 : at + 2]
    assert (before, after) == ("\t\t</hostdev>", '\t\t<disk device="disk" type="file" model="virtio-non-transitional">')
    assert added.startswith("\t\t<hostdev ")


BOMB = '<!DOCTYPE d [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><domain><name>&b;</name><devices/></domain>'
NO_DOMAINS = {
    "entities": (BOMB, "the domain has a document type, which no domain needs"),
    "an entity of a file": (
        '<!DOCTYPE d SYSTEM "file:///etc/passwd"><domain/>',
        "the domain has a document type, which no domain needs",
    ),
    "another element": ("<network><devices/></network>", "the domain is a <network>"),
    "without devices": ("<domain/>", "the domain has 0 elements <devices> in place of one"),
    "two devices": ("<domain><devices/><devices/></domain>", "the domain has 2 elements <devices> in place of one"),
    "too large": (f"<domain>{' ' * (2 << 20)}</domain>", "the domain has 2097169 bytes, more than 2097152"),
}


@pytest.mark.parametrize(("domain", "message"), NO_DOMAINS.values(), ids=NO_DOMAINS.keys())
def test_what_is_no_domain_is_refused(domain: str, message: str) -> None:
    with pytest.raises(LauncherError) as refusal:
        hooked_domain(domain.encode(), vmi_of({}), AddressSources({}, {}), NO_HOST)
    assert (refusal.value.reason, refusal.value.message) == ("UnreadableDomain", message)


@pytest.mark.parametrize(
    "domain",
    [
        b"", b"\xff\xfe<domain/>", b"<domain>", b"<domain>" + b"<a>" * 300 + b"</a>" * 300 + b"</domain>",
        BOMB.encode("utf-16"),
    ],
    ids=["empty", "not UTF-8", "cut", "deep", "UTF-16"],
)  # fmt: skip
def test_what_is_no_xml_is_refused(domain: bytes) -> None:
    with pytest.raises(LauncherError, match=r"^the domain (isn't well-formed XML: |isn't UTF-8$)") as refusal:
        hooked_domain(domain, vmi_of({}), AddressSources({}, {}), NO_HOST)
    assert refusal.value.reason == "UnreadableDomain"


@pytest.mark.parametrize(
    ("vmi", "message"),
    [
        (b"[" * 100_000, "the VMI is nested too deeply"),
        (b"{}" + b" " * (2 << 20), "the VMI has 2097154 bytes, at most 2097152 are read"),
        (b"{", "the VMI can't be read: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b'{"metadata": {"annotations": {"virt-dra.io/device-status": "{"}}}', "the VMI can't be read: Expecting "
         "property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
    ids=["deep", "too large", "cut", "a status that is cut"],
)  # fmt: skip
def test_what_is_no_vmi_is_refused(vmi: bytes, message: str) -> None:
    with pytest.raises(LauncherError) as refusal:
        hooked_domain(DOMAIN, vmi, AddressSources({}, {}), NO_HOST)
    assert (refusal.value.reason, refusal.value.message) == ("UnreadableVmi", message)


def test_a_thousand_devices_are_added_in_the_order_of_their_entries() -> None:
    names = [f"g{index}" for index in range(1000)]
    addresses = [f"0000:{index // 8:02x}:{index % 8:02x}.0" for index in range(1000)]
    statuses = [
        {"name": name, "deviceResourceClaimStatus": {"attributes": {"pciAddress": address}}}
        for name, address in zip(names, addresses, strict=True)
    ]
    case: Json = {
        "claims": [{"name": name} for name in names],
        "gpus": [{"name": name, "claimName": name, "requestName": "r"} for name in names],
        "device-status": {"gpuStatuses": statuses},
    }
    hostdevs = etree.fromstring(hooked(case, DOMAIN).text).findall("devices/hostdev")
    assert [hostdev.findall("alias")[0].get("name") for hostdev in hostdevs[3:]] == [
        f"ua-dra-gpu-{name}" for name in names
    ]
