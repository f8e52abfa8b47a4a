"""What the new pages promise: answers that lead on, comparisons with sources, commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest

from devtools.site.reference.commands import all_commands
from devtools.site.staging import links_of

DOCS: Final = Path(__file__).parents[2] / "docs"
COMMANDS: Final = {name.split()[1]: command for name, command, _ in all_commands()}


def _sections(page: str, level: str) -> dict[str, str]:
    _, *parts = re.split(rf"^{level} ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_every_answer_leads_on() -> None:
    answers = _sections("faq.md", "###")
    assert len(answers) >= 12
    assert [question for question, answer in answers.items() if not links_of(answer)[0]] == []


def test_every_alternative_has_a_source_and_says_when_it_is_better() -> None:
    sections = _sections("comparison.md", "##")
    limits = sections.pop("What virt-dra doesn't do")
    assert len(sections) == 5
    for title, text in sections.items():
        assert any(link.startswith("https://github.com/") for link in links_of(text)[0]), title
        assert re.search(r"^\* \*\*(Better than virt-dra|Enough without virt-dra)", text, re.MULTILINE), title
    assert limits.count("\n* ") >= 7


@pytest.mark.parametrize("page", ["faq.md", "comparison.md", "concepts.md", "tutorial.md"])
def test_commands_and_options_that_a_page_names_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    written = [*re.findall(r"`(virt-dra [^`\n]+)`", text), *re.findall(r"^virt-dra .+$", text, re.MULTILINE)]
    assert written or page == "comparison.md"
    for line in written:
        _, name, *words = shlex.split(line, comments=True)
        if name == "--version":
            continue
        command = COMMANDS[name]
        options = {
            option
            for param in command.params
            if isinstance(param, click.Option)
            for option in (*param.opts, *param.secondary_opts)
        }
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= options, line
