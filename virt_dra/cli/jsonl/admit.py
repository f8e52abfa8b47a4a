"""``virt-dra admit``: KubeVirt's verdict on VMIs and VMs, one JSON object a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, vm_or_vmi_kind
from virt_dra.api.kubevirt_versions import KNOWN_GATES
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.jsonl.lines import jsonl_command
from virt_dra.cli.jsonl.members import BadLine, member, under
from virt_dra.cli.jsonl.vmi_members import gates_of, vmi_or_spec
from webhooks.admission import admit
from webhooks.api_server import FieldValidation

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import AdmissionCauseJson, AdmitAnswerJson

REFUSAL: AdmitAnswerJson = {"allowed": False, "causes": [], "warnings": []}
MEMBERS: Final = ("vmi", "spec", "old", "gates", "kubevirt", "fieldValidation")


def answer(request: Json) -> AdmitAnswerJson:
    """The verdict on the VMI or VM of a request, whose members :data:`HELP` lists. Raises BadLine or WireError for
    requests that are themselves wrong."""
    gates = gates_of(request)
    raw = vmi_or_spec(request)
    kubevirt = request.get("kubevirt") is not None
    verdict = admit(raw, gates, _old(request, raw), kubevirt=kubevirt, field_validation=_field_validation(request))
    causes: list[AdmissionCauseJson] = [
        {"type": cause.type, "message": cause.message, "field": cause.field, "by": cause.by} for cause in verdict.causes
    ]
    unknown = [gate for gate in member(request, "gates", dict, {}) if gate not in KNOWN_GATES]
    ignored = [f"gates.{gate}: no such feature gate is known here; it is ignored" for gate in unknown]
    return {"allowed": verdict.allowed, "causes": causes, "warnings": [*verdict.warnings, *ignored]}


def _old(request: Json, raw: Json) -> Json | None:
    """The object before the update, of the same kind. One that can't be read makes the request wrong."""
    old = member(request, "old", dict)
    if old is None:
        return None
    kind = vm_or_vmi_kind(raw)
    is_object = any(key in old for key in ("kind", "apiVersion", "metadata", "spec"))
    given: Json = {"kind": kind, **old} if is_object or not old else {"spec": old}
    if is_object and given["kind"] != kind:
        raise BadLine(f"old: must be a {kind} like the object itself")
    try:
        (VirtualMachine if kind == VirtualMachine.KIND else VirtualMachineInstance).from_wire(given)
    except WireError as error:
        if is_object:
            raise under("old", error) from None
        raise WireError(
            error.kind, tuple(("old" + path.removeprefix("spec"), message) for path, message in error.problems)
        ) from None
    return given


def _field_validation(request: Json) -> FieldValidation:
    text = member(request, "fieldValidation", str, "Warn")
    choices: tuple[FieldValidation, ...] = get_args(FieldValidation)
    for choice in choices:
        if text == choice:
            return choice
    raise BadLine(f"fieldValidation: must be one of {', '.join(choices)}")


HELP = """Check VMIs and VMs: the verdict of the API server and KubeVirt together.

One JSON request per line, from a file or standard input:

\b
  id               any value; the answer repeats it
  vmi              a VirtualMachineInstance or (by its kind) a VirtualMachine
  spec             a bare VMI spec, instead of vmi
  old              for an update: what the object was before, in the same form
  gates            feature gates, name -> true or false; absent: the version's default
                   (DynamicResourceAllocation stands for GPUsWithDRA and HostDevicesWithDRA)
  kubevirt         the KubeVirt release that judges, and whose API server drops the fields
                   that it doesn't know. Absent: there is none, 1.9's rules apply, and the
                   design's own form (claim: {name, request}) is read
  fieldValidation  how unknown fields are treated: Warn (the default) drops and names them,
                   Ignore drops them, Strict refuses the object, as kubectl does

The answer: id, allowed, causes (type, message, field, and by: api-server or kubevirt, which refused) and warnings. A
line that can't be understood is answered with allowed false and error. Unknown members of a request are named in
warnings. """

EPILOG = """\b
Examples:
  virt-dra admit --jsonl examples/requests/admit.jsonl
  echo '{"id": 1, "spec": {"domain": {"devices": {"gpus": [{"name": "g", "claimName": "c"}]}}}}' |
    virt-dra admit --jsonl
  virt-dra admit --jsonl < examples/requests/admit.jsonl | jq -r 'select(.allowed | not) | .causes[].message'
"""

command = jsonl_command("admit", "AdmissionAnswer", answer, REFUSAL, HELP, EPILOG, MEMBERS)
