"""``python -m devtools.man_pages [FOLDER]``: a manual page (section 1) for virt-dra, each of its commands,
virt-dra-launcher and virt-dra-hook, made of their help texts. ``make man`` and ``make release`` call it.

The date is that of SOURCE_DATE_EPOCH, else today's.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import click

from launcher.hook.entry import main as hook
from launcher.process.entry import main as launcher
from virt_dra.cli.main import SUBCOMMANDS, HelpSection, cli

ROOT: Final = Path(__file__).parent.parent
PROGRAM: Final = "virt-dra"
_VERBATIM: Final = "\b"
"""The first line of a paragraph that isn't filled, as click marks it."""
_TITLES: Final = {"Example": "EXAMPLES", "Exit codes:": "EXIT STATUS"}
"""How a paragraph of the epilog begins, and its section."""
_BARE_TITLE: Final = re.compile(r"(?:Examples|Exit codes): *\n?")
_ORDER: Final = ("EXAMPLES", "NOTES", "EXIT STATUS")


@dataclass(frozen=True)
class ManualEdition:
    """What stands in the head and foot of every page."""

    version: str
    day: date


def escaped(text: str) -> str:
    """The text as roff prints it: no character is a request, and every dash can be copied into a shell.

    >>> print(escaped("-o a\\\\b"))
    \\-o a\\eb
    """
    escapes = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
    shown = "".join(escapes.get(char) or (char if char.isascii() else rf"\[u{ord(char):04X}]") for char in text)
    return rf"\&{shown}" if shown.startswith(".") else shown


def manual_pages(edition: ManualEdition) -> dict[str, str]:
    """Every page, by file name."""
    commands = {}
    for name in SUBCOMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        commands[name] = command
    also = [f"{PROGRAM}-{name}" for name in SUBCOMMANDS]
    pages = {
        f"{PROGRAM}-{name}": (f"{PROGRAM} {name}", command, SUBCOMMANDS[name].summary, [PROGRAM])
        for name, command in commands.items()
    }
    programs = {f"{PROGRAM}-launcher": launcher, f"{PROGRAM}-hook": hook}
    pages[PROGRAM] = (PROGRAM, cli, _first_line(cli), [*also, *programs])
    pages |= {name: (name, command, _first_line(command), [PROGRAM]) for name, command in programs.items()}
    return {
        f"{page}.1": "".join(f"{line}\n" for line in _page(page, *told, edition))
        for page, told in sorted(pages.items())
    }


def _first_line(command: click.Command) -> str:
    return (command.help or "").strip().partition("\n\n")[0].replace("\n", " ")


def _page(
    page: str, program: str, command: click.Command, summary: str, also: Sequence[str], edition: ManualEdition
) -> Iterator[str]:
    context = click.Context(command, info_name=program, help_option_names=["-h", "--help"])
    yield f'.TH {escaped(page.upper())} 1 {edition.day.isoformat()} "{PROGRAM} {edition.version}" "{PROGRAM} manual"'
    yield from (".SH NAME", rf"{escaped(page)} \- {escaped(summary.rstrip('.'))}")
    pieces = " ".join(command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", rf"\fB{escaped(program)}\fR {escaped(pieces)}")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")
    if isinstance(command, click.Group):
        yield from _commands()
    yield ".SH OPTIONS"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield from (".TP", _names(record[0]), *_filled(record[1].strip()))
    sections: dict[str, list[str]] = {}
    for paragraph in _split(command.epilog or ""):
        first = paragraph.removeprefix(f"{_VERBATIM}\n").partition("\n")[0]
        title = next((title for start, title in _TITLES.items() if first.startswith(start)), "NOTES")
        sections.setdefault(title, []).append(paragraph)
    for title in _ORDER:
        if title in sections:
            yield f".SH {title}"
            for paragraph in sections[title]:
                text = _without_title(paragraph)
                yield from (
                    _filled(" ".join(text.replace(_VERBATIM, "").split()))
                    if title == "EXIT STATUS"
                    else _paragraph(text)
                )
    yield ".SH SEE ALSO"
    yield ",\n".join(rf"\fB{escaped(page_name)}\fR(1)" for page_name in also)


def _commands() -> Iterator[str]:
    for section in HelpSection:
        yield f'.SS "{escaped(section)}"'
        for name, entry in SUBCOMMANDS.items():
            if entry.section is section:
                yield from (".TP", rf"\fB{escaped(name)}\fR", *_filled(entry.summary))


def _names(heading: str) -> str:
    """``-o, --output [text|json]`` with the names bold and the value in italics."""
    return " ".join(
        rf"\fB{escaped(word)}\fR" if word.startswith("-") else rf"\fI{escaped(word)}\fR" for word in heading.split()
    )


def _split(text: str) -> list[str]:
    """Paragraphs; a mark of click's stays in front of its own."""
    return [
        paragraph
        for paragraph in re.split(r"\n\s*\n", textwrap.dedent(_dedented(text)).strip("\n"))
        if paragraph.strip()
    ]


def _dedented(text: str) -> str:
    """A docstring without its indentation, which its first line doesn't have."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}"


def _without_title(paragraph: str) -> str:
    mark = f"{_VERBATIM}\n" if paragraph.startswith(f"{_VERBATIM}\n") else ""
    text = paragraph.removeprefix(mark)
    title = _BARE_TITLE.match(text)
    return mark + (text[title.end() :] if title else text)


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(_split(text)):
        if number:
            yield ".PP"
        yield from _paragraph(paragraph)


def _paragraph(paragraph: str) -> Iterator[str]:
    lines = paragraph.split("\n")
    if lines[0].strip() != _VERBATIM:
        yield from _filled(" ".join(map(str.strip, lines)))
        return
    if len(lines) == 2 or not any(line.startswith(" ") for line in lines[1:]):  # sentences
        yield from _filled(" ".join(map(str.strip, lines[1:])))
        return
    yield from (".nf", *(escaped(line) or r"\&" for line in lines[1:]), ".fi")


def _filled(text: str) -> Iterable[str]:
    """Lines of the source that roff fills: one a sentence, so that it knows where each ends."""
    return (escaped(sentence) for sentence in re.split(r"(?<=[a-z)][.:;])\s+", text))


def main() -> None:
    """Writes the pages into the folder, and removes those that no longer are."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "man")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(seconds), UTC) if seconds else datetime.now(UTC)
    pages = manual_pages(ManualEdition(version, now.date()))
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.1"):
        old.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
