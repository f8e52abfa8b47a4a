"""In a GitHub workflow no output of any command gives the runner commands: not by names in objects, paths or options.
What the runner takes for a command is decided here as it does (actions/runner, its class ActionCommand)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.pages import refused_by_policy
from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod, user
from virt_dra.cli.main import SUBCOMMANDS, cli

HOSTILE = (
    "::error::pwned",
    "::set-output name=a::b",
    "\n::add-mask::secret",
    "##[error]pwned",
    "\r##vso[task.setvariable]x",
    "\x1b]0;title\x07\x1b[2J",
    "abc::stop-commands::token",
)
NAME = " ".join(HOSTILE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def commands_in(text: str) -> list[str]:
    """The lines that the runner takes for commands, and what must not look like one."""
    lines = re.split(r"\r\n|\r|\n", text)
    taken = [line for line in lines if re.match(r"::[^:]*::", line.strip()) or re.search(r"##\[[^\]]*\]", line)]
    for word in ("::error", "::set-output", "::add-mask", "::stop-commands", "##[", "##vso["):
        taken += [line for line in lines if word in line]
    return [*taken, *_CONTROL.findall(text)]


def run(*arguments: str, input: str | None = None) -> Result:
    result = CliRunner(env={"GITHUB_ACTIONS": "true"}).invoke(cli, list(arguments), input=input)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert commands_in(result.output) == []
    return result


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def _vm(name: str) -> dict[str, Any]:
    device = {"name": "gpu", "claimName": name, "requestName": name, "deviceName": name}
    spec = {
        "domain": {"devices": {"gpus": [device]}},
        "resourceClaims": [{"name": name, "resourceClaimTemplateName": name}],
        name: name,
    }
    metadata = {"name": name, "namespace": "default", "labels": {name: name}}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata, "spec": spec}


@cache
def _objects(hostile: str) -> str:
    """Objects whose names, attributes, selectors and unknown fields are hostile."""
    late = [claim("late", selectors=[f'device.driver == "{hostile!r}"']), pod("late", ["late"])]
    objects = [*classes(), *node("n1", [gpu("g0", hostile)]), *late, *user("u", "n1", "g0"), _vm(hostile)]
    objects += _renamed(late, {"late": hostile})
    objects.append({"apiVersion": "v1", "kind": hostile, "metadata": {"name": hostile}})
    return "\n".join(map(json.dumps, objects))


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The paths of such dumps, whose names are hostile, too; each is alone in the current folder while it is asked
    about."""

    def dump(number: int, hostile: str) -> str:
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        name = f"{hostile.replace('/', '')}.json"
        Path(name).write_text(_objects(hostile), encoding="utf-8")
        return f"./{name}"

    return (dump(number, hostile) for number, hostile in enumerate(HOSTILE))


def _walk() -> Iterator[tuple[str, ...]]:
    """Every command, with what it takes of files and names."""
    for name in SUBCOMMANDS:
        yield name, "-f", "FILE"
        yield name, "NAME"
        yield name, "-n", "NAME", "NAME", "--NAME"
    for output in ("json", "yaml", "sarif", "junit", "text"):
        yield "lint", "-f", "FILE", "-o", output
    for kind in ("vms", "devices", "claims", "pools", "drivers"):
        for output in ("text", "wide", "json", "yaml", "csv", "name"):
            yield "get", kind, "-f", "FILE", "-o", output
        yield "describe", kind.removesuffix("s"), "NAME", "-f", "FILE"
    for output in ("text", "json", "yaml", "svg", "html"):
        yield "topology", "-f", "FILE", "-o", output
    for output in ("text", "json", "yaml"):
        yield "explain", "-f", "FILE", "-o", output
        yield "allocate", "-f", "FILE", "-v", "-o", output
        yield "diff", "FILE", "FILE", "-o", output
        yield "run", "FILE", "-v", "-o", output
        yield "cel", "-f", "FILE", "device.driver == 'NAME'", "-o", output
    yield ("nonesuch NAME",)
    yield ("scenario", "FILE")
    yield ("simulate", "FILE", "--policy", "pack", "--until", "1h")
    for command in ("admit", "render", "device-status", "domain-xml"):
        yield command, "--jsonl", "FILE"


@pytest.mark.parametrize("arguments", list(_walk()), ids=" ".join)
def test_no_command_gives_the_runner_commands(arguments: tuple[str, ...], dumps: Iterator[str]) -> None:
    for dump in dumps:
        name = Path(dump).stem
        given = [argument.replace("FILE", dump).replace("NAME", name) for argument in arguments]
        result = run(*given)
        if "json" in arguments and result.exit_code in (0, 1) and result.stdout.startswith("{"):
            json.loads(result.stdout)
        if "yaml" in arguments and result.exit_code in (0, 1):
            list(yaml.load_all(result.stdout, yaml.CSafeLoader))


def test_documents_mean_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON and YAML are still valid, and what they say is what is there."""
    monkeypatch.chdir(tmp_path)
    Path("vm.json").write_text(json.dumps(_vm(NAME)), encoding="utf-8")
    inside, outside = run("lint", "vm.json", "-o", "json"), CliRunner().invoke(cli, ["lint", "vm.json", "-o", "json"])
    assert commands_in(outside.output) != []
    assert json.loads(inside.stdout) == json.loads(outside.stdout)
    assert yaml.safe_load(run("lint", "vm.json", "-o", "yaml").stdout) == json.loads(outside.stdout)
    assert json.loads(inside.stdout)["objects"][0]["name"] == NAME


def test_the_annotations_of_findings_are_commands_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("vm.json").write_text(json.dumps(_vm(NAME)), encoding="utf-8")
    result = CliRunner(env={"GITHUB_ACTIONS": "true"}).invoke(cli, ["lint", "vm.json", "-o", "github"])
    lines = result.stdout.splitlines()
    assert lines
    for line in lines:
        command, _, data = line.removeprefix("::").partition("::")
        assert re.fullmatch(r"(error|warning) file=vm\.json,line=\d+,title=[a-z-]+(,col=\d+,endColumn=\d+)?", command)
        assert commands_in(data) == []


def test_the_filter_refuses_a_text_that_would_give_commands() -> None:
    harmless = "# fe80::1, a::b\r\napiVersion: v1\r\nkind: List\r\nitems: []\r\n"
    environment = {"GITHUB_ACTIONS": "true"}
    vm = json.dumps(_vm("vm")) + "\n"
    passed = CliRunner(env=environment).invoke(cli, ["lint", "--fix", "-"], input=vm)
    assert passed.stdout == vm
    refused = run("lint", "--fix", "-", input=f"# ::error::pwned\n{vm}")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "the text has what a GitHub workflow takes for a command" in refused.stderr
    assert commands_in(harmless.replace("\r\n", "\n")) == []


@pytest.mark.parametrize("forced", [{}, {"FORCE_COLOR": "1"}])
def test_outside_of_names_output_is_as_ever(forced: dict[str, str]) -> None:
    for arguments in (["--help"], ["lint", "--list"], ["explain", "-f", "examples/explain"]):
        inside = CliRunner(env={"GITHUB_ACTIONS": "true", **forced}).invoke(cli, arguments)
        assert inside.stdout == CliRunner(env=forced).invoke(cli, arguments).stdout


def test_pages_keep_their_policy() -> None:
    assert refused_by_policy(run("topology", "-f", "examples/explain", "-o", "html").stdout) == []
    simulated = run("simulate", "examples/simulation/cluster.yaml", "--policy", "pack", "-o", "html").stdout
    assert refused_by_policy(simulated) == []
