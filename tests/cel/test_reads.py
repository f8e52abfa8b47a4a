"""The parts of a device that an expression reads, and that its value depends on nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from devtools.upstream.cel.selectors import selector
from virt_dra.api.resource_v1 import Device
from virt_dra.cel import CompiledSelector, CompileError, EvaluationError, compile_selector, convertible, device_input
from virt_dra.cel.reads import NOTHING, Reads, together

GPU = "gpu.example.com"


def _attributes(*names: str) -> Reads:
    return NOTHING._replace(attributes=frozenset((GPU, name) for name in names))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("true", NOTHING),
        (f'device.driver == "{GPU}"', NOTHING._replace(driver=True)),
        ("device.allowMultipleAllocations", NOTHING._replace(allow_multiple_allocations=True)),
        (f'device.attributes["{GPU}"].model == "A"', _attributes("model")),
        (f'device.attributes["{GPU}"]["model"] == device.attributes["{GPU}"].name', _attributes("model", "name")),
        (f'device.attributes["{GPU}"].?model.orValue("") == "A"', _attributes("model")),
        (f'device.attributes["{GPU}"][?"model"].orValue("") == "A"', _attributes("model")),
        (f'has(device.attributes["{GPU}"].model)', _attributes("model")),
        (f'"model" in device.attributes["{GPU}"]', _attributes("model")),
        ("device.attributes.nic.mac == ''", NOTHING._replace(attributes=frozenset({("nic", "mac")}))),
        (
            f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("1"))',
            NOTHING._replace(capacity=frozenset({(GPU, "memory")})),
        ),
        (f'["a", "b"].exists(x, x == device.attributes["{GPU}"].model)', _attributes("model")),
        # Where the text doesn't tell: a map gone through, a computed name, a domain's presence, the whole device.
        (f'device.attributes["{GPU}"].exists(name, name == "model")', None),
        (f'device.attributes["{GPU}"].size() > 1', None),
        ('device.attributes["a" + "b"].model == "A"', None),
        (f'"{GPU}" in device.attributes', None),
        (f'has(device.attributes["{GPU}"].model) && size(device.capacity) == 1', None),
        ("dyn(device) == dyn(device)", None),
        (f'cel.bind(gpu, device.attributes["{GPU}"], gpu.model == "A")', None),
        (f'device.attributes[?"{GPU}"].hasValue()', None),
        ('["x"].exists(device, device == "x")', NOTHING),
    ],
)
def test_what_an_expression_looks_at_is_told_by_its_text_or_not_at_all(expression: str, wanted: Reads | None) -> None:
    assert compile_selector(expression).reads == wanted


def test_together_is_all_that_any_of_them_looks_at_and_unknown_if_one_is() -> None:
    driver = NOTHING._replace(driver=True)
    assert together([driver, _attributes("a"), _attributes("b")]) == Reads(
        True, False, frozenset({(GPU, "a"), (GPU, "b")}), frozenset()
    )
    assert together([driver, None]) is None
    assert together([]) == NOTHING


@pytest.mark.slow
def test_nothing_but_what_is_read_decides_the_answer() -> None:
    source = random.Random(20)
    judged = 0
    for _ in range(1500):
        question = selector(source)
        try:
            made = compile_selector(question["expression"])
        except CompileError:
            continue
        reads = made.reads
        driver, wire = (
            question["device"]["driver"],
            {key: value for key, value in question["device"].items() if key != "driver"},
        )
        device = Device.from_wire(wire)
        if reads is None or not all(map(convertible, device.attributes.values())):
            continue
        other = _changed_elsewhere(driver, wire, reads)
        assert _said(made, driver, device) == _said(made, driver, Device.from_wire(other)), (
            question["expression"],
            wire,
            other,
        )
        judged += other != wire
    assert judged > 250


def _changed_elsewhere(driver: str, wire: dict[str, Any], reads: Reads) -> dict[str, Any]:
    """Without what isn't read, and with something else that isn't."""

    def kept(names: dict[str, Any], read: frozenset[tuple[str, str]]) -> dict[str, Any]:
        split = {name: tuple(name.split("/", 1)) if "/" in name else (driver, name) for name in names}
        return {name: value for name, value in names.items() if split[name] in read}

    changed = {
        **wire,
        "attributes": kept(wire["attributes"], reads.attributes),
        "capacity": kept(wire["capacity"], reads.capacity),
    }
    if not reads.allow_multiple_allocations:
        changed["allowMultipleAllocations"] = not wire.get("allowMultipleAllocations")
    changed["attributes"]["unheard.example.com/of"] = {"int": 1}
    return changed


def _said(made: CompiledSelector, driver: str, device: Device) -> object:
    try:
        return made.matches(device_input(driver, device))
    except EvaluationError as error:
        return error.message
