"""``virt-dra admit``: KubeVirt's verdict on VMIs and VMs, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KNOWN_GATES
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.jsonl import BadLine, gates_of, jsonl_command, member, read_vmi, spec_of, vmi_of
from webhooks.verdict import INVALID, Cause, Verdict
from webhooks.vmi import review

REFUSAL: Json = {"allowed": False, "causes": [], "warnings": []}


def answer(request: Json) -> Json:
    """``{"vmi" or "spec", "old"?, "gates"?, "kubevirt"?}`` -> ``{"allowed", "causes", "warnings"}``.

    An object of the wrong shape is refused with a cause per fault, as an API server would. Raises BadLine or WireError for
    requests that are themselves wrong.
    """
    gates = gates_of(request)
    try:
        subject = _subject(request)
    except _Malformed as malformed:
        return _wire(malformed.verdict)
    old = _old(request, subject)
    verdict = review(subject, gates, old)
    return _wire(Verdict(verdict.allowed, verdict.causes, (*verdict.warnings, *_unknown_gates(request))))


class _Malformed(Exception):
    """The reviewed object does not have the shape of its kind."""

    def __init__(self, error: WireError) -> None:
        super().__init__(str(error))
        causes = tuple(Cause(INVALID, message, path) for path, message in error.problems)
        self.verdict = Verdict(allowed=False, causes=causes)


def _subject(request: Json) -> VirtualMachineInstance | VirtualMachine:
    vmi, spec = member(request, "vmi", dict), member(request, "spec", dict)
    if (vmi is None) is (spec is None):
        raise BadLine("give either vmi (an object) or spec (a bare VMI spec)")
    try:
        return read_vmi(vmi) if vmi is not None else VirtualMachineInstance.from_wire({"spec": spec})
    except WireError as error:
        raise _Malformed(error) from None


def _old(request: Json, subject: VirtualMachineInstance | VirtualMachine) -> VirtualMachineInstance | VirtualMachine | None:
    raw = member(request, "old", dict)
    if raw is None:
        return None
    is_object = any(key in raw for key in ("kind", "apiVersion", "metadata", "spec"))
    if raw and not is_object:
        old: VirtualMachineInstance | VirtualMachine | None = spec_of(request, "old")
    else:
        old = vmi_of({"old": {"kind": type(subject).KIND, **raw}}, "old")
    if isinstance(old, VirtualMachine) is not isinstance(subject, VirtualMachine):
        raise BadLine(f"old: must be a {type(subject).KIND} like the object itself")
    return old


def _unknown_gates(request: Json) -> Iterator[str]:
    for gate in member(request, "gates", dict, {}):
        if gate not in KNOWN_GATES:
            yield f"gates.{gate}: no such feature gate is known here; it is ignored"


def _wire(verdict: Verdict) -> Json:
    causes = [{"type": cause.type, "message": cause.message, "field": cause.field} for cause in verdict.causes]
    return {"allowed": verdict.allowed, "causes": causes, "warnings": list(verdict.warnings)}


HELP = """Check VMIs and VMs against KubeVirt's admission rules.

One JSON request per line, from a file or standard input:

\b
  id        anything; it comes back in the answer
  vmi       a VirtualMachineInstance or (by its kind) a VirtualMachine
  spec      a bare VMI spec, instead of vmi
  old       for an update: what the object was before, in the same form
  gates     feature gates, name -> true or false; absent: the version's default
            (DynamicResourceAllocation stands for GPUsWithDRA and HostDevicesWithDRA)
  kubevirt  the KubeVirt version whose rules apply; absent: 1.9

The answer: id, allowed, causes (type, message, field) and warnings. A line that can't be understood is answered with
allowed false and error.
"""

EPILOG = """\b
Examples:
  virt-dra admit --jsonl requests.jsonl
  echo '{"id": 1, "spec": {"domain": {"devices": {"gpus": [{"name": "g", "claimName": "c"}]}}}}' | virt-dra admit --jsonl
  virt-dra admit --jsonl < requests.jsonl | jq -r 'select(.allowed | not) | .causes[].message'
"""

command = jsonl_command("admit", answer, REFUSAL, HELP, EPILOG)
