"""``virt-dra device-status``: the addresses of VMIs' DRA devices, one JSON object per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import InvalidKeys, read_keys
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, vm_or_vmi_kind
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.jsonl.lines import jsonl_command
from virt_dra.cli.jsonl.members import BadLine, member, under
from virt_dra.controllers.devices.options import ResolutionOptions
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.loops.device_status import own_report
from virt_dra.controllers.loops.virtual_machines import instance_of
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import DeviceStatusAnswerJson

REFUSAL: DeviceStatusAnswerJson = {"deviceStatus": None, "unresolved": []}
MEMBERS: Final = ("vmi", "pod", "claims", "slices", "options")


def answer(request: Json) -> DeviceStatusAnswerJson:
    """The addresses for a request, whose members :data:`HELP` lists. Raises BadLine or WireError for requests that
    can't be understood."""
    options = _options(member(request, "options", dict, {}))
    vmi = _vmi(request)
    pod = _pod(vmi, _objects(request, "pod", Pod), options)
    resolution = resolve(
        vmi, pod, _objects(request, "claims", ResourceClaim), _objects(request, "slices", ResourceSlice), options
    )
    report = own_report(vmi, resolution)
    status = report.device_status()
    unresolved = sorted((*report.unresolved, *report.lost), key=lambda u: u.subject.position)
    answered: DeviceStatusAnswerJson = {
        "deviceStatus": None if status is None else status.to_wire(),
        "unresolved": [{"device": str(u.subject), "reason": u.reason, "message": u.message} for u in unresolved],
    }
    if report.warnings:
        answered["warnings"] = [
            {"device": str(w.subject), "reason": w.reason, "message": w.message} for w in report.warnings
        ]
    return answered


def _vmi(request: Json) -> VirtualMachineInstance:
    raw = member(request, "vmi", dict)
    if raw is None:
        raise BadLine("vmi: is required, a VirtualMachineInstance")
    if vm_or_vmi_kind(raw) == VirtualMachine.KIND:
        return instance_of(_object(raw, "vmi", VirtualMachine))
    return _object(raw, "vmi", VirtualMachineInstance)


def _pod(vmi: VirtualMachineInstance, pods: tuple[Pod, ...], options: ResolutionOptions) -> Pod | None:
    """The current pod of those given; without one the first by name, so that the answer says what is wrong with it."""
    candidates = launcher_pods_of(vmi, pods) or pods
    current = current_pod(vmi, candidates, migration_target=options.migration_target)
    return current or min(candidates, key=lambda pod: (pod.name, pod.metadata.uid), default=None)


def _objects(request: Json, name: str, kind: type[ObjectT]) -> tuple[ObjectT, ...]:
    """A member that is one object, a list of objects, or a List object. Of a List only the objects of the kind
    count."""
    raw = request.get(name)
    if raw is None:
        return ()
    if isinstance(raw, list):
        return tuple(_object(entry, f"{name}[{position}]", kind) for position, entry in enumerate(raw))
    if not isinstance(raw, dict):
        raise BadLine(f"{name}: must be a list of {kind.KIND} objects, or a List object")
    given = raw.get("kind")
    if not isinstance(given, str) or not given.endswith("List"):
        return (_object(raw, name, kind),)
    items = raw.get("items")
    if items is None:
        return ()
    if not isinstance(items, list):
        raise BadLine(f"{name}.items: must be a list")
    defaults = {"apiVersion": raw.get("apiVersion"), "kind": kind.KIND} if raw["kind"] == f"{kind.KIND}List" else {}
    objects = []
    for position, entry in enumerate(items):
        if isinstance(entry, dict) and entry.get("kind") not in (None, kind.KIND):
            continue  # a List may hold objects of several kinds
        objects.append(
            _object({**defaults, **entry} if isinstance(entry, dict) else entry, f"{name}.items[{position}]", kind)
        )
    return tuple(objects)


def _object(raw: object, path: str, kind: type[ObjectT]) -> ObjectT:
    """One object in any supported API version; without apiVersion and kind it is read as ``kind`` in v1."""
    if not isinstance(raw, dict):
        raise BadLine(f"{path}: must be a {kind.KIND} object")
    head = {"apiVersion": _implied_version(raw, kind), "kind": kind.KIND}
    given = {key: value for key, value in raw.items() if key not in head or value not in (None, "")}
    try:
        obj = read_object({**head, **given})
    except WireError as error:
        raise under(path, error) from None
    if not isinstance(obj, kind):
        raise BadLine(
            f"{path}: is a {given.get('kind', kind.KIND)} of "
            f"{given.get('apiVersion', head['apiVersion'])}, expected a {kind.KIND}"
        )
    return obj


def _implied_version(raw: Json, kind: type[TypedObject]) -> str:
    """The API version of an object without one: v1, unless its devices are nested in ``basic`` as before v1beta2
    (K-3.6)."""
    spec = raw.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    nested = isinstance(devices, list) and any(isinstance(device, dict) and "basic" in device for device in devices)
    return "resource.k8s.io/v1beta1" if kind is ResourceSlice and nested else kind.API_VERSION


def _options(raw: Json) -> ResolutionOptions:
    unknown = sorted(set(raw) - {"spread", "keys", "migrationTarget"})
    if unknown:
        raise BadLine(f"options.{unknown[0]}: is unknown; there are spread, keys and migrationTarget")
    for name in ("spread", "migrationTarget"):
        if not isinstance(raw.get(name, False), bool):
            raise BadLine(f"options.{name}: must be a boolean")
    try:
        keys = read_keys(raw["keys"], "options.keys") if raw.get("keys") is not None else ()
    except InvalidKeys as error:
        raise BadLine(str(error)) from None
    return ResolutionOptions(
        spread=raw.get("spread", False), keys=keys, migration_target=raw.get("migrationTarget", False)
    )


HELP = """Resolve the DRA devices of VMIs to their addresses: pod, claim, allocation, slice, attribute.

One JSON request per line, from a file or standard input:

\b
  id       any value; the answer repeats it
  vmi      the VirtualMachineInstance
  pod      its launcher pod; null or absent if there is none yet; of a list the current pod is used
  claims   ResourceClaims, a list or a List object
  slices   ResourceSlices, a list or a List object
  options  spread: true lets device entries of one claim and request take its devices in order
           keys: more address attributes, a list of {driver, pci: [keys], mdev: [keys]}
           migrationTarget: true resolves for the target pod of a migration

Objects may have any version of their API from v1alpha3 to v1; without apiVersion and kind they are read as v1.

The answer: id, deviceStatus (null when the VMI has no DRA device; keys pciAddress and mDevUUID), and unresolved: per
device without an address (gpus/NAME or hostDevices/NAME) a reason and a message. Entries of a running VMI are no longer
changed. warnings is present only if there are any. A line that can't be understood is answered with deviceStatus null
and error. """

EPILOG = """\b
Examples:
  virt-dra device-status --jsonl examples/requests/device-status.jsonl
  virt-dra device-status --jsonl < examples/requests/device-status.jsonl | jq -c 'select(.unresolved != [])'

\b
From a cluster, for VMI fedora:
  jq -nc --argjson vmi "$(kubectl get vmi fedora -o json)" \\
      --argjson pod "$(kubectl get pods -l vm.kubevirt.io/name=fedora -o json)" \\
      --argjson claims "$(kubectl get resourceclaims -o json)" \\
      --argjson slices "$(kubectl get resourceslices -o json)" \\
      '{id: 1, $vmi, $pod, $claims, $slices}' | virt-dra device-status --jsonl
"""

command = jsonl_command("device-status", "DeviceStatusAnswer", answer, REFUSAL, HELP, EPILOG, MEMBERS)
