"""Advice for VMs that need objects of the input which an API server would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.nearest import nearest
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from virt_dra.cluster.accepting import RefusedObject
from virt_dra.simulator.outcome import HandOver, VmOutcome

NAMED = (ResourceClaimTemplate.KIND, ResourceClaim.KIND, DeviceClass.KIND)
"""Kinds that only VMs that name the object need. Slices, nodes and others concern every VM."""


def with_refused_first(
    outcome: VmOutcome,
    vm: VirtualMachine | VirtualMachineInstance,
    refused: Sequence[RefusedObject],
    accepted: Iterable[TypedObject],
) -> VmOutcome:
    """The outcome; its advice begins with the refused objects if the VM may have failed because they are missing."""
    failure = outcome.failure
    if (
        failure is None
        or not refused
        or failure.step not in (HandOver.CLAIMS, HandOver.PLACEMENT, HandOver.DEVICE_STATUS)
    ):
        return outcome
    missed = [obj.source for obj in refused if obj.kind not in NAMED or _names(vm, outcome.namespace, obj, accepted)]
    if not missed:
        return outcome
    sources = ", ".join(missed[:3]) + (", …" if len(missed) > 3 else "")
    advice = (
        f"first correct the objects that the API server refused ({sources}); then, if it still fails: {failure.advice}"
    )
    return replace(outcome, failure=replace(failure, advice=advice))


def _names(
    vm: VirtualMachine | VirtualMachineInstance, namespace: str, refused: RefusedObject, accepted: Iterable[TypedObject]
) -> bool:
    """True if a VM names a refused object, or nearly so: many objects are refused because of their names."""
    entries = (vm.spec.template.spec if isinstance(vm, VirtualMachine) else vm.spec).resource_claims
    templates = {entry.resource_claim_template_name for entry in entries if entry.resource_claim_template_name}
    claims = {entry.resource_claim_name for entry in entries if entry.resource_claim_name}
    place, _, name = refused.key.rpartition("/")
    if refused.kind == DeviceClass.KIND:
        specs = [_claim_spec(obj) for obj in accepted if obj.namespace == namespace and obj.name in templates | claims]
        return nearest(name, {wanted for spec in specs if spec is not None for wanted in _classes(spec)}) is not None
    return (
        place == namespace
        and nearest(name, templates if refused.kind == ResourceClaimTemplate.KIND else claims) is not None
    )


def _claim_spec(obj: TypedObject) -> ResourceClaimSpec | None:
    if isinstance(obj, ResourceClaimTemplate):
        return obj.spec.spec
    return obj.spec if isinstance(obj, ResourceClaim) else None


def _classes(spec: ResourceClaimSpec) -> Iterable[str]:
    for request in spec.devices.requests:
        parts = (request.exactly, *request.first_available)
        yield from (part.device_class_name for part in parts if part is not None)
