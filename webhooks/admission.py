"""Admission of a VM or VMI as it is submitted: the verdict of the API server and KubeVirt together. Pure.

    api_server.received         decoding: unknown fields, pruning, types (K-2.2, K-2.34)
    api_server.refused_names    names, labels, annotations
    vmi.review                  KubeVirt's mutating webhook, then its validating webhooks (K-2.3 to K-2.43)

Each stage gets the object as the previous one left it; the first refusal ends the admission, as on a cluster.
``AdmissionCause.by`` says which component refuses.
"""

from __future__ import annotations

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, vm_or_vmi_kind
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.wire import Json, WireError
from webhooks.api_server import UNKNOWN_FIELD, FieldValidation, received, refused_names
from webhooks.rules.silence import silenced
from webhooks.verdict import INVALID, AdmissionCause, Verdict
from webhooks.vmi import review

_KINDS: tuple[type[VirtualMachine] | type[VirtualMachineInstance], ...] = (VirtualMachine, VirtualMachineInstance)


def admit(
    raw: Json,
    gates: Gates,
    old: Json | None = None,
    *,
    kubevirt: bool = True,
    field_validation: FieldValidation = "Warn",
    outsider: bool = True,
) -> Verdict:
    """The verdict on creating an object; with ``old``, on updating that to it.

    * ``kubevirt``: True if a KubeVirt of ``gates.version`` serves the kinds; False if virt-dra's own CRDs do, which
      also have the design's form of claim references (K-1.7).
    * ``field_validation``: the request's ``fieldValidation``; the default is that of every client but kubectl.
    * ``outsider``: False if the request comes from one of KubeVirt's own accounts (K-9.4).

    An object of another kind is refused. ``old`` is of the same kind; raises WireError where it can't be read.
    """
    kind = next((candidate for candidate in _KINDS if vm_or_vmi_kind(raw) == candidate.KIND), None)
    if kind is None:
        text = f"must be {VirtualMachineInstance.KIND} or {VirtualMachine.KIND}"
        return _refused((AdmissionCause(INVALID, text, "kind", "api-server"),))
    version = gates.version if kubevirt else None
    got = received(raw, kind.KIND, version, field_validation, old)
    causes = got.causes if old is not None or got.undecoded else (*refused_names(got.object), *got.causes)
    if causes:
        return _refused(causes, got.warnings)
    try:
        subject = kind.from_wire(got.object)
    except WireError as error:
        problems = (AdmissionCause(INVALID, message, path, "api-server") for path, message in error.problems)
        return _refused(tuple(problems), got.warnings)
    before = None if old is None else kind.from_wire(received(old, kind.KIND, version, "Ignore").object)
    verdict = review(subject, gates, before, outsider=outsider)
    if not got.warnings or UNKNOWN_FIELD in silenced(subject):
        return verdict
    return Verdict(verdict.allowed, verdict.causes, (*got.warnings, *verdict.warnings))


def _refused(causes: tuple[AdmissionCause, ...], warnings: tuple[str, ...] = ()) -> Verdict:
    return Verdict(allowed=False, causes=causes, warnings=warnings)
