"""PCI addresses, mdev UUIDs and USB addresses: what is read, what is refused, and in which words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import AddressSyntaxError
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from launcher.host_addresses.usb import UsbAddress

HEX = "0123456789abcdefABCDEF"


def hex_digits(count: int) -> st.SearchStrategy[str]:
    return st.text(HEX, min_size=count, max_size=count)


pci_addresses = st.builds(
    "{}:{}:{}.{}".format, hex_digits(4), hex_digits(2), hex_digits(2), st.sampled_from("01234567")
)


@given(pci_addresses)
def test_every_pci_address_is_read_and_written_back_in_its_case(text: str) -> None:
    assert str(PciAddress.parse(text)) == text


@given(
    st.text(HEX + ":. \n", max_size=14)
    | pci_addresses.flatmap(lambda a: st.sampled_from([a + "\n", " " + a, a + ",", "0" + a]))
)
def test_pci_addresses_are_read_exactly_by_kubevirts_pattern(text: str) -> None:
    matches = re.match(r"\A[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\Z", text) is not None
    if matches:
        assert str(PciAddress.parse(text)) == text
        return
    with pytest.raises(AddressSyntaxError) as refusal:
        PciAddress.parse(text)
    assert str(refusal.value) == f"failed to parse pci address {text}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01:00.0",
        "10000:01:00.0",
        "0000:01:00.8",
        "0000:01:00",
        "0000-01-00.0",
        "0000:01:00.0,0000:02:00.0",
        "٠٠٠٠:01:00.0",
    ],
)
def test_what_is_no_pci_address_is_refused(text: str) -> None:
    with pytest.raises(AddressSyntaxError, match=rf"^failed to parse pci address {re.escape(text)}$"):
        PciAddress.parse(text)


def test_two_spellings_of_a_device_have_one_identity() -> None:
    assert PciAddress.parse("0000:AB:1f.0").identity == PciAddress.parse("0000:ab:1F.0").identity
    assert MdevUuid.parse("8A05AD83-3472-497d-8631-8142f31460e8").identity == "8a05ad83-3472-497d-8631-8142f31460e8"
    assert UsbAddress.parse("001:03").identity == UsbAddress.parse("1:3").identity


def test_a_slot_beyond_libvirts_last_is_read_but_known_to_be_refused() -> None:
    assert PciAddress.parse("0000:00:1f.0").libvirt_refuses == ""
    assert PciAddress.parse("0000:00:20.0").libvirt_refuses == "slot 0x20 is beyond 0x1f"


@given(st.uuids().map(str), st.booleans())
def test_every_uuid_is_read_and_kept_in_its_case(text: str, upper: bool) -> None:
    text = text.upper() if upper else text
    assert str(MdevUuid.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "8a05ad833472497d86318142f31460e8", " 8a05ad83-3472-497d-8631-8142f31460e8", "GPU-8a05ad83"]
)
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(AddressSyntaxError, match=rf"^failed to parse mdev UUID {re.escape(text)}$"):
        MdevUuid.parse(text)


@pytest.mark.parametrize("text", ["", "1", "1:2:3", "a:b", ":", "1:", "1234:1"])
def test_what_is_no_usb_address_is_refused(text: str) -> None:
    with pytest.raises(AddressSyntaxError, match=rf"^Bad value: {re.escape(text)}$"):
        UsbAddress.parse(text)
