"""The state of the input's VMs before the run. A VMI with a current launcher pod in the input is taken over as it is;
any other is started anew, and what an earlier start left behind (finished pods, claims) doesn't belong to the VM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from virt_dra.api.core_v1 import Pod
from virt_dra.api.instancetypes.expansion import Expansion, Instancetypes, expand
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Sourced
from virt_dra.controllers.deletion import TERMINATING, deletion_text
from virt_dra.controllers.loops.virtual_machines import strategy_of, wants_instance
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of, not_current, owner_uids

VmOrVmi = VirtualMachine | VirtualMachineInstance

NOT_RUNNING = "the VM is stopped (spec.running, spec.runStrategy); this shows what starting it would do"
_WITH_A_POD = ("Scheduling", "Scheduled", "Running", "WaitingForSync")


@dataclass(frozen=True)
class Blocker:
    """Why a VM can't be started at all."""

    reason: str
    message: str
    advice: str


@dataclass(frozen=True)
class InputVm:
    """A VM or VMI of the input. ``vmi`` and ``pod``: of a running VM, which is taken over; both or none. ``stopped``:
    it isn't meant to run, and competes for devices after the others. ``stored``: it is in the cluster, with its UID."""

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
        return self.vmi is not None or (
            isinstance(self.subject.object, VirtualMachine) and bool(self.subject.object.metadata.uid)
        )

    @property
    def loaded(self) -> tuple[Sourced[TypedObject], ...]:
        """The VM's objects that the cluster has from the beginning, but for its pod."""
        vm: tuple[Sourced[TypedObject], ...] = (self.subject,) if self.stored or self.blocked is not None else ()
        own = isinstance(self.subject.object, VirtualMachineInstance) or self.vmi is None
        return vm if own or self.vmi is None else (*vm, Sourced(self.vmi, self.subject.source))


@dataclass(frozen=True)
class SortedInput:
    """The input, sorted. ``vms``: the VMs, in input order. ``others``: all other objects, pods included."""

    vms: tuple[InputVm, ...]
    others: tuple[Sourced[TypedObject], ...]


def sort_input(inputs: Iterable[Sourced[TypedObject]]) -> SortedInput:
    """Sorts the inputs, which are unique and have namespaces. A VMI that a VM of the input owns belongs to that VM."""
    inputs = tuple(inputs)
    instancetypes = Instancetypes.from_objects((sourced.object for sourced in inputs), "")
    pods: dict[str, list[Pod]] = defaultdict(list)
    for sourced in inputs:
        if isinstance(sourced.object, Pod):
            for uid in owner_uids(sourced.object):
                pods[uid].append(sourced.object)
    vmis = {sourced.object.key: sourced for sourced in inputs if isinstance(sourced.object, VirtualMachineInstance)}
    by_key = {sourced.object.key: sourced.object for sourced in inputs if isinstance(sourced.object, VirtualMachine)}
    vms: list[InputVm] = []
    others: list[Sourced[TypedObject]] = []
    for sourced in inputs:
        obj = sourced.object
        if isinstance(obj, VirtualMachine):
            instance = vmis.get(obj.key)
            vmi = (
                instance.object
                if instance is not None and isinstance(instance.object, VirtualMachineInstance)
                else None
            )
            own = vmi if vmi is not None and _owns(obj, vmi) else None
            expansion = expand(obj, instancetypes, obj.namespace)
            given = _of_vm(
                Sourced(obj, sourced.source), expansion, own, pods[own.metadata.uid] if own is not None else ()
            )
            vms.append(replace(given, expansion=expansion))
            if vms[-1].blocked is not None and own is not None and instance is not None:
                others.append(instance)
        elif isinstance(obj, VirtualMachineInstance):
            owner = obj.metadata.controller_owner
            vm = by_key.get(obj.key) if owner is not None and owner.kind == VirtualMachine.KIND else None
            if vm is None:
                vms.append(_of_vmi(Sourced(obj, sourced.source), obj, pods[obj.metadata.uid]))
            elif not _owns(vm, obj):
                others.append(sourced)  # of an earlier VM of this name
        else:
            others.append(sourced)
    return SortedInput(tuple(vms), tuple(others))


def _owns(vm: VirtualMachine, vmi: VirtualMachineInstance) -> bool:
    owner = vmi.metadata.controller_owner
    if owner is None or owner.kind != VirtualMachine.KIND or owner.name not in ("", vm.name):
        return False
    return not vm.metadata.uid or not owner.uid or vm.metadata.uid == owner.uid


def _of_vm(
    sourced: Sourced[VmOrVmi], expansion: Expansion, vmi: VirtualMachineInstance | None, pods: Sequence[Pod]
) -> InputVm:
    vm = expansion.vm
    if vm.metadata.deletion_timestamp is not None:
        return InputVm(sourced, blocked=_terminating(vm))
    if vmi is None:
        missing = vm.status.get("created") is True
        notes = (f"its status says that it has a VMI, which the input lacks: {_ADD}",) if missing else ()
        return _started_anew(sourced, vm, notes)
    if vmi.metadata.deletion_timestamp is not None:
        return InputVm(sourced, blocked=_terminating(vmi))
    if vmi.finished:
        strategy = strategy_of(vm)
        again = strategy == "Always" or (strategy == "RerunOnFailure" and vmi.status.phase == "Failed")
        if again or not wants_instance(vm):
            return _started_anew(sourced, vm)
        note = (
            f"its VMI has finished (phase {vmi.status.phase}) and is not started "
            "again by itself; this shows what starting it would do"
        )
        return InputVm(sourced, stopped=True, notes=(note,))
    pod = current_pod(vmi, launcher_pods_of(vmi, pods))
    if pod is None:
        return _started_anew(sourced, vm, _without_pod(vmi, pods))
    changed = () if expansion.missing else _changed(vm, vmi)  # the missing object may have requested the devices
    return InputVm(sourced, vmi, pod, notes=(*changed, *_deletion_note(pod)))


def _of_vmi(sourced: Sourced[VmOrVmi], vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> InputVm:
    if vmi.metadata.deletion_timestamp is not None:
        return InputVm(sourced, blocked=_terminating(vmi))
    if vmi.finished:
        note = f"the VMI has finished (phase {vmi.status.phase}); this shows what creating it again would do"
        return InputVm(sourced, stopped=True, notes=(note,))
    pod = current_pod(vmi, launcher_pods_of(vmi, pods))
    if pod is None:
        return InputVm(sourced, notes=_without_pod(vmi, pods))
    return InputVm(sourced, vmi, pod, notes=_deletion_note(pod))


def _started_anew(sourced: Sourced[VmOrVmi], vm: VirtualMachine, notes: tuple[str, ...] = ()) -> InputVm:
    stopped = not wants_instance(vm)
    return InputVm(sourced, stopped=stopped, notes=(*notes, *((NOT_RUNNING,) if stopped else ())))


_ADD = "add VMIs and pods (kubectl get vmi,pods -A -o yaml), or its own claims count as those of others"


def _terminating(obj: VmOrVmi) -> Blocker:
    return Blocker(
        TERMINATING,
        deletion_text(obj),
        f"wait until it is gone, and dump the cluster again; its finalizers: kubectl get {obj.PLURAL} -o yaml",
    )


def _without_pod(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> tuple[str, ...]:
    """The note on a VMI without a current launcher pod."""
    if not vmi.metadata.uid or vmi.status.phase not in _WITH_A_POD:
        return ()
    reasons = [f"pod {pod.name}: {not_current(vmi, pod)}" for pod in launcher_pods_of(vmi, pods)]
    if reasons:
        why = f"its VMI is {vmi.status.phase} without a current launcher pod ({'; '.join(reasons)})"
        return (f"{why}; this shows what starting it anew would do",)
    return (f"its VMI is {vmi.status.phase}, and the input lacks its launcher pod: {_ADD}",)


def _deletion_note(pod: Pod) -> tuple[str, ...]:
    return (f"its launcher pod {pod.name} is being deleted",) if pod.metadata.deletion_timestamp is not None else ()


def _changed(vm: VirtualMachine, vmi: VirtualMachineInstance) -> tuple[str, ...]:
    if _requested(vm.spec.template.spec) == _requested(vmi.spec):
        return ()
    return (
        "the VM's template requests other devices than its VMI runs with, which are shown; a restart would change them",
    )


def _requested(spec: VirtualMachineInstanceSpec) -> object:
    """The parts of a spec that concern devices of claims or device plugins, to compare."""
    devices = spec.domain.devices
    claims = [
        (claim.name, claim.resource_claim_name, claim.resource_claim_template_name) for claim in spec.resource_claims
    ]
    entries = [
        [(entry.name, entry.device_name or "", entry.claim_name or "", entry.request_name or "") for entry in listed]
        for listed in (devices.gpus, devices.host_devices)
    ]
    networks = [
        (network.name, network.resource_claim.to_wire())
        for network in spec.networks
        if network.resource_claim is not None
    ]
    return claims, entries, networks
