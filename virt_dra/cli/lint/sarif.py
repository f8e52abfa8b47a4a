"""Findings as a SARIF 2.1.0 log, which code scanning shows at the object's line."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from urllib.parse import quote

from virt_dra.api.reading.documents import DocumentSource, ReadProblem
from virt_dra.api.wire import Json
from virt_dra.cluster.duplicates import Replaced
from webhooks.lint import CHECKS, DENIAL, LintFinding, ObjectFindings, Severity

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
STANDARD_INPUT = "stdin"
"""In place of a file's URI."""

_RULE_INDEX = {check.id: index for index, check in enumerate(CHECKS)}


def sarif(judged: Iterable[ObjectFindings], problems: tuple[ReadProblem, ...] = (), replaced: tuple[Replaced, ...] = ()) -> Json:
    """A log of one run. ``problems``: why the input could not be read, which makes the run unsuccessful."""
    driver = {"name": "virt-dra", "version": version("virt-dra"), "rules": _rules()}
    invocation: Json = {"executionSuccessful": not problems}
    notifications = [("error", problem.message, problem.source) for problem in problems]
    notifications += [("warning", str(each), each.used) for each in replaced]
    if notifications:
        invocation["toolExecutionNotifications"] = [
            {"level": level, "message": {"text": text}, "locations": [{"physicalLocation": _physical(source)}]}
            for level, text, source in notifications
        ]
    results = [_result(vm, finding) for vm in judged for finding in vm.findings]
    run = {"tool": {"driver": driver}, "invocations": [invocation], "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules() -> list[Json]:
    return [
        {
            "id": check.id,
            "shortDescription": {"text": check.title},
            "help": {"text": f"Meaning and remedy: {check.page}"},
            "defaultConfiguration": {"level": _level(check.severity)},
        }
        for check in CHECKS
    ]


def _result(vm: ObjectFindings, finding: LintFinding) -> Json:
    place = f"{vm.title}/{finding.field}" if finding.field else vm.title
    return {
        "ruleId": finding.id,
        "ruleIndex": _RULE_INDEX[finding.id],
        "level": _level(finding.severity),
        "message": {"text": f"{vm.title}: {finding.field}: {finding.message}" if finding.field else f"{vm.title}: {finding.message}"},
        "locations": [
            {
                "physicalLocation": _physical(vm.source),
                "logicalLocations": [{"name": finding.field, "fullyQualifiedName": place, "kind": "member"}],
            }
        ],
    }


def _level(severity: Severity) -> str:
    return "error" if severity == DENIAL else "warning"


def _physical(source: DocumentSource) -> Json:
    """A file by its URI, relative as it was given, with the line at which the object begins; line 0 is the file as a whole."""
    uri = STANDARD_INPUT if source.name == "standard input" else ("file://" if source.name.startswith("/") else "") + quote(source.name)
    place: Json = {"artifactLocation": {"uri": uri}}
    if source.line:
        place["region"] = {"startLine": source.line}
    return place
