"""``virt-dra help`` and ``version``; what the program is as a plugin of kubectl."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from virt_dra.cli.main import SUBCOMMANDS, cli


def run(*arguments: str, program: str | None = None) -> Result:
    return CliRunner(env={"KUBECONFIG": "/no/kubeconfig"}).invoke(cli, list(arguments), prog_name=program)


@pytest.mark.parametrize("name", ["", *SUBCOMMANDS])
def test_help_shows_what_the_option_shows(name: str) -> None:
    words = [name] if name else []
    assert run("help", *words).output == run(*words, "--help").output


def test_help_of_an_unknown_command_suggests_those_that_may_be_meant() -> None:
    result = run("help", "versiom")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: No such command 'versiom'. Did you mean 'version'?",
    )


def test_the_version_is_that_of_the_option_and_of_the_document() -> None:
    assert run("version").output == run("--version").output
    document = json.loads(run("version", "-o", "json").output)
    assert (document["apiVersion"], document["kind"]) == ("output.virt-dra.io/v1", "Version")
    assert document["version"] == version("virt-dra")


@pytest.mark.parametrize(
    "words",
    ["get vms", "describe vm a", "topology", "report -o x.html", "lint", "explain", "run", "allocate", "cel true"],
)
def test_kubectls_plugin_reads_the_cluster_unless_files_are_given(words: str) -> None:
    as_plugin = run(*words.split(), program="kubectl virt-dra")
    assert (as_plugin.exit_code, "kubeconfig /no/kubeconfig does not exist" in as_plugin.stderr) == (2, True)
    assert "kubeconfig" not in run(*words.split()).output.partition("Error:")[0]
    with_files = run(*words.split(), "-f", "/no/file", program="kubectl virt-dra")
    assert (with_files.exit_code, "/no/file" in with_files.output) == (2, True)


def test_kubectls_plugin_plans_on_the_cluster_unless_a_dump_is_given(tmp_path: Path) -> None:
    (tmp_path / "change.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: node-1}}")
    plan, dump = ["plan", "-f", str(tmp_path / "change.yaml")], ["--dump", str(tmp_path / "change.yaml")]
    as_plugin = run(*plan, program="kubectl virt-dra")
    assert (as_plugin.exit_code, "kubeconfig /no/kubeconfig does not exist" in as_plugin.stderr) == (2, True)
    assert run(*plan, *dump, program="kubectl virt-dra").exit_code == 0
    assert "say which cluster" in run(*plan).stderr


@pytest.mark.parametrize(
    "words",
    ["run", "lint", "allocate", "topology", "render-profile", "domain-xml", "simulate", "scenario", "cel true"],
)
def test_files_are_given_as_arguments_and_by_the_option_alike(words: str) -> None:
    named, option = run(*words.split(), "/no/file"), run(*words.split(), "-f", "/no/file")
    assert (named.exit_code, named.output) == (option.exit_code, option.output)
    assert "/no/file" in named.output
