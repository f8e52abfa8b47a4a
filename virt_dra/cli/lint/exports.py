"""Findings as other programs take them: as commands of a GitHub workflow, which shows them beside the lines of a change
(workflow commands, "error" and "warning"), as a report of GitLab's Code Quality, and as a JUnit report."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree

from virt_dra.api.go_text import visible
from virt_dra.api.wire import Json
from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cli.shared.workflow_log import neutral
from webhooks.lint import DENIAL, LintFinding, ObjectFindings


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


def codequality(judged: Iterable[ObjectFindings], places: FindingPlaces) -> list[Json]:
    """One issue per finding, as GitLab's documentation of the format has it, for a merge request to show. GitLab knows
    an issue again by its fingerprint, which says nothing of lines, so that it stays as text above it changes."""
    return list(_issues(judged, places))


def _issues(judged: Iterable[ObjectFindings], places: FindingPlaces) -> Iterator[Json]:
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


def junit(judged: Sequence[ObjectFindings], places: FindingPlaces) -> str:
    """The report as XML: one test per object, which fails by its denials; warnings are in its output.
    Characters that XML can't have are escaped as for a terminal."""
    failed = sum(obj.denied for obj in judged)
    counts = {"tests": str(len(judged)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "virt-dra lint", **counts})
    for obj in judged:
        names = {"classname": visible(obj.source.name), "name": visible(obj.title)}
        case = ElementTree.SubElement(suite, "testcase", names)
        for finding in (finding for finding in obj.findings if finding.severity == DENIAL):
            message = visible(f"{finding.field}: {finding.message}" if finding.field else finding.message)
            failure = ElementTree.SubElement(case, "failure", {"type": finding.id, "message": message})
            failure.text = _details(obj, finding, places)
        warnings = [_details(obj, finding, places) for finding in obj.findings if finding.severity != DENIAL]
        if warnings:
            ElementTree.SubElement(case, "system-out").text = "\n".join(warnings)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _details(obj: ObjectFindings, finding: LintFinding, places: FindingPlaces) -> str:
    lines = [f"{obj.source}: {finding}", *places.excerpt(obj.source, finding), f"see {finding.page}"]
    return "\n".join(map(visible, lines))
