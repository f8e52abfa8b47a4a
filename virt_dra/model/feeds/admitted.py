"""A model with VMs as their VMIs are admitted: with devices of lines (``virt-dra.io/devices``), and kept claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes.expansion import Instancetypes
from virt_dra.api.keeping.claims import is_kept, kept_claim_name, kept_entries, vm_name_of, with_kept_claims
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.lines import LineSurroundings, pod_binding_of, was_admitted
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.model.cluster import ClusterModel, derived


def as_admitted(model: ClusterModel) -> ClusterModel:
    """The model with VMs as their VMIs are admitted, and the templates of their claims. A VM whose line is refused
    stays as it is written, as does a VMI that an API server stored: what runs has what it was made with."""
    return _with_kept_claims(_with_devices_of_lines(model))


def _with_devices_of_lines(model: ClusterModel) -> ClusterModel:
    asking = list(_asking(model))
    if not asking:
        return model
    surroundings = surroundings_of(model)
    templates = model.by_key(ResourceClaimTemplate)
    put: list[TypedObject] = []
    for vm in asking:
        admitted = surroundings.admitted(vm)
        if admitted.vm is not vm:
            put.append(admitted.vm)
        if not _runs(vm, model):  # what a stored VMI lacks is still to be made
            put += [template for template in admitted.templates if template.key not in templates]
    return model.changed(put)


def _with_kept_claims(model: ClusterModel) -> ClusterModel:
    """A stopped VM that keeps devices starts with the claims that have them, and records their templates as its VMI
    does. Where none was made yet, the keeper makes it of the template, which is asked for in its place."""
    kept: dict[str, set[str]] = {}
    for claim in model.of(ResourceClaim):
        if is_kept(claim):
            kept.setdefault(f"{claim.namespace}/{vm_name_of(claim)}", set()).add(claim.name)
    vms = model.by_key(VirtualMachine) if kept else {}
    return model.changed(_starting_with(vms[key], names) for key, names in kept.items() if key in vms)


def _starting_with(vm: VirtualMachine, claims: Collection[str]) -> VirtualMachine:
    template = vm.spec.template
    kept = [entry.name for entry in template.spec.resource_claims if kept_claim_name(vm.name, entry.name) in claims]
    instance = VirtualMachineInstance(metadata=template.metadata.with_(name=vm.name), spec=template.spec)
    starting = with_kept_claims(instance, {}, only=kept)
    metadata = template.metadata.with_(annotations=starting.metadata.annotations)
    return vm.with_(spec=vm.spec.with_(template=template.with_(metadata=metadata, spec=starting.spec)))


@derived(UnknownObject)
def instancetypes_of(model: ClusterModel) -> Instancetypes:
    """The instancetypes and preferences of a model, with their revisions."""
    return Instancetypes.from_objects(model.of(UnknownObject), "default")


def surroundings_of(model: ClusterModel) -> LineSurroundings:
    """What lines depend on in the model."""
    return LineSurroundings(
        model.by_key(DeviceProfile),
        model.by_key(Namespace),
        instancetypes_of(model) if _uses_instancetypes(model) else Instancetypes(),
        pod_binding=pod_binding_of(model.of(KubeVirt)),
    )


def _asking(model: ClusterModel) -> Iterator[VirtualMachine | VirtualMachineInstance]:
    """VMs and new VMIs with a line, or maybe one of an instancetype; not VMIs with kept claims, written out before."""
    for vm in model.of(VirtualMachine):
        if DEVICES_ANNOTATION in vm.spec.template.metadata.annotations or _has_instancetype(vm):
            yield vm
    for vmi in model.of(VirtualMachineInstance):
        if DEVICES_ANNOTATION in vmi.metadata.annotations and not (was_admitted(vmi) or kept_entries(vmi)):
            yield vmi


def _runs(vm: VirtualMachine | VirtualMachineInstance, model: ClusterModel) -> bool:
    vmi = model.by_key(VirtualMachineInstance).get(vm.key)
    return vmi is not None and was_admitted(vmi) and not vmi.finished


def _uses_instancetypes(model: ClusterModel) -> bool:
    return any(_has_instancetype(vm) for vm in model.by_key(VirtualMachine).values())


def _has_instancetype(vm: VirtualMachine) -> bool:
    given = vm.spec.model_extra or {}
    return "instancetype" in given or "preference" in given
