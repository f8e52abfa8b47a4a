"""The report of ``virt-dra lint``, as lines for people and as one JSON object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.kubevirt_versions import KubeVirtVersion, ObservedVersion
from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.reading.positions import FieldPosition
from virt_dra.cli.lint.document_types import (
    FaultJson,
    FindingCountJson,
    FindingFixJson,
    FindingPlaceJson,
    LintedObjectJson,
    LintReportJson,
    PlacedFindingJson,
)
from virt_dra.cli.lint.fixing import FixOutcome
from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cluster.duplicates import Replaced
from webhooks.lint import DENIAL, LintFinding, LintResult, ObjectFindings, Severity
from webhooks.lint.fixes.planning import FixPlan
from webhooks.rules.virtual_machines import NOT_JUDGED

FORMAT = 1
"""Version of the JSON object; increases when a member changes its meaning or is removed."""

_KINDS = {"DeviceClass": "DeviceClasses", "ResourceSlice": "ResourceSlices"}


SHOWN_OF_A_FILE: Final = 100
"""Findings of one file that are printed for people."""
_LISTED: Final = 8
_UNWRAPPED: Final = 200
MAX_DIFFS = 4 * 1024 * 1024
"""Characters of all diffs of findings in one document: many findings may have one large fix."""


def entry(judged: ObjectFindings, places: FindingPlaces, fixes: FindingFixes) -> LintedObjectJson:
    """One object as a member of ``objects``. A finding's line and column are those of its field, null where they aren't
    known."""
    return {
        "kind": judged.kind,
        "namespace": judged.namespace,
        "name": judged.name,
        "file": judged.source.name,
        "line": judged.source.line,
        "findings": [_placed(judged.source, finding, places, fixes) for finding in judged.findings],
    }


def _placed(
    source: DocumentSource, finding: LintFinding, places: FindingPlaces, fixes: FindingFixes
) -> PlacedFindingJson:
    said, at = finding.to_json(), _place(places.field_position(source, finding))
    placed: PlacedFindingJson = {
        "id": said["id"],
        "severity": said["severity"],
        "field": said["field"],
        "message": said["message"],
        "page": said["page"],
        "line": at["line"],
        "column": at["column"],
    }
    fault, fix = _fault(source, finding, places), fixes.to_json(source, finding)
    if fault is not None:
        placed["fault"] = fault
    if fix is not None:
        placed["fix"] = fix
    return placed


def _fault(source: DocumentSource, finding: LintFinding, places: FindingPlaces) -> FaultJson | None:
    """None unless the fault is in another object of the files."""
    at, elsewhere = finding.at, places.fault(source, finding)
    if at is None or elsewhere == source:
        return None
    return {
        "kind": at.kind,
        "namespace": at.namespace,
        "name": at.name,
        "field": at.field,
        "file": elsewhere.name,
        **_place(places.position(source, finding)),
    }


def _place(at: FieldPosition | None) -> FindingPlaceJson:
    return {"line": at.line if at is not None else None, "column": at.column if at is not None else None}


WAITING = "it waits for another fix of the same object; --fix makes both"


class FindingFixes:
    """The fixes of findings, for one document."""

    def __init__(self, plan: FixPlan | None) -> None:
        fixes, dropped, waiting = (plan.fixes, plan.dropped, plan.waiting) if plan is not None else ((), (), ())
        self._fixes = {(fix.source, fix.finding): fix for fix in fixes}
        self._reasons = {(fix.source, fix.finding): fix.reason for fix in dropped} | dict.fromkeys(waiting, WAITING)
        self._left = MAX_DIFFS

    def to_json(self, source: DocumentSource, finding: LintFinding) -> FindingFixJson | None:
        """None where no fix is known."""
        fix, reason = self._fixes.get((source, finding)), self._reasons.get((source, finding))
        if fix is None:
            return {"available": False, "reason": reason} if reason is not None else None
        diff = fix.diff if self._left > 0 else None
        self._left -= len(diff or "")
        return {"available": True, "diff": diff}


@dataclass(frozen=True)
class FindingCount:
    """How many findings of an id there are, and on how many objects."""

    severity: Severity
    id: str
    findings: int
    objects: int

    def __str__(self) -> str:
        return f"{self.severity}: {self.id}: {counted(self.findings, 'finding')} on {counted(self.objects, 'object')}"

    def to_json(self) -> FindingCountJson:
        return {"id": self.id, "severity": self.severity, "findings": self.findings, "objects": self.objects}


def _wrapped(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """The lines, wrapped between words; the rest of one is indented."""
    for line in lines:
        if width is None or len(line) <= width:
            yield line
        else:
            yield from wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class LintReport:
    """The report on a judgement, as lines of text or as JSON."""

    judgement: LintResult
    replaced: tuple[Replaced, ...] = ()
    places: FindingPlaces = field(default_factory=lambda: FindingPlaces({}))
    plan: FixPlan | None = None
    """The fixes of these findings; None after they were made."""
    outcome: FixOutcome | None = None
    """What became of fixes; None without --fix."""
    other_tools: tuple[str, ...] = ()
    """Files with documents that aren't meant as Kubernetes objects, which weren't checked."""
    unread: int = 0
    """Files that can't be read."""
    summary: bool = False
    """Only counts are wanted."""
    strict: bool = False
    """Whether it is said which of KubeVirt's rules aren't judged."""

    @property
    def version(self) -> KubeVirtVersion:
        return self.judgement.inputs.configuration.version

    @property
    def observed(self) -> ObservedVersion | None:
        """The version in the KubeVirt object's status; None without such an object."""
        return self.judgement.inputs.configuration.observed

    @property
    def denials(self) -> int:
        return sum(finding.severity == DENIAL for obj in self.judgement.checked for finding in obj.findings)

    @property
    def warnings(self) -> int:
        return sum(len(obj.findings) for obj in self.judgement.checked) - self.denials

    @property
    def fixable(self) -> int:
        """The number of findings that --fix removes."""
        return self.plan.removed if self.plan is not None else 0

    def lines(self, *, excerpts: bool = True, width: int | None = None) -> Iterator[str]:
        """Per finding the object's place, its name and the finding with its id, and below them, unless ``excerpts`` is
        False, the line of its fault; or with ``summary`` a line per id. Then the totals. ``width``: at which lines are
        wrapped; None: they aren't."""
        if self.summary:
            yield from _wrapped(map(str, self.counts), width)
        else:
            yield from self._findings(width, excerpts=excerpts)
        yield from _wrapped(self._totals(), width)

    @property
    def counts(self) -> list[FindingCount]:
        """By severity and id, denials first, the most first."""
        findings: Counter[tuple[Severity, str]] = Counter()
        objects: dict[tuple[Severity, str], set[DocumentSource]] = {}
        for obj in self.judgement.checked:
            for finding in obj.findings:
                findings[finding.severity, finding.id] += 1
                objects.setdefault((finding.severity, finding.id), set()).add(obj.source)
        counts = [FindingCount(*key, number, len(objects[key])) for key, number in findings.items()]
        return sorted(counts, key=lambda count: (count.severity, -count.findings, count.id))

    def _findings(self, width: int | None, *, excerpts: bool) -> Iterator[str]:
        """Of a file with very many the first, then how many more of which."""
        shown: Counter[str] = Counter()
        more: dict[str, Counter[str]] = {}
        for obj in self.judgement.checked:
            for finding in obj.findings:
                shown[obj.source.name] += 1
                if shown[obj.source.name] > SHOWN_OF_A_FILE:
                    more.setdefault(obj.source.name, Counter())[finding.id] += 1
                    continue
                yield from _wrapped([f"{obj.source}: {obj.about(str(finding))}"], width)
                if excerpts:
                    margin = 16  # of the indent and the line's number
                    excerpt = self.places.excerpt(obj.source, finding, max((width or _UNWRAPPED) - margin, margin))
                    yield from (f"    {line}" for line in excerpt)
        for name, ids in more.items():
            listed = ", ".join(f"{number:,} {id}" for id, number in ids.most_common())
            rest = f"{name}: {counted(ids.total(), 'more finding')}: {listed}; --summary counts all, -o json has all"
            yield from _wrapped([rest], width)

    def _totals(self) -> Iterator[str]:
        for replaced in self.replaced:
            yield str(replaced)
        yield (
            f"{counted(len(self.judgement.subjects), 'VM')} checked against {self.judgement.inputs.configuration}: "
            f"{counted(self.denials, 'denial')}, {counted(self.warnings, 'warning')}"
        )
        if self.fixable:
            yield f"{self.fixable} fixable with --fix"
        if self.observed is not None and self.observed.unreadable:
            yield f"{self.observed}; {self.observed.advice}"
        if self.unread:
            yield f"{counted(self.unread, 'file')} could not be read; what they have counts as missing"
        if self.other_tools:
            names = ", ".join(self.other_tools[:_LISTED]) + (", …" if len(self.other_tools) > _LISTED else "")
            yield f"not meant for Kubernetes, so not checked: {names} ({counted(len(self.other_tools), 'file')})"
        if self.judgement.not_checked:
            kinds = " and ".join(_KINDS.get(kind, kind) for kind in self.judgement.not_checked)
            none = "of which the files have none; add those of the cluster"
            yield f"not checked: everything that depends on {kinds}, {none}"
        if self.strict:
            yield f"not judged, though KubeVirt checks it: {'; '.join(NOT_JUDGED)}"

    def to_json(self) -> LintReportJson:
        fixes = FindingFixes(self.plan)
        report: LintReportJson = {
            "version": FORMAT,
            "kubevirt": str(self.version),
            "kubevirtAssumed": self.observed is not None and self.observed.unreadable,
            "denials": self.denials,
            "warnings": self.warnings,
            "replaced": [obj.to_json() for obj in self.replaced],
            "notChecked": list(self.judgement.not_checked),
            "unknown": [fact.to_json() for fact in self.judgement.unknown],
            "otherTools": list(self.other_tools),
            "counts": [count.to_json() for count in self.counts],
        }
        if self.strict:
            report["notJudged"] = list(NOT_JUDGED)
        if self.outcome is not None:
            report["fixes"] = self.outcome.to_json()
        if not self.summary:
            report["objects"] = [entry(obj, self.places, fixes) for obj in self.judgement.checked]
        return report
