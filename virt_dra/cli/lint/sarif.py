"""Findings as a SARIF 2.1.0 log, which code scanning shows at the object's line."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from urllib.parse import quote

from virt_dra.api.reading.documents import DocumentSource, ReadProblem
from virt_dra.api.reading.positions import FieldPosition
from virt_dra.api.wire import Json
from virt_dra.cli.explain.pages import page
from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cluster.duplicates import Replaced
from webhooks.lint import CHECKS, DENIAL, LintFinding, ObjectFindings, Severity

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
STANDARD_INPUT = "stdin"
"""In place of a file's URI."""

_RULE_INDEX = {check.id: index for index, check in enumerate(CHECKS)}


def sarif(
    judged: Iterable[ObjectFindings], problems: tuple[ReadProblem, ...] = (), replaced: tuple[Replaced, ...] = (), *,
    places: FindingPlaces | None = None, pages_url: str = "",
) -> Json:  # fmt: skip
    """A log of one run. ``problems``: why the input could not be read, which makes the run unsuccessful. ``pages_url``:
    where the pages of findings are served, "" for nowhere; each rule has its page as its help in any case."""
    driver = {"name": "virt-dra", "version": version("virt-dra"), "rules": _rules(pages_url)}
    invocation: Json = {"executionSuccessful": not problems}
    notifications = [("error", problem.message, problem.source) for problem in problems]
    notifications += [("warning", str(obj), obj.used) for obj in replaced]
    if notifications:
        invocation["toolExecutionNotifications"] = [
            {"level": level, "message": {"text": text}, "locations": [{"physicalLocation": _physical(source)}]}
            for level, text, source in notifications
        ]
    places = places or FindingPlaces({})
    results = [_result(vm, finding, places) for vm in judged for finding in vm.findings]
    tool, kind = {"driver": driver}, "unicodeCodePoints"
    run = {"tool": tool, "invocations": [invocation], "columnKind": kind, "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(pages_url: str) -> list[Json]:
    return [
        {
            "id": check.id,
            "shortDescription": {"text": check.title},
            "help": {"text": f"Meaning and remedy: {check.page}", "markdown": page(check.id) or ""},
            **({"helpUri": f"{pages_url.rstrip('/')}/{check.id}"} if pages_url else {}),
            "defaultConfiguration": {"level": _level(check.severity)},
        }
        for check in CHECKS
    ]


def _result(vm: ObjectFindings, finding: LintFinding, places: FindingPlaces) -> Json:
    place = f"{vm.title}/{finding.field}" if finding.field else vm.title
    fault = places.fault(vm.source, finding)
    reference = _physical(vm.source, places.field_position(vm.source, finding))
    return {
        "ruleId": finding.id,
        "ruleIndex": _RULE_INDEX[finding.id],
        "level": _level(finding.severity),
        "message": {"text": vm.described(finding)},
        "locations": [
            {
                "physicalLocation": _physical(fault, places.position(vm.source, finding)),
                "logicalLocations": [{"name": finding.field, "fullyQualifiedName": place, "kind": "member"}],
            }
        ],
        **({"relatedLocations": [{"physicalLocation": reference}]} if fault != vm.source else {}),
    }


def _level(severity: Severity) -> str:
    return "error" if severity == DENIAL else "warning"


def _physical(source: DocumentSource, at: FieldPosition | None = None) -> Json:
    """A file by its URI, relative as it was given, with the place of a field, else the line at which the object begins;
    line 0 is the file as a whole."""
    file = f"{'file://' if source.name.startswith('/') else ''}{quote(source.name)}"
    uri = STANDARD_INPUT if source.name == "standard input" else file
    place: Json = {"artifactLocation": {"uri": uri}}
    if at is not None:
        place["region"] = {"startLine": at.line, "startColumn": at.column, "endColumn": at.column + at.length}
    elif source.line:
        place["region"] = {"startLine": source.line}
    return place
