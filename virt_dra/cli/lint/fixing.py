"""``virt-dra lint --fix``: shows what would change, asks, and writes the files. What to change is
:mod:`webhooks.lint.fixes`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.reading.documents import Document
from virt_dra.cli.lint.document_types import FixedFileJson, FixOutcomeJson
from virt_dra.cli.shared.console import say
from virt_dra.cluster.manifest_file import ChangedMeanwhile, ManifestFile
from webhooks.lint.fixes.manifest_text import ManifestText
from webhooks.lint.fixes.planning import FixPlan

STANDARD_INPUT: Final = "standard input"

_COLOURS: Final = {"@": "cyan", "-": "red", "+": "green"}


@dataclass(frozen=True)
class FixOutcome:
    """What became of a plan. ``applied``: the names of the texts that are changed now; ``problems``: why others aren't,
    by name."""

    plan: FixPlan
    applied: frozenset[str] = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict)

    def documents(self, before: Sequence[Document]) -> list[Document]:
        """The documents as the files now have them."""
        return [
            new if new.source.name in self.applied else old
            for old, new in zip(before, self.plan.documents, strict=True)
        ]

    def texts(self, before: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The texts as the files now have them."""
        return {**before, **{text.name: text.content for text in self.plan.texts if text.name in self.applied}}

    def to_json(self) -> FixOutcomeJson:
        return {
            "applied": bool(self.plan.texts) and self.applied == {text.name for text in self.plan.texts},
            "files": [self._file(text) for text in self.plan.texts],
            "dropped": [
                {
                    "file": fix.source.name,
                    "line": fix.source.line,
                    "object": fix.title,
                    "id": fix.finding.id,
                    "field": fix.finding.field,
                    "reason": fix.reason,
                }
                for fix in self.plan.dropped
            ],
        }

    def _file(self, text: ManifestText) -> FixedFileJson:
        written: FixedFileJson = {"file": text.name, "diff": text.diff, "written": text.name in self.applied}
        if text.name in self.problems:
            written["problem"] = self.problems[text.name]
        return written


def show(plan: FixPlan, files: Mapping[str, ManifestFile], *, err: bool) -> None:
    """Prints the diff of each text, of a link with the file that is written, then what can't be fixed and why. Coloured
    where the output is a terminal."""
    for text in plan.texts:
        file = files.get(text.name)
        if file is not None and file.target != file.path:
            say(f"{text.name} is a link: what is written is {file.target}", err=err)
        for line in text.diff.splitlines():
            shown = visible(line)
            colour = _COLOURS.get(line[:1]) if not line.startswith(("---", "+++")) else None
            click.echo(click.style(shown, fg=colour) if colour else shown, err=err)
    for dropped in plan.dropped:
        say(str(dropped), err=err)
    if not plan.texts:
        say("nothing to fix", err=err)


def decide(texts: Sequence[ManifestText], *, yes: bool, err: bool) -> bool:
    """True if files are to be written: by --yes, or because someone at the terminal agrees."""
    if yes or not texts:
        return yes
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say("nothing is changed: there is no terminal to ask at; --yes applies the changes without asking", err=err)
        return False
    if click.confirm(f"Apply these changes to {counted(len(texts), 'file')}?", err=True):
        return True
    say("nothing is changed", err=err)
    return False


def write(plan: FixPlan, texts: Iterable[ManifestText], files: Mapping[str, ManifestFile]) -> FixOutcome:
    """Writes the files, each all at once; one that can't be written doesn't prevent the others. ``files``: by the names
    of the texts."""
    applied: list[str] = []
    problems: dict[str, str] = {}
    for text in texts:
        try:
            files[text.name].replace(text.raw, text.content)
        except ChangedMeanwhile as error:
            problems[text.name] = str(error)
        except OSError as error:
            problems[text.name] = f"can't be written: {error.strerror}"
        else:
            applied.append(text.name)
    return FixOutcome(plan, frozenset(applied), problems)
