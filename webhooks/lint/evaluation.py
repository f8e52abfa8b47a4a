"""Running the checks on one object: on a VM with all it names, or on any object as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.kubevirt_versions import Gates
from webhooks.lint.finding import DENIAL, LintCheck, LintFinding, LintSettings
from webhooks.lint.linted import Linted
from webhooks.lint.manifest import Manifest
from webhooks.lint.registry import BY_ID, CHECKS, REFUSED_BY_REVIEW, UNKNOWN_FIELD, UNRENDERED
from webhooks.rules.silence import silenced

REQUIRED_VALUE: Final = "Required value"


def findings_of(linted: Linted, checks: Iterable[LintCheck], denied: bool = False) -> Iterator[LintFinding]:
    """What the checks find in a VM or VMI, without what the settings or its annotation silence. ``denied``: there is a denial already."""
    if isinstance(linted.object, VirtualMachine) and not linted.object.spec.given("template"):
        checks = [BY_ID[REFUSED_BY_REVIEW]]  # without a template there is nothing else to check
    unwanted = silenced(linted.object)
    for check in checks:
        if check.find is None or (check.last and denied):
            continue
        severity = linted.settings.severity(check)
        if severity is None or check.id in unwanted:
            # It is silenced, but the fault is there: a ``last`` check must not report it in other words.
            denied = denied or (check.severity == DENIAL and any(True for _ in check.find(linted)))
            continue
        for found in dict.fromkeys(check.find(linted)):
            denied = denied or severity == DENIAL or check.severity == DENIAL
            yield LintFinding(check.id, severity, visible(found.field), visible(found.message))


def findings_as_written(manifest: Manifest, settings: LintSettings, release: Gates | None) -> tuple[LintFinding, ...]:
    """The findings on an object alone, without the objects that it names.

    A field with a template instruction gets no other finding. Nor does a required field that is missing beside an unknown one, which is
    probably a misspelling of it.
    """
    found = {check.id: tuple(dict.fromkeys(check.judge(manifest, release))) for check in CHECKS if check.judge is not None}
    explained = {each.field for each in found[UNRENDERED]}
    misplaced = {each.field.rpartition(".")[0] for each in found[UNKNOWN_FIELD]}
    reported: list[LintFinding] = []
    for check in CHECKS:
        severity = settings.severity(check)
        if severity is None or check.id in manifest.silenced:
            continue
        for each in found.get(check.id, ()):
            if check.id != UNRENDERED and each.field in explained:
                continue
            if check.id != UNKNOWN_FIELD and each.field in misplaced and each.message.startswith(REQUIRED_VALUE):
                continue
            reported.append(LintFinding(check.id, severity, visible(each.field), visible(each.message)))
    return tuple(reported)
