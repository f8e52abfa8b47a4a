"""``virt-dra render``: the device part of launcher pods, one JSON object a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from virt_dra.api.kubevirt_v1 import PermittedHostDevices, VirtualMachine, VirtualMachineInstance
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.jsonl.lines import jsonl_command
from virt_dra.cli.jsonl.members import member, under
from virt_dra.cli.jsonl.vmi_members import gates_of, vmi_of, vmi_or_spec
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.pods.launcher_pods import COMPUTE
from virt_dra.controllers.pods.launcher_resources import RenderError, fragment

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import ContainerDevicesJson, RenderAnswerJson

REFUSAL: Json = {"resourceClaims": [], "containers": []}
MEMBERS: Final = ("vmi", "spec", "gates", "kubevirt", "permittedHostDevices")


def answer(request: Json) -> RenderAnswerJson:
    """The device part for a request, whose members :data:`HELP` lists; ``error`` is null when a pod is rendered. Raises
    BadLine or WireError for requests that can't be understood."""
    gates = gates_of(request)
    devices = fragment(_vmi(request), gates, _permitted(request))
    if isinstance(devices, RenderError):
        return {"resourceClaims": [], "containers": [], "error": devices.message}
    compute: ContainerDevicesJson = {
        "name": COMPUTE,
        "claims": [claim.to_wire() for claim in devices.claims],
        "limits": {name: str(quantity) for name, quantity in devices.limits.items()},
        "requests": {name: str(quantity) for name, quantity in devices.requests.items()},
    }
    return {
        "resourceClaims": [claim.to_wire() for claim in devices.resource_claims],
        "containers": [compute],
        "error": None,
    }


def _vmi(request: Json) -> VirtualMachineInstance:
    raw = vmi_or_spec(request)
    if request.get("vmi") is None:
        return VirtualMachineInstance.from_wire(raw)
    given = vmi_of(request)
    return instance_of(given) if isinstance(given, VirtualMachine) else given


def _permitted(request: Json) -> PermittedHostDevices | None:
    raw = member(request, "permittedHostDevices", dict)
    if raw is None:
        return None
    try:
        return PermittedHostDevices.from_wire(raw)
    except WireError as error:
        raise under("permittedHostDevices", error) from None


HELP = """Render the device part of launcher pods.

One JSON request per line, from a file or standard input:

\b
  id                    any value; the answer repeats it
  vmi                   a VirtualMachineInstance or (by its kind) a VirtualMachine
  spec                  a bare VMI spec, instead of vmi
  gates                 feature gates, name -> true or false; absent: the version's default
  kubevirt              the KubeVirt version that renders; absent: 1.9
  permittedHostDevices  of the KubeVirt configuration; absent: everything is permitted

The answer: id, resourceClaims (of the pod), containers (name, claims, limits and requests of the devices) and error,
which is null when the pod can be rendered. """

EPILOG = """\b
Examples:
  virt-dra render --jsonl examples/requests/render.jsonl
  kubectl get vmi vm1 -o json | jq -c '{id: .metadata.name, vmi: .}' | virt-dra render --jsonl
  virt-dra render --jsonl < examples/requests/render.jsonl | jq -r 'select(.error) | "\\(.id): \\(.error)"'
"""

command = jsonl_command("render", "RenderAnswer", answer, REFUSAL, HELP, EPILOG, MEMBERS)
