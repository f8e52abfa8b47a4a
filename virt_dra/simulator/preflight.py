"""The lint before a run: refused objects are left out, and the findings on each VM are part of its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from virt_dra.api.go_text import visible
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, Sourced
from virt_dra.cluster.accepting import RefusedObject
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.deadline import AllocationDeadline
from virt_dra.simulator.embedded import Ran, RunSettings, run_on
from virt_dra.simulator.fit import Fitting
from virt_dra.simulator.handovers import RunClock
from virt_dra.simulator.outcome import HandOver, HandOverFailure, VmOutcome
from webhooks.lint import DENIAL, LintFinding, LintResult, LintSettings, Manifest, ObjectFindings, lint_documents
from webhooks.lint.registry import INVALID


def judged_for_run(documents: Iterable[Document], settings: RunSettings, lint: LintSettings) -> LintResult:
    """The lint's verdict on the documents of a run; allocations that it tries have a time limit."""
    return lint_documents(
        documents,
        lint,
        version=settings.kubevirt,
        gates=settings.gates,
        beside_kubevirt=settings.beside_kubevirt,
        namespace=settings.namespace,
        trial=partial(Fitting, limit=AllocationDeadline()),
    )


async def run_judged(cluster: MemoryCluster, judgement: LintResult, settings: RunSettings, clock: RunClock) -> Ran:
    """The run of all VMs of judged documents on an empty cluster, with the findings on each."""
    inputs, refused = inputs_of(judgement)
    return with_findings(await run_on(cluster, inputs, settings, clock, refused), judgement)


def inputs_of(judgement: LintResult) -> tuple[tuple[Sourced[TypedObject], ...], tuple[RefusedObject, ...]]:
    """The objects for the embedded cluster, with every VM that can be read; and the objects that an API server would
    refuse before it validates values, for wrong types, unknown fields, or unrendered templates."""
    inputs: list[Sourced[TypedObject]] = []
    refused: list[RefusedObject] = []
    for manifest, findings in judgement.manifests:
        denials = [finding for finding in findings if finding.severity == DENIAL]
        if manifest.object is not None and (
            manifest.is_subject or not denials or any(denial.id == INVALID for denial in denials)
        ):
            obj = manifest.stored_by(judgement.inputs.configuration.release) if manifest.is_subject else manifest.object
            inputs.append(Sourced(obj, manifest.source))
        elif not manifest.is_subject:
            refused.append(_refused(manifest, denials))
    return tuple(inputs), tuple(refused)


def _refused(manifest: Manifest, denials: list[LintFinding]) -> RefusedObject:
    key = f"{manifest.namespace}/{manifest.name}" if manifest.namespace else manifest.name
    problems = [(denial.field, denial.message) for denial in denials] or list(manifest.problems)
    described = "; ".join(f"{field}: {message}" if field else message for field, message in problems)
    message = visible(f"{manifest.kind or 'object'} {key}: {described}")
    return RefusedObject(str(manifest.source), message, manifest.kind, key)


def with_findings(ran: Ran, judgement: LintResult) -> Ran:
    """The run with each VM's findings, and with the VMs that could not be read, in the order of the input."""
    outcomes = {outcome.source: outcome for outcome in ran.outcomes}
    merged: list[VmOutcome] = []
    for judged in judgement.subjects:
        outcome = outcomes.pop(str(judged.source), None)
        if outcome is not None:
            merged.append(replace(outcome, findings=judged.findings))
        elif judged.subject is None:
            merged.append(_unreadable(judged))
    return replace(ran, outcomes=(*merged, *outcomes.values()))


def _unreadable(judged: ObjectFindings) -> VmOutcome:
    details = tuple(
        f"{finding.field}: {finding.message}" if finding.field else finding.message for finding in judged.findings
    )
    message = ": ".join(filter(None, ("the API server can't read the object", "; ".join(details))))
    more = details if len(details) > 1 else ()
    advice = "correct the types of the fields"
    failure = HandOverFailure(HandOver.ADMISSION, "BadRequest", message, advice, more)
    return VmOutcome(
        judged.kind, judged.namespace, judged.name, str(judged.source), findings=judged.findings, failure=failure
    )
