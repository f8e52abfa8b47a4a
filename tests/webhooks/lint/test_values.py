"""A selector that matches nothing: which value the devices have, and which one it wants."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from tests.webhooks.lint.test_cases import COMMON
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.reading.scheme import read_object
from webhooks.lint import LintInputs, LintSettings, Preflight, lint

VMI = VirtualMachineInstance.from_wire(COMMON["vmi"])
MODEL = 'device.attributes["gpu.example.com"].model'


def _message(expression: str, *attributes: dict[str, Any], admission: bool = False) -> str:
    resource_slice, template = copy.deepcopy(COMMON["slice"]), copy.deepcopy(COMMON["template"])
    address = {"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}
    resource_slice["spec"]["devices"] = [
        {"name": f"gpu-{n}", "attributes": {**attribute, **address}} for n, attribute in enumerate(attributes)
    ]
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    world = LintInputs.from_objects([read_object(obj) for obj in (resource_slice, template, COMMON["class"])])
    if admission:
        (warning,) = Preflight(world, LintSettings.for_admission()).preflight(VMI).warnings
        return warning
    (finding,) = lint(VMI, world)
    assert finding.id == "no-matching-device"
    return finding.message


def _model(name: str) -> dict[str, Any]:
    return {"model": {"string": name}}


T4, A2 = _model("T4"), _model("A2")


@pytest.mark.parametrize(
    ("expression", "devices", "part"),
    [
        (
            f'{MODEL} == "A100"',
            [T4] * 12,
            'matches none of the 12 devices: model is "T4" on all 12 devices; the selector wants "A100". ',
        ),
        (
            f'"A100" == {MODEL} && device.driver == "gpu.example.com"',
            [T4] * 2,
            ': model is "T4" on all 2 devices; the selector wants "A100". ',
        ),
        (f'{MODEL} == "A100"', [T4, A2], ': model is "T4" or "A2" on the 2 devices; the selector wants "A100". '),
        (
            f'{MODEL} == "A100"',
            [_model(name) for name in "abcd"],
            ': model is "a" or "b" or "c" or … on the 4 devices; the selector wants "A100". ',
        ),
        (
            f'has({MODEL}) && {MODEL} == "A100"',
            [T4, {}],
            ': model is "T4" on one device, and missing on 1; the selector wants "A100". ',
        ),
        (
            f'has({MODEL}) && {MODEL} == "A100"',
            [{}],
            ': no device has gpu.example.com/model, which the selector wants to be "A100". ',
        ),
        (
            f'{MODEL} == "T4" && device.attributes["gpu.example.com"].mig == true',
            [{**T4, "mig": {"bool": False}}] * 3,
            ": mig is false on all 3 devices; the selector wants true. ",
        ),
        (
            f'{MODEL} == "T4" && device.attributes["gpu.example.com"].gen == 5',
            [{**T4, "gen": {"int": 4}}] * 3,
            ": gen is 4 on all 3 devices; the selector wants 5. ",
        ),
        (
            f'{MODEL} == "T4" && device.attributes["gpu.example.com"].gen == 5',
            [{**T4, "gen": {"int": 4}}, {**A2, "gen": {"int": 5}}],
            "; nearest: ",
        ),
        (f'{MODEL} == "A100" || {MODEL} == "H100"', [T4] * 2, "; nearest: "),
    ],
)
def test_values_are_told(expression: str, devices: list[dict[str, Any]], part: str) -> None:
    assert part in _message(expression, *devices)


def test_at_admission_no_values_are_told() -> None:
    assert "T4" not in _message(f'{MODEL} == "A100"', T4, admission=True)


@pytest.mark.slow
def test_very_many_devices_cost_little() -> None:
    devices = [_model(f"m{n % 1000}") for n in range(20_000)]
    began = time.process_time()
    assert "on the 10000 devices" in _message(f'{MODEL} == "A100"', *devices)
    assert time.process_time() - began < 10, "seconds of the processor"
