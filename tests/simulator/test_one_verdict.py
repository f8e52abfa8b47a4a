"""One verdict: what the lint passes, the API server and the run don't refuse; what it denies, they don't make ready
without a reason."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.simulator.odd_inputs import inputs, sound
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced, read_document
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.simulator.embedded import Ran, RunSettings, run_on
from virt_dra.simulator.fit import Fitting
from virt_dra.simulator.outcome import HandOver, HandOverFailure
from virt_dra.simulator.preflight import inputs_of, with_findings
from webhooks.admission import admit
from webhooks.lint import LintResult, lint_documents
from webhooks.lint import LintSettings as LintSettings

EXAMPLES = int(os.environ.get("ONE_VERDICT", "250"))
"""Inputs that are tried; ONE_VERDICT=20000 for a long search."""

BEYOND_THE_RUN = {
    "unknown-field": "strict validation is kubectl's; the hand-overs keep what they don't know",
    "unrendered-template": "no rule looks at the text, and the hand-overs carry it through",
    "invalid-object": "the schema of a KubeVirt knows fields and names for which the hand-overs have no rule",
    "lost-request": "the containers of these releases lack the request; that is "
    "for a kubelet to heed, which no hand-over is",
    "direct-claim-unresolved": "these releases never find the devices of direct claims; ours does",
    "no-address": "some of the devices that the VM may get have none: this time it got another one",
    "selector-error": "the allocator met a device that fits before the one on which the selector fails",
}
"""Denials of VMs that the hand-overs carry out all the same, and why."""


def _documents(objects: list[Any]) -> list[Document]:
    return [Document(raw, DocumentSource("input", number)) for number, raw in enumerate(objects, 1)]


def _judged(documents: list[Document], release: KubeVirtVersion | None = None) -> LintResult:
    return lint_documents(documents, LintSettings(), version=release, gates=GATES if release else None, trial=Fitting)


async def _ran(
    objects: tuple[Sourced[Any], ...], refused: tuple[Any, ...] = (), release: KubeVirtVersion | None = None
) -> Ran:
    now, chosen = datetime(2026, 1, 1, tzinfo=UTC), RunSettings(kubevirt=release, gates=GATES if release else {})
    return await run_on(MemoryCluster.deterministic(), objects, chosen, lambda: now, refused)


def _readable(documents: list[Document]) -> tuple[Sourced[Any], ...]:
    read = (read_document(document) for document in documents)
    return tuple(obj for obj in read if isinstance(obj, Sourced))


async def test_the_sound_input_is_ready() -> None:
    documents = _documents(sound())
    assert [judged.findings for judged in _judged(documents).checked] == [()]
    assert (await _ran(_readable(documents))).ready


RELEASES = [None, *map(KubeVirtVersion.parse, ("1.9", "1.8.4", "1.8.0", "1.7.4"))]
GATES = {"GPUsWithDRA": True, "HostDevices": True, "HostDevicesWithDRA": True}


@pytest.mark.slow
@given(inputs(), st.sampled_from(RELEASES))
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
async def test_lint_run_and_api_server_agree(objects: list[Any], release: KubeVirtVersion | None) -> None:
    documents = _documents(objects)
    judgement = _judged(documents, release)
    if not judgement.readable or not judgement.subjects:
        return
    denials = [
        f"{judged.title}: {finding}"
        for judged in judgement.checked
        for finding in judged.findings
        if finding.severity == "denial"
    ]
    # The hand-overs alone, with every object that can be read: what they and the embedded API server refuse, they
    # refuse by themselves.
    alone = await _ran(_readable(documents), release=release)
    note(
        f"lint: {denials}; run: {[refusal.message for refusal in alone.refused]} "
        f"{[outcome.failure for outcome in alone.outcomes]}"
    )
    if not denials:
        assert alone.refused == ()
        failed = [outcome.failure for outcome in alone.outcomes if outcome.failure is not None]
        assert [failure for failure in failed if not _explained(failure, judgement, len(alone.outcomes))] == []
        for raw_vm in (document.raw for document in documents if _is_vm(document.raw)):
            # tests/cli/jsonl/test_admit_on_a_real_api_server.py holds this verdict against the real ones.
            gates = judgement.inputs.configuration.gates
            assert isinstance(raw_vm, dict)
            verdict = admit(raw_vm, gates, kubevirt=release is not None, field_validation="Strict")
            assert verdict.causes == ()
    denied = {str(judged.source) for judged in judgement.checked if judged.denied}
    assert {refusal.source for refusal in alone.refused} <= denied
    raw = await _ran(*inputs_of(judgement), release)
    ready = {outcome.source for outcome in raw.outcomes if outcome.failure is None}
    for judged in judgement.subjects:
        if judged.denied and str(judged.source) in ready:
            assert {finding.id for finding in judged.findings if finding.severity == "denial"} & BEYOND_THE_RUN.keys()
    assert not [
        outcome.name for outcome in with_findings(raw, judgement).outcomes if outcome.ready and outcome.source in denied
    ]


def _is_vm(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.get("kind") in ("VirtualMachine", "VirtualMachineInstance")


def _explained(failure: HandOverFailure, judgement: LintResult, vms: int) -> bool:
    """Failures of a run that the lint leaves open: it says so (nothing is known of classes or slices), VMs compete for
    devices, a device plugin would be needed, which the embedded cluster lacks, or a VM finds a VMI of its name, which
    KubeVirt adopts."""
    if failure.step == HandOver.PLACEMENT:
        return bool(judgement.not_checked) or vms > 1
    return failure.reason in ("CountMismatch", "AlreadyExists")
