"""``virt-dra --help`` and what is said about a command or an option that doesn't exist."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

import virt_dra.cli
from virt_dra.cli.main import SUBCOMMANDS, HelpSection, cli


def _sections() -> dict[str, list[str]]:
    """The commands below each heading of ``--help``."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for line in CliRunner().invoke(cli, ["--help"]).output.partition("  Examples:")[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line[:-1]
        elif heading and line.startswith("  ") and line[2] not in " -":
            sections.setdefault(heading, []).append(line.split()[0])
    return sections


def test_help_lists_every_command_once_in_its_section() -> None:
    sections = _sections()
    assert {section: sections.get(section) for section in HelpSection} == {
        section: [name for name, entry in SUBCOMMANDS.items() if entry.section is section] for section in HelpSection
    }


def test_every_command_of_the_package_is_one_of_the_program() -> None:
    modules = [import_module(package.name) for package in pkgutil.walk_packages(virt_dra.cli.__path__, "virt_dra.cli.")]
    commands = {
        module.command.name for module in modules if isinstance(getattr(module, "command", None), click.Command)
    }
    assert commands == set(SUBCOMMANDS)


@pytest.mark.parametrize("arguments", [[], *([name] for name in SUBCOMMANDS)], ids=" ".join)
def test_a_help_text_is_laid_out(arguments: list[str]) -> None:
    """No mark of the layout (a backspace) is left over in it."""
    ran = CliRunner().invoke(cli, [*arguments, "--help"])
    assert (ran.exit_code, [line for line in ran.output.splitlines() if not line.isprintable()]) == (0, [])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("runn", "No such command 'runn'. Did you mean 'run'?"),
        ("LINT", "No such command 'LINT'. Did you mean 'lint'?"),
        ("install-", "No such command 'install-'. Did you mean one of: 'install', 'uninstall'?"),
        ("webhook-certs", "No such command 'webhook-certs'. Did you mean one of: 'webhook-certificates', 'webhook'?"),
        ("xyzzy", "No such command 'xyzzy'."),
        ("", "No such command ''."),
        ("\x1b[31m", "No such command '\\x1b[31m'."),
    ],
)
def test_an_unknown_command_suggests_those_that_may_be_meant(typed: str, said: str) -> None:
    ran = CliRunner().invoke(cli, [typed])
    assert (ran.exit_code, ran.output.splitlines()[-1]) == (2, f"Error: {said}")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_mistyped_option_of_every_command_suggests_the_one_that_is_meant(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for option in (name for parameter in command.params for name in parameter.opts if name.startswith("--")):
        ran = CliRunner().invoke(cli, [name, f"{option}z"])
        said = ran.output.splitlines()[-1]
        assert (ran.exit_code, said.partition(".")[0]) == (2, f"Error: No such option '{option}z'")
        assert repr(option) in said.partition(".")[2]
