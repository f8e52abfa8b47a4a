"""Attributes -> addresses (K-6); the cases are in cases/attribute_keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.integration.attribute_keys import (
    DRIVERS,
    MDEV_UUID,
    PCI_ADDRESS,
    Addresses,
    DriverKeys,
    InvalidKeys,
    Unusable,
    addresses,
    mdev_keys,
    pci_keys,
    read_keys,
)
from virt_dra.api.resource_v1 import DeviceAttribute
from virt_dra.api.wire import Json

CASES: list[Json] = yaml.safe_load((Path(__file__).parent / "cases" / "attribute_keys" / "addresses.yaml").read_text())
DRIVER = "gpu.example.com"


def run(case: Json) -> Json:
    attributes = {key: DeviceAttribute.from_wire(value) for key, value in case["attributes"].items()}
    resolved = addresses(case.get("driver", DRIVER), attributes, read_keys(case.get("keys", []), "keys"))
    assert resolved == addresses(
        case.get("driver", DRIVER), dict(reversed(attributes.items())), read_keys(case.get("keys", []), "keys")
    ), "the order of attributes must not matter"
    if isinstance(resolved, Unusable):
        return {"reason": resolved.reason, "message": resolved.message}
    return {name: value for name in ("pci", "mdev", "ignored") if (value := getattr(resolved, name))}


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_addresses(case: Json) -> None:
    assert run(case) == case["want"]


def test_the_keys_of_a_driver_are_qualified_and_in_order() -> None:
    extra = (DriverKeys("gpu.amd.com", pci=("mine", "pciBusID")), DriverKeys("other", pci=("theirs",)))
    assert pci_keys("gpu.amd.com", extra) == (
        "resource.kubernetes.io/pciBusID",
        "gpu.amd.com/pciBusID",
        "gpu.amd.com/pciAddress",
        "resource.kubernetes.io/pciAddress",
        "gpu.amd.com/pciAddr",
        "gpu.amd.com/mine",
    )
    assert mdev_keys("gpu.amd.com", extra) == (
        "resource.kubernetes.io/mdevUUID",
        "gpu.amd.com/mdevUUID",
        "resource.kubernetes.io/mDevUUID",
        "gpu.amd.com/mDevUUID",
    )


def test_the_driver_table_can_be_written_as_configuration() -> None:
    raw = [{"driver": keys.driver, "pci": list(keys.pci), "mdev": list(keys.mdev)} for keys in DRIVERS.values()]
    assert read_keys(raw, "keys") == tuple(DRIVERS.values())


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "keys: must be a list of objects {driver, pci: [keys], mdev: [keys]}"),
        ([5], "keys[0]: must be an object with driver, and pci or mdev"),
        ([{"driver": "d", "usb": []}], "keys[0].usb: is unknown; an entry has driver, pci and mdev"),
        ([{"pci": ["a"]}], "keys[0].driver: must be the name of a DRA driver, such as gpu.example.com"),
        ([{"driver": "d", "pci": "a"}], "keys[0].pci: must be a list of attribute keys"),
        (
            [{"driver": "d"}, {"driver": "d", "mdev": ["a", ""]}],
            "keys[1].mdev[1]: must be an attribute key, such as vendorAddress or example.com/vendorAddress",
        ),
        (
            [{"driver": "d", "pci": ["resource.kubernetes.io/pcieRoot"]}],
            "keys[0].pci[0]: resource.kubernetes.io/pcieRoot is never an address "
            "of the device itself; name the key that has it",
        ),
        (
            [{"driver": "d", "pci": ["pfPciAddress"]}],
            "keys[0].pci[0]: pfPciAddress is never an address of the device itself; name the key that has it",
        ),
        (
            [{"driver": "d", "mdev": ["uuid"]}],
            "keys[0].mdev[0]: uuid is never an address of the device itself; name the key that has it",
        ),
    ],
)
def test_keys_that_cannot_be_used_are_refused_with_their_path(raw: object, message: str) -> None:
    with pytest.raises(InvalidKeys) as refusal:
        read_keys(raw, "keys")
    assert str(refusal.value) == message


NAMES = ("pciBusID", "pciAddress", "mdevUUID", "mDevUUID", "pcieRoot", "uuid", "pfPciAddress")
KEYS = st.sampled_from(
    [f"{domain}{name}" for domain in ("", f"{DRIVER}/", "resource.kubernetes.io/", "x/") for name in NAMES]
)
TEXTS = st.one_of(
    st.from_regex(PCI_ADDRESS, fullmatch=True),
    st.from_regex(MDEV_UUID, fullmatch=True),
    st.text(max_size=8),
    st.just("0000:01:00.0"),
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"string": TEXTS}),
    st.fixed_dictionaries({"strings": st.lists(TEXTS, max_size=2)}),
    st.fixed_dictionaries({"int": st.integers(-(2**63), 2**63 - 1)}),
    st.just({}),
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_whatever_is_published_what_is_handed_out_is_an_address(raw: dict[str, Json]) -> None:
    attributes = {key: DeviceAttribute.from_wire(value) for key, value in raw.items()}
    resolved = addresses(DRIVER, attributes)
    assert resolved == addresses(DRIVER, dict(sorted(attributes.items())))
    if isinstance(resolved, Addresses):
        assert resolved.pci is not None or resolved.mdev is not None
        assert resolved.pci is None or PCI_ADDRESS.fullmatch(resolved.pci)
        assert resolved.mdev is None or MDEV_UUID.fullmatch(resolved.mdev)
        never = {"x/", "pcieRoot", "uuid", "pfPciAddress"}
        usable = {value.string for key, value in attributes.items() if not any(word in key for word in never)}
        usable |= {text for value in attributes.values() for text in value.strings or ()}
        assert {resolved.pci, resolved.mdev} - {None} <= usable
