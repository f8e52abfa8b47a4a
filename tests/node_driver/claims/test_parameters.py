"""What a claim's parameters may ask of a network function, and what is said of the rest (D-62)."""

from __future__ import annotations

from typing import Any

import pytest

from node_driver.claims.parameters import network_settings
from node_driver.claims.refusals import ClaimRefusal

MAC = 'isn\'t a unicast address in lower case, as in "02:00:00:00:00:01"'


def asked(**network: Any) -> dict[str, Any]:
    return {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "network": network}


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        ({}, ""),
        ({"mac": "02:00:00:00:00:0a"}, '{"mac": "02:00:00:00:00:0a"}'),
        ({"vlan": 0, "vlanQos": 7}, '{"vlan": 0, "vlanQos": 7}'),
        ({"minTxRate": 10, "maxTxRate": 10}, '{"maxTxRate": 10, "minTxRate": 10}'),
        ({"minTxRate": 10, "maxTxRate": 0}, '{"maxTxRate": 0, "minTxRate": 10}'),
        ({"minTxRate": 10}, '{"minTxRate": 10}'),
    ],
)
def test_settings(network: dict[str, Any], settings: str) -> None:
    assert network_settings(asked(**network), "p") == settings


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"mac": "00:00:00:00:00:00"}, f'p.network.mac: "00:00:00:00:00:00" {MAC}'),
        ({"mac": "03:00:00:00:00:01"}, f'p.network.mac: "03:00:00:00:00:01" {MAC}'),
        ({"mac": "0A:00:00:00:00:01"}, f'p.network.mac: "0A:00:00:00:00:01" {MAC}'),
        ({"mac": "02:00:00:00:00:01\n"}, f'p.network.mac: "02:00:00:00:00:01\\n" {MAC}'),
        ({"mac": "$(reboot)"}, f'p.network.mac: "$(reboot)" {MAC}'),
        ({"mac": "x" * 10**6}, f'p.network.mac: "{"x" * 199}… {MAC}'),
        ({"vlan": True}, "p.network.vlan: true isn't a number from 0 to 4094"),
        ({"vlan": 1.0}, "p.network.vlan: 1.0 isn't a number from 0 to 4094"),
        ({"minTxRate": 10, "maxTxRate": 5}, "p.network.minTxRate: 10 is more than maxTxRate, 5"),
        ({"minTxRate": 10, "maxTxRate": "5"}, 'p.network.maxTxRate: "5" isn\'t Mbit/s, from 0 to 4294967295'),
        ({"trust": None}, "p.network.trust: null isn't true or false"),
        ({"linkState": ["auto"]}, 'p.network.linkState: ["auto"] isn\'t auto or enable or disable'),
        ({"\x1b[2J": 1}, 'p.network."\\x1b[2J": unknown field'),
    ],
)
def test_a_value_that_is_refused(network: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimRefusal) as caught:
        network_settings(asked(**network), "p")
    assert str(caught.value) == message
