"""The lint of a whole input: every object as it is written, then every VM with all that it names. Pure, like the checks.

Objects that an API server would refuse count as missing: a VM that uses one gets the finding ``refused-object``, the object itself the
findings that say why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from virt_dra.api.instancetypes import NAMESPACED_KINDS
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates, KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced
from virt_dra.api.schemas.applying import on_top
from virt_dra.cel import Work
from webhooks.lint.evaluation import findings_as_written, findings_of
from webhooks.lint.finding import DENIAL, Finding, Settings
from webhooks.lint.manifest import Identity, Manifest
from webhooks.lint.registry import BY_ID, CHECKS, INVALID, SELECTOR_NOT_CHECKED, UNKNOWN_FIELD, UNRENDERED
from webhooks.lint.subject import Linted
from webhooks.lint.world import CLASSES, DEFAULT_NAMESPACE, KINDS, SLICES, Configuration, Subject, Trial, World
from webhooks.selectors.answers import Evaluator
from webhooks.selectors.evaluating import InProcess

__all__ = ["Judged", "Judgement", "judge"]


@dataclass(frozen=True)
class Judged:
    """An object and the findings on it. ``subject``: the VM or VMI; None for another kind, and for one that can't be read."""

    kind: str
    namespace: str
    name: str
    source: DocumentSource
    findings: tuple[Finding, ...]
    subject: Subject | None = None

    @property
    def title(self) -> str:
        return f"{self.kind or 'object'} {f'{self.namespace}/' if self.namespace else ''}{self.name}".rstrip()

    @property
    def denied(self) -> bool:
        return any(each.severity == DENIAL for each in self.findings)


@dataclass(frozen=True, eq=False)
class Judgement:
    """The result of linting an input.

    ``subjects``: every VM and VMI, in the order of the input. ``others``: the other objects that have findings. ``manifests``: every
    object of the input with the findings on it alone. ``release``: the KubeVirt release that is named, None where none is.
    """

    world: World
    subjects: tuple[Judged, ...]
    others: tuple[Judged, ...]
    manifests: tuple[tuple[Manifest, tuple[Finding, ...]], ...]
    release: KubeVirtVersion | None = None

    @property
    def readable(self) -> bool:
        """Whether any object of the input has the shape of its kind."""
        return any(manifest.object is not None for manifest, _ in self.manifests)

    @property
    def judged(self) -> tuple[Judged, ...]:
        return (*self.subjects, *self.others)

    @property
    def not_checked(self) -> tuple[str, ...]:
        """The kinds of which nothing is known."""
        return tuple(kind for kind in KINDS if kind not in self.world.known)


def judge(
    documents: Iterable[Document],
    settings: Settings,
    *,
    version: KubeVirtVersion | None = None,
    gates: Mapping[str, bool] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    known: Collection[str] | None = None,
    address_keys: Iterable[DriverKeys] = (),
    there: Sequence[TypedObject] = (),
    also: Sequence[Sourced[TypedObject]] = (),
    trial: Callable[[Sequence[TypedObject], Configuration], Trial] | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Judgement:
    """All findings on the documents. Raises nothing, whatever they hold.

    ``there``: what a cluster has already; the documents count as created or changed after it. ``also``: VMs and VMIs of the cluster to
    judge where the documents have none. ``known``, ``address_keys``: as for :meth:`World.of`. ``trial`` makes :attr:`World.trial` of
    all objects and the KubeVirt at hand. ``told`` hears how many VMs have been judged, and of how many.

    What ``settings.max_work_in_all`` leaves is shared by all VMs, the first ones first; equal inputs get equal findings.
    """
    manifests = [Manifest.read(document, namespace) for document in documents]
    read = [each.object for each in manifests if each.object is not None]
    release = _release([*there, *read], version, gates)
    found = tuple((manifest, findings_as_written(manifest, settings, release)) for manifest in manifests)
    refused = {manifest.identity: _why(manifest, findings) for manifest, findings in found if _denied(findings) and not manifest.is_subject}
    accepted = [
        manifest.object for manifest, findings in found if manifest.object is not None and (manifest.is_subject or not _denied(findings))
    ]
    objects = _latest([*there, *accepted], namespace)
    world = World.of(
        objects,
        version=version,
        gates=gates,
        namespace=namespace,
        known=_known(objects, refused) if known is None else known,
        address_keys=address_keys,
        refused=refused,
    )
    if trial is not None:
        world = replace(world, trial=trial(objects, world.configuration))
    owners = {each.key for each in accepted if isinstance(each, VirtualMachine)}
    subjects: list[Judged] = []
    others: list[Judged] = []
    left = _Left(settings)
    for number, (manifest, findings) in enumerate(found):
        obj = manifest.object
        if isinstance(obj, VirtualMachine | VirtualMachineInstance):
            if not _is_owned(obj, owners):
                told(number, len(found))
                subjects.append(left.judged(manifest.source, obj, world, namespace, findings))
        elif manifest.is_subject:
            subjects.append(Judged(manifest.kind, manifest.namespace, manifest.name, manifest.source, findings))
        elif findings:
            others.append(Judged(manifest.kind, manifest.namespace, manifest.name, manifest.source, findings))
    if not subjects:
        owners = {each.object.key for each in also if isinstance(each.object, VirtualMachine)}
        for number, sourced in enumerate(also):
            vm = sourced.object
            if isinstance(vm, VirtualMachine | VirtualMachineInstance) and not _is_owned(vm, owners):
                told(number, len(also))
                subjects.append(left.judged(sourced.source, vm, world, namespace))
    return Judgement(world, tuple(subjects), tuple(others), found, release.version if release is not None else None)


class _Left:
    """What all VMs together may still cost, and each of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._left = settings.max_work_in_all

    def judged(self, source: DocumentSource, vm: Subject, world: World, namespace: str, as_written: Sequence[Finding] = ()) -> Judged:
        limits = [each for each in (self._settings.max_work, self._left) if each is not None]
        work = Work(min(limits, default=None))
        before = work.left
        judged = _judged(source, vm, world, self._settings, namespace, as_written, InProcess(work))
        if self._left is not None and before is not None and work.left is not None:
            self._left = max(self._left - int(before - max(work.left, 0)), 0)
        return judged


def _judged(
    source: DocumentSource,
    vm: Subject,
    world: World,
    settings: Settings,
    namespace: str,
    as_written: Sequence[Finding],
    evaluator: Evaluator,
) -> Judged:
    linted = Linted(vm, vm.namespace or namespace, world, settings, evaluator)
    found = list(findings_of(linted, CHECKS, _denied(as_written)))
    found += _not_tried(linted)
    # A field of a newer KubeVirt is also unknown to the schema; of the two findings the one that names the release is kept.
    newer = tuple(each.field for each in found if each.id == UNKNOWN_FIELD)
    unrendered = {each.field for each in as_written if each.id == UNRENDERED}
    found = [each for each in found if each.field not in unrendered]
    denied = {each.field for each in found if each.severity == DENIAL}
    for each in as_written:
        doubled = (each.id == UNKNOWN_FIELD and newer and each.field.startswith(newer)) or (each.id == INVALID and each.field in denied)
        if not doubled:
            found.append(each)
    findings = tuple(sorted(found, key=lambda each: _ORDER[each.id]))
    return Judged(vm.KIND, vm.namespace or namespace, vm.name or vm.metadata.generate_name, source, findings, vm)


def _not_tried(linted: Linted) -> Iterator[Finding]:
    """Where a trial of the VM's claims was ended by a limit, mostly because of their selectors."""
    trial = linted.world.trial
    why = trial.unchecked(linted.expanded, linted.namespace) if trial is not None else None
    severity = linted.settings.severity(BY_ID[SELECTOR_NOT_CHECKED])
    if why is not None and severity is not None:
        text = f"whether some node could serve the VM's claims together was not checked: {why}. The scheduler will try"
        yield Finding(
            SELECTOR_NOT_CHECKED, severity, linted.path("resourceClaims"), f"{text}; virt-dra allocate --timeout tries for longer"
        )


_ORDER: Mapping[str, int] = {check.id: position for position, check in enumerate(CHECKS)}


def _release(objects: Iterable[TypedObject], version: KubeVirtVersion | None, gates: Mapping[str, bool] | None) -> Gates | None:
    """The KubeVirt that is named: by an option, or by an object that says which version is there. None where no KubeVirt is named, as in
    manifests for our own kinds (K-1.8); an object without a version only says which gates are wanted."""
    kubevirt = next((each for each in objects if isinstance(each, KubeVirt)), None)
    named = version is not None or (kubevirt is not None and bool(kubevirt.status.observed_kube_virt_version))
    return Configuration.of(kubevirt, version, gates).gates if named else None


def _denied(findings: Iterable[Finding]) -> bool:
    return any(each.severity == DENIAL for each in findings)


def _why(manifest: Manifest, findings: Sequence[Finding]) -> str:
    """Why an object counts as missing: ``(templates.yaml:3) would be refused by the API server: spec…: unknown field``."""
    # As the API server does: strict decoding comes before validation, and often explains what that finds.
    first, *more = sorted((each for each in findings if each.severity == DENIAL), key=lambda each: each.id != UNKNOWN_FIELD)
    what = f"{first.field}: {first.message}" if first.field else first.message
    return f"({manifest.source}) would be refused by the API server: {what}" + (f" (and {len(more)} more)" if more else "")


def _latest(objects: Iterable[TypedObject], namespace: str) -> list[TypedObject]:
    """The objects, each name once: the last one, applied to the one before as by ``kubectl apply``, so a claim keeps its allocation."""
    found: dict[object, TypedObject] = {}
    for each in objects:
        identity = (each.kind or each.KIND, each.namespace or namespace, each.name or id(each))
        before = found.get(identity)
        found[identity] = each if before is None or type(before) is not type(each) else on_top(each, before)
    return list(found.values())


def _known(objects: Sequence[TypedObject], refused: Iterable[Identity]) -> frozenset[str]:
    """The kinds that the input has in full, as :meth:`World.of` infers them; refused classes and slices count, too."""
    kinds = {each.kind or each.KIND for each in objects} | {kind for kind, _, _ in refused}
    classes = CLASSES in kinds or SLICES in kinds
    known = frozenset(KINDS) - {*(() if classes else (CLASSES,)), *(() if SLICES in kinds else (SLICES,))}
    return known | kinds.intersection(NAMESPACED_KINDS)


def _is_owned(vm: Subject, owners: Collection[str]) -> bool:
    """Whether a VMI is judged with its VM."""
    owner = vm.metadata.controller_owner
    if not isinstance(vm, VirtualMachineInstance) or owner is None or owner.kind != VirtualMachine.KIND:
        return False
    return (f"{vm.namespace}/{owner.name}" if vm.namespace else owner.name) in owners
