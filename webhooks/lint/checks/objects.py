"""Objects that a VM names and that don't exist: templates, claims, requests in them, device classes (K-2.27,
K-12.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from virt_dra.api.go_text import quoted
from virt_dra.api.instancetypes.expansion import MissingReference
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0
from virt_dra.api.meta import TypedObject
from virt_dra.api.nearest import listed, nearest, nearest_first
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from webhooks.lint.inputs import CLASSES
from webhooks.lint.linted import Linted, NamedClaim
from webhooks.rules.reviewed_spec import HOST_DEVICES
from webhooks.verdict import FieldIssue


def refused_object(linted: Linted) -> Iterator[FieldIssue]:
    """A template, claim or class of the input that the API server would refuse, so that it won't exist."""
    for claim in linted.claims:
        why = _refused(linted, claim)
        if why is not None:
            yield FieldIssue(claim.field, f"{claim} {why}")
        for name in dict.fromkeys(
            option.class_name for option in claim.options if linted.class_of(option) is None and claim.allocated is None
        ):
            why = linted.inputs.refused.get((CLASSES, "", name))
            if why is not None:
                yield FieldIssue(claim.field, f"DeviceClass {quoted(name)}, which {claim} names, {why}")


def _refused(linted: Linted, claim: NamedClaim) -> str | None:
    return linted.inputs.refused.get((claim.kind, linted.namespace, claim.name)) if claim.spec is None else None


def template_missing(linted: Linted) -> Iterator[FieldIssue]:
    """ResourceClaimTemplates that don't exist."""
    yield from _missing(linted, ResourceClaimTemplate, [claim for claim in linted.claims if not claim.direct])


def claim_missing(linted: Linted) -> Iterator[FieldIssue]:
    """ResourceClaims that don't exist."""
    yield from _missing(linted, ResourceClaim, [claim for claim in linted.claims if claim.direct])


def _missing(linted: Linted, kind: type[TypedObject], named: Iterable[NamedClaim]) -> Iterator[FieldIssue]:
    compared = 0
    for claim in named:
        if claim.spec is not None or claim.kind not in linted.inputs.known_kinds or _refused(linted, claim) is not None:
            continue
        # A user who may create VMs may lack the right to see objects of other namespaces.
        everywhere = () if linted.settings.at_admission else linted.all_of(kind)
        elsewhere = [obj.namespace for obj in everywhere if obj.name == claim.name]
        hint = ""
        if elsewhere:
            where = f"namespace{'s' * (len(elsewhere) > 1)} {', '.join(elsewhere[:3])}{', …' * (len(elsewhere) > 3)}"
            hint = f"; there is one in {where}, but a VM can only name objects of its own namespace"
        compared += 1
        here = (obj.name for obj in linted.all_of(kind) if obj.namespace == linted.namespace)
        meant = nearest(claim.name, here) if compared <= NAMES_COMPARED else None
        if meant is not None:
            hint = f"; there is {quoted(meant)}{hint}"
        hint += _other_source(linted, claim)
        yield FieldIssue(
            claim.field,
            f"there is no {claim.kind} {quoted(claim.name)} in namespace {linted.namespace}{hint}. "
            f"The VM doesn't start until it exists: create it, or correct the name",
        )


def _other_source(linted: Linted, claim: NamedClaim) -> str:
    """A clause if a template has the name that stands for a claim, or the other way round."""
    look_up, noun, member = (
        (linted.inputs.template, "template", "resourceClaimTemplateName")
        if claim.direct
        else (linted.inputs.claim, "claim", "resourceClaimName")
    )
    exists = look_up(linted.namespace, claim.name) is not None
    return f"; a *{noun}* of that name exists: if you mean that one, write {member}" if exists else ""


NAMES_COMPARED: Final = 8
"""Missing names of one VM for which similar names are searched, since a namespace may have very many."""


def request_missing(linted: Linted) -> Iterator[FieldIssue]:
    """Requests that a claim doesn't have. Alternatives can't be named (K-1.4)."""
    for use in linted.uses:
        claim = use.claim
        if claim is None or claim.spec is None or use.request is not None:
            continue
        present = [request.name for request in claim.spec.devices.requests]
        base = use.request_name.partition("/")[0]
        if "/" in use.request_name and base in present:
            advice = f"it is an alternative of the request {quoted(base)}; name the request"
        else:
            named = listed(nearest_first(use.request_name, present))
            advice = f"it has {named}; name one of them" if present else "it has none; add one"
        yield FieldIssue(use.request_field, f"{claim} has no request {quoted(use.request_name)}: {advice}")


def class_missing(linted: Linted) -> Iterator[FieldIssue]:
    """DeviceClasses that don't exist, of every request, used or not: a claim is allocated as a whole."""
    if CLASSES not in linted.inputs.known_kinds:
        return
    compared = 0
    for claim in linted.claims:
        for option in claim.options:
            refused = (CLASSES, "", option.class_name) in linted.inputs.refused
            if linted.class_of(option) is None and claim.allocated is None and not refused:
                compared += 1
                class_names = sorted(linted.inputs.model.classes)
                first = nearest_first(option.class_name, class_names) if compared <= NAMES_COMPARED else class_names
                listing = f"there is {', '.join(first[:5])}{', …' if len(first) > 5 else ''}"
                yield claim.issue(
                    f"{option.path}.deviceClassName",
                    f"{claim} {option.path}.deviceClassName: there is no DeviceClass {quoted(option.class_name)}; "
                    f"{listing if first else 'there are no classes'}. "
                    "Install the driver that provides the class, or name another one",
                )


def claim_not_listed(linted: Linted) -> Iterator[FieldIssue]:
    """Claims that host devices name and the VM lacks. KubeVirt 1.6 and 1.7 don't check that (K-2.30); the pod is
    refused (K-3.2)."""
    if not V1_6_0 <= linted.version < V1_8_0:
        return
    entries = [entry.name for entry in linted.reviewed.spec.resource_claims]
    for index, device in enumerate(HOST_DEVICES.devices(linted.reviewed.spec)):
        if device.is_dra and device.claim_name and device.claim_name not in entries:
            field = f"{linted.path(HOST_DEVICES.field)}[{index}].claimName"
            clause = not_listed(device.claim_name, entries, linted.path("resourceClaims"))
            yield FieldIssue(field, f"{quoted(device.name)}: {clause}. The API server refuses the VM's pod")


def not_listed(name: str, entries: Collection[str], path: str) -> str:
    """The clause for a claim that the VM lacks: ``claimName "gpuclaim" is not in spec.resourceClaims; it has
    "gpu-claim"``."""
    entries_text = f"it has {listed(nearest_first(name, entries))}" if entries else "it has none"
    return f"claimName {quoted(name)} is not in {path}; {entries_text}"


def instancetype_missing(linted: Linted) -> Iterator[FieldIssue]:
    """An instancetype or preference that doesn't exist, for which KubeVirt refuses the VM (K-16.1)."""
    for missing in linted.expansion.missing if linted.expansion is not None else ():
        if missing.kind in linted.inputs.known_kinds:
            advice = _other_kind(missing) or "Create it"
            yield FieldIssue(
                missing.field,
                f"{missing} does not exist; KubeVirt refuses the VM, and doesn't start an existing one. {advice}",
            )


def instancetype_not_checked(linted: Linted) -> Iterator[FieldIssue]:
    """Instancetypes and preferences that are unknown, so that a part of the VM isn't checked."""
    if linted.settings.at_admission:
        return  # KubeVirt's own webhook looks it up
    for missing in linted.expansion.missing if linted.expansion is not None else ():
        if missing.kind not in linted.inputs.known_kinds:
            is_preference = missing.field.startswith("spec.preference")
            effect = "what it prefers and requires is" if is_preference else "its devices, CPUs and memory are"
            advice = _other_kind(missing) or "Add it to the files, or let the account read it"
            yield FieldIssue(missing.field, f"{missing} isn't given or readable, so {effect} not checked. {advice}")


def _other_kind(missing: MissingReference) -> str:
    """Advice to name the kind: without it KubeVirt looks for a cluster-wide object."""
    name = quoted(missing.name.rpartition("/")[2])
    advice = f"There is a {missing.meant} {name}: if you mean that one, set kind: {missing.meant}"
    return advice if missing.meant else ""
