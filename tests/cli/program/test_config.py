"""The user's own defaults of options: which count, what is refused, and what ``virt-dra config`` shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from virt_dra.cli.main import cli

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "inventory")
NAMES = "custom-columns=N:.metadata.name"


class Home:
    """A user's folder of configuration, and variables."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "virt-dra" / "config.toml"
        self.file.parent.mkdir()
        self.variables = {"XDG_CONFIG_HOME": str(folder)}

    def run(self, *arguments: str, **variables: str) -> Result:
        return CliRunner(env={**self.variables, **variables}).invoke(cli, list(arguments))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_command_line_counts_before_variables_and_these_before_the_file(home: Home) -> None:
    def vms(*options: str, **variables: str) -> list[str]:
        return home.run("get", "vms", "-f", EXAMPLE, "--no-headers", "-o", NAMES, *options, **variables).stdout.split()

    assert len(vms()) == 5
    home.file.write_text('namespace = "team-b"\n')
    assert vms() == ["archive", "batch", "farm"]
    home.file.write_text('namespace = "team-b"\n[get]\nnamespace = "team-a"\n')
    assert vms() == ["desktop", "waiting"]
    assert vms(VIRT_DRA_NAMESPACE="team-b") == ["archive", "batch", "farm"]
    assert vms(VIRT_DRA_NAMESPACE="team-b", VIRT_DRA_GET_NAMESPACE="team-a") == ["desktop", "waiting"]
    assert vms("-n", "team-b", VIRT_DRA_GET_NAMESPACE="team-a") == ["archive", "batch", "farm"]
    assert len(vms("-A")) == 5


def test_a_cluster_that_is_a_default_does_not_contradict_files(home: Home) -> None:
    home.file.write_text('context = "lab"\nkubeconfig = "/no/kubeconfig"\n')
    assert home.run("get", "vms", "-f", EXAMPLE).exit_code == 0
    live = home.run("get", "vms", "--live")
    assert (live.exit_code, "/no/kubeconfig" in live.stderr) == (2, True)
    scenario = home.run("scenario", "--live", "x.yaml")
    assert "the --kubeconfig or --context of the cluster go together" in scenario.stderr


def test_config_shows_each_with_its_source(home: Home) -> None:
    home.file.write_text('context = "lab"\nkubevirt-gates = ["Sidecar", "Plugins=false"]\n[get]\noutput = "wide"\n')
    shown = home.run("config", VIRT_DRA_CONTEXT="other")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["OPTION", "VALUE", "SOURCE"],
        ["address-keys", "-", "-"],
        ["context", "other", "VIRT_DRA_CONTEXT"],
        ["get", "output", "wide", str(home.file)],
        ["kubeconfig", "-", "-"],
        ["kubevirt-gates", "Sidecar,Plugins=false", str(home.file)],
        ["kubevirt-version", "-", "-"],
        ["namespace", "-", "-"],
        ["file:", str(home.file)],
    ]
    document = json.loads(home.run("config", "-o", "json").stdout)
    assert (document["kind"], document["options"][0]) == (
        "Configuration",
        {"command": None, "option": "context", "value": "lab", "source": str(home.file)},
    )


def test_without_a_file_nothing_is_set(home: Home) -> None:
    shown = home.run("config")
    _, *rows, file = shown.stdout.splitlines()
    assert (shown.exit_code, file) == (0, f"file: {home.file} (not there)")
    assert all(row.split()[1:] == ["-", "-"] for row in rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nmespace = 'a'", "nmespace is no option that can have a default; did you mean namespace?"),
        ("output = 'json'", "output is no option that can have a default; those are: address-keys, context,"),
        ("[gett]\n", "[gett] is no command that takes defaults; did you mean get?"),
        ("[webhook]\n", "[webhook] is no command that takes defaults"),
        ("[get]\nseed = 1", "get.seed is no option that can have a default"),
        ("namespace = 1", "namespace: must be a text or a list of texts"),
        ("namespace = ", "Invalid value (at"),
    ],
)
def test_a_file_with_something_else_in_it_is_refused(home: Home, text: str, message: str) -> None:
    home.file.write_text(text)
    for command in ("config", "get vms -f x"):
        result = home.run(*command.split())
        assert (result.exit_code, f"Error: {home.file}: {message}" in result.stderr) == (2, True), result.output


def test_programs_of_pods_take_no_defaults(home: Home) -> None:
    """A pod has variables of each Service of its namespace, and maybe a file of somebody."""
    home.file.write_text('kubevirt-gates = ["NoSuchGate"]\n')
    refused = home.run("lint", EXAMPLE)
    assert (refused.exit_code, "NoSuchGate" in refused.output) == (2, True)
    assert "NoSuchGate" not in home.run("operator", "--mode", "x").output
