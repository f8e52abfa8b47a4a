"""The pre-flight lint: finds the faults of a VM or VMI and of the objects that it names, before anything is created.

    >>> from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
    >>> raw = {"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}}
    >>> [finding.id for finding in lint(VirtualMachineInstance.from_wire(raw), LintInputs())]
    ['unused-claim', 'template-missing']

Each finding has a stable id, and a page in docs/lint. A check is a row of :mod:`webhooks.lint.registry` and a function
of :mod:`webhooks.lint.checks`. Pure: must not import an I/O library, a clock or the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from virt_dra.api.core_v1 import Namespace, PodResourceClaim
from virt_dra.api.integration.paths import ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.persistent_map import PersistentMap
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.matching.published_slice import PublishedSlice
from virt_dra.matching.slice_answers import SelectorEvaluator
from webhooks.knowledge import LauncherSettings, RequestDrivers
from webhooks.launcher_pod.lost_requests import loses_requests
from webhooks.lint.documents import LintResult, ObjectFindings, findings_on_vms, lint_documents
from webhooks.lint.evaluation import findings_of
from webhooks.lint.finding import DENIAL, WARNING, LintCheck, LintFinding, LintFindingJson, LintSettings, Severity
from webhooks.lint.inputs import DEFAULT_NAMESPACE, KubeVirtAtHand, LintInputs
from webhooks.lint.inventory import DeviceInventory
from webhooks.lint.linted import Linted
from webhooks.lint.manifest import Manifest
from webhooks.lint.registry import BY_ID, CHECKS, REFUSED_BY_REVIEW, WARNED_BY_REVIEW
from webhooks.lint.request_drivers import request_drivers
from webhooks.rules.reviewed_spec import VmObject
from webhooks.rules.silence import IGNORE_ANNOTATION
from webhooks.verdict import INVALID, AdmissionCause, Verdict

__all__ = [
    "BY_ID",
    "CHECKS",
    "DENIAL",
    "IGNORE_ANNOTATION",
    "WARNING",
    "DeviceInventory",
    "KubeVirtAtHand",
    "LintCheck",
    "LintFinding",
    "LintFindingJson",
    "LintInputs",
    "LintResult",
    "LintSettings",
    "Manifest",
    "ObjectFindings",
    "Preflight",
    "Severity",
    "findings_on_vms",
    "lint",
    "lint_documents",
]

_DEFAULT = LintSettings()


def lint(
    subject: VmObject, inputs: LintInputs, settings: LintSettings = _DEFAULT, namespace: str = DEFAULT_NAMESPACE
) -> tuple[LintFinding, ...]:
    """All findings on one VM or VMI that neither the settings nor its annotation silence, in the order of
    :data:`CHECKS`.

    Of a VM the template is checked. ``namespace``: of the object, if it names none. Raises nothing, whatever well-typed
    objects it gets.
    """
    return tuple(findings_of(Linted(subject, subject.namespace or namespace, inputs, settings), CHECKS))


@dataclass(frozen=True, eq=False)
class Preflight:
    """The lint as the webhook's :class:`webhooks.knowledge.Knowledge`: findings that :func:`webhooks.vmi.review`
    doesn't report already.

    A denial becomes a cause, a warning a warning, both with the id, by which the object can silence it. ``clock``: set
    if the inputs are the current state of a watched cluster. ``verified``: False for an unverified caller; then a VM or
    VMI is checked as if nothing but the KubeVirt at hand was known.
    """

    inputs: LintInputs
    settings: LintSettings = field(default_factory=LintSettings.for_admission)
    launcher: LauncherSettings = field(default_factory=LauncherSettings)
    clock: Callable[[], datetime] | None = None
    count_from: Callable[[datetime], datetime] = lambda moment: moment
    verified: bool = True

    @cached_property
    def for_unverified(self) -> Preflight:
        return replace(self, verified=False)

    @cached_property
    def _vm_inputs(self) -> LintInputs:
        """The inputs for a VM or VMI."""
        if self.verified:
            return self.inputs
        return LintInputs(configuration=KubeVirtAtHand(self.gates), known_kinds=frozenset())

    evaluator: SelectorEvaluator | None = None
    """Evaluates selectors; None: this process does, within the limits of the settings."""

    def with_evaluator(self, evaluator: SelectorEvaluator) -> Preflight:
        """A copy for one review, with its evaluator of selectors."""
        return replace(self, evaluator=evaluator)

    @property
    def slices(self) -> PersistentMap[str, PublishedSlice]:
        return self.inputs.inventory.slices

    @property
    def gates(self) -> Gates:
        return self.inputs.configuration.gates

    @property
    def unwanted_warnings(self) -> frozenset[str]:
        # On a watched cluster the webhook for launcher pods also runs, which adds the requests that KubeVirt leaves
        # out.
        remedied = {"lost-request"} if self.clock is not None and loses_requests(self.gates.version) else set[str]()
        return frozenset(self.settings.ignore).union(self.settings.deny, remedied)

    def preflight(self, subject: VmObject, old: VmObject | None = None) -> Verdict:
        """The findings as a verdict. An update from ``old`` that keeps a VM's template only gets warnings, so that it
        can be stopped."""
        untouched = False
        if isinstance(subject, VirtualMachine) and isinstance(old, VirtualMachine):
            untouched = subject.spec.template == old.spec.template
        settings = replace(self.settings, pod_webhook=True)
        linted = Linted(subject, subject.namespace or DEFAULT_NAMESPACE, self._vm_inputs, settings, self.evaluator)
        findings = tuple(findings_of(linted, [check for check in CHECKS if self._is_added(check)]))
        denials = () if untouched else tuple(finding for finding in findings if finding.severity == DENIAL)
        causes = (AdmissionCause(INVALID, f"{finding.message} [{finding.id}]", finding.field) for finding in denials)
        others = (finding for finding in findings if finding not in denials)
        warnings = (f"{finding.field}: [{finding.id}] {finding.message}" for finding in others)
        return Verdict(not denials, tuple(causes), tuple(warnings))

    @property
    def profiles(self) -> Mapping[str, DeviceProfile] | None:
        return self.inputs.model.by_key(DeviceProfile) if self.inputs.model.knows(DeviceProfile) else None

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace. A namespace of a watched cluster that isn't in the informer yet has none, so that
        no restricted profile is for it."""
        obj = self.inputs.model.by_key(Namespace).get(namespace)
        if obj is None:
            return None if self.clock is None else {}
        return obj.metadata.labels

    def vmi(self, namespace: str, name: str) -> VirtualMachineInstance | None:
        return self.inputs.model.by_key(VirtualMachineInstance).get(f"{namespace}/{name}")

    def drivers(
        self, namespace: str, claims: Iterable[PodResourceClaim], pairs: Iterable[ClaimRequestPair]
    ) -> Mapping[ClaimRequestPair, RequestDrivers]:
        return request_drivers(self.inputs, self.settings, namespace, claims, pairs, self.evaluator)

    @property
    def writers(self) -> frozenset[str]:
        return self.inputs.writers

    @property
    def now(self) -> datetime | None:
        return self.clock() if self.clock is not None else None

    def _is_added(self, check: LintCheck) -> bool:
        """True if the review doesn't report the check's findings. Its warnings are repeated if the settings make
        denials of them."""
        return check.id != REFUSED_BY_REVIEW and (check.id not in WARNED_BY_REVIEW or check.id in self.settings.deny)
