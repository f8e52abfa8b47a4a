"""Findings as a report of GitLab's Code Quality, which a merge request shows beside the lines of its change."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator
from typing import TypedDict

from virt_dra.api.go_text import visible
from virt_dra.cli.lint.places import FindingPlaces
from webhooks.lint import DENIAL, ObjectFindings


class CodeQualityLines(TypedDict):
    begin: int


class CodeQualityLocation(TypedDict):
    path: str
    lines: CodeQualityLines


class CodeQualityIssue(TypedDict):
    """One issue, as GitLab's documentation of the format has it. ``fingerprint``: by which GitLab knows an issue again;
    it says nothing of lines, so that it stays as text above it changes."""

    description: str
    check_name: str
    fingerprint: str
    severity: str
    location: CodeQualityLocation


def codequality(judged: Iterable[ObjectFindings], places: FindingPlaces) -> list[CodeQualityIssue]:
    """One issue per finding."""
    return list(_issues(judged, places))


def _issues(judged: Iterable[ObjectFindings], places: FindingPlaces) -> Iterator[CodeQualityIssue]:
    for obj in judged:
        for finding in obj.findings:
            at, source = places.position(obj.source, finding), places.fault(obj.source, finding)
            path = posixpath.normpath(source.name)  # relative to the repository's root, without ./
            identity = "\0".join((path, obj.title, finding.id, finding.field, finding.message))
            yield {
                "description": visible(obj.described(finding)),
                "check_name": finding.id,
                "fingerprint": hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest(),
                "severity": "critical" if finding.severity == DENIAL else "minor",
                "location": {"path": path, "lines": {"begin": at.line if at is not None else source.line or 1}},
            }
