"""The normal form of XML: what says the same has the same lines, and what doesn't has others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from virt_dra.pytest_plugin import UnusableInput
from virt_dra.pytest_plugin.golden_domains import SHOWN_DIFFERENCE, compare_with_golden, normal_lines

QEMU = "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"


def _lines(xml: str) -> list[str]:
    return normal_lines(etree.fromstring(xml, etree.XMLParser(remove_comments=True)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<a x='1' y='2'/>", '<a y="2"\n   x="1"></a>'),
        ("<a><b/><c/></a>", "<a>\n  <b/>\n\n  <c/>\n</a>"),
        ("<a><b>t</b></a>", "<a><!-- why --><b>t</b></a>"),
        ("<a>&lt;&#65;</a>", "<a><![CDATA[<A]]></a>"),
        ("<a>  </a>", "<a/>"),
        (f"<a {QEMU}><qemu:b/></a>", f"<a {QEMU}>\n<qemu:b {QEMU}/></a>"),
    ],
)
def test_what_says_the_same_has_the_same_lines(one: str, other: str) -> None:
    assert _lines(one) == _lines(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<a x='1'/>", "<a x='2'/>"),
        ("<a><b/><c/></a>", "<a><c/><b/></a>"),
        ("<a>t</a>", "<a> t</a>"),
        ("<a>t\n</a>", "<a>t</a>"),
        ("<a><b/>t</a>", "<a>t<b/></a>"),
        ("<a><b/></a>", "<a>&lt;b/&gt;</a>"),
        ("<a x='&#10;'/>", "<a x=' '/>"),
        ("<a xmlns='u'/>", "<a/>"),
        ("<a xml:lang='x'/>", "<a lang='x'/>"),
        (f"<a {QEMU}><qemu:b qemu:x='1'/></a>", f"<a {QEMU}><qemu:b x='1'/></a>"),
    ],
)
def test_what_says_something_else_has_other_lines(one: str, other: str) -> None:
    assert _lines(one) != _lines(other)


def test_each_element_has_a_line_with_its_attributes_sorted() -> None:
    xml = (
        f"<domain type='kvm' {QEMU}><name>a&amp;b</name><qemu:commandline><qemu:arg "
        "value='\"'/>x</qemu:commandline></domain>"
    )
    assert _lines(xml) == [
        '<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">',
        "  <name>a&amp;b</name>",
        "  <qemu:commandline>",
        "    <qemu:arg value='\"'/>",
        "    x",
        "  </qemu:commandline>",
        "</domain>",
    ]


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"), max_size=8
)


def _element(tag: str, attributes: dict[str, str], text: str, inside: list[etree._Element]) -> etree._Element:
    element = etree.Element(tag, attributes)
    element.text = text
    element.extend(inside)
    return element


def _trees(children: st.SearchStrategy[list[etree._Element]]) -> st.SearchStrategy[etree._Element]:
    return st.builds(_element, st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), TEXT), TEXT, children)


@given(st.recursive(_trees(st.builds(list)), lambda trees: _trees(st.lists(trees, max_size=3)), max_leaves=8))
def test_the_normal_form_of_a_normal_form_is_itself(tree: etree._Element) -> None:
    """So nothing is lost or made that a reader of the lines would miss; white space around a text beside elements is
    the exception."""
    for element in tree.iter():
        element.text = (element.text or "").strip()
    lines = normal_lines(tree)
    again = etree.fromstring("\n".join(lines))
    for element in again.iter():
        if len(element):
            element.text = (element.text or "").strip()
    assert normal_lines(again) == lines


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("", "the XML to compare: line 1, column 1: no well-formed XML: Document is empty"),
        ("<a>\n<b></a>", "the XML to compare: line 2, column 8: no well-formed XML: Opening and ending tag mismatch"),
        ("<a>\ud800</a>", "the XML to compare: position 3: a character that XML can't hold"),
        (
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            "the XML to compare: has a document type declaration, which no libvirt domain has",
        ),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "the XML to compare: has a document type declaration"),
        ("<a>" * 300 + "</a>" * 300, "the XML to compare: line 1, column "),
    ],
)
def test_what_is_no_xml_of_a_domain_is_refused_with_its_place(xml: str, message: str) -> None:
    with pytest.raises(UnusableInput) as error:
        compare_with_golden(xml, "golden.xml", update=False)
    assert str(error.value).startswith(message)


def test_a_long_difference_is_shown_in_part() -> None:
    xml = "<a>" + "<b/>" * 1000 + "</a>"
    with pytest.raises(AssertionError) as error:
        compare_with_golden(xml, "there-is-none.xml", update=False)
    lines = str(error.value).splitlines()
    assert len(lines) == SHOWN_DIFFERENCE + 3
    assert lines[-1] == "and 802 more lines"
