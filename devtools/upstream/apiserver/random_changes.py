"""Objects with every field, changed at random places: values of other fields, faults, repetitions, lists that are too
long, nulls."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from devtools.upstream.apiserver.scenarios import Json, family

WORDS = [
    "All", "ExactCount", "NoExecute", "NoSchedule", "None", "Equal", "Exists", "FromClaim", "FromClass", "*",
    "NodePrepareResources", "a.b/x", "a.b/y", "r", "f", "f/big", "1.2.3", "1.2", "10.0.0.1/24", "True", "x" * 65, "In",
    "metadata.name", "8b0a1a52-6a5b-4f0e-9e8f-3c5d0a1b2c3d", "é" * 33, "a\u2028b", "<>&",
]  # fmt: skip
FORMATS = (
    "claim/request-name",
    "claim/config-driver",
    "claim-status/pool",
    "metadata/finalizer",
    "claim/match-attribute",
    "claim/constraint-request",
)
"""Families whose values are good and bad texts of a format."""
TEXTS = [*(text for name in FORMATS for text in family(name).values()), *WORDS]
QUANTITIES = [
    "0", "1", "-1", "500m", "0.5", "1Gi", "1k", "1000", "1.5Gi", "1n", "9223372036854775807", "9223372036854775808",
    "1e3", "10E", "0.1Ki", "2", "3", "4", "80Gi", "100m", "250m",
]  # fmt: skip
NUMBERS = [-1, 0, 1, 2, 3, 32, 33, 2**31, 2**63 - 1, -(2**63)]
EXPRESSIONS = ["true", "1", 'device.driver == "x"', "", "x", '"a"']
AMOUNTS = {
    "value",
    "default",
    "min",
    "max",
    "step",
    "perPod",
    "perContainer",
    "capacityMultiplier",
    "deviceMultiplier",
    "m",
    "n",
    "a.b/m",
}
MAPS = {"attributes", "capacity", "counters", "nodeAllocatableResources", "consumedCapacity"}
LENGTHS = (5, 9, 17, 33, 65)

Path = tuple[str | int, ...]


def changed(obj: Json, field: str, rng: Random) -> Json:
    """A copy of which up to five places below ``field`` (spec or status) are others."""
    obj = copy.deepcopy(obj)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
        places = [path for path in _places(obj.get(field), (field,)) if len(path) > 1]
        if places:
            _change(obj, rng.choice(places), rng)
    return obj


def _places(value: Any, path: Path) -> Iterator[Path]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from _places(entry, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _change(obj: Json, path: Path, rng: Random) -> None:
    owner, key = _at(obj, path[:-1]), path[-1]
    value, choice = owner[key], rng.random()
    if choice < 0.2:
        owner.pop(key)
    elif not isinstance(value, dict | list):
        new = _other(value, key, rng)
        owner[key] = "" if new is None and isinstance(owner, list) else new
    elif choice < 0.35:
        owner[key] = type(value)()
    elif choice < 0.4 and isinstance(owner, dict):
        owner[key] = None
    elif isinstance(value, list) and value and choice < 0.6:
        value.append(copy.deepcopy(rng.choice(value)))
    elif isinstance(value, list) and value and choice < 0.7:
        value += [copy.deepcopy(value[0]) for _ in range(rng.choice(LENGTHS) - len(value))]
    elif key in MAPS and isinstance(value, dict) and value and isinstance(next(iter(value.values())), dict | str):
        name = rng.choice([*TEXTS, "cpu", "memory", "hugepages-2Mi", "m"])
        value[name] = copy.deepcopy(rng.choice(list(value.values())))
    else:
        alike = [other for other in _places(obj, ()) if other and other[-1] == key and other != path]
        if alike:
            owner[key] = copy.deepcopy(_at(obj, rng.choice(alike)))


def _other(value: object, key: str | int, rng: Random) -> object:
    if rng.random() < 0.05:
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(NUMBERS)
    if key in AMOUNTS:
        return rng.choice(QUANTITIES)
    return rng.choice(EXPRESSIONS if key == "expression" else TEXTS)
