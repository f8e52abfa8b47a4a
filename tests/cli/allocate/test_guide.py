"""docs/guides/allocator.md does what it says: its Python prints what follows it, its commands print what they show."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from virt_dra.allocator import DEFAULT
from virt_dra.cli.allocate.lines import FEATURE_FIELDS
from virt_dra.cli.main import cli

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "allocator.md"
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    name: str
    text: str


BLOCKS = [Block(*match.groups(default="")) for match in _BLOCK.finditer(GUIDE.read_text(encoding="utf-8"))]
FILES = [block for block in BLOCKS if block.name]
COMMANDS = [block for block in BLOCKS if block.language == "console"]


def _prints(shown: str, output: str) -> bool:
    """Whether the output is what is shown, where ``…`` stands for anything on the line."""
    pattern = re.escape(shown).replace("…", "[^\n]*")
    return re.fullmatch(pattern, output) is not None


def test_python_prints_what_follows_it() -> None:
    namespace: dict[str, object] = {}
    shown = 0
    for number, block in enumerate(BLOCKS):
        if block.language != "python":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block.text, f"{GUIDE.name}, block {number}", "exec"), namespace)  # noqa: S102 - our own documentation
        following = BLOCKS[number + 1]
        assert following.language == "text"
        assert out.getvalue() == following.text
        shown += 1
    assert shown == 7


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.text.splitlines()[0])
def test_commands_print_what_they_show(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES:
        (tmp_path / file.name).write_text(file.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    command, _, shown = block.text.partition("\n")
    prompt, program, *arguments = shlex.split(command)
    assert (prompt, program) == ("$", "virt-dra")
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code in (0, 1)
    assert _prints(shown, result.stdout), result.stdout


def test_the_feature_table_has_every_feature_with_its_default() -> None:
    rows = re.findall(r"^\| (\w+) \| [\d, ]+ \| [\w ]+ \| (on|off)\b", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == {name: "on" if getattr(DEFAULT, field) else "off" for name, field in FEATURE_FIELDS.items()}
    assert len(rows) == len(fields(DEFAULT))
