"""The pools of device plugins' addresses (K-7.2, K-7.3)."""

from __future__ import annotations

import pytest

from launcher.addresses.pools import AddressPool, variable_name


@pytest.mark.parametrize(
    ("resource", "variable"),
    [
        ("vendor.com/x", "PCI_RESOURCE_VENDOR_COM_X"),
        ("nvidia.com/GA102-A10", "PCI_RESOURCE_NVIDIA_COM_GA102-A10"),
        ("v/a.b", "PCI_RESOURCE_V_A_B"),
        ("v/a_b", "PCI_RESOURCE_V_A_B"),
    ],
)
def test_variables_are_named_after_resources(resource: str, variable: str) -> None:
    assert variable_name("PCI_RESOURCE", resource) == variable


@pytest.mark.parametrize(
    ("value", "popped"),
    [
        ("a", ["a", ""]),
        ("a,", ["a", ""]),
        ("a,b", ["a", "b", ""]),
        ("a,,", ["a", "", ""]),
        (",a", ["", "a", ""]),
        ("a,b,a", ["a", "b", ""]),
        ("", [""]),
        (",", [""]),
        (" a", [" a", ""]),
    ],
)
def test_a_list_is_popped_from_its_head(value: str, popped: list[str]) -> None:
    pool = AddressPool("P", ["r"], {"P_R": value})

    assert [pool.pop("r") for _ in popped] == popped


def test_an_address_of_two_resources_is_handed_out_once() -> None:
    pool = AddressPool("P", ["r", "s"], {"P_R": "a,b", "P_S": "b,a,c"})

    assert [pool.pop("r"), pool.pop("s"), pool.pop("s"), pool.pop("r")] == ["a", "b", "c", ""]


def test_a_resource_without_variable_has_nothing() -> None:
    assert AddressPool("P", ["r"], {}).pop("r") == ""
    assert AddressPool("P", [], {"P_R": "a"}).pop("r") == ""
