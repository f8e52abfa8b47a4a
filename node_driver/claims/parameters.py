"""Opaque parameters of our driver in claims and DeviceClasses: ``virt-dra.io/v1alpha1`` PassthroughConfig (D-62), read
strictly.

    apiVersion: virt-dra.io/v1alpha1
    kind: PassthroughConfig
    network: {mac: "02:00:00:00:00:01", vlan: 100, vlanQos: 3, spoofCheck: true, trust: false,
              minTxRate: 0, maxTxRate: 1000, linkState: auto}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from node_driver.claims.refusals import ClaimRefusal, ClaimRefusalReason
from virt_dra.api.go_text import quoted
from virt_dra.api.nearest import did_you_mean

API_VERSION: Final = "virt-dra.io/v1alpha1"
KIND: Final = "PassthroughConfig"
MAC: Final = re.compile(r"(?!00(:00){5})[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
"""Of one interface: the lowest bit of the first byte means a group, and nobody has the address of zeros."""
VLAN_MAX: Final = 4094
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")
QOS_MAX: Final = 7
RATE_MAX: Final = 2**32 - 1
LINK_STATES: Final = ("auto", "enable", "disable")
SHOWN_MAX: Final = 200
"""Characters of a user's value in a message."""

_BOOLEAN: Final = "true or false"
_NETWORK: Final[Mapping[str, str]] = {
    "mac": 'a unicast address in lower case, as in "02:00:00:00:00:01"',
    "vlan": f"a number from 0 to {VLAN_MAX}",
    "vlanQos": f"a number from 0 to {QOS_MAX}",
    "spoofCheck": _BOOLEAN,
    "trust": _BOOLEAN,
    "minTxRate": f"Mbit/s, from 0 to {RATE_MAX}",
    "maxTxRate": f"Mbit/s, from 0 to {RATE_MAX}",
    "linkState": " or ".join(LINK_STATES),
}
"""Field -> what it may be."""
_NUMBER_MAX: Final = {"vlan": VLAN_MAX, "vlanQos": QOS_MAX, "minTxRate": RATE_MAX, "maxTxRate": RATE_MAX}


def network_settings(parameters: Any, path: str) -> str:
    """The settings of a network function as JSON with sorted keys, "" for none. Raises :class:`ClaimRefusal` that names
    each wrong field, by its path below ``path``."""
    problems: list[str] = []
    config = _object(parameters, path, problems)
    if problems:
        raise _refusal(problems)
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if config.get(field) != wanted:
            problems.append(f"{path}.{field}: {_shown(config.get(field))} isn't {wanted}")
    _unknown(config, ("apiVersion", "kind", "network"), path, problems)
    network: Mapping[str, Any] = {}
    if "network" in config:
        network = _object(config["network"], f"{path}.network", problems)
        _unknown(network, tuple(_NETWORK), f"{path}.network", problems)
        problems += [
            f"{path}.network.{field}: {_shown(value)} isn't {_NETWORK[field]}"
            for field, value in network.items()
            if field in _NETWORK and not _fits(field, value)
        ]
        least, most = network.get("minTxRate", 0), network.get("maxTxRate", 0)
        if not problems and most and least > most:  # 0: no limit
            problems.append(f"{path}.network.minTxRate: {least} is more than maxTxRate, {most}")
    if problems:
        raise _refusal(problems)
    return json.dumps(network, sort_keys=True) if network else ""


def _fits(field: str, value: Any) -> bool:
    if field in ("spoofCheck", "trust"):
        return isinstance(value, bool)
    if field in _NUMBER_MAX:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _NUMBER_MAX[field]
    if field == "linkState":
        return value in LINK_STATES
    return isinstance(value, str) and MAC.fullmatch(value) is not None


def _object(value: Any, path: str, problems: list[str]) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(f"{path}: {_shown(value)} isn't an object")
    return {}


def _unknown(config: Mapping[str, Any], names: tuple[str, ...], path: str, problems: list[str]) -> None:
    for name in sorted(set(config) - set(names)):
        shown = _cut(name if _PLAIN.fullmatch(name) else quoted(name))  # the user chose it: it reaches terminals
        problems.append(f"{path}.{shown}: unknown field{did_you_mean(name, names)}")


def _shown(value: Any) -> str:
    return _cut(quoted(value) if isinstance(value, str) else json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _refusal(problems: list[str]) -> ClaimRefusal:
    shown = problems[:10]
    more = [f"and {len(problems) - len(shown)} more"] if problems[10:] else []
    return ClaimRefusal(ClaimRefusalReason.BAD_PARAMETERS, "; ".join((*shown, *more)))
