"""Elements that are read: equal to what was written, with everything that isn't declared in its place."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from launcher import LauncherError
from launcher.elements.domain import Controller, Domain
from launcher.elements.hostdev import Hostdev, pci
from launcher.elements.page import MAX_BYTES, Page, Property, Value, compact, element, qualified, root
from launcher.host_addresses.pci import PciAddress
from tests.launcher.test_pages import PAGES, produced
from tests.sampling import sample

HERE = Path(__file__).parent
WRITTEN = (HERE / "cases" / "hook" / "domain.xml", *sorted((HERE / "golden").glob("*.xml")))
"""A domain in KubeVirt's form, with elements that no page declares, and ours."""

texts: st.SearchStrategy[Value] = st.text("a0- \n\u00e9\u0663\U0001f600<&>\"'", min_size=1, max_size=6)


def values(page: type[Page], field: str) -> st.SearchStrategy[Value]:
    (kind,) = (declared for declared in page.properties() if declared.field == field)
    if issubclass(kind.type, Page):
        return st.lists(pages(kind.type), max_size=2).map(tuple)
    if kind.type is bool:
        return st.booleans()
    some: st.SearchStrategy[Value] = st.integers(0, 2**63) if kind.type is int else texts
    return st.none() | some if kind.optional else some


def pages(page: type[Page]) -> st.SearchStrategy[Page]:
    return st.builds(page, **{declared.field: values(page, declared.field) for declared in page.properties()})


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_was_written_is_read_as_an_equal_page(page: type[Page]) -> None:
    @settings(max_examples=sample(25), deadline=None)
    @given(pages(page))
    def check(written: Page) -> None:
        if isinstance(written, Domain) and written.pages:
            written = replace(written, hugepages=True)  # the element that the pages are in
        assert page.parse(element(written)) == written
        assert page.from_text(compact(written)) == written

    check()


@cache
def read_pages() -> dict[type[Page], list[Page]]:
    """Everything that the cases and the domain tests produce, read."""
    return {
        page: [page.parse(read) for document in produced() for read in document.iter(qualified(page.TAG))]
        for page in PAGES
    }


@pytest.mark.parametrize(("page", "declared"), [(page, declared) for page in PAGES for declared in page.properties()])
def test_every_declared_property_is_read(page: type[Page], declared: Property) -> None:
    values_read = [getattr(read, declared.field) for read in read_pages()[page]]
    assert any(value is not None and value is not False and value != () for value in values_read)


def test_an_empty_element_that_was_read_stays() -> None:
    empty = '<hostdev type="pci"><address/><boot>  </boot></hostdev>'
    assert compact(Hostdev.from_text(empty)) == empty


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_document_that_is_read_and_written_is_the_same(path: Path) -> None:
    read = Domain.from_text(path.read_bytes())

    assert etree.tostring(element(read), method="c14n") == etree.tostring(root(path.read_bytes()), method="c14n")
    assert Domain.from_text(compact(read)) == read


HOOKED = """\
<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <!-- by hand -->
  <memory unit="KiB">  0042 </memory>
  <vcpu placement="static" current="1">2</vcpu>
  <devices>
    <emulator>/usr/bin/qemu</emulator>
    <controller type="usb" index="007" model="none"/>
    <hostdev managed="no" type="pci" mode="subsystem">
      <alias name="ua-gpu-a"/>
      <driver name="vfio"/>
      <source><address domain="0x0000" bus="0x01" slot="0x00" function="0x0"/></source>
      <address type="pci" domain="0x0000" bus="0x03" slot="0x00" function="0x0"/>
    </hostdev>
    <input type="tablet"/>
    <hostdev type="mdev" mode="subsystem" model="vfio-pci" other="kept"/>
  </devices>
  <qemu:commandline><qemu:arg value="-x"/></qemu:commandline>
</domain>"""
GPU = pci(PciAddress.parse("0000:01:00.0"), "gpu-a")


def test_what_is_declared_becomes_fields_and_the_rest_is_kept_apart() -> None:
    read = Domain.from_text(HOOKED)

    assert (read.name, read.memory, read.vcpus, read.hugepages) == (None, 42, 2, False)
    assert [(port.type, port.index, port.model) for port in read.controllers] == [("usb", 7, "none")]
    assert [(device.alias, device.source_bus, device.guest_bus) for device in read.hostdevs] == [
        ("ua-gpu-a", "0x01", "0x03"),
        (None, None, None),
    ]
    assert [device.kept.undeclared for device in read.hostdevs] == [
        '<hostdev><driver name="vfio"></driver></hostdev>',
        '<hostdev other="kept"></hostdev>',
    ]


def test_order_spelling_and_comments_are_no_difference_but_undeclared_content_is() -> None:
    spelled = Controller.from_text('<controller model="none" index=" 07 " type="usb"><!-- x --></controller>')
    plain = Controller(7, "none", type="usb")

    assert spelled == plain
    assert hash(spelled) == hash(plain)
    assert compact(spelled) == '<controller model="none" index=" 07 " type="usb"><!-- x --></controller>'
    assert Controller.from_text('<controller model="none" index="7" type="usb" ports="4"/>') != plain


def test_a_changed_property_changes_nothing_else() -> None:
    read = Domain.from_text(HOOKED)
    changed = replace(
        read,
        memory=43,
        vcpus=None,
        controllers=(*read.controllers, Controller(1, "pcie-root-port")),
        hostdevs=(replace(read.hostdevs[0], alias=None), read.hostdevs[1], GPU),
    )

    expected = (
        HOOKED.replace("  0042 ", "43")
        .replace('"1">2<', '"1"><')
        .replace(
            '"007" model="none"/>', '"007" model="none"/><controller type="pci" index="1" model="pcie-root-port"/>'
        )
        .replace('<alias name="ua-gpu-a"/>', "")
        .replace('other="kept"/>', 'other="kept"/>' + compact(GPU))
    )
    assert canonical(compact(changed)) == canonical(expected)


def test_pages_that_are_gone_leave_no_element_and_others_keep_their_place() -> None:
    read = Domain.from_text(HOOKED)
    left = replace(read, hostdevs=read.hostdevs[1:], controllers=())

    assert [child.tag for child in element(left).find("devices")] == ["emulator", "hostdev", "input"]  # type: ignore[union-attr]  # it was just read
    assert Domain.from_text(compact(left)).hostdevs == read.hostdevs[1:]


def canonical(text: str) -> bytes:
    return etree.tostring(etree.fromstring(text, etree.XMLParser(remove_blank_text=True)), method="c14n")


LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
DOCUMENT_TYPE = "/: has a document type, which no domain needs"


@pytest.mark.parametrize(
    ("document", "refusal"),
    [
        (f'<!DOCTYPE x [<!ENTITY a0 "lol">{LAUGHS}]><domain type="&a9;"/>', DOCUMENT_TYPE),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><domain type="kvm"/>', DOCUMENT_TYPE),
        ('<domain type="&xxe;"/>', "/: isn't well-formed XML: Entity 'xxe' not defined, line 1, column 20"),
        ('<domain type="kvm"/>'.encode("utf-16"), "/: isn't UTF-8"),
        ('<domain type="\ud800"/>', "/: isn't UTF-8"),
        ("", "/: isn't well-formed XML: Document is empty, line 1, column 1"),
        ("<domain/>", "/domain/@type: is missing"),
        ("<network/>", "/network: must be <domain>"),
        ('<domain xmlns="urn:x" type="kvm"/>', "/{urn:x}domain: must be <domain>"),
        ('<domain type="kvm"><memory>-1</memory></domain>', "/domain/memory: '-1' isn't a number"),
        ('<domain type="kvm"><vcpu>\u0664</vcpu></domain>', "/domain/vcpu: '\u0664' isn't a number"),
        (
            '<domain type="kvm"><devices><hostdev type="pci"/><hostdev type="pci"><boot order="1e3"/></hostdev>'
            "</devices></domain>",
            "/domain/devices/hostdev[2]/boot/@order: '1e3' isn't a number",
        ),
        (
            '<domain type="kvm"><devices><hostdev/></devices></domain>',
            "/domain/devices/hostdev[1]/@type: is missing",
        ),
        ("<domain " + "x" * MAX_BYTES, f"/: has {MAX_BYTES + 8} bytes, more than {MAX_BYTES}"),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_read_is_refused_with_the_place(document: str | bytes, refusal: str) -> None:
    with pytest.raises(LauncherError) as raised:
        Domain.from_text(document)
    assert (raised.value.reason, str(raised.value)) == ("MalformedXml", refusal)
    assert raised.value.subject == refusal.partition(": ")[0]


@pytest.mark.parametrize(
    "content",
    [
        "<domain type='kvm' " + " ".join(f"a{n:x}=''" for n in range(100_000)) + "/>",
        f"<domain type='kvm'>{'<a>' * 100_000}{'</a>' * 100_000}</domain>",
        "<domain type='kvm'><devices>" + "<hostdev type='pci'/>" * 45_000 + "</devices></domain>",
        f"<domain type='kvm'>{'<!---->' * 100_000}</domain>",
    ],
    ids=["attributes", "depth", "devices", "comments"],
)
def test_a_document_of_many_parts_is_refused_before_it_costs(content: str) -> None:
    with pytest.raises(
        LauncherError, match=r"^/: (has more than 20000 elements|isn't well-formed XML: Excessive depth)"
    ):
        Domain.from_text(content)


def test_a_device_can_be_read_by_itself() -> None:
    assert Hostdev.from_text(compact(GPU)) == GPU
