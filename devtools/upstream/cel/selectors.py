"""Random devices, and selectors and derived attributes for them in the style of drivers' documentation."""

from __future__ import annotations

from random import Random
from typing import Any

from devtools.cel.answers import Question
from devtools.upstream.cel.expressions import BRANCHES, KINDS, LEAVES
from devtools.upstream.cel.grammar import Grammar, templates

Json = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
DOMAINS = (*DRIVERS, "resource.kubernetes.io", "other.example.com")
_VALUES: dict[str, tuple[Any, ...]] = {
    "string": ("A100", "a", "", "pci0000:00", "NVIDIA A100-SXM4-40GB", "10.0.0.1", "true", "1.2.3", "b"),
    "int": (0, 1, 2, 4, -1, 2**63 - 1),
    "bool": (True, False),
    "version": ("1.2.3", "12.4.0", "1.2.3-rc.1", "0.0.1+x"),
    "strings": (["a", "b"], [], ["A100"], ["a"]),
    "ints": ([1, 2], [], [4]),
    "bools": ([True, False], [True]),
    "versions": (["1.0.0", "2.0.0"], ["1.2.3"]),
}
_IDS = ("model", "count", "healthy", "version", "tags", "numa", "pcieRoot", "a", "family")
_SIZES = ("16Gi", "1", "0", "500m", "40960Mi", "1.5Gi", "1000m", "8", "10G", "1e3")

_OWN_LEAVES, _OWN_BRANCHES = templates("selectors.yaml")
_LEAVES = {
    **LEAVES,
    "driver": [f'"{driver}"' for driver in DRIVERS],
    "domain": [f'"{domain}"' for domain in DOMAINS],
    "id": list(_IDS),
    "name": [f'"{name}"' for name in _IDS],
    "size": [f'"{size}"' for size in _SIZES],
    **_OWN_LEAVES,
}

_BRANCHES = {
    **BRANCHES,
    "dyn": [*BRANCHES["dyn"], *["$attribute"] * 8],
    "quantity": [*BRANCHES["quantity"], *["$amount"] * 2],
    "bool": [*BRANCHES["bool"], *["$selector"] * 10],
    "selector": [*_OWN_LEAVES["selector"], *_OWN_BRANCHES["selector"]],
    "derived": _OWN_BRANCHES["derived"],
}

SELECTORS = Grammar(_LEAVES, _BRANCHES, KINDS)
_LONGEST = 600


def device(random: Random) -> Json:
    """A device in wire form with its driver; one in twenty has an attribute that can't be converted."""
    attributes = {}
    for _ in range(random.randint(0, 8)):
        kind = random.choice(tuple(_VALUES))
        attributes[_qualified(random, random.choice(_IDS))] = {kind: random.choice(_VALUES[kind])}
    if random.random() < 0.05:
        attributes["bad"] = random.choice(
            ({}, {"version": "1.2"}, {"version": ""}, {"version": "v1.2.3"}, {"versions": ["x"]})
        )
    capacity = {
        _qualified(random, name): {"value": random.choice(_SIZES)}
        for name in ("memory", "cores")
        if random.random() < 0.7
    }
    made: Json = {"driver": random.choice(DRIVERS), "attributes": attributes, "capacity": capacity}
    if random.random() < 0.3:
        made["allowMultipleAllocations"] = random.random() < 0.5
    return made


def _qualified(random: Random, name: str) -> str:
    """With a domain other than a driver's: which of two spellings of one name wins is not defined (spec L-6.1)."""
    return name if random.random() < 0.6 else f"{random.choice(DOMAINS[2:])}/{name}"


def selector(random: Random) -> Question:
    """A selector on a device."""
    return {"expression": _short(random, ("selector",)), "device": device(random)}


_DERIVED = (
    "derived",
    "derived",
    "derived",
    "derived",
    "derived",
    "list",
    "string",
    "int",
    "semver",
    "dyn",
    "bool",
    "any",
)


def derived_attribute(random: Random) -> Question:
    """A derived attribute on a device: mostly of a type that is allowed."""
    return {"expression": _short(random, _DERIVED), "device": device(random), "derived": True}


def _short(random: Random, kinds: tuple[str, ...]) -> str:
    while True:
        text = SELECTORS.draw(random, random.choice(kinds), random.randint(1, 3))
        if len(text) < _LONGEST:
            return text
