"""The guide shows commands and files that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from virt_dra.cli.main import cli

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]
COMMANDS = [shlex.split(line) for line in SHELL if line.startswith("virt-dra ")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_are_taken_as_shown(words: list[str]) -> None:
    command = cli.get_command(click.Context(cli), words[1])
    assert command is not None
    command.make_context(words[1], words[2:])


def test_options_in_the_text_are_those_of_a_command() -> None:
    commands = [cli.get_command(click.Context(cli), name) for name in cli.list_commands(click.Context(cli))]
    known = {
        option
        for command in commands
        if command is not None
        for parameter in command.params
        for option in parameter.opts
    }
    prose = re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL)
    of_others = {"--server-side", "--print"}  # kubectl's, and of tools/control-plane.sh
    of_helm = {"--create-namespace", "--set-file", "--reuse-values", "--reset-then-reuse-values"}
    of_helm |= {"--take-ownership", "--force-conflicts"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", prose)) - of_others - of_helm - known == set()


def test_files_and_targets_that_it_names_are_there() -> None:
    assert all((ROOT / path).exists() for path in re.findall(r"manifests/[a-z/-]+", GUIDE))
    targets = re.findall(r"--target (\S+)", GUIDE)
    containerfile = (ROOT / "Containerfile").read_text()
    assert targets
    assert all(f" AS {target}\n" in containerfile for target in targets)
