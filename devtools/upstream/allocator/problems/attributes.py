"""Attributes, and what looks at them: selectors, constraints, derived attributes."""

from __future__ import annotations

from devtools.upstream.allocator.problems.mix import DRIVERS, Json, Mix

PUBLISHED = ("kind", "numa", "a.example.com/numa", "common.io/root", "b.example.com/flag")
CONSTRAINED = {
    "a.example.com/numa": 5.0,
    "a.example.com/kind": 3.0,
    "common.io/root": 5.0,
    "b.example.com/flag": 1.0,
    "numa": 0.2,
    "a.example.com/x/y": 0.2,
}
_SELECTORS = {
    "true": 2.0,
    "false": 0.15,
    'device.driver == "a.example.com"': 2.0,
    'device.driver == "b.example.com"': 1.0,
    'device.driver != "c.example.com"': 2.0,
    'device.attributes["a.example.com"].?kind.orValue("x") == "x"': 3.0,
    'device.attributes["a.example.com"].?kind.orValue("") == "y"': 1.0,
    'device.attributes["a.example.com"].kind == "x"': 0.25,
    'device.attributes["common.io"].?root.orValue(0) != 1': 2.0,
    '"kind" in device.attributes["b.example.com"]': 0.5,
    '!has(device.attributes["b.example.com"].flag)': 0.5,
    'device.attributes["common.io"].?root.hasValue() && device.attributes["common.io"].root.includes(1)': 0.7,
    "!device.allowMultipleAllocations": 0.3,
    'device.capacity["a.example.com"].?mem.hasValue()': 0.5,
    'device.capacity[device.driver].?bw.orValue(quantity("1")).isLessThan(quantity("5"))': 0.5,
}
_BROKEN = (
    "1 +",
    "1",
    "device.attributes",
    "device.nothing",
    '"x"',
    "dyn(1)",
    'device.attributes["a.example.com"].absent == 1',
)
_A, _COMMON = 'device.attributes["a.example.com"]', 'device.attributes["common.io"]'
_DERIVED = {
    f"{_A}.?numa.orValue(0)": 3.0,
    f"{_COMMON}.?root.orValue(1)": 3.0,
    f"{_COMMON}.?root.orValue(7)": 1.0,
    "device.driver": 1.0,
    "1": 1.0,
    '"a"': 0.5,
    "true": 0.5,
    'semver("1.0.0")': 0.4,
    f'has({_COMMON}.root) ? "with" : "without"': 1.0,
    f"has({_A}.kind)": 1.0,
    f'string({_A}.?numa.orValue(0)) + "-" + device.driver': 0.5,
    "device.allowMultipleAllocations": 0.5,
    "[1, 2]": 0.4,
    "[0, 1].filter(x, x == 0)": 0.3,
    '["a", device.driver]': 0.4,
    "[1].filter(x, x > 1)": 0.2,
    f"{_A}.kind": 0.3,
    "1.5": 0.05,
    "device": 0.05,
    "1 +": 0.05,
    'device.capacity["a.example.com"].mem': 0.1,
    "dyn(1.5)": 0.05,
    "[dyn(1), dyn('a')]": 0.05,
    "[true, false]": 0.1,
    'device.attributes["nowhere"]': 0.05,
}


def published(mix: Mix) -> Json:
    """The attributes of a device."""
    lists = mix.has("list_attributes", 0.7, 0.05)
    attributes: Json = {}
    for name in PUBLISHED:
        if mix.chance(0.8):
            attributes[name] = _list(mix) if lists and mix.chance(0.6) else _value(mix)
    if "kind" in attributes and ("string" in attributes["kind"] or mix.chance(0.9)):
        attributes["kind"] = {"string": mix.choice("xxxy")}
    if "numa" in attributes and "a.example.com/numa" in attributes and mix.chance(0.97):
        del attributes["numa"]  # both forms in a selector: AC-17
    if mix.chance(0.003):
        attributes["odd"] = mix.choice(({}, {"version": "1"}, {"ints": []}, {"strings": []}))
    return attributes


def _value(mix: Mix) -> Json:
    kind = mix.pick({"int": 6, "string": 2, "bool": 0.5, "version": 0.5})
    if kind == "int":
        return {"int": mix.choice((0, 0, 1))}
    if kind == "string":
        return {"string": mix.choice("aab")}
    return {"bool": mix.chance(0.5)} if kind == "bool" else {"version": mix.choice(("1.0.0", "1.0.0", "1.0.0+build"))}


def _list(mix: Mix) -> Json:
    kind = mix.pick({"ints": 6, "strings": 2, "bools": 0.5, "versions": 0.5})
    values: dict[str, tuple[object, ...]] = {
        "ints": (0, 1, 2),
        "strings": ("a", "b", "c"),
        "bools": (True, False),
        "versions": ("1.0.0", "2.0.0"),
    }
    chosen = mix.some(values[kind], 3)
    return {kind: [*chosen, chosen[0]] if mix.chance(0.05) else chosen}


def selector(mix: Mix) -> Json:
    return {"cel": {"expression": mix.choice(_BROKEN) if mix.chance(0.01) else mix.pick(_SELECTORS)}}


def derived(mix: Mix, name: str) -> Json:
    return {"name": name, "expression": mix.pick(_DERIVED)}


def constraints(mix: Mix, names: list[str], derived_names: list[str]) -> list[Json]:
    """``names``: of requests and subrequests (``request/subrequest``). ``derived_names``: attributes that some request
    derives."""
    constraints_ = []
    for kind, concept in (("matchAttribute", "match_attribute"), ("distinctAttribute", "distinct_attribute")):
        for _ in range(mix.choice((1, 1, 2)) if mix.has(concept, 0.8, 0.1) else 0):
            use_derived = derived_names and mix.chance(0.7)
            constraint: Json = {kind: mix.choice(derived_names) if use_derived else mix.pick(CONSTRAINED)}
            if mix.chance(0.5):
                constraint["requests"] = mix.some(names, 3)
            elif mix.chance(0.05):
                constraint["requests"] = []
            if mix.chance(0.02):  # AC-5
                constraint["matchAttribute"], constraint["distinctAttribute"] = (
                    mix.pick(CONSTRAINED),
                    mix.pick(CONSTRAINED),
                )
            constraints_.append(constraint)
    mix.shuffle(constraints_)
    return constraints_


def taint(mix: Mix) -> Json:
    effect = mix.pick({"NoSchedule": 4.0, "NoExecute": 2.0, "None": 1.0, "Odd": 0.5})
    return {"key": mix.choice("kl"), "value": mix.choice("vw"), "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}


TOLERATIONS: tuple[Json, ...] = (
    {"operator": "Exists"},
    {"operator": "Exists"},
    {"key": "k", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "k", "operator": "Equal", "value": "v"},
    {"key": "l", "operator": "Equal", "value": "w", "effect": "NoExecute"},
    {"key": "k", "value": "v", "operator": ""},
    {"key": "k", "operator": "Odd"},
    {"key": "l", "operator": "Exists", "tolerationSeconds": 5},
)


def opaque(mix: Mix, value: str) -> Json:
    return {"opaque": {"driver": mix.choice(DRIVERS), "parameters": {"value": value}}}
