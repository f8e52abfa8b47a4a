"""Extended resources and the classes that stand for them (A-25.1, AC-19)."""

from __future__ import annotations

from itertools import permutations

import pytest

from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.scheduling.extended_resources import classes_by_resource

X, Y = "example.com/x", "example.com/y"


def _class(name: str, resource: str | None, born: str | None) -> DeviceClass:
    spec = {} if resource is None else {"extendedResourceName": resource}
    metadata = {"name": name} | ({} if born is None else {"creationTimestamp": f"2026-01-0{born}T00:00:00Z"})
    return DeviceClass.from_wire({"metadata": metadata, "spec": spec})


A, B = _class("a", X, "1"), _class("b", X, "2")
IMPLICIT_A, IMPLICIT_B = "deviceclass.resource.kubernetes.io/a", "deviceclass.resource.kubernetes.io/b"


@pytest.mark.parametrize(
    ("classes", "wanted"),
    [
        ([], {}),
        ([_class("a", None, "1")], {IMPLICIT_A: "a"}),
        ([A, B], {X: "b", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
        ([A], {X: "a", IMPLICIT_A: "a"}),
        ([_class("a", Y, "1"), B], {X: "b", Y: "a", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
        ([_class("b", X, "1"), A], {X: "a", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
        ([_class("a", X, None), _class("b", X, "2")], {X: "b", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
    ],
)
def test_the_youngest_class_that_names_a_resource_serves_it_in_any_order(classes: list[DeviceClass], wanted: dict[str, str]) -> None:
    for order in permutations(classes):
        assert {name: each.name for name, each in classes_by_resource(order).items()} == wanted
