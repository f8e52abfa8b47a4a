"""An object of a file that an API server would refuse doesn't exist, whichever command reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_same_unknown import DEVICES, RUNNING, SIZED, VM
from virt_dra.cli.main import cli

Json = dict[str, Any]
CLASS, TEMPLATE, SLICE = map(dict[str, Any], DEVICES)


def _slice(**spec: Any) -> Json:
    return {**SLICE, "spec": {**SLICE["spec"], **spec}}


REFUSED: Final[dict[str, tuple[Json, str]]] = {
    "a slice with an attribute of two types": (
        _slice(devices=[{"name": "gpu-0", "attributes": {"a": {"int": 1, "bool": True}}}]),
        "ResourceSlice slice: spec.devices[0].attributes[a]: ",
    ),
    "a slice of a negative generation": (
        _slice(pool={"name": "n1", "generation": -1, "resourceSliceCount": 1}),
        "ResourceSlice slice: spec.pool.generation: ",
    ),
    "a slice whose name breaks the line": (
        {**SLICE, "metadata": {"name": "slice\nVMI default/vm fits"}},
        "ResourceSlice slice\\nVMI default/vm fits: metadata.name: ",
    ),
    "a class with a selector that is no CEL": (
        {**CLASS, "spec": {"selectors": [{"cel": {"expression": "device.driver =="}}]}},
        "DeviceClass gpu: spec.selectors[0].cel.expression: ",
    ),
}  # fmt: skip
COMMANDS: Final = {
    "run": ("run", "FILE"),
    "explain": ("explain", "vmi", "vm", "-f", "FILE"),
    "explain all": ("explain", "-f", "FILE"),
    "diff": ("diff", "BEFORE", "FILE"),
    "topology": ("topology", "--vmi", "default/vm", "-f", "FILE"),
    "report": ("report", "-f", "FILE", "--out", "PAGE"),
    "simulate": ("simulate", "FILE", "--what-if", "cordon n1"),
}


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    """Asks a command about the objects, beside a file with sound ones."""

    def ask(command: tuple[str, ...], *objects: Json) -> Result:
        files = {"FILE": objects, "BEFORE": (*DEVICES, SIZED, RUNNING, VM)}
        names = {"PAGE": str(tmp_path / "page.html")}
        for name, items in files.items():
            path = tmp_path / f"{name.lower()}.json"
            path.write_text("\n".join(map(json.dumps, items)))
            names[name] = str(path)
        result = CliRunner().invoke(cli, [names.get(word, word) for word in command])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return ask


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_what_an_api_server_would_refuse(command: str, case: str, asked: Any) -> None:
    refused, said = REFUSED[case]
    objects = [refused if sound["kind"] == refused["kind"] else sound for sound in DEVICES]
    result = asked(COMMANDS[command], *objects, SIZED, RUNNING, VM)
    lines = [line for line in result.output.splitlines() if line.startswith("refused by the API server: ")]
    assert [line.partition(": ")[2].partition(": ")[2].startswith(said) for line in lines] == [True]


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("command", ["run", "explain", "explain all", "diff"])
def test_no_vm_starts_with_what_an_api_server_would_refuse(command: str, case: str, asked: Any) -> None:
    refused, _ = REFUSED[case]
    objects = [refused if sound["kind"] == refused["kind"] else sound for sound in DEVICES]
    assert asked(COMMANDS[command], *objects, SIZED, RUNNING, VM).exit_code == 1


def test_an_object_with_a_uid_was_accepted_by_its_api_server(asked: Any) -> None:
    """An API server of another release has other rules."""
    refused, _ = REFUSED["a slice of a negative generation"]
    stored = {**refused, "metadata": {"name": "slice", "uid": "6b705eed-004c-43b4-9d81-902ee0a80cad"}}
    result = asked(COMMANDS["explain"], CLASS, TEMPLATE, stored, SIZED, RUNNING, VM)
    assert (result.exit_code, result.stderr) == (0, "")
