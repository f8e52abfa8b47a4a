"""The verdict on a VM before it has a pod: the lint's denials, without those that the fit explains better."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes import names as instancetypes
from virt_dra.api.meta import UnknownObject
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.reading.documents import Document, DocumentSource
from virt_dra.cel import Work
from virt_dra.matching.evaluating import ImmediateEvaluator
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.unknown import UnknownFact
from virt_dra.scheduling.framework.refusals import Reason
from webhooks.lint.documents import findings_of_vm
from webhooks.lint.evaluation import findings_as_written, findings_of
from webhooks.lint.finding import DENIAL, LintSettings
from webhooks.lint.inputs import KINDS, KubeVirtAtHand, LintInputs, Trial
from webhooks.lint.linted import Linted
from webhooks.lint.manifest import Manifest
from webhooks.lint.registry import CHECKS
from webhooks.rules.reviewed_spec import VmObject

PATH: Final = "PathMayNotWork"
"""Whether the integration path that a VM asks for goes together with its driver isn't known."""
SIZE: Final = "InstancetypeNotGiven"
"""The instancetype or preference of a VM isn't given or couldn't be read: how large the VM is isn't known."""
_ANSWERED_BY_FIT: Final = frozenset(
    {
        "class-missing", "selector-error", "no-matching-device", "not-enough-devices", "not-enough-capacity",
        "no-usable-node", "claims-do-not-fit", "no-node-fits",
    }
)  # fmt: skip
"""Findings about a place, of which an explanation says more: by node, and beside all that runs."""
_CHECKS: Final = tuple(check for check in CHECKS if check.severity == DENIAL and check.id not in _ANSWERED_BY_FIT)
_OF_MADE_PODS: Final = tuple(check for check in _CHECKS if check.id in ("path-does-not-work", "no-integration-path"))
"""Of the denials, what still holds once the pod was made."""
_DOUBTS: Final = {"path-may-not-work": PATH, "address-key": PATH, "instancetype-not-checked": SIZE}
"""Findings that leave open whether the VM starts, and the codes of what isn't known then."""
_DOUBT_CHECKS: Final = tuple(check for check in CHECKS if check.id in _DOUBTS)
_KEEPING: Final = tuple(check for check in CHECKS if check.id in ("keep-limited", "keep-ignored"))
_WORK: Final = 10_000_000
"""Microseconds that evaluating selectors may take in all; what is beyond isn't checked."""


class AdmissionReview:
    """Judges the VMs of one model. The devices are read once."""

    def __init__(self, model: ClusterModel, configuration: KubeVirtAtHand, trial: Trial) -> None:
        unread = {kind.KIND for kind in (*model.unread, *model.partial)}
        instancetype_kinds = {obj.kind for obj in model.of(UnknownObject)}.intersection(instancetypes.NAMESPACED_KINDS)
        # Namespaces that objects only name stand for ones of which no label is known.
        named = [namespace for namespace in model.of(Namespace) if not namespace.metadata.labels]
        inputs = LintInputs.from_model(model, (frozenset(KINDS) | instancetype_kinds) - unread, configuration)
        self._inputs = replace(inputs, model=model.changed(removed=named), trial=trial)
        self._evaluator = ImmediateEvaluator(Work(_WORK))

    def denial(self, subject: VmObject, *, made: bool = False) -> Reason | None:
        """The first finding that keeps the VM from starting; a code of docs/lint. ``made``: its pod exists."""
        linted = self._linted(subject)
        if made:
            findings = tuple(findings_of(linted, _OF_MADE_PODS))
        else:
            manifest = Manifest.read(Document(subject.to_wire(), DocumentSource(subject.key)), subject.namespace)
            as_written = findings_as_written(manifest, LintSettings(), self._inputs.configuration.release)
            findings = findings_of_vm(linted, as_written, _CHECKS)
        finding = next((finding for finding in findings if finding.severity == DENIAL), None)
        if finding is None:
            return None
        return Reason(finding.id, f"{finding.field}: {finding.message}" if finding.field else finding.message)

    def preferences(self, subject: VmObject) -> tuple[PreferredAlignment, ...]:
        """Alignments that the VM's line prefers, and that nobody has decided on yet."""
        return self._inputs.lines(subject.namespace).admitted(subject).preferences

    def doubts(self, subject: VmObject) -> tuple[UnknownFact, ...]:
        """What leaves open whether the VM starts where it fits."""
        return tuple(
            UnknownFact(_DOUBTS[finding.id], subject.key, finding.message)
            for finding in findings_of(self._linted(subject), _DOUBT_CHECKS)
        )

    def keeping(self, subject: VmObject) -> tuple[str, ...]:
        """What reduces how long the VM keeps its devices: KeepPolicies, and places where its wish isn't heard."""
        return tuple(finding.message for finding in findings_of(self._linted(subject), _KEEPING))

    def _linted(self, subject: VmObject) -> Linted:
        return Linted(subject, subject.namespace, self._inputs, LintSettings(), self._evaluator)
