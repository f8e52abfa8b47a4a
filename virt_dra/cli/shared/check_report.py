"""The end of a command that examines a cluster or a node: its findings, and an exit code by the worst of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, TypedDict

import click

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.integration.check_findings import CheckFinding, CheckFindingJson, Level, exit_code
from virt_dra.cli.shared.console import visible_lines
from virt_dra.cli.shared.output import print_output

_COLOURS: Final[dict[Level, str | None]] = {"ok": "green", "info": None, "warning": "yellow", "error": "red"}
_LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "info", "ok")


class CheckReportJson(TypedDict):
    """What an examination of a cluster or a node finds."""

    findings: list[CheckFindingJson]
    summary: Mapping[Level, int]
    """How many findings there are of each level, with those that -q leaves out."""


def end_with(findings: Sequence[CheckFinding], output: str, *, quiet: bool) -> NoReturn:
    """Print the findings, with ``quiet`` only warnings and errors, and a summary of all; exit by the worst level."""
    shown = [finding for finding in findings if not quiet or finding.level in ("warning", "error")]
    counts = Counter(finding.level for finding in findings)
    if output != "text":
        summary = {level: counts[level] for level in _LEVELS}
        members: CheckReportJson = {"findings": [finding.to_wire() for finding in shown], "summary": summary}
        print_output("CheckReport", members, output)
    else:
        totals = ", ".join(counted(counts[level], level) for level in _LEVELS if counts[level])
        click.echo("\n".join((*report(shown), totals)))
    sys.exit(exit_code(findings))


def report(findings: Sequence[CheckFinding]) -> list[str]:
    """One line per finding: level, where, message; below it the remedy."""
    lines = []
    for finding in findings:
        level = click.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
        lines.append(f"{level} {visible(f'{finding.where}: {finding.message}')}")
        if finding.advice:
            lines.append(f"{'':8} -> {visible_lines(finding.advice)}")
    return lines
