"""The state of the input's VMs before the run: running already, to be started, or being deleted.

A VMI that has a current launcher pod in the input is taken over as it is there, with its pod, claims and devices. Any other starts anew:
what an earlier start left (finished pods, claims) stays as it is and isn't the VM's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from virt_dra.api.core_v1 import Pod
from virt_dra.api.instancetypes import Expansion, Instancetypes, expand
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Sourced
from virt_dra.controllers.loops.virtual_machines import wants_instance
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of, not_current, owner_uids
from virt_dra.controllers.standalone.instance_phase import FINISHED
from virt_dra.controllers.standalone.vm_lifecycle import strategy_of

VmOrVmi = VirtualMachine | VirtualMachineInstance

NOT_RUNNING = "the VM is not to run now (spec.running, spec.runStrategy); this shows what starting it would do"
_WITH_A_POD = ("Scheduling", "Scheduled", "Running", "WaitingForSync")


@dataclass(frozen=True)
class Blocker:
    """Why a VM can't be driven at all."""

    reason: str
    message: str
    advice: str


@dataclass(frozen=True)
class Life:
    """A VM or VMI to drive.

    ``vmi`` and ``pod``: what is taken over; both or none. ``stopped``: starting it is only what it would do; it competes for devices
    after those that are to run. ``stored``: the VM is in the cluster as it is given, with its UID.
    """

    subject: Sourced[VmOrVmi]
    vmi: VirtualMachineInstance | None = None
    pod: Pod | None = None
    blocked: Blocker | None = None
    stopped: bool = False
    notes: tuple[str, ...] = ()
    expansion: Expansion | None = None
    """A VM with its instancetype and preference applied; None for a VMI."""

    @property
    def reviewed(self) -> VmOrVmi:
        """The VM or VMI as KubeVirt validates it; a VM as its VMI is created from it."""
        return self.subject.object if self.expansion is None else self.expansion.vm

    @property
    def stored(self) -> bool:
        return self.vmi is not None or (isinstance(self.subject.object, VirtualMachine) and bool(self.subject.object.metadata.uid))

    @property
    def loaded(self) -> tuple[Sourced[TypedObject], ...]:
        """The objects of it that are in the cluster from the beginning, besides its pod, which is among :attr:`Lives.others`."""
        vm: tuple[Sourced[TypedObject], ...] = (self.subject,) if self.stored or self.blocked is not None else ()
        own = isinstance(self.subject.object, VirtualMachineInstance) or self.vmi is None
        return vm if own or self.vmi is None else (*vm, Sourced(self.vmi, self.subject.source))


@dataclass(frozen=True)
class Lives:
    """The input, sorted. ``lives``: the VMs, in input order. ``others``: all other objects, among them the pods that are taken over."""

    lives: tuple[Life, ...]
    others: tuple[Sourced[TypedObject], ...]


def lives_of(inputs: Iterable[Sourced[TypedObject]]) -> Lives:
    """Sorts the inputs, each of which is there once and in a namespace. A VMI that a VM of the input owns is that VM's."""
    inputs = tuple(inputs)
    instancetypes = Instancetypes.of((sourced.object for sourced in inputs), "")
    pods: dict[str, list[Pod]] = defaultdict(list)
    for sourced in inputs:
        if isinstance(sourced.object, Pod):
            for uid in owner_uids(sourced.object):
                pods[uid].append(sourced.object)
    vmis = {sourced.object.key: sourced for sourced in inputs if isinstance(sourced.object, VirtualMachineInstance)}
    vms = {sourced.object.key: sourced.object for sourced in inputs if isinstance(sourced.object, VirtualMachine)}
    lives: list[Life] = []
    others: list[Sourced[TypedObject]] = []
    for sourced in inputs:
        obj = sourced.object
        if isinstance(obj, VirtualMachine):
            instance = vmis.get(obj.key)
            vmi = instance.object if instance is not None and isinstance(instance.object, VirtualMachineInstance) else None
            own = vmi if vmi is not None and _owns(obj, vmi) else None
            expansion = expand(obj, instancetypes, obj.namespace)
            life = _of_vm(Sourced(obj, sourced.source), expansion, own, pods[own.metadata.uid] if own is not None else ())
            lives.append(replace(life, expansion=expansion))
            if lives[-1].blocked is not None and own is not None and instance is not None:
                others.append(instance)
        elif isinstance(obj, VirtualMachineInstance):
            owner = obj.metadata.controller_owner
            vm = vms.get(obj.key) if owner is not None and owner.kind == VirtualMachine.KIND else None
            if vm is None:
                lives.append(_of_vmi(Sourced(obj, sourced.source), obj, pods[obj.metadata.uid]))
            elif not _owns(vm, obj):
                others.append(sourced)  # an earlier VM's of this name
        else:
            others.append(sourced)
    return Lives(tuple(lives), tuple(others))


def _owns(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    owner = vmi.metadata.controller_owner
    if owner is None or owner.kind != VirtualMachine.KIND or owner.name not in ("", vm.name):
        return False
    return not vm.metadata.uid or not owner.uid or vm.metadata.uid == owner.uid


def _of_vm(sourced: Sourced[VmOrVmi], expansion: Expansion, vmi: VirtualMachineInstance | None, pods: Sequence[Pod]) -> Life:
    vm = expansion.vm
    if vm.metadata.deletion_timestamp is not None:
        return Life(sourced, blocked=_terminating(vm))
    if vmi is None:
        missing = vm.status.get("created") is True
        notes = (f"its status says that it has a VMI, which the input lacks: {_ADD}",) if missing else ()
        return _anew(sourced, vm, notes)
    if vmi.metadata.deletion_timestamp is not None:
        return Life(sourced, blocked=_terminating(vmi))
    if vmi.status.phase in FINISHED:
        strategy = strategy_of(vm)
        again = strategy == "Always" or (strategy == "RerunOnFailure" and vmi.status.phase == "Failed")
        if again or not wants_instance(vm):
            return _anew(sourced, vm)
        note = f"its VMI has finished (phase {vmi.status.phase}) and is not started again by itself; this shows what starting it would do"
        return Life(sourced, stopped=True, notes=(note,))
    pod = current_pod(vmi, launcher_pods_of(vmi, pods))
    if pod is None:
        return _anew(sourced, vm, _without_pod(vmi, pods))
    changed = () if expansion.missing else _changed(vm, vmi)  # what is missing may be what brought the devices
    return Life(sourced, vmi, pod, notes=(*changed, *_going(pod)))


def _of_vmi(sourced: Sourced[VmOrVmi], vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> Life:
    if vmi.metadata.deletion_timestamp is not None:
        return Life(sourced, blocked=_terminating(vmi))
    if vmi.status.phase in FINISHED:
        note = f"the VMI has finished (phase {vmi.status.phase}); this shows what creating it again would do"
        return Life(sourced, stopped=True, notes=(note,))
    pod = current_pod(vmi, launcher_pods_of(vmi, pods))
    if pod is None:
        return Life(sourced, notes=_without_pod(vmi, pods))
    return Life(sourced, vmi, pod, notes=_going(pod))


def _anew(sourced: Sourced[VmOrVmi], vm: VirtualMachine, notes: tuple[str, ...] = ()) -> Life:
    stopped = not wants_instance(vm)
    return Life(sourced, stopped=stopped, notes=(*notes, *((NOT_RUNNING,) if stopped else ())))


_ADD = "add what is there (kubectl get vmi,pods -A -o yaml), or its own claims count as somebody else's"


def _terminating(obj: VmOrVmi) -> Blocker:
    message = f"{obj.KIND} {obj.key} is being deleted; until it is gone, its claims keep their devices"
    return Blocker(
        "Terminating", message, f"wait until it is gone, and read the cluster again; what waits for what: kubectl get {obj.PLURAL} -o yaml"
    )


def _without_pod(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> tuple[str, ...]:
    """Of a VMI that has no current pod among its pods."""
    if not vmi.metadata.uid or vmi.status.phase not in _WITH_A_POD:
        return ()
    reasons = [f"pod {pod.name}: {not_current(vmi, pod)}" for pod in launcher_pods_of(vmi, pods)]
    if reasons:
        why = f"its VMI is {vmi.status.phase} without a current launcher pod ({'; '.join(reasons)})"
        return (f"{why}; this shows what starting it anew would do",)
    return (f"its VMI is {vmi.status.phase}, and the input lacks its launcher pod: {_ADD}",)


def _going(pod: Pod) -> tuple[str, ...]:
    return (f"its launcher pod {pod.name} is being deleted",) if pod.metadata.deletion_timestamp is not None else ()


def _changed(vm: VirtualMachine, vmi: VirtualMachineInstance) -> tuple[str, ...]:
    if _wishes(vm.spec.template.spec) == _wishes(vmi.spec):
        return ()
    return ("the VM's template asks for other devices than its VMI runs with, which is shown; a restart takes them over",)


def _wishes(spec: VirtualMachineInstanceSpec) -> object:
    """What a VM asks for that is served by claims or device plugins."""
    devices = spec.domain.devices
    claims = [(each.name, each.resource_claim_name, each.resource_claim_template_name) for each in spec.resource_claims]
    entries = [
        [(each.name, each.device_name or "", each.claim_name or "", each.request_name or "") for each in listed]
        for listed in (devices.gpus, devices.host_devices)
    ]
    networks = [(each.name, each.resource_claim.to_wire()) for each in spec.networks if each.resource_claim is not None]
    return claims, entries, networks
