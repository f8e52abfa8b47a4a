"""One meaning has one name over all commands, and one name one meaning: what somebody learnt of one command holds for
the others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from virt_dra.cli.main import SUBCOMMANDS, cli
from virt_dra.cli.shared.option_table import OPTIONS, OptionGroup, TableOption

EXAMPLES = Path(__file__).parents[2] / "examples"

OTHER_NAMES = {
    "--file": "--filename",
    "--files": "--filename",
    "--input": "--filename",
    "--cluster": "--live",
    "--on": "--live",
    "--kube-context": "--context",
    "--kubevirt": "--kubevirt-version",
    "--gates": "--kubevirt-gates or --feature-gates",
    "--features": "--feature-gates",
    "--format": "--output",
    "--output-file": "--out",
    "--output-dir": "--out",
    "--silent": "--quiet",
    "--debug": "--verbose or --log-level",
    "--deadline": "--timeout",
    "--time-limit": "--timeout",
    "--policies": "--policy",
    "--random-seed": "--seed",
    "--force": "--yes",
    "--node-name": "--node",
    "--system-namespace": "--own-namespace",
}
"""What an option must not be called, with its name here."""


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _options() -> Iterator[tuple[str, click.Option]]:
    for name in SUBCOMMANDS:
        yield from (
            (name, parameter)
            for parameter in _command(name).params
            if isinstance(parameter, click.Option) and not parameter.hidden
        )


def _long(option: click.Option) -> list[str]:
    return [name for name in option.opts if name.startswith("--")]


def test_an_option_that_may_be_repeated_says_so_by_one_word() -> None:
    """And no help text says it by itself."""
    wrong = {
        f"{command} {option.opts}"
        for command, option in _options()
        for record in [option.get_help_record(click.Context(_command(command)))]
        if record is None
        or record[1].endswith("  [may be repeated]") is not option.multiple
        or "repeated" in (option.help or "")
    }
    assert wrong == set()


def test_an_option_has_one_long_name_and_at_most_one_short_one() -> None:
    several = {
        f"{command} {option.opts}" for command, option in _options() if len(_long(option)) != 1 or len(option.opts) > 2
    }
    assert several == set()


def test_a_short_option_stands_for_the_same_long_one_everywhere() -> None:
    meanings: dict[str, set[str]] = defaultdict(set)
    shorts: dict[str, set[str]] = defaultdict(set)
    for _, option in _options():
        short = next((name for name in option.opts if not name.startswith("--")), "")
        shorts[_long(option)[0]].add(short)
        if short:
            meanings[short].add(_long(option)[0])
    assert {short: names for short, names in meanings.items() if len(names) > 1} == {}
    assert {name: letters for name, letters in shorts.items() if len(letters) > 1} == {}


_PATHS = ("FILE|DIR|URL", "FILE|DIR", "FILE", "DIR")
_KINDS = dict.fromkeys(_PATHS, "path") | {"[NAMESPACE/]NAME": "name", "NAMESPACE/NAME": "name", "NAME,...": "NAME"}


def test_an_option_takes_the_same_values_everywhere() -> None:
    """A value or none, and what it is called, where it isn't one of a command's own list."""
    shapes: dict[str, set[tuple[bool, str | None]]] = defaultdict(set)
    for _, option in _options():
        choice = isinstance(option.type, click.Choice)
        called = None if choice else option.metavar or option.type.name
        shapes[_long(option)[0]].add((option.is_flag, _KINDS.get(called, called) if called else None))
    assert {name: shape for name, shape in shapes.items() if len(shape) > 1} == {}


def test_what_several_commands_have_is_of_the_table() -> None:
    """A second command's option has a row, and a row has several commands."""
    commands: dict[str, set[str]] = defaultdict(set)
    for command, option in _options():
        commands[_long(option)[0]].add(command)
    assert {name for name, of in commands.items() if len(of) > 1} == OPTIONS.keys()


def test_no_command_deviates_from_the_table() -> None:
    """Its options are made of their rows: with their short names, kinds of values, and meanings."""
    deviating = {
        (command, name)
        for command, option in _options()
        for name in [_long(option)[0]]
        for row in [OPTIONS.get(name)]
        if row is not None
        and not (
            isinstance(option, TableOption)
            and option.opts == [*([row.short] if row.short else []), name]
            and option.is_flag == row.is_flag
            and (option.help or "").startswith(row.meaning)
        )
    }
    assert deviating == set()


def test_help_shows_the_table() -> None:
    shown = CliRunner().invoke(cli, ["help", "options"]).output
    assert [line.split()[0].rstrip(",") for line in shown.splitlines() if line.startswith("  -")] == [
        row.short or name for name, row in OPTIONS.items()
    ]
    lines = " ".join(shown.split())
    assert "-A, --all-namespaces VMs and claims of all namespaces. In lint, explain, plan, allocate, run, get," in lines
    assert "--most NUMBER How many waiting VMs are explained. In report, report-server." in lines
    assert "-o, --output [FORMAT] " not in lines
    assert all(f"\n{group}:\n" in shown for group in OptionGroup)


def test_a_help_text_belongs_to_one_name() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for _, option in _options():
        names[option.help or ""].add(_long(option)[0])
    assert {text: commands for text, commands in names.items() if len(commands) > 1} == {}


def test_a_meaning_has_no_second_name() -> None:
    wrong = {
        f"{command} {name}: call it {OTHER_NAMES[name]}"
        for command, option in _options()
        for name in option.opts
        if name in OTHER_NAMES
    }
    assert wrong == set()


def test_what_reads_a_cluster_has_the_options_of_a_cluster() -> None:
    """Those that kubectl's commands have: a habit is right in every command."""
    names: dict[str, set[str]] = defaultdict(set)
    for command, option in _options():
        names[command] |= set(option.opts)
    reading = {command for command, options in names.items() if {"--live", "-n"} <= options}
    assert {"explain", "run", "allocate", "plan", "lint", "get"} <= reading
    wanted = {"-f", "-n", "-A", "--context", "--kubeconfig"}
    assert {command: wanted - names[command] for command in reading if wanted - names[command]} == {}
    connecting = {command: "--context" in options for command, options in names.items() if "--kubeconfig" in options}
    assert len(connecting) > 15
    assert all(connecting.values())


def test_files_are_arguments_too_unless_arguments_are_names() -> None:
    takes = {
        command: {parameter.nargs == -1 and "FILE" in (parameter.metavar or "") for parameter in arguments}
        for command in {name for name, option in _options() if "-f" in option.opts}
        for arguments in [[p for p in _command(command).params if isinstance(p, click.Argument)]]
    }
    of_names = {"explain": "SUBJECT", "get": "KIND NAME", "describe": "KIND NAME"}
    of_pods = {"node-check", "webhook"}
    assert {command for command, files in takes.items() if True not in files} == of_names.keys() | of_pods


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("explain -A -f {vm}", "explain -f {vm}"),
        ("run {vm} --all-namespaces -o json", "run {vm} -o json"),
        ("run {vm} --kubevirt 1.9 -o json", "run {vm} --kubevirt-version 1.9 -o json"),
        ("run {vm} --kubevirt=1.9 -o json", "run {vm} --kubevirt-version=1.9 -o json"),
        ("lint {vm} --gates GPUsWithDRA=false -o json", "lint {vm} --kubevirt-gates GPUsWithDRA=false -o json"),
        (
            "allocate -f {vm} --features DRADeviceTaintRules=false -o json",
            "allocate -f {vm} --feature-gates DRADeviceTaintRules=false -o json",
        ),
        (
            "allocate -f {vm} --gates DRADeviceTaintRules=false -o json",
            "allocate -f {vm} --feature-gates DRADeviceTaintRules=false -o json",
        ),
        ("allocate -f {vm} --explain", "allocate -f {vm} -v"),
        ("scenario {scenario} --on embedded", "scenario {scenario}"),
        ("scenario {scenario} --on /no/such", "scenario {scenario} --live --kubeconfig /no/such"),
    ],
)
def test_a_shorter_name_of_an_option_is_taken_for_it(typed: str, shown: str) -> None:
    inputs = {"vm": str(EXAMPLES / "gpu-pci"), "scenario": str(EXAMPLES / "requests" / "scenario.yaml")}
    results = [CliRunner().invoke(cli, line.format(**inputs).split()) for line in (typed, shown)]
    assert results[0].output
    assert not results[0].output.startswith("Usage:")
    assert (results[0].exit_code, _without_names(results[0].output)) == (
        results[1].exit_code,
        _without_names(results[1].output),
    )


def test_one_option_is_not_given_by_two_names() -> None:
    result = CliRunner().invoke(cli, ["scenario", "x.yaml", "--on", "embedded", "--live"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        2,
        "Error: --on says the same as --live with --kubeconfig: give one of them",
    )


def _without_names(output: str) -> str:
    """Without what differs between two runs: generated names, uids, times."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|-[a-z0-9]{5}\b|\d\d:\d\d:\d\d\S*|[\d.]+ ?m?s\b", "…", output)
