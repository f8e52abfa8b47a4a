"""Members of a request that name a VMI, and the KubeVirt that it is for."""

from __future__ import annotations

from functools import lru_cache

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, vm_or_vmi_kind
from virt_dra.api.kubevirt_versions import NEWEST, Gates, KubeVirtVersion
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.jsonl.members import BadLine, found_type, member, under


def gates_of(request: Json) -> Gates:
    """The members ``kubevirt`` (a version; absent: the newest) and ``gates`` (name -> bool; absent or null: the
    version's default)."""
    text = member(request, "kubevirt", str)
    try:
        default = _default_gates(text)
    except ValueError as error:
        raise BadLine(f"kubevirt: {error}") from None
    choices: dict[str, bool] = {}
    for gate, value in member(request, "gates", dict, {}).items():
        if isinstance(value, bool):
            choices[gate] = value
        elif value is not None:
            raise BadLine(f"gates.{gate}: must be a boolean, not {found_type(value)}")
    return Gates.for_version(default.version, choices) if choices else default


@lru_cache(maxsize=32)
def _default_gates(text: str | None) -> Gates:
    """The gates of a version; of the newest for None. Raises ValueError for a text that is no version."""
    return Gates.for_version(NEWEST if text is None else KubeVirtVersion.parse_known(text))


def vmi_or_spec(request: Json) -> Json:
    """The raw object in the member ``vmi``, or one made of the bare VMI spec in ``spec``; exactly one of them must be
    there."""
    vmi, spec = member(request, "vmi", dict), member(request, "spec", dict)
    if (vmi is None) is (spec is None):
        raise BadLine("give either vmi (an object) or spec (a bare VMI spec)")
    return vmi if vmi is not None else {"spec": spec}


def read_vmi(raw: Json) -> VirtualMachineInstance | VirtualMachine:
    """A VMI, or a VM if its kind says so. Without a kind, one whose spec has a template is a VM. Raises WireError."""
    kind = vm_or_vmi_kind(raw)
    if kind == VirtualMachine.KIND:
        return VirtualMachine.from_wire(raw)
    if kind == VirtualMachineInstance.KIND:
        return VirtualMachineInstance.from_wire(raw)
    raise WireError(
        "VirtualMachineInstance", (("kind", f"must be {VirtualMachineInstance.KIND} or {VirtualMachine.KIND}"),)
    )


def vmi_of(request: Json) -> VirtualMachineInstance | VirtualMachine:
    """The VMI or VM in the member ``vmi``, which is required."""
    raw = member(request, "vmi", dict)
    if raw is None:
        raise BadLine("vmi: is required; give the VirtualMachineInstance as an object")
    try:
        return read_vmi(raw)
    except WireError as error:
        raise under("vmi", error) from None
