"""The types of the document that ``virt-dra lint -o json`` writes."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from virt_dra.cluster.duplicates import ReplacedJson
from virt_dra.model.unknown import UnknownFactJson
from webhooks.lint import LintFindingJson, Severity


class FindingPlaceJson(TypedDict):
    """A place in a file; null where it isn't known."""

    line: int | None
    column: int | None


class FaultJson(FindingPlaceJson):
    """Where the fault is, if that is in another object of the files."""

    kind: str
    namespace: str
    name: str
    field: str
    file: str


class FindingFixJson(TypedDict):
    """What --fix would do about a finding."""

    available: bool
    diff: NotRequired[str | None]
    """null if the diffs of the other findings are too large already."""
    reason: NotRequired[str]
    """Why it can't be fixed."""


class PlacedFindingJson(LintFindingJson, FindingPlaceJson):
    """A finding with the place of its field."""

    fault: NotRequired[FaultJson]
    fix: NotRequired[FindingFixJson]


class LintedObjectJson(TypedDict):
    """An object with findings."""

    kind: str
    namespace: str
    name: str
    file: str
    line: int
    findings: list[PlacedFindingJson]


class FindingCountJson(TypedDict):
    """How many findings of an id there are, and on how many objects."""

    id: str
    severity: Severity
    findings: int
    objects: int


class FixedFileJson(TypedDict):
    """A file that --fix changes."""

    file: str
    diff: str
    written: bool
    problem: NotRequired[str]
    """Why it isn't written."""


class DroppedFixJson(TypedDict):
    """A finding that can't be fixed."""

    file: str
    line: int
    object: str
    id: str
    field: str
    reason: str


class FixOutcomeJson(TypedDict):
    """What became of --fix."""

    applied: bool
    """True if all files are written."""
    files: list[FixedFileJson]
    dropped: list[DroppedFixJson]


class LintReportJson(TypedDict):
    """The verdict on the VMs of files or of a cluster, and on all that they name."""

    version: int
    """Of this document's members; increases when one changes its meaning or is removed."""
    kubevirt: str
    """The release that the VMs are checked against."""
    kubevirtAssumed: bool
    """True if the KubeVirt object's own version can't be read."""
    denials: int
    warnings: int
    replaced: list[ReplacedJson]
    notChecked: list[str]
    """Kinds of which the files have none: what depends on them isn't checked."""
    unknown: list[UnknownFactJson]
    otherTools: list[str]
    """Files that aren't meant for Kubernetes, which weren't checked."""
    notJudged: NotRequired[list[str]]
    """With --strict: what KubeVirt checks and the lint doesn't."""
    fixes: NotRequired[FixOutcomeJson]
    """With --fix."""
    counts: list[FindingCountJson]
    objects: NotRequired[list[LintedObjectJson]]
    """Absent with --summary."""
