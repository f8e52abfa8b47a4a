"""``virt-dra cel`` for people: which devices match, why one failed, and what becomes of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.main import cli

DRIVER = "gpu.example.com"


def _slice(name: str, devices: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 2, "resourceSliceCount": 1},
            "devices": devices,
            **spec,
        },
    }


def _device(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "attributes": attributes}


SLICES = [
    _slice(
        "a",
        [
            _device("gpu-0", model={"string": "A100"}, numa={"int": 3}),
            _device("gpu-1", model={"string": "H100"}, numa={"int": 4}),
        ],
    ),
    _slice(
        "b",
        [{**_device("gpu-2", numa={"int": 5}), "nodeName": "node-2"}],
        nodeName=None,
        perDeviceNodeSelection=True,
        pool={"name": "cards", "generation": 1, "resourceSliceCount": 1},
    ),
    _slice(
        "old",
        [_device("gpu-9", model={"string": "A100"})],
        pool={"name": "node-1", "generation": 1, "resourceSliceCount": 1},
    ),
]


@pytest.fixture
def slices(tmp_path: Path) -> str:
    path = tmp_path / "slices.yaml"
    path.write_text(yaml.safe_dump_all(SLICES), encoding="utf-8")
    return str(path)


def _run(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["cel", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def test_each_device_is_told_with_why_it_failed(slices: str) -> None:
    result = _run(f'device.attributes["{DRIVER}"].model == "A100"', "-f", slices)
    assert result.output.splitlines() == [
        "gpu.example.com/node-1/gpu-0 on node node-1: matches",
        "gpu.example.com/node-1/gpu-1 on node node-1: does not match",
        "gpu.example.com/cards/gpu-2 on node node-2: error: no such key: model. "
        "consider using CEL optional chaining (.? followed by "
        "orValue()) or guarding the check with has() for optional fields",
        "left out: slice old, whose pool has a newer generation",
        "1 of 3 devices match, 1 failed; cost up to 5 of an estimated 5",
    ]
    assert result.exit_code == 1


def test_the_exit_code_says_whether_a_device_matches(slices: str) -> None:
    assert _run("true", "-f", slices).exit_code == 0
    assert _run("false", "-f", slices).exit_code == 1


def test_a_derived_attribute_is_shown_for_each_device(slices: str) -> None:
    result = _run("--derived", f'device.attributes["{DRIVER}"].numa / 2', "-f", slices)
    assert result.output.splitlines() == [
        'gpu.example.com/node-1/gpu-0 on node node-1: {"int": 1}',
        'gpu.example.com/node-1/gpu-1 on node node-1: {"int": 2}',
        'gpu.example.com/cards/gpu-2 on node node-2: {"int": 2}',
        "left out: slice old, whose pool has a newer generation",
        "3 devices evaluated; cost up to 5 of an estimated 5",
    ]
    assert result.exit_code == 0


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_same_as_a_document(slices: str, output: str, read: Any) -> None:
    result = _run('device.attributes["gpu.example.com"].numa > 3', "-f", slices, "-o", output)
    assert read(result.output) == {
        "apiVersion": "output.virt-dra.io/v1",
        "kind": "SelectorReport",
        "expression": 'device.attributes["gpu.example.com"].numa > 3',
        "costEstimate": 5,
        "devices": [
            {"device": "gpu.example.com/node-1/gpu-0", "node": "node-1", "matches": False, "cost": 5},
            {"device": "gpu.example.com/node-1/gpu-1", "node": "node-1", "matches": True, "cost": 5},
            {"device": "gpu.example.com/cards/gpu-2", "node": "node-2", "matches": True, "cost": 5},
        ],
        "outdatedSlices": ["old"],
    }


def test_a_refused_expression_shows_where() -> None:
    result = _run('device.driver == "a" && device.atributes["d"].x')
    assert result.stderr.splitlines() == [
        "error: compilation failed: ERROR: <input>:1:31: undefined field 'atributes'",
        ' | device.driver == "a" && device.atributes["d"].x',
        " | ..............................^",
    ]
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_refused_expression_in_a_document() -> None:
    result = _run("1", "-o", "json")
    why = "must evaluate to bool or the unknown type, not int"
    assert json.loads(result.output) == output_document("Error", {"error": why, "problems": [why]})
    assert result.exit_code == 2


def test_new_text_is_compiled_by_the_gates_and_held_against_the_cost_limit(slices: str) -> None:
    shared = "device.allowMultipleAllocations"
    assert _run(shared).output == "compiles; estimated cost 2\n"
    assert _run("--new", shared).exit_code == 0
    refused = _run("--new", "--feature-gates", "DRAConsumableCapacity=false", shared)
    assert (refused.exit_code, "undefined field 'allowMultipleAllocations'" in refused.output) == (2, True)
    heavy = "lists.range(1000).all(x, lists.range(1000).all(y, x < y))"
    assert _run(heavy).exit_code == 0
    costly = _run("--new", heavy)
    assert costly.stderr.startswith("error: too complex: the estimated cost ")
    assert costly.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name an expression, e.g. virt-dra cel"),
        (("--feature-gates", "DRAConsumableCapacity=false", "true"), "--feature-gates goes with --new"),
        (
            ("--new", "--feature-gates", "Other=true", "true"),
            "unrecognized feature gate: Other; known are DRAAdminAccess, ",
        ),
        (
            ("--new", "--feature-gates", "DRAListAttributes=1", "true"),
            "DRAListAttributes; did you mean DRAListTypeAttributes or",
        ),
        (
            ("--new", "--feature-gates", "DRAListTypeAttributes=on", "true"),
            "DRAListTypeAttributes=on: write true or false",
        ),
        (("--jsonl", "--new"), "--jsonl goes with a file of requests only"),
        (("--jsonl", "no-such-file"), "no-such-file"),
        (("true", "-f", "no-such-file"), "no-such-file"),
        (("a\udc80",), "the expression is not UTF-8"),
    ],
)
def test_bad_usage_says_what_to_do(arguments: tuple[str, ...], told: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert told in result.output


def test_files_without_slices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", encoding="utf-8")
    result = _run("true", "-f", str(path))
    assert result.output == f"error: {path}: no ResourceSlice found; name the file that has one\n"
    assert result.exit_code == 2


def test_slices_come_from_standard_input_too() -> None:
    result = _run("true", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": SLICES}))
    assert result.output.splitlines()[-1] == "3 of 3 devices match; cost up to 0 of an estimated 0"
