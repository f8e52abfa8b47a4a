"""The declared pages: every property is written somewhere, in the declared order, and nothing is written that is not
declared."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, ClassVar

import pytest
from lxml import etree

from launcher.elements.disks import DiskElement
from launcher.elements.domain import Controller, Domain, Graphics, Video
from launcher.elements.hostdev import KUBEVIRT, LIBVIRT, Hostdev, mdev, pci
from launcher.elements.numa import HugePageElement, MemNodeElement, NumaCellElement, VcpuPinElement
from launcher.elements.overrides import OverriddenDevice, PropertyElement
from launcher.elements.page import NAMESPACES, Page, Property, XmlTextError, checked_text, compact, element
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from tests.launcher.placement.test_layout import CASES as LAYOUTS
from tests.launcher.placement.test_layout import GOOD as GOOD_LAYOUTS
from tests.launcher.placement.test_layout import laid_out
from tests.launcher.scenarios import CASES, cases, converted
from tests.launcher.test_domain import SPECS, page_of

PAGES: tuple[type[Page], ...] = (
    Hostdev,
    Domain,
    DiskElement,
    Controller,
    Graphics,
    Video,
    VcpuPinElement,
    NumaCellElement,
    MemNodeElement,
    HugePageElement,
    OverriddenDevice,
    PropertyElement,
)
PCI = PciAddress.parse("0000:01:00.0")
OTHER_CASES = {"display", "node_checks"}
"""Cases that aren't those of a whole VMI."""


@cache
def produced() -> tuple[etree._Element, ...]:
    """Everything that the cases and the domain tests produce."""
    good = [
        c
        for c in cases(*(path.stem for path in CASES.glob("*.yaml") if path.stem not in OTHER_CASES)).values()
        if "error" not in c
    ]
    results = [converted(case) for case in good]
    bare = [f"<devices>{''.join(device.xml for device in result.hostdevs)}</devices>" for result in results]
    domains = [result.domain_xml for result in results] + [compact(page_of(spec)) for spec in SPECS.values()]
    domains += [laid_out(LAYOUTS[name]).domain_xml for name in GOOD_LAYOUTS]
    return tuple(etree.fromstring(text) for text in bare + domains)


@pytest.mark.parametrize(("page", "declared"), [(page, declared) for page in PAGES for declared in page.properties()])
def test_every_declared_property_is_exercised(page: type[Page], declared: Property) -> None:
    path = "/".join(
        part for part in (f"//{page.TAG}", declared.element, declared.attribute and f"@{declared.attribute}") if part
    )
    assert any(document.getroottree().xpath(path, namespaces=NAMESPACES) for document in produced()), (
        f"nothing writes {declared}"
    )


def test_no_page_is_left_out() -> None:
    assert set(PAGES) == {page for page in Page.__subclasses__() if page.__module__.startswith("launcher.")}


@pytest.mark.parametrize("page", PAGES)
def test_every_property_names_a_field_and_every_field_is_declared(page: type[Page]) -> None:
    declared = {declared.field for declared in page.properties()}
    assert declared <= {f.name for f in fields(page)}
    assert {f.name for f in fields(page)} - declared == {"kept"}


@dataclass(frozen=True)
class Sample(Page):
    TAG: ClassVar[str] = "sample"

    second: Annotated[str | None, "b/c/@x"] = None
    first: Annotated[str | None, "a"] = None
    flag: Annotated[bool, "b/d"] = False
    children: Annotated[tuple[Sample, ...], "b"] = ()


def test_elements_are_written_in_declared_order_and_what_is_empty_is_not() -> None:
    full = Sample("value", "text", True, (Sample(), Sample(first="<&>")))

    assert (
        compact(full)
        == '<sample><b><c x="value"/><d/><sample/><sample><a>&lt;&amp;&gt;</a></sample></b><a>text</a></sample>'
    )
    assert compact(Sample()) == "<sample/>"


@pytest.mark.parametrize("text", ["\x00", "a\x1b", "\ud800", "\ufffe", "\uffff", "\x0b"])
def test_text_that_xml_cannot_carry_is_refused_by_name(text: str) -> None:
    with pytest.raises(XmlTextError) as refusal:
        element(Sample(first=text))
    bad = text[-1]
    assert str(refusal.value) == f"{text!r} contains {bad!r} (U+{ord(bad):04X}), which XML can't contain; remove it"


@pytest.mark.parametrize("text", ["\t\r\n", "\u0085", "\ud7ff\ue000\ufffd", "\U0010ffff", "<>&\"'"])
def test_all_other_text_survives_a_round_trip(text: str) -> None:
    assert checked_text(text) == text
    parsed = etree.fromstring(compact(Sample(first=text, second=text)))
    assert parsed.findtext("a") == text
    assert parsed.find("b/c").get("x") == text  # type: ignore[union-attr]  # it was just written


def test_kubevirts_dialect_changes_nothing_libvirts_omits_what_its_schema_refuses() -> None:
    shown = pci(PCI, "gpu-<x>").shown(ramfb=True)

    assert KUBEVIRT.converted(shown) == (shown, ())
    converted_, lost = LIBVIRT.converted(shown)
    assert compact(converted_) == (
        '<hostdev type="pci" managed="no"><source><address domain="0x0000" bus="0x01" '
        'slot="0x00" function="0x0"/></source></hostdev>'
    )
    assert lost == (
        "display and ramfb of a PCI device are left out of the domain: libvirt's schema has them for mdevs only",
        "alias 'ua-gpu-<x>' is left out of the domain: libvirt takes letters, digits, '_' and '-' only",
    )


def test_an_alias_with_a_dot_which_libvirt_would_drop_silently_is_left_out_and_told() -> None:
    converted_, lost = LIBVIRT.converted(pci(PCI, "gpu-a.b"))
    assert converted_.alias is None
    assert lost == ("alias 'ua-gpu-a.b' is left out of the domain: libvirt takes letters, digits, '_' and '-' only",)
    assert LIBVIRT.converted(pci(PCI, "gpu-a_b-1"))[0].alias == "ua-gpu-a_b-1"


def test_an_mdev_is_the_same_in_both_dialects() -> None:
    device = mdev(MdevUuid.parse("8a05ad83-3472-497d-8631-8142f31460e8"), "gpu-x").shown(ramfb=False)

    assert LIBVIRT.converted(device) == (device, ())


def test_a_copy_has_the_changes_and_no_other_field() -> None:
    plain = Hostdev(type="pci", alias="ua-a")

    assert plain.with_(alias="ua-b") == Hostdev(type="pci", alias="ua-b")
    assert plain.alias == "ua-a"
    with pytest.raises(TypeError, match=r"^<hostdev> has no field guest_bsu, guest_slto$"):
        plain.with_(guest_slto="0x00", guest_bsu="1")
