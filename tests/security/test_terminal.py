"""Nothing that stands in objects, requests or paths reaches a terminal as more than text: no escape sequence, no
override, no markup."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from rich.tree import Tree

from virt_dra.api.integration.check_findings import CheckFinding
from virt_dra.api.reading.documents import read_documents
from virt_dra.cli.main import cli
from virt_dra.cli.shared.check_report import report
from virt_dra.cli.shared.console import output_console

ROOT = Path(__file__).parent.parent.parent
HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9b1m\r\x08\u202egnp\u2066\u200b\x7f\x00[bold]x[/bold][/]:smile:\u2028"
SHOWN = "[bold]x[/bold][/]:smile:"
"""The part of it that is harmless as it stands."""
KEPT = ("apiVersion", "kind")
Path_ = tuple[str | int, ...]


def _objects(example: str) -> list[Any]:
    files = sorted((ROOT / "examples" / example).rglob("*.yaml"))
    return [document.raw for file in files for document in read_documents(file.read_bytes(), str(file))]


def _leaves(value: object, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    elif isinstance(value, str) and path[-1] not in KEPT:
        yield path


def _spoilt(objects: list[Any], path: Path_) -> None:
    holder: Any = objects
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] += HOSTILE


def _run(*arguments: str, stdin: list[Any]) -> Result:
    text = "\n".join(json.dumps(obj) for obj in stdin)
    result = CliRunner().invoke(cli, arguments, input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _is_text(output: str) -> None:
    wrong = {char for char in output if not char.isprintable() and char not in "\n\t"}
    assert not wrong, (wrong, output)


COMMANDS = [
    *(("run", "-"), ("run", "-", "-o", "json"), ("run", "-", "-o", "yaml"), ("lint", "-f", "-"),
        ("lint", "-f", "-", "-o", "json")),
    *(("allocate", "-f", "-"), ("allocate", "-f", "-", "-v")),
    *(("allocate", "-f", "-", "-o", "json"), ("allocate", "-f", "-", "-o", "yaml")),
    *(("run", "-", "-o", "wide"), ("run", "-", "-v"), ("run", "-", "-o", "name"), ("lint", "-f", "-", "-o", "github")),
    *(("get", kind, "-f", "-", "-o", output) for kind in ("vms", "devices", "claims", "pools",
        "drivers") for output in ("wide", "csv")),
    *(("topology", "-f", "-"), ("topology", "-f", "-", "-o", "svg"), ("topology", "-f", "-", "-o", "html")),
    *(("explain", "vm", SHOWN, "-f", "-"), ("explain", "claim", SHOWN, "-f", "-"),
        ("describe", "device", SHOWN, "-f", "-")),
    *(("cel", "true", "-f", "-"), ("cel", "device.attributes['a'].b == 1", "-f", "-"),
        ("cel", "true", "-f", "-", "-o", "json")),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_objects_whose_every_string_is_hostile_are_shown_as_text(arguments: tuple[str, ...]) -> None:
    objects = _objects("gpu-pci")
    for path in list(_leaves(objects)):
        _spoilt(objects, path)
    _is_text(_run(*arguments, stdin=objects).output)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("run", "-"), ("allocate", "-f", "-", "-v"), ("cel", "true", "-f", "-")], ids=" ".join
)
def test_each_string_alone_is_shown_as_text(arguments: tuple[str, ...]) -> None:
    """What is refused as a name gets no further; other strings reach other lines of the output."""
    objects = _objects("gpu-pci")
    shown = 0
    for path in list(_leaves(objects)):
        spoilt = copy.deepcopy(objects)
        _spoilt(spoilt, path)
        output = _run(*arguments, stdin=spoilt).output
        _is_text(output)
        shown += SHOWN in output
    assert shown


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_carry_exactly_what_stood_there(output: str) -> None:
    objects = _objects("gpu-pci")
    (slice_,) = (obj for obj in objects if obj["kind"] == "ResourceSlice")
    slice_["spec"]["devices"][0]["name"] = HOSTILE
    printed = _run("cel", "true", "-f", "-", "-o", output, stdin=objects).output
    _is_text(printed)
    listed = json.loads(printed) if output == "json" else yaml.safe_load(printed)
    assert listed["devices"][0]["device"].endswith(HOSTILE)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", HOSTILE), ("lint", "-f", HOSTILE), ("cel", HOSTILE), ("allocate", "-f", HOSTILE), (HOSTILE,),
        ("run", f"--{HOSTILE}"), ("doctor", "--kubeconfig", HOSTILE), ("doctor", "--kubeconfig", HOSTILE, "-o", "json"),
        ("admit", "--jsonl", HOSTILE), ("run", "-", "--kubevirt-version", HOSTILE), ("run", "-", "--node", HOSTILE),
        ("install", "--own-namespace", HOSTILE, "--dry-run"),
    ],
    ids=range(12),
)  # fmt: skip
def test_arguments_are_shown_as_text(arguments: tuple[str, ...]) -> None:
    result = _run(*(argument.replace("\0", "") for argument in arguments), stdin=[])
    assert result.exit_code
    _is_text(result.output)


@pytest.mark.parametrize("command", ["admit", "allocate", "cel", "device-status", "domain-xml", "render"])
def test_answers_of_json_lines_are_text_and_exact(command: str) -> None:
    (line,) = _run(
        command, "--jsonl", stdin=[{"id": HOSTILE, HOSTILE: HOSTILE, "expression": HOSTILE}]
    ).output.splitlines()
    _is_text(line)
    assert json.loads(line)["id"] == HOSTILE


def test_a_tree_on_a_terminal_has_no_escapes_but_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree(HOSTILE)
    tree.add(HOSTILE)
    output_console().print(tree)
    written = capsys.readouterr().out
    _is_text(written)
    assert written.count(SHOWN) == 2


def test_what_the_doctor_finds_is_shown_as_text() -> None:
    for line in report([CheckFinding(HOSTILE, "error", HOSTILE, HOSTILE, HOSTILE)]):
        _is_text(line.replace("\x1b[31m", "", 1).replace("\x1b[0m", "", 1))


def test_nothing_else_in_the_command_line_writes_to_the_terminal() -> None:
    """``click.echo`` and ``print`` only where what they write is made visible, or is a document."""
    allowed = {"console.py", "output.py", "doctor.py", "install.py", "allocate.py"}
    for path in sorted((ROOT / "virt_dra" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "click.echo",
                "print",
                "click.secho",
                "Console",
                "sys.stderr.write",
            ):
                assert path.name in allowed, f"{path.name}:{node.lineno}: use cli.console"
