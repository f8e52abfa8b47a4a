"""The lint of documents: findings on every object as it is written, then on every VM with all that it names. Pure, like
the checks.

Objects that an API server would refuse count as missing: a VM that uses one gets the finding ``refused-object``, and
the object itself the findings that say why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import MAIN, KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource, ReadProblem, Sourced
from virt_dra.api.schemas.applying import applied_in_order
from virt_dra.cel import Work
from virt_dra.matching.evaluating import ImmediateEvaluator
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.files import placeable_model
from virt_dra.model.unknown import UnknownFact
from webhooks.lint.evaluation import findings_as_written, findings_beside, findings_of
from webhooks.lint.finding import DENIAL, LintCheck, LintFinding, LintSettings
from webhooks.lint.inputs import DEFAULT_NAMESPACE, KINDS, KubeVirtAtHand, LintInputs, Trial
from webhooks.lint.linted import Linted
from webhooks.lint.manifest import Identity, Manifest
from webhooks.lint.registry import (
    BY_ID,
    CHECKS,
    INVALID,
    SELECTOR_NOT_CHECKED,
    UNKNOWN_FIELD,
    UNREADABLE,
    UNRENDERED,
)
from webhooks.rules.reviewed_spec import VmObject

FILE: Final = "File"
"""Kind of what can't be read as objects."""
ProgressCallback = Callable[[int, int], None]
"""Called with the number of objects that are done, and of all."""


@dataclass(frozen=True)
class ObjectFindings:
    """An object and the findings on it. ``subject``: the object if it is a readable VM or VMI, else None."""

    kind: str
    namespace: str
    name: str
    source: DocumentSource
    findings: tuple[LintFinding, ...]
    subject: VmObject | None = None

    @property
    def title(self) -> str:
        return f"{self.kind or 'object'} {f'{self.namespace}/' if self.namespace else ''}{self.name}".rstrip()

    def about(self, text: str) -> str:
        """The text behind the object's title; of a file alone, which its place names."""
        return text if self.kind == FILE else f"{self.title}: {text}"

    def described(self, finding: LintFinding) -> str:
        """A finding with the object and the field that it is about."""
        return self.about(f"{finding.field}: {finding.message}" if finding.field else finding.message)

    @property
    def denied(self) -> bool:
        return any(finding.severity == DENIAL for finding in self.findings)


@dataclass(frozen=True, eq=False)
class LintResult:
    """The result of linting documents.

    ``subjects``: every VM and VMI, in the order of the input. ``others``: the other objects that have findings.
    ``manifests``: every object of the input with the findings on it alone. ``unknown``: what couldn't be taken into
    account where nodes for VMs were tried.
    """

    inputs: LintInputs
    subjects: tuple[ObjectFindings, ...]
    others: tuple[ObjectFindings, ...]
    manifests: tuple[tuple[Manifest, tuple[LintFinding, ...]], ...]
    unknown: tuple[UnknownFact, ...] = ()

    @property
    def readable(self) -> bool:
        """True if any object of the input has the shape of its kind."""
        return any(manifest.object is not None for manifest, _ in self.manifests)

    @property
    def unreadable(self) -> tuple[Manifest, ...]:
        """The objects beside the VMs that don't have the shape of their kind."""
        return tuple(manifest for manifest, _ in self.manifests if manifest.object is None and not manifest.is_subject)

    @property
    def checked(self) -> tuple[ObjectFindings, ...]:
        return (*self.subjects, *self.others)

    @property
    def sources(self) -> Mapping[Identity, DocumentSource]:
        """The places where the objects of the input are written."""
        return {manifest.identity: manifest.source for manifest, _ in self.manifests if manifest.object is not None}

    @property
    def not_checked(self) -> tuple[str, ...]:
        """The kinds that were not given."""
        return tuple(kind for kind in KINDS if kind not in self.inputs.known_kinds)


def lint_documents(
    documents: Iterable[Document],
    settings: LintSettings,
    *,
    version: KubeVirtVersion | None = None,
    gates: Mapping[str, bool] | None = None,
    beside_kubevirt: bool = True,
    namespace: str = DEFAULT_NAMESPACE,
    known_kinds: Collection[str] | None = None,
    address_keys: Iterable[DriverKeys] = (),
    has_keeper: bool = True,
    existing: Sequence[TypedObject] = (),
    also: Sequence[Sourced[TypedObject]] = (),
    trial: Callable[[ClusterModel, KubeVirtAtHand], Trial] | None = None,
    broken: Iterable[ReadProblem] = (),
    progress: ProgressCallback = lambda done, total: None,
) -> LintResult:
    """All findings on the documents. Raises nothing, whatever they hold.

    ``broken``: files of the input that can't be read; each is a finding, and what they hold counts as missing.

    ``beside_kubevirt``: VMs are KubeVirt's, of the newest release where neither ``version`` nor an object names one;
    False: where none is named they are of virt-dra's own CRDs.

    ``existing``: the objects of a cluster; the documents count as created or changed after them. ``also``: VMs and VMIs
    of the cluster that are checked if the documents have none. ``known_kinds``, ``address_keys``, ``has_keeper``: as
    for :meth:`LintInputs.from_objects`. ``trial`` makes the :attr:`LintInputs.trial` of a model of all objects and the
    KubeVirt at hand. ``progress`` is called before each VM, with how many are done.

    The VMs share ``settings.max_work_in_all`` in their order; equal inputs get equal findings.
    """
    manifests = [Manifest.read(document, namespace) for document in documents]
    # What VMs are judged by may be said by another object, if an API server takes that.
    of_others = {manifest: findings_as_written(manifest, settings) for manifest in manifests if not manifest.is_subject}
    refused = {
        manifest.identity: _why(manifest, findings) for manifest, findings in of_others.items() if _denied(findings)
    }
    accepted = (manifest.object for manifest in manifests if not _denied(of_others.get(manifest, ())))
    objects = applied_in_order([*existing, *(obj for obj in accepted if obj is not None)], namespace)
    inputs = LintInputs.from_objects(
        objects,
        version=version,
        gates=gates,
        beside_kubevirt=beside_kubevirt,
        namespace=namespace,
        known_kinds=known_kinds,
        address_keys=address_keys,
        refused=refused,
        has_keeper=has_keeper,
    )
    release = inputs.configuration.release
    as_written = tuple(
        (manifest, of_others[manifest] if manifest in of_others else findings_as_written(manifest, settings, release))
        for manifest in manifests
    )
    if trial is not None:
        inputs = replace(inputs, trial=trial(placeable_model(inputs.model.objects), inputs.configuration))
    checking = _VmChecks(inputs, settings, namespace, progress)
    subjects = checking.of_input(as_written) or checking.of_cluster(also)
    others = [
        _as_written(manifest, findings)
        for manifest, alone in as_written
        if not manifest.is_subject and (findings := (*alone, *findings_beside(manifest, settings, inputs)))
    ]
    others += [file for problem in broken for file in _unreadable(problem, settings)]
    unknown = inputs.trial.unknown() if inputs.trial is not None else ()
    return LintResult(inputs, tuple(subjects), tuple(others), as_written, unknown)


def findings_on_vms(
    inputs: LintInputs,
    vms: Sequence[Sourced[VmObject]],
    settings: LintSettings,
    progress: ProgressCallback = lambda done, total: None,
) -> tuple[ObjectFindings, ...]:
    """The findings on VMs and VMIs that a cluster has; a VMI is checked with its VM, if that is among them. As
    :func:`lint_documents`, without findings on other objects: the API server accepted them."""
    return tuple(_VmChecks(inputs, settings, DEFAULT_NAMESPACE, progress).of_cluster(vms))


def _unreadable(problem: ReadProblem, settings: LintSettings) -> Iterator[ObjectFindings]:
    """The finding on a file that can't be read."""
    check = BY_ID[UNRENDERED if problem.unrendered else UNREADABLE]
    severity = settings.severity(check)
    if severity is not None:
        finding = LintFinding(check.id, severity, "", visible(problem.message))
        yield ObjectFindings(FILE, "", "", problem.source, (finding,))


@dataclass
class _VmChecks:
    """The checks of the VMs and VMIs of one input, which share a budget of work for selectors."""

    inputs: LintInputs
    settings: LintSettings
    namespace: str
    progress: ProgressCallback

    def __post_init__(self) -> None:
        self._left = self.settings.max_work_in_all

    def of_input(self, as_written: Sequence[tuple[Manifest, tuple[LintFinding, ...]]]) -> list[ObjectFindings]:
        owners = {manifest.object.key for manifest, _ in as_written if isinstance(manifest.object, VirtualMachine)}
        checked: list[ObjectFindings] = []
        for number, (manifest, findings) in enumerate(as_written):
            vm = manifest.object
            if not isinstance(vm, VmObject):
                checked += [_as_written(manifest, findings)] if manifest.is_subject else []
            elif not _is_owned(vm, owners):
                self.progress(number, len(as_written))
                # What a newer release brought stays in it, for the checks that report it.
                stored = manifest.stored_by(None if self.inputs.configuration.own_crds else MAIN)
                checked.append(self._checked(manifest.source, stored, findings))
        return checked

    def of_cluster(self, sourced: Sequence[Sourced[TypedObject]] | Sequence[Sourced[VmObject]]) -> list[ObjectFindings]:
        owners = {obj.object.key for obj in sourced if isinstance(obj.object, VirtualMachine)}
        checked: list[ObjectFindings] = []
        for number, obj in enumerate(sourced):
            if isinstance(obj.object, VmObject) and not _is_owned(obj.object, owners):
                self.progress(number, len(sourced))
                checked.append(self._checked(obj.source, obj.object, ()))
        return checked

    def _checked(self, source: DocumentSource, vm: VmObject, as_written: Sequence[LintFinding]) -> ObjectFindings:
        limits = [limit for limit in (self.settings.max_work, self._left) if limit is not None]
        work = Work(min(limits, default=None))
        before = work.left
        linted = Linted(vm, vm.namespace or self.namespace, self.inputs, self.settings, ImmediateEvaluator(work))
        findings = findings_of_vm(linted, as_written)
        if self._left is not None and before is not None and work.left is not None:
            self._left = max(self._left - int(before - max(work.left, 0)), 0)
        return ObjectFindings(vm.KIND, linted.namespace, vm.name or vm.metadata.generate_name, source, findings, vm)


def _as_written(manifest: Manifest, findings: tuple[LintFinding, ...]) -> ObjectFindings:
    return ObjectFindings(manifest.kind, manifest.namespace, manifest.name, manifest.source, findings)


def findings_of_vm(
    linted: Linted, as_written: Sequence[LintFinding], checks: Sequence[LintCheck] = CHECKS
) -> tuple[LintFinding, ...]:
    """The findings of checks on a VM, in their order. ``as_written``: those on the object alone."""
    findings = [*findings_of(linted, checks, _denied(as_written)), *_trial_ended_early(linted)]
    # A field of a newer KubeVirt is also unknown to the schema; of the two findings the one that names the release is
    # kept.
    newer = tuple(finding.field for finding in findings if finding.id == UNKNOWN_FIELD)
    unrendered = {finding.field for finding in as_written if finding.id == UNRENDERED}
    findings = [finding for finding in findings if finding.field not in unrendered]
    denied = {finding.field for finding in findings if finding.severity == DENIAL}
    for finding in as_written:
        repeated = (finding.id == UNKNOWN_FIELD and newer and finding.field.startswith(newer)) or (
            finding.id == INVALID and finding.field in denied
        )
        if not repeated:
            findings.append(finding)
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.id]))


def _trial_ended_early(linted: Linted) -> Iterator[LintFinding]:
    """A finding if a limit ended the trial of the VM's claims, mostly because of their selectors."""
    trial = linted.inputs.trial
    why = trial.unchecked(linted.expanded, linted.namespace) if trial is not None else None
    severity = linted.settings.severity(BY_ID[SELECTOR_NOT_CHECKED])
    if why is not None and severity is not None:
        text = f"whether some node could serve the VM's claims together was not checked: {why}. The scheduler will try"
        advice = "virt-dra allocate --timeout tries for longer"
        yield LintFinding(SELECTOR_NOT_CHECKED, severity, linted.path("resourceClaims"), f"{text}; {advice}")


_ORDER: Mapping[str, int] = {check.id: position for position, check in enumerate(CHECKS)}


def _denied(findings: Iterable[LintFinding]) -> bool:
    return any(finding.severity == DENIAL for finding in findings)


def _why(manifest: Manifest, findings: Sequence[LintFinding]) -> str:
    """Why an object counts as missing: ``(templates.yaml:3) would be refused by the API server: spec…: unknown
    field``."""
    # As the API server does: strict decoding comes before validation, and often explains what that finds.
    denials = (finding for finding in findings if finding.severity == DENIAL)
    first, *others = sorted(denials, key=lambda finding: finding.id != UNKNOWN_FIELD)
    refusal = f"{first.field}: {first.message}" if first.field else first.message
    more = f" (and {len(others)} more)" if others else ""
    return f"({manifest.source}) would be refused by the API server: {refusal}{more}"


def _is_owned(vm: VmObject, owners: Collection[str]) -> bool:
    """True for a VMI that is checked with its VM."""
    owner = vm.metadata.controller_owner
    if not isinstance(vm, VirtualMachineInstance) or owner is None or owner.kind != VirtualMachine.KIND:
        return False
    return (f"{vm.namespace}/{owner.name}" if vm.namespace else owner.name) in owners
