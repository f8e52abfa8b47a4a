"""What is published is numbered: equal numbers mean equal values, whoever asks, under whatever features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from devtools.allocator import build
from virt_dra.allocator import DEFAULT, Allocated, allocate
from virt_dra.allocator.published import PublishedValues
from virt_dra.api.resource_v1 import Device

Json = dict[str, Any]


def _device(**attributes: Json) -> Device:
    return Device.from_wire({"name": "d", "attributes": attributes})


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"int": 1}, {"int": 1}, True),
        ({"int": 1}, {"bool": True}, False),
        ({"string": "1.0.0"}, {"version": "1.0.0"}, False),
        ({"string": "a"}, {"string": "b"}, False),
        ({"string": "a"}, {"strings": ["a"]}, False),
        ({"strings": ["a", "b"]}, {"strings": ["a", "b"]}, True),
        ({"strings": ["a", "b"]}, {"strings": ["b", "a"]}, False),
    ],
)
def test_equal_numbers_mean_equal_values_of_equal_types(one: Json, other: Json, equal: bool) -> None:
    facts = PublishedValues().facts("d", _device(a=one, b=other), "")
    first, second = facts.numbers
    assert facts.columns == {"a": 0, "b": 1}
    assert (first == second) is equal


def test_what_is_compared_are_the_elements_of_lists_where_lists_count() -> None:
    numbers = PublishedValues()
    device = _device(
        one={"string": "a"}, many={"strings": ["b", "a"]}, lone={"strings": ["a"]}, other={"int": 1}, none={}
    )
    numbered = dict(zip(device.attributes, numbers.facts("d", device, "").numbers, strict=True))
    kind, (a,) = numbers.elements(numbered["one"], lists=True) or pytest.fail("nothing is compared of a string")
    assert kind == "string"
    assert numbers.elements(numbered["lone"], lists=True) == ("string", (a,))
    many = numbers.elements(numbered["many"], lists=True)
    assert many is not None
    assert (many[0], len(many[1]), many[1][1]) == ("string", 2, a)
    assert [numbers.elements(numbered[name], lists=False) for name in ("many", "lone", "none")] == [None, None, None]
    assert numbers.elements(0, lists=True) is None
    other = numbers.elements(numbered["other"], lists=True)
    assert other is not None
    assert other[0] == "int"


def test_one_snapshot_answers_for_every_feature_set_as_a_new_one_does() -> None:
    """With compatibility groups off, slices that name some aren't looked at: other devices, of other values, come
    first."""
    charge: Json = {"takes": {"board": {"power": 1}}, "groups": {"board": ["g"]}}
    given: Json = {
        "slices": [
            {"pool": "0", "node": "n", "count": 2, "name": "0-0", "counters": {"board": {"power": 2}}},
            {
                "pool": "0",
                "node": "n",
                "count": 2,
                "name": "0-1",
                "devices": [_model(name, "b") | charge for name in ("x", "y", "z")],
            },
            {
                "pool": "1",
                "node": "n",
                "devices": [_model("d0", "c"), _model("d1", "a"), _model("d2", "b"), _model("d3", "a")],
            },
        ],
        "classes": [{"name": "gpu", "when": [f'device.attributes["{build.DRIVER}"].model != "c"']}],
    }
    wanted = {
        "name": "c",
        "requests": [{"name": "r", "class": "gpu", "count": 2}],
        "constraints": [{"match": f"{build.DRIVER}/model"}],
    }
    claims, node = [build.claim(wanted)], build.node("n")
    shared = build.snapshot(given)
    chosen = []
    for features in (replace(DEFAULT, compatibility_groups=True), DEFAULT, replace(DEFAULT, list_type_attributes=True)):
        answer = allocate(shared, claims, node, features)
        assert answer == allocate(build.snapshot(given), claims, node, features)
        assert isinstance(answer, Allocated)
        chosen.append([(result.pool, result.device) for result in answer.results[0].devices.results])
    assert chosen == [[("0", "x"), ("0", "y")], [("1", "d1"), ("1", "d3")], [("1", "d1"), ("1", "d3")]]


def _model(name: str, model: str) -> Json:
    return {"name": name, "attributes": {"model": model}}
