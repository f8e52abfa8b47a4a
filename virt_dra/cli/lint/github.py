"""Findings as commands of a GitHub workflow, which shows them beside the lines of a change (workflow commands, "error"
and "warning")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from virt_dra.api.go_text import visible
from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cli.shared.workflow_log import neutral
from webhooks.lint import DENIAL, ObjectFindings


def github_lines(judged: Iterable[ObjectFindings], places: FindingPlaces) -> Iterator[str]:
    """One line per finding."""
    for obj in judged:
        for finding in obj.findings:
            at, source = places.position(obj.source, finding), places.fault(obj.source, finding)
            line = str(at.line if at is not None else source.line or 1)
            where = {"file": source.name, "line": line, "title": finding.id}
            if at is not None:
                where |= {"col": str(at.column), "endColumn": str(at.column + at.length)}
            properties = ",".join(f"{name}={_property(value)}" for name, value in where.items())
            level = "error" if finding.severity == DENIAL else "warning"
            yield f"::{level} {properties}::{_data(obj.described(finding))}"


def _data(text: str) -> str:
    text = neutral(visible(text).encode()).decode()
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
