"""Every example of every ``--help`` does what it says: carried out from the repository root, or, where it needs a
cluster, read."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from devtools.completions import PLACE, table_text
from launcher.process.entry import main as launcher
from virt_dra.cli.main import SUBCOMMANDS, cli

pytestmark = pytest.mark.slow(seconds=0.5)

ROOT = Path(__file__).parent.parent.parent
_CLUSTER = re.compile(
    r"kubectl|curl|dump\.yaml|--live|kube-scheduler"
    r"|virt-dra (?:doctor|uninstall|operator|keeper|release|webhook|node-driver|node-check|report-server"
    r"|extender(?! --print))\b"
    r"|virt-dra install (?!.*--dry-run)"
)
"""What needs a cluster, a server that runs, or what a line before has got of a cluster."""
_COMMENT = re.compile(r"^(\S.*?\S) {2,}(?:# )?(\S.*)$", re.DOTALL)


def _commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    commands: dict[str, click.Command] = {"virt-dra": cli}
    for name in SUBCOMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        commands[f"virt-dra {name}"] = command
    return commands


def _examples(command: click.Command) -> list[tuple[str, str]]:
    """Each example with its comment: lines that begin with two blanks below ``Examples:`` and ``From a cluster``;
    deeper ones go on."""
    lines: list[str] = []
    below = False
    for line in (command.epilog or "").splitlines():
        if re.match(r"Examples?\b|From a cluster", line):
            below = True
        elif not line.startswith("  "):
            below = False
        elif below and not line.startswith("    "):
            lines.append(line.strip())
        elif below:
            lines[-1] = lines[-1].removesuffix("\\").rstrip() + " " + line.strip()
    split = [_COMMENT.match(line) for line in lines]
    return [(command[1], command[2]) if command else (line, "") for line, command in zip(lines, split, strict=True)]


ALL = [(name, *example) for name, command in _commands().items() for example in _examples(command)]
RUN = [(line, comment) for _, line, comment in ALL if not _CLUSTER.search(line)]


def test_every_command_has_an_example_of_its_own() -> None:
    for name, command in _commands().items():
        assert any(name in line for line, _ in _examples(command)), name
    assert launcher.epilog is not None
    assert "Example" in launcher.epilog


def test_completion_knows_every_option() -> None:
    assert PLACE.read_text(encoding="utf-8") == table_text(), "renew it with: python -m devtools.completions"


@pytest.mark.parametrize(("line", "comment"), RUN, ids=[line for line, _ in RUN])
def test_an_example_is_carried_out(line: str, comment: str, tmp_path: Path, program: Path) -> None:
    if "jq" in line and shutil.which("jq") is None:
        line = line.partition(" | jq")[0]
    line = line.replace("/tmp/out", str(tmp_path))
    line = re.sub(r"> (\S+\.(?:sarif|yaml))", rf"> {tmp_path}/\1", line)
    environment = {**os.environ, "PATH": f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["sh", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    allowed = (0, 1) if comment.endswith("?") else (0,)
    assert ran.returncode in allowed, f"{ran.returncode}: {ran.stderr}"
    assert ran.stdout or ">" in line
    if re.search(r"-o json( |$)", line) and not re.search(r"\||>|--out", line):
        assert {"apiVersion", "kind"} <= json.loads(ran.stdout).keys()
    said = [line for line in ran.stderr.splitlines() if not line.startswith("Not known: ")]
    assert not said or "-v shows" in ran.stderr


PARSED = [(name, line) for name, line, _ in ALL if _CLUSTER.search(line) and "virt-dra" in line]


@pytest.mark.parametrize(("name", "line"), PARSED, ids=[line for _, line in PARSED])
def test_an_example_that_needs_a_cluster_is_read(name: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(line.replace("; ", " ; "))
    ends = [number for number, word in enumerate(words) if word in ("|", ";", ">")]
    for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(words)], strict=True):
        if words[first] != "virt-dra":
            continue
        command = cli.get_command(click.Context(cli), words[first + 1])
        assert command is not None, words[first + 1]
        context = command.make_context(words[first + 1], words[first + 2 : last])
        given = [value for value in context.params.values() if isinstance(value, tuple)]
        named = [path for paths in given for path in paths if isinstance(path, str) and path.startswith("examples/")]
        assert all((ROOT / path).exists() for path in named)
