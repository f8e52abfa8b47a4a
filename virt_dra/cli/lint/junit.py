"""Findings as a JUnit report: one test per object, which fails by its denials; warnings are in its output."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from virt_dra.api.go_text import visible
from virt_dra.cli.lint.places import FindingPlaces
from webhooks.lint import DENIAL, LintFinding, ObjectFindings


def junit(judged: Sequence[ObjectFindings], places: FindingPlaces) -> str:
    """The report as XML. Characters that XML can't have are escaped as for a terminal."""
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
