"""Faults of the VM or VMI alone: KubeVirt's admission (K-2), labels and status that only KubeVirt may set, annotations
of virt-dra."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches

from virt_dra.api.go_text import quoted
from virt_dra.api.integration.device_claims import assign, read_device_claims
from virt_dra.api.integration.hostdev_options import read_hostdev_options
from virt_dra.api.integration.paths import PCI_PLACEMENT_ANNOTATION, InvalidPathChoice, chosen_path
from virt_dra.api.integration.pci_placement import pci_placement_choice
from virt_dra.api.keeping.terms import KEEP_ANNOTATION, KeepingError, keep_terms
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KNOWN_GATES, Gates
from virt_dra.api.nearest import listed, nearest_first
from virt_dra.api.reading.json_annotations import AnnotationError, joined
from webhooks.lint.checks.objects import not_listed
from webhooks.lint.finding import PAGES
from webhooks.lint.linted import Linted
from webhooks.rules.features import RESERVED_LABELS
from webhooks.rules.reviewed_spec import DEVICE_LISTS
from webhooks.rules.silence import annotated
from webhooks.rules.virtual_machines import left_to_kubevirt
from webhooks.rules.warnings import Warner
from webhooks.verdict import NOT_FOUND, AdmissionCause, FieldIssue
from webhooks.vmi import review


def kubevirt_refuses(linted: Linted) -> Iterator[FieldIssue]:
    """Refusals of KubeVirt's admission (K-2), as if every gate was enabled: a disabled one has its own finding, and
    hides other faults."""
    every_gate = Gates.for_version(linted.version, dict.fromkeys(KNOWN_GATES, True))
    refusals = linted.expansion.refusals if linted.expansion is not None else ()
    for refusal in refusals:
        yield FieldIssue(refusal.field, f"KubeVirt {linted.version} refuses the object: {refusal.message}")
    if refusals:
        return
    for cause in (*review(linted.expanded, every_gate).causes, *left_to_kubevirt(linted.object, linted.reviewed)):
        yield FieldIssue(
            cause.field,
            f"KubeVirt {linted.version} refuses the object: {cause.message.strip()}{_unlisted(linted, cause)}",
        )


def _unlisted(linted: Linted, cause: AdmissionCause) -> str:
    """The claim name that ``spec.resourceClaims`` lacks, which KubeVirt's causes of K-2.17 don't have."""
    spec = linted.reviewed.spec
    entries = [entry.name for entry in spec.resource_claims]
    if cause.field == linted.path("resourceClaims") and cause.message.startswith(
        "vmi.spec.resourceClaims must specify all claims used in "
    ):
        for kind in DEVICE_LISTS:
            for index, device in enumerate(kind.devices(spec)):
                if device.is_dra and device.claim_name and device.claim_name not in entries:
                    place = f"{linted.path(kind.field)}[{index}] {quoted(device.name)}"
                    return f"; {place}: {not_listed(device.claim_name, entries, linted.path('resourceClaims'))}"
    if cause.type == NOT_FOUND:
        for index, network in enumerate(spec.networks):
            field = linted.path(f"networks[{index}].resourceClaim.claimName")
            if network.resource_claim is not None and cause.field == field and entries:
                return f"; it has {listed(nearest_first(network.resource_claim.claim_name or '', entries))}"
    return ""


def warned(warner: Warner) -> Callable[[Linted], Iterator[FieldIssue]]:
    """A check with the warnings of an admission rule."""

    def find(linted: Linted) -> Iterator[FieldIssue]:
        for warning in warner(linted.reviewed):
            yield FieldIssue(warning.field, warning.message)

    return find


def reserved_label(linted: Linted) -> Iterator[FieldIssue]:
    """Labels that only KubeVirt may set (K-9.4). Objects that were read from a cluster may have them."""
    if linted.object.metadata.uid:
        return
    vm, whose = linted.object, "the VMI"
    labels = vm.metadata.labels
    if not isinstance(vm, VirtualMachineInstance):
        labels, whose = vm.spec.template.metadata.labels, "the VMIs of this template"
    for label in RESERVED_LABELS:
        if label in labels:
            field = f"{linted.reviewed.metadata}.labels[{label}]"
            yield FieldIssue(field, f"only KubeVirt may set this label, and it refuses {whose}. Remove the label")


def status_on_create(linted: Linted) -> Iterator[FieldIssue]:
    """New VMIs with a status, which KubeVirt keeps and trusts (K-9.5)."""
    vmi = linted.object
    if not isinstance(vmi, VirtualMachineInstance) or vmi.metadata.uid:
        return
    if vmi.given("status") and (status := vmi.status.to_wire()):
        fields = ", ".join(map(quoted, list(status)[:5]))
        yield FieldIssue("status", f"a new VMI has a status ({fields}), which KubeVirt keeps and trusts. Remove it")


def unknown_lint_id(lint_ids: Collection[str]) -> Callable[[Linted], Iterator[FieldIssue]]:
    """A check for ids in the annotation that aren't lint ids, and so have no effect."""

    def find(linted: Linted) -> Iterator[FieldIssue]:
        for field, ids in annotated(linted.object).items():
            for id in dict.fromkeys(ids):
                if id not in lint_ids:
                    close = get_close_matches(id, sorted(lint_ids), n=1)
                    meant = f"did you mean {close[0]}?" if close else f"the ids are listed in {PAGES}"
                    text = f"there is no finding {quoted(id[:100])}, so this silences nothing"
                    yield FieldIssue(field, f"{text}; {meant}")

    return find


def integration_annotation(linted: Linted) -> Iterator[FieldIssue]:
    """Invalid annotations, for which the pod webhook would refuse the launcher pod (K-11), or launcher and hook the
    domain (K-7.27, K-8.13), or the VMI isn't admitted (P-rules)."""
    annotations, root = linted.reviewed.annotations, f"{linted.reviewed.metadata}.annotations"
    spec = None if linted.reviewed.instancetype else linted.reviewed.spec  # of one that isn't known, no device is
    try:
        chosen_path(annotations, root)
    except InvalidPathChoice as error:
        field, _, message = str(error).partition(": ")
        yield FieldIssue(field, message)
    if PCI_PLACEMENT_ANNOTATION in annotations:
        try:
            pci_placement_choice(annotations[PCI_PLACEMENT_ANNOTATION])
        except ValueError as error:
            yield FieldIssue(f"{root}[{PCI_PLACEMENT_ANNOTATION}]", str(error))
    try:
        keep_terms(annotations, {KEEP_ANNOTATION: "true"})  # as a profile may say
    except KeepingError as error:
        yield FieldIssue(f"{root}[{error.annotation}]", f"{quoted(error.value)} {error.wanted}")
    try:
        claims = read_device_claims(annotations, root)
        if claims and spec is not None:
            assign(VirtualMachineInstance(spec=spec), claims, root=root)
    except AnnotationError as error:
        yield from (FieldIssue(joined(error.field, path), message) for path, message in error.problems)
    try:
        if spec is not None:
            read_hostdev_options(annotations, spec.domain.devices, root)
    except AnnotationError as error:
        yield from (FieldIssue(joined(error.field, path), message) for path, message in error.problems)
