"""A plan as text, as a comment in Markdown, and as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, Literal, TypedDict

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import output_document
from virt_dra.model.unknown import UnknownFact, UnknownFactJson
from virt_dra.simulator.planning.objects import ObjectAction, PlannedChange
from virt_dra.simulator.planning.vms import VmChange, VmEffect
from webhooks.lint import DENIAL, ObjectFindings


class PlanSummaryJson(TypedDict):
    """The numbers of a plan."""

    create: int
    change: int
    delete: int
    """Without the objects that they own."""
    none: int
    """Objects of the manifests that the cluster has like that."""
    vms: dict[str, int]
    """The number of each effect."""
    denials: int
    warnings: int


class PlannedObjectJson(TypedDict):
    """What happens to an object."""

    action: ObjectAction
    kind: str
    namespace: str | None
    name: str


class VmChangeJson(TypedDict):
    """What happens to a VM."""

    effect: VmEffect
    """starts-fitting, stops-fitting: of what runs, if it were started again."""
    subject: str
    """e.g. VM team-a/trainer"""
    node: str | None
    """Where it starts."""
    why: str | None


class PlannedFindingJson(TypedDict):
    """A finding of the lint on a manifest."""

    object: str
    source: str
    """File and line."""
    id: str
    """virt-dra explain ID shows its page."""
    severity: Literal["denial", "warning"]
    field: str
    message: str


class PlanJson(TypedDict):
    """What a change of manifests would do to a cluster."""

    summary: PlanSummaryJson
    objects: list[PlannedObjectJson]
    vms: list[VmChangeJson]
    findings: list[PlannedFindingJson]
    unknown: list[UnknownFactJson]


_SIGNS: Final[Mapping[ObjectAction, str]] = {"create": "+", "change": "~", "delete": "-"}
_TEXTS: Final[Mapping[VmEffect, str]] = {
    "starts": "starts",
    "waits": "would wait",
    "ends": "ends",
    "loses-device": "loses a device",
    "starts-fitting": "could be started again",
    "stops-fitting": "couldn't be started again",
    "needs-restart": "runs on as it is until it is restarted",
}
_MOST: Final = 100
"""Rows of a comment: GitHub takes 65,536 characters."""
_CELL: Final = 300


@dataclass(frozen=True)
class PlanReport:
    """``findings``: on objects of the manifests."""

    objects: tuple[PlannedChange, ...]
    vms: tuple[VmChange, ...]
    findings: tuple[ObjectFindings, ...]
    unknown: tuple[UnknownFact, ...]

    @property
    def denials(self) -> int:
        return self._number(DENIAL)

    @property
    def has_losses(self) -> bool:
        return self.denials > 0 or any(change.is_loss for change in self.vms)

    @property
    def changes(self) -> tuple[PlannedChange, ...]:
        return tuple(change for change in self.objects if change.action != "none")

    @property
    def summary(self) -> str:
        """``Plan: 2 to create, 1 to change, 0 to delete; 1 VM starts, 1 would wait; 1 denial, 0 warnings``."""
        actions = Counter(change.action for change in self.objects)
        effects = Counter(change.effect for change in self.vms)
        objects = f"{actions['create']} to create, {actions['change']} to change, {actions['delete']} to delete"
        vms = [f"{number} {_TEXTS[effect]}" for effect in _TEXTS if (number := effects[effect])]
        findings = f"{counted(self.denials, 'denial')}, {counted(self._number() - self.denials, 'warning')}"
        return f"Plan: {objects}; VMs: {', '.join(vms) or 'none is concerned'}; {findings}"

    def _number(self, severity: str | None = None) -> int:
        return sum(severity in (None, finding.severity) for checked in self.findings for finding in checked.findings)

    def to_json(self) -> Json:
        actions = Counter(change.action for change in self.objects)
        members: PlanJson = {
            "summary": {
                "create": actions["create"],
                "change": actions["change"],
                "delete": actions["delete"],
                "none": actions["none"],
                "vms": dict(Counter(change.effect for change in self.vms)),
                "denials": self.denials,
                "warnings": self._number() - self.denials,
            },
            "objects": [
                {"action": of.action, "kind": of.kind, "namespace": of.namespace or None, "name": of.name}
                for of in self.objects
            ],
            "vms": [
                {"effect": of.effect, "subject": of.title, "node": of.node or None, "why": of.why or None}
                for of in self.vms
            ],
            "findings": [
                {
                    "object": checked.title,
                    "source": str(checked.source),
                    "id": finding.id,
                    "severity": finding.severity,
                    "field": finding.field,
                    "message": finding.message,
                }
                for checked in self.findings
                for finding in checked.findings
            ],
            "unknown": [fact.to_json() for fact in self.unknown],
        }
        return output_document("Plan", members)


def text_lines(report: PlanReport) -> Iterator[str]:
    for change in report.changes:
        yield f"  {_SIGNS[change.action]} {visible(change.title)}"
    if report.vms:
        yield from ("", "VMs")
    for vm in report.vms:
        yield f"  {'!' if vm.is_loss else ' '} {vm_sentence(vm)}"
    if any(checked.findings for checked in report.findings):
        yield from ("", "Findings")
    for denied, said in _findings(report.findings):
        yield f"  {'!' if denied else ' '} {said}"
    if report.changes or report.vms:
        yield ""
    yield report.summary
    yield from map(str, report.unknown)


def vm_sentence(vm: VmChange) -> str:
    where = f" on {vm.node}" if vm.node else ""
    return f"{visible(vm.title)} {_TEXTS[vm.effect]}{where}{f': {visible(vm.why)}' if vm.why else ''}"


def _findings(checked: Iterable[ObjectFindings]) -> Iterator[tuple[bool, str]]:
    """Whether it is a denial, and what is said."""
    for of in checked:
        for finding in of.findings:
            message = f"{finding.field}: {finding.message}" if finding.field else finding.message
            yield finding.severity == DENIAL, f"{visible(of.title)}: {visible(message)} [{finding.id}]"


def markdown_lines(report: PlanReport) -> Iterator[str]:
    """A comment on a pull request. Names and messages are users' texts: they are shown as text, whatever they hold."""
    yield "### What this change does to the cluster"
    yield from ("", _cell(report.summary))
    vms = [("⚠️" if vm.is_loss else "", vm_sentence(vm)) for vm in report.vms]
    findings = [("⚠️" if denied else "", said) for denied, said in _findings(report.findings)]
    objects = [(_SIGNS[change.action], change.title) for change in report.changes]
    for title, rows in (("VM", vms), ("Finding", findings), ("Object", objects)):
        if rows:
            yield from ("", f"| | {title} |", "|---|---|")
            yield from (f"| {sign} | {_cell(text)} |" for sign, text in rows[:_MOST])
            if len(rows) > _MOST:
                yield f"| | and {counted(len(rows) - _MOST, 'more')} |"
    if report.unknown:
        yield from ("", "Not known:")
        yield from (f"* {_cell(fact.text)}" for fact in report.unknown)


def _cell(text: str) -> str:
    """The text without any meaning in Markdown or HTML: no link, mention, image or table."""
    shown = visible(text)
    shown = shown if len(shown) <= _CELL else f"{shown[:_CELL]} …"
    return "".join(f"&#{ord(char)};" if char in _MEANINGFUL else char for char in escape(shown, quote=False))


_MEANINGFUL: Final = frozenset("\\`*_{}[]()#+!|~@$^:-")
