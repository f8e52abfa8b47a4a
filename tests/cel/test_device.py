"""How a device becomes a value, and what a selector is."""

from __future__ import annotations

import pytest

from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import Device
from virt_dra.api.semver import SemVer
from virt_dra.cel import CompileError, EvaluationError, compile_selector, device_input

DRIVER = "gpu.example.com"


def device(attributes: dict[str, object], capacity: dict[str, object] | None = None, **fields: object) -> Device:
    return Device.from_wire({"name": "gpu-0", "attributes": attributes, "capacity": capacity or {}, **fields})


def test_names_are_split_into_domain_and_identifier_and_values_converted() -> None:
    converted = device_input(
        DRIVER,
        device(
            {
                "count": {"int": 4},
                "healthy": {"bool": True},
                "model": {"string": "A100"},
                "version": {"version": "1.2.3"},
                "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
                "a/b/c": {"string": "the first slash splits"},
                "ints": {"ints": [1, 2]},
                "versions": {"versions": ["1.0.0"]},
            },
            {"memory": {"value": "16Gi"}, "other.example.com/lanes": {"value": "4"}},
            allowMultipleAllocations=True,
        ),
    )
    assert converted["driver"] == DRIVER
    assert converted["allowMultipleAllocations"] is True
    assert converted["attributes"] == {
        DRIVER: {
            "count": 4,
            "healthy": True,
            "ints": [1, 2],
            "model": "A100",
            "version": SemVer.parse("1.2.3"),
            "versions": [SemVer.parse("1.0.0")],
        },
        "a": {"b/c": "the first slash splits"},
        "resource.kubernetes.io": {"pcieRoot": "pci0000:00"},
    }
    assert converted["capacity"] == {
        DRIVER: {"memory": Quantity("16Gi")},
        "other.example.com": {"lanes": Quantity("4")},
    }


def test_a_list_wins_over_a_scalar_and_an_empty_list_counts_as_set() -> None:
    converted = device_input(
        DRIVER,
        device({"x": {"int": 1, "ints": []}, "y": {"string": "s", "int": 2}, "z": {"bools": [True], "string": "s"}}),
    )
    assert converted["attributes"] == {DRIVER: {"x": [], "y": 2, "z": [True]}}


@pytest.mark.parametrize("order", [("x", f"{DRIVER}/x"), (f"{DRIVER}/x", "x")])
def test_the_qualified_form_of_a_name_wins_over_the_bare_one(order: tuple[str, str]) -> None:
    values = {"x": 1, f"{DRIVER}/x": 2}
    sizes = {"x": "1", f"{DRIVER}/x": "2"}
    converted = device_input(
        DRIVER,
        device({name: {"int": values[name]} for name in order}, {name: {"value": sizes[name]} for name in order}),
    )
    assert converted["attributes"] == {DRIVER: {"x": 2}}
    assert converted["capacity"] == {DRIVER: {"x": Quantity("2")}}


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({}, "attribute bad: unsupported attribute value"),
        ({"version": "1.2"}, "attribute bad: parse semantic version: No Major.Minor.Patch elements found"),
        ({"versions": ["1.0.0", ""]}, "attribute bad: parse semantic version: Version string empty"),
    ],
)
def test_one_inconvertible_attribute_fails_the_whole_device(attribute: dict[str, object], message: str) -> None:
    with pytest.raises(EvaluationError) as failure:
        device_input(DRIVER, device({"good": {"int": 1}, "bad": attribute}))
    assert str(failure.value) == message


def test_a_missing_key_gains_advice_and_the_guards_work() -> None:
    converted = device_input(DRIVER, device({"model": {"string": "A100"}}))
    with pytest.raises(EvaluationError) as failure:
        compile_selector(f'device.attributes["{DRIVER}"].memory == "x"').matches(converted)
    assert str(failure.value) == (
        "no such key: memory. consider using CEL optional chaining (.? followed by orValue()) "
        "or guarding the check with has() for optional fields"
    )
    for guarded in (
        f'has(device.attributes["{DRIVER}"].memory) && device.attributes["{DRIVER}"].memory == "x"',
        f'device.attributes["{DRIVER}"].?memory.orValue("") == "x"',
        f'device.attributes["{DRIVER}"][?"memory"].orValue("") == "x"',
        'device.attributes["unknown"].?memory.hasValue()',
    ):
        assert compile_selector(guarded).matches(converted) is False


def test_allow_multiple_allocations_is_false_when_absent() -> None:
    assert compile_selector("device.allowMultipleAllocations").matches(device_input(DRIVER, device({}))) is False


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("1", "int"),
        ('"a"', "string"),
        ("device", "kubernetes.DRADevice"),
        ("device.capacity", "map(string, map(string, kubernetes.Quantity))"),
    ],
)
def test_a_result_that_can_be_no_bool_is_refused(expression: str, kind: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_selector(expression)
    assert str(refusal.value) == f"must evaluate to bool or the unknown type, not {kind}"


def test_selectors_are_cached_and_remember_their_text() -> None:
    expression = 'device.driver == "cached.example.com"'
    assert compile_selector(expression) is compile_selector(expression)
    assert compile_selector(expression).expression == expression


def test_every_issue_is_reported_with_its_place() -> None:
    with pytest.raises(CompileError) as refusal:
        compile_selector("device.drivr == x &&\n\tdevice.driver == 1")
    assert str(refusal.value) == (
        "compilation failed: ERROR: <input>:1:7: undefined field 'drivr'\n"
        " | device.drivr == x &&\n"
        " | ......^\n"
        "ERROR: <input>:1:17: undeclared reference to 'x' (in container '')\n"
        " | device.drivr == x &&\n"
        " | ................^\n"
        "ERROR: <input>:2:16: found no matching overload for '_==_' applied to '(string, int)'\n"
        " |  device.driver == 1\n"
        " | ...............^"
    )
    assert [issue.offset for issue in refusal.value.issues] == [6, 16, 36]
