"""Extended resources and the classes that stand for them, change by change (C-7.1, C-20.4, A-25.1)."""

from __future__ import annotations

import pytest

from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.model.extended_resources import ServedResources, is_extended

X, Y = "example.com/x", "example.com/y"


def _class(name: str, resource: str | None, born: str | None) -> DeviceClass:
    spec = {} if resource is None else {"extendedResourceName": resource}
    metadata = {"name": name} | ({} if born is None else {"creationTimestamp": f"2026-01-0{born}T00:00:00Z"})
    return DeviceClass.from_wire({"metadata": metadata, "spec": spec})


A, B, C = _class("a", X, "1"), _class("b", X, "2"), _class("c", X, "1")
IMPLICIT_A, IMPLICIT_B, IMPLICIT_C = (f"deviceclass.resource.kubernetes.io/{name}" for name in "abc")
Change = tuple[DeviceClass | None, DeviceClass | None]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ([], {}),
        ([(None, _class("a", None, "1"))], {IMPLICIT_A: "a"}),
        ([(None, A)], {X: "a", IMPLICIT_A: "a"}),
        # The younger one wins; the older one keeps its implicit name only if it was there before.
        ([(None, A), (None, B)], {X: "b", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
        ([(None, B), (None, A)], {X: "b", IMPLICIT_B: "b"}),
        # Equally old: the first by name.
        ([(None, A), (None, C)], {X: "a", IMPLICIT_A: "a"}),
        ([(None, C), (None, A)], {X: "a", IMPLICIT_A: "a", IMPLICIT_C: "c"}),
        ([(None, _class("a", X, None)), (None, B)], {X: "b", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
        # Deleting either takes the name from both, until the other one changes.
        ([(None, A), (None, B), (B, None)], {IMPLICIT_A: "a"}),
        ([(None, A), (None, B), (A, None)], {IMPLICIT_B: "b"}),
        ([(None, A), (None, B), (B, None), (A, A)], {X: "a", IMPLICIT_A: "a"}),
        # Another name.
        ([(None, A), (A, _class("a", Y, "1"))], {Y: "a", IMPLICIT_A: "a"}),
        ([(None, A), (A, _class("a", None, "1"))], {IMPLICIT_A: "a"}),
        ([(None, A), (None, B), (B, _class("b", Y, "2"))], {Y: "b", IMPLICIT_A: "a", IMPLICIT_B: "b"}),
    ],
)
def test_which_class_serves_a_resource_depends_on_the_changes_in_their_order(
    changes: list[Change], wanted: dict[str, str]
) -> None:
    """C-7.1, C-20.4: as kube-scheduler's cache of classes."""
    served = ServedResources()
    for old, new in changes:
        served.changed(old, new)
    classes = {name: served.class_of(name) for name in (X, Y, IMPLICIT_A, IMPLICIT_B, IMPLICIT_C)}
    assert {name: class_.name for name, class_ in classes.items() if class_ is not None} == wanted


def test_an_update_of_the_class_that_has_the_name_is_not_taken_over() -> None:
    """C-7.1: the class is known as it was when it took the name."""
    served = ServedResources()
    served.changed(None, A)
    served.changed(
        A, DeviceClass.from_wire(A.to_wire() | {"metadata": {**A.metadata.to_wire(), "labels": {"new": "1"}}})
    )
    kept = served.class_of(X)
    assert kept is not None
    assert kept.metadata.labels == {}


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        (X, True),
        (IMPLICIT_A, True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/x", False),
        ("requests.example.com/x", False),
    ],
)
def test_names_of_extended_resources_have_a_domain_of_somebody_else_or_name_a_class(name: str, extended: bool) -> None:
    """C-7.1"""
    assert is_extended(name) == extended
