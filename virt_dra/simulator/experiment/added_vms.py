"""The VM, VMI or Pod of a file that a what-if adds, with the claims and templates that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, of_kind
from virt_dra.api.policies.storage_v1 import PersistentVolumeClaim
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.controllers.loops.claims import generated_claim
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.extended_resources import served_resources
from virt_dra.model.feeds.files import model_of_files
from virt_dra.model.volumes import is_claim_to_come
from virt_dra.scheduling.dynamic_resources.extended_claim import ExtendedResources
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.dump import Shapes
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.explaining.state import Wish
from virt_dra.simulator.explaining.subject import SubjectFinder

_NAMESPACE: Final = "default"


def added_vm(objects: Sequence[TypedObject], cluster: Sequence[TypedObject], source: str) -> VmShape:
    """The VM of a file's ``objects``. ``cluster``: the dump, whose templates count too. Raises BadExperiment."""
    vms = [obj for obj in objects if isinstance(obj, VirtualMachine | VirtualMachineInstance | Pod)]
    if len(vms) != 1:
        raise BadExperiment(
            f"{source}: has {len(vms)} VirtualMachines, VirtualMachineInstances and Pods; add takes one at a time"
        )
    present = [in_namespace(obj, _NAMESPACE) for obj in (*cluster, *objects) if not isinstance(obj, Node)]
    vm = in_namespace(vms[0], _NAMESPACE)
    if isinstance(vm, Pod):
        pod, claims = _of_pod(vm, present, source)
    elif isinstance(vm, VirtualMachine | VirtualMachineInstance):
        model = model_of_files(present)
        wish = SubjectFinder(model).start_of(model.by_key(type(vm)).get(vm.key, vm))
        if isinstance(wish, Reason):
            raise BadExperiment(f"{source}: {vm.KIND} {vm.key} can't start: {wish.text}")
        pod, claims = wish.pod, wish.claims
    else:
        raise AssertionError("only these kinds were looked for")
    _refuse_served_resources(pod, ClusterModel((*cluster, *objects)), f"{source}: {vm.KIND} {vm.key}")
    return shape_of(Wish(pod, claims), vm.key, model_of_files(present))


def _refuse_served_resources(pod: Pod, model: ClusterModel, title: str) -> None:
    """Raises BadExperiment for a pod that gets devices by an extended resource: these get no claims here (C-7)."""
    served = served_resources(model)
    extended = ExtendedResources.of_pod(pod, served.class_of, lambda pod: None)
    by_devices = (
        set[str]()
        if extended is None
        else {name for node in model.of(Node) for name in extended.served_by_devices(node) or ()}
    )
    for name in sorted(by_devices):
        device_class = served.class_of(name)
        if device_class is not None:
            raise BadExperiment(
                f"{title} asks for {name}, which devices of DeviceClass {device_class.name} serve: a simulation makes "
                "no claims for such resources. Let it name a claim in place of the resource"
            )


def shape_of(wish: Wish, name: str, model: ClusterModel) -> VmShape:
    """The shape of a new VM of this name, without volumes that are yet to be made. Claims that have devices already
    are others', too."""
    claims, pod = wish.claims, wish.pod
    to_come = {key for key, _ in pod.volume_claims if is_claim_to_come(model, key)}
    to_come -= model.by_key(PersistentVolumeClaim).keys()
    if to_come:
        kept = [
            volume
            for volume in pod.spec.volumes
            if f"{pod.namespace}/{(volume.persistent_volume_claim or {}).get('claimName')}" not in to_come
        ]
        pod = pod.with_(spec=pod.spec.with_(volumes=tuple(kept)))
    shared = tuple(claim.status.allocation for claim in claims if claim.status.allocation is not None)
    own = [claim for claim in claims if claim.status.allocation is None]
    return replace(Shapes().of(pod, own, shared), name=name)


def _of_pod(pod: Pod, present: Sequence[TypedObject], source: str) -> tuple[Pod, tuple[ResourceClaim, ...]]:
    templates = {template.key: defaulted(template) for template in of_kind(present, ResourceClaimTemplate)}
    direct = {claim.key: defaulted(claim) for claim in of_kind(present, ResourceClaim)}
    claims: list[ResourceClaim] = []
    for number, entry in enumerate(pod.spec.resource_claims):
        if entry.resource_claim_template_name is not None:
            template = templates.get(f"{pod.namespace}/{entry.resource_claim_template_name}")
            claim = None if template is None else generated_claim(pod, entry.name, template)
        else:
            claim = direct.get(f"{pod.namespace}/{entry.resource_claim_name}")
        if claim is None:
            name = entry.resource_claim_template_name or entry.resource_claim_name
            raise BadExperiment(f"{source}: Pod {pod.key}: spec.resourceClaims[{number}]: {name} isn't there")
        claims.append(claim)
    return pod, tuple(claims)
