"""Random devices, and selectors and derived attributes for them in the style of drivers' documentation."""

from __future__ import annotations

from random import Random
from typing import Any

from devtools.cel.answers import Question
from devtools.upstream.cel.expressions import BRANCHES, KINDS, LEAVES
from devtools.upstream.cel.grammar import Grammar

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

_LEAVES = {
    **LEAVES,
    "driver": [f'"{driver}"' for driver in DRIVERS],
    "domain": [f'"{domain}"' for domain in DOMAINS],
    "id": list(_IDS),
    "name": [f'"{name}"' for name in _IDS],
    "size": [f'"{size}"' for size in _SIZES],
    "value": [
        '"A100"', '"a"', "1", "4", "0", "true", "false", 'semver("1.2.3")', '"pci0000:00"', "2u", "1.0", "null",
        '["a", "b"]', "[]", "[1, 2]",
    ],
    "attribute": ["device.attributes[$domain].$id", "device.attributes[$domain][$name]"],
    "amount": ["device.capacity[$domain].memory", "device.capacity[$domain].cores",
        'device.capacity[$domain]["memory"]'],
    "selector": [
        "device.driver == $driver", "device.attributes[$domain].$id "
"== $value", "$attribute == $value", "$attribute != $value",
        "$attribute",
        "device.allowMultipleAllocations", "true", "device.driver.startsWith('gpu')",
    ],
}  # fmt: skip

_BRANCHES = {
    **BRANCHES,
    "dyn": [*BRANCHES["dyn"], *["$attribute"] * 8],
    "quantity": [*BRANCHES["quantity"], *["$amount"] * 2],
    "bool": [*BRANCHES["bool"], *["$selector"] * 10],
    "selector": [
        *_LEAVES["selector"],
        "$selector && $selector", "$selector || $selector", "($selector) && ($selector)", "!($selector)",
        "($selector ? $selector : $selector)",
        "device.driver == $driver && $selector", "has($attribute) && $selector",
        "has(device.attributes[$domain].$id) && device.attributes[$domain].$id == $value",
        "$name in device.attributes[$domain]", "$domain in device.attributes", "$name in device.capacity[$domain]",
        "device.attributes[$domain].?$id.orValue($value) "
"== $value", "device.attributes[$domain][?$name].orValue($value) "
"== $value",
        "device.attributes[?$domain].?$id.hasValue()", "device.attributes[$domain].?$id == optional.of($value)",
        "$attribute in [$value, $value]",
        "$attribute in ['a', 'A100']", "$attribute in [1, 4]", "$value in $attribute", "$attribute > $value",
        "$attribute <= $int", "$attribute.matches('^A[0-9]+$|b')",
        "$attribute.contains('A100')", "$attribute.startsWith('pci')", "$attribute.lowerAscii() == 'a100'",
        "$attribute.split('-')[0] == 'a'",
        "$attribute.isGreaterThan(semver('1.2.0'))", "$attribute.compareTo(semver('1.2.3')) >= 0",
        "$attribute == semver('1.2.3')", "semver('1.2.3') == $attribute", "$attribute.major() >= 1",
        "$attribute.isLessThan($semver)", "$attribute == $attribute", "$attribute != $attribute",
        "$attribute.exists(x, x == "
"$value)", "$attribute.all(x, x in ['a', "
"'b'])", "$attribute.includes($value)", "$attribute.size() > 1",
        "size($attribute) == 2",
        "$attribute[0] == $value", "$attribute.exists(x, «x $selector»)", "$amount.compareTo(quantity($size)) >= 0",
        "$amount.isGreaterThan(quantity($size))",
        "$amount == quantity($size)", "$amount >= quantity($size)", "$amount.asInteger() > 4", "$amount.isInteger()",
        "$amount.sub($amount).isLessThan(quantity($size))",
        "quantity($size).add($amount).asInteger() > 3",
        "device.capacity[$domain].?memory.orValue(quantity($size)).isLessThan(quantity('10Gi'))",
        "sign($amount) == 1", "$amount.asApproximateFloat() > 1.0",
        "cel.bind(dra, device.attributes[$domain], dra.$id == $value && dra.?$id.orValue($value) == $value)",
        "cel.bind(w, $attribute, «w w == $value || $selector»)",
        "device.attributes.exists(d, d "
"== $domain)", "device.attributes.all(d, m, m.all(k, v, k "
"!= $name || v == $value))",
        "device.attributes[$domain].exists(k, k == $name)",
        "device.attributes == device.attributes", "device.attributes[$domain] == {}", "device.attributes.size() == 1",
        "type($attribute) == $type", "string($attribute) == 'a'",
        "int($attribute) == 4", "$attribute.flatten() == []", "sets.contains($attribute, ['a'])",
        "sets.intersects($attribute, $attribute)", "$attribute + 1 == 5", "-$attribute == -4", "$attribute.a == 1",
        "$dyn == $value", "$dyn", "$bool", "optional.of($attribute)", "device", "dyn(device)",
        "device.attributes[$attribute].$id == $value", "device.$id", "device == device",
    ],
    "derived": [
        "$attribute", "$attribute", "[$attribute]", "[$attribute, $attribute]", "$attribute.map(x, «x $any»)",
        "$attribute.filter(x, «x $bool»)", "[$value, $value]", "dyn([$attribute, $value])", "$attribute + $attribute",
        "device.attributes[$domain].?$id.orValue($value)", "device.attributes[$domain].?$id",
        "dyn(optional.of($attribute))", "dyn(device.attributes[$domain].?$id)", "$amount.asInteger()", "$amount",
        "dyn($amount)", "string($attribute)", "($selector ? $attribute : "
"$value)", "device.driver", "device.allowMultipleAllocations", "$attribute.split('-')[0]",
        "$attribute.substring(0, 2)", "$attribute / 2", "int($attribute) % 2", "semver($attribute)",
        "[semver('1.0.0'), $semver]", "[$string, $string].sort()", "cel.bind(a, $attribute, "
"[a, a])", "$attribute.lowerAscii()", "dyn(device.attributes)",
        "dyn(device.attributes[$domain])", "device.attributes[$domain].map(k, k)", "dyn(type($attribute))",
        "dyn(device)", "dyn($any)", "[dyn($any)]", "$attribute.flatten()", "[[$attribute]]",
        "device.attributes[$domain].map(k, "
"v, v)", "$list", "$any",
    ],
}  # fmt: skip

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
