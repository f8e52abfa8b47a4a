"""Runs the checks on one object: on a VM with the objects that it names, or on any object as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from webhooks.lint.finding import DENIAL, RUNNING, START, LintCheck, LintFinding, LintIssue, LintSettings, Severity
from webhooks.lint.inputs import LintInputs
from webhooks.lint.linted import Linted
from webhooks.lint.manifest import Manifest
from webhooks.lint.registry import BY_ID, CHECKS, REFUSED_BY_REVIEW, UNKNOWN_FIELD, UNRENDERED
from webhooks.rules.silence import silenced
from webhooks.verdict import FieldIssue

REQUIRED_VALUE: Final = "Required value"
AT_NEXT_START: Final = "at its next start: "
"""The preface of a finding about the next start of a VM that runs."""


def findings_of(linted: Linted, checks: Iterable[LintCheck], denied: bool = False) -> Iterator[LintFinding]:
    """The findings of checks on a VM or VMI that aren't silenced. ``denied``: it has a denial already, so ``last``
    checks don't run.

    While the guest runs, a VMI, which starts once, has only findings that matter then; a VM's findings about starting
    say that they are about the next start."""
    if isinstance(linted.object, VirtualMachine) and not linted.object.spec.given("template"):
        checks = [BY_ID[REFUSED_BY_REVIEW]]  # without a template there is nothing else to check
    ignored = silenced(linted.object)
    for check in checks:
        over = linted.runs and check.matters != RUNNING and isinstance(linted.object, VirtualMachineInstance)
        if check.find is None or (check.last and denied) or over:
            continue
        severity = linted.settings.severity(check)
        if severity is None or check.id in ignored:
            # A silenced fault still exists: a ``last`` check must not report it in other words.
            denied = denied or (check.severity == DENIAL and any(True for _ in check.find(linted)))
            continue
        for issue in dict.fromkeys(check.find(linted)):
            denied = denied or severity == DENIAL or check.severity == DENIAL
            preface = AT_NEXT_START if linted.runs and check.matters == START else ""
            yield _finding(check, severity, issue, linted.written_field(issue.field), preface)


def findings_as_written(
    manifest: Manifest, settings: LintSettings, release: KubeVirtVersion | None = None
) -> tuple[LintFinding, ...]:
    """The findings on an object alone, without the objects that it names. ``release``: whose VM or VMI it is; None for
    virt-dra's own CRDs.

    A field with a template instruction gets no other finding, nor does a missing required field beside an unknown one,
    which is probably a misspelling of it.
    """
    issues = {
        check.id: tuple(dict.fromkeys(check.find_as_written(manifest, release)))
        for check in CHECKS
        if check.find_as_written is not None
    }
    explained = {issue.field for issue in issues[UNRENDERED]}
    misplaced = {issue.field.rpartition(".")[0] for issue in issues[UNKNOWN_FIELD]}
    reported: list[LintFinding] = []
    for check in CHECKS:
        severity = settings.severity(check)
        if severity is None or check.id in manifest.silenced:
            continue
        for issue in issues.get(check.id, ()):
            if check.id != UNRENDERED and issue.field in explained:
                continue
            if check.id != UNKNOWN_FIELD and issue.field in misplaced and issue.message.startswith(REQUIRED_VALUE):
                continue
            reported.append(_finding(check, severity, issue, issue.field))
    return tuple(reported)


def findings_beside(manifest: Manifest, settings: LintSettings, inputs: LintInputs) -> Iterator[LintFinding]:
    """The findings on an object that isn't a VM, because of the other objects."""
    for check in CHECKS:
        severity = settings.severity(check)
        if check.find_beside is None or manifest.object is None or severity is None or check.id in manifest.silenced:
            continue
        for issue in check.find_beside(manifest.object, inputs):
            yield _finding(check, severity, issue, issue.field)


def _finding(check: LintCheck, severity: Severity, issue: FieldIssue, field: str, preface: str = "") -> LintFinding:
    """The finding of an issue at a field. ``preface``: of its message."""
    finding = LintFinding(check.id, severity, visible(field), visible(f"{preface}{issue.message}"))
    return (
        replace(finding, repair=issue.repair, at=issue.at, part=issue.part) if isinstance(issue, LintIssue) else finding
    )
