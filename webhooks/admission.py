"""The verdict of an API server and KubeVirt together on a VM or VMI as somebody wrote it. Pure.

    api_server.received     decoding: unknown fields, pruning, shape                (K-2.2, K-2.34)
    api_server.refused_names    names, labels, annotations
    vmi.review              what the mutating webhook makes of it, and what the validating webhooks say (K-2.3 to K-2.43)

Each stage gets what the one before left, and the first that refuses ends it, as on a cluster; every cause says who refuses.
"""

from __future__ import annotations

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, told_kind
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.wire import Json, WireError
from webhooks.api_server import UNKNOWN_FIELD, FieldValidation, received, refused_names
from webhooks.rules.silence import silenced
from webhooks.verdict import INVALID, Cause, Verdict
from webhooks.vmi import review

Subject = VirtualMachine | VirtualMachineInstance
_KINDS: dict[str, type[VirtualMachine] | type[VirtualMachineInstance]] = {
    VirtualMachine.KIND: VirtualMachine,
    VirtualMachineInstance.KIND: VirtualMachineInstance,
}


def admit(
    raw: Json,
    gates: Gates,
    old: Json | None = None,
    *,
    kubevirt: bool = True,
    field_validation: FieldValidation = "Warn",
    outsider: bool = True,
) -> Verdict:
    """Whether an object may be created; with ``old`` whether that may become it.

    * ``kubevirt``: whether there is one, of ``gates.version``. Where there is none, our own kinds are served: the design's form is read.
    * ``field_validation``: what the client asked for; the default is that of every client but kubectl.
    * ``outsider``: False if one of KubeVirt's own accounts asks (K-9.4).

    An object of another kind is refused. ``old`` is of the same kind; raises WireError where it can't be read.
    """
    kind = next((each for name, each in _KINDS.items() if name == told_kind(raw)), None)
    if kind is None:
        text = f"must be {VirtualMachineInstance.KIND} or {VirtualMachine.KIND}"
        return _refused((Cause(INVALID, text, "kind", "api-server"),))
    version = gates.version if kubevirt else None
    got = received(raw, kind.KIND, version, field_validation, old)
    causes = got.causes if old is not None or got.undecoded else (*refused_names(got.object), *got.causes)
    if causes:
        return _refused(causes, got.warnings)
    try:
        subject = kind.from_wire(got.object)
    except WireError as error:
        return _refused(tuple(Cause(INVALID, message, path, "api-server") for path, message in error.problems), got.warnings)
    before = None if old is None else kind.from_wire(received(old, kind.KIND, version, "Ignore").object)
    verdict = review(subject, gates, before, outsider=outsider)
    if not got.warnings or UNKNOWN_FIELD in silenced(subject):
        return verdict
    return Verdict(verdict.allowed, verdict.causes, (*got.warnings, *verdict.warnings))


def _refused(causes: tuple[Cause, ...], warnings: tuple[str, ...] = ()) -> Verdict:
    return Verdict(allowed=False, causes=causes, warnings=warnings)
