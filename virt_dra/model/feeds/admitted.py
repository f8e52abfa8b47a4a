"""A model in which VMs have the devices of their lines (``virt-dra.io/devices``), as they are admitted."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.instancetypes.expansion import Instancetypes
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.lines import LineSurroundings, was_admitted
from virt_dra.api.resource_v1 import ResourceClaimTemplate
from virt_dra.model.cluster import ClusterModel


def with_devices_of_lines(model: ClusterModel) -> ClusterModel:
    """The model with VMs as their VMIs are admitted, and the templates of their claims. A VM whose line is refused
    stays as it is written, as does a VMI that an API server stored: what runs has what it was made with."""
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


def surroundings_of(model: ClusterModel) -> LineSurroundings:
    """What lines depend on in the model."""
    unknown = [obj for obj in model.objects if isinstance(obj, UnknownObject)] if _uses_instancetypes(model) else []
    instancetypes = Instancetypes.from_objects(unknown, "default")
    return LineSurroundings(model.by_key(DeviceProfile), model.by_key(Namespace), instancetypes)


def _asking(model: ClusterModel) -> Iterator[VirtualMachine | VirtualMachineInstance]:
    """VMs and new VMIs that have a line, or may get one from an instancetype."""
    for vm in model.of(VirtualMachine):
        if DEVICES_ANNOTATION in vm.spec.template.metadata.annotations or _has_instancetype(vm):
            yield vm
    for vmi in model.of(VirtualMachineInstance):
        if DEVICES_ANNOTATION in vmi.metadata.annotations and not was_admitted(vmi):
            yield vmi


def _runs(vm: VirtualMachine | VirtualMachineInstance, model: ClusterModel) -> bool:
    vmi = model.by_key(VirtualMachineInstance).get(vm.key)
    return vmi is not None and was_admitted(vmi) and not vmi.finished


def _uses_instancetypes(model: ClusterModel) -> bool:
    return any(_has_instancetype(vm) for vm in model.by_key(VirtualMachine).values())


def _has_instancetype(vm: VirtualMachine) -> bool:
    given = vm.spec.model_extra or {}
    return "instancetype" in given or "preference" in given
