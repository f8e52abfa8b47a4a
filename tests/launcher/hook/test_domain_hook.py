"""The hook's decision on KubeVirt's domains: whole lists of host devices, whole messages, and nothing else changed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import canonicalize

import pytest
import yaml
from lxml import etree

from launcher import LauncherError
from launcher.conversion import AddressSources
from launcher.hook.domain_hook import HookedDomain, hooked_domain
from virt_dra.api.wire import Json

FOLDER = Path(__file__).parent.parent / "cases" / "hook"
DOMAIN = (FOLDER / "domain.xml").read_bytes()
ALL: dict[str, Json] = yaml.safe_load((FOLDER / "host_devices.yaml").read_text())
CASES = {name: case for name, case in ALL.items() if "refusal" not in case}
REFUSED = {name: case for name, case in ALL.items() if "refusal" in case}


def vmi_of(case: Json) -> bytes:
    annotations = {"virt-dra.io/pci-placement": "none"}
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
    return hooked_domain(domain, vmi_of(case), AddressSources(case.get("env", {}), case.get("files", {})))


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


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_completed_is_refused_with_its_device(case: Json) -> None:
    with pytest.raises(LauncherError) as refusal:
        hooked(case, domain_of(case))
    assert refusal.value.message == case["refusal"]


def test_without_the_annotation_the_domain_is_not_even_read() -> None:
    for domain in (DOMAIN, b"<!DOCTYPE x>", b"\xff"):
        assert hooked_domain(domain, b'{"metadata": {"name": "vm"}}', AddressSources({}, {})) == HookedDomain(domain)


def test_an_added_device_is_on_a_line_of_its_own() -> None:
    lines = hooked(ALL["a-missing-device-is-added-behind-the-others"], DOMAIN).text.decode().splitlines()
    at = next(index for index, line in enumerate(lines) if "nvme" in line)
    before, added, after = lines[at - 1 : at + 2]
    assert (before, after) == ("\t\t</hostdev>", '\t\t<disk device="disk" type="file" model="virtio-non-transitional">')
    assert added.startswith("\t\t<hostdev ")


BOMB = '<!DOCTYPE d [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><domain><name>&b;</name><devices/></domain>'
NO_DOMAINS = {
    "entities": (BOMB, "the domain contains <!DOCTYPE, which no domain needs"),
    "an entity of a file": (
        '<!DOCTYPE d SYSTEM "file:///etc/passwd"><domain/>',
        "the domain contains <!DOCTYPE, which no domain needs",
    ),
    "another element": ("<network><devices/></network>", "the domain is a <network>"),
    "without devices": ("<domain/>", "the domain has 0 elements <devices> in place of one"),
    "two devices": ("<domain><devices/><devices/></domain>", "the domain has 2 elements <devices> in place of one"),
    "too large": (f"<domain>{' ' * (2 << 20)}</domain>", "the domain has 2097169 bytes, at most 2097152 are read"),
}


@pytest.mark.parametrize(("domain", "message"), NO_DOMAINS.values(), ids=NO_DOMAINS.keys())
def test_what_is_no_domain_is_refused(domain: str, message: str) -> None:
    with pytest.raises(LauncherError) as refusal:
        hooked_domain(domain.encode(), vmi_of({}), AddressSources({}, {}))
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
    with pytest.raises(LauncherError, match=r"^the domain (can't be parsed|is not UTF-8): ") as refusal:
        hooked_domain(domain, vmi_of({}), AddressSources({}, {}))
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
        hooked_domain(DOMAIN, vmi, AddressSources({}, {}))
    assert (refusal.value.reason, refusal.value.message) == ("UnreadableVmi", message)
