"""The report of ``virt-dra lint``, as lines for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from virt_dra.api.counting import counted
from virt_dra.api.kubevirt_versions import KubeVirtVersion, ObservedVersion
from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.reading.positions import FieldPosition
from virt_dra.api.wire import Json
from virt_dra.cli.lint.fixing import FixOutcome
from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cluster.duplicates import Replaced
from webhooks.lint import DENIAL, LintFinding, LintResult, ObjectFindings
from webhooks.lint.fixes.planning import FixPlan

FORMAT = 1
"""Version of the JSON object; increases when a member changes its meaning or is removed."""

_KINDS = {"DeviceClass": "DeviceClasses", "ResourceSlice": "ResourceSlices"}


MAX_DIFFS = 4 * 1024 * 1024
"""Characters of all diffs of findings in one document: many findings may have one large fix."""


def entry(judged: ObjectFindings, places: FindingPlaces, fixes: FindingFixes) -> Json:
    """One object as a member of ``objects``. A finding's line and column are those of its field, null where they aren't
    known."""
    return {
        "kind": judged.kind,
        "namespace": judged.namespace,
        "name": judged.name,
        "file": judged.source.name,
        "line": judged.source.line,
        "findings": [
            {
                **finding.to_json(),
                **_place(places.position(judged.source, finding.field)),
                **fixes.to_json(judged.source, finding),
            }
            for finding in judged.findings
        ],
    }


def _place(at: FieldPosition | None) -> Json:
    return {"line": at.line if at is not None else None, "column": at.column if at is not None else None}


WAITING = "it waits for another fix of the same object; --fix makes both"


class FindingFixes:
    """The fixes of findings, for one document."""

    def __init__(self, plan: FixPlan | None) -> None:
        self._fixes = {(fix.source, fix.finding): fix for fix in plan.fixes} if plan is not None else {}
        self._reasons = {(fix.source, fix.finding): fix.reason for fix in plan.dropped} if plan is not None else {}
        if plan is not None:
            self._reasons |= dict.fromkeys(plan.waiting, WAITING)
        self._left = MAX_DIFFS

    def to_json(self, source: DocumentSource, finding: LintFinding) -> Json:
        """The member ``fix``, where one is known: ``available``, and the ``diff``, or a ``reason`` if it can't be
        made."""
        fix, reason = self._fixes.get((source, finding)), self._reasons.get((source, finding))
        if fix is None:
            return {"fix": {"available": False, "reason": reason}} if reason is not None else {}
        diff = fix.diff if self._left > 0 else None
        self._left -= len(diff or "")
        return {"fix": {"available": True, "diff": diff}}


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
        return sum(finding.severity != DENIAL for obj in self.judgement.checked for finding in obj.findings)

    @property
    def fixable(self) -> int:
        """The number of findings that --fix would remove, as far as it is known without running it."""
        if self.plan is None:
            return 0
        return len(self.plan.fixes) if self.outcome is None else self.plan.removed

    def lines(self, *, excerpts: bool = True) -> Iterator[str]:
        """Per finding the object's place, its name and the finding with its id, and below them, unless ``excerpts`` is
        False, the line of its field. Then the totals."""
        for obj in self.judgement.checked:
            for finding in obj.findings:
                yield f"{obj.source}: {obj.title}: {finding}"
                if excerpts:
                    yield from (f"    {line}" for line in self.places.excerpt(obj.source, finding.field))
        for replaced in self.replaced:
            yield str(replaced)
        yield (
            f"{counted(len(self.judgement.subjects), 'VM')} checked against KubeVirt {self.version}: "
            f"{counted(self.denials, 'denial')}, {counted(self.warnings, 'warning')}"
        )
        if self.fixable:
            yield f"{self.fixable} fixable with --fix"
        if self.observed is not None and self.observed.unreadable:
            yield f"{self.observed}; {self.observed.advice}"
        if self.judgement.not_checked:
            kinds = " and ".join(_KINDS.get(kind, kind) for kind in self.judgement.not_checked)
            yield (
                f"not checked: everything that depends on {kinds}, of which the "
                "files have none; add those of the cluster"
            )

    def to_json(self) -> Json:
        fixes = FindingFixes(self.plan)
        return {
            "version": FORMAT,
            "kubevirt": str(self.version),
            "kubevirtAssumed": self.observed is not None and self.observed.unreadable,
            "denials": self.denials,
            "warnings": self.warnings,
            "replaced": [obj.to_json() for obj in self.replaced],
            "notChecked": list(self.judgement.not_checked),
            **({"fixes": self.outcome.to_json()} if self.outcome is not None else {}),
            "objects": [entry(obj, self.places, fixes) for obj in self.judgement.checked],
        }
