"""What a changed cluster means for VMs and pods with claims: which start or wait, end, or lose a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from virt_dra.allocator import DEFAULT
from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Pod
from virt_dra.api.defaults import EPOCH
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.api.tolerations import taint_text
from virt_dra.controllers.loops.virtual_machines import wants_instance
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.devices import devices_by_id
from virt_dra.model.evicting.causes import NO_EXECUTE, tolerated_until
from virt_dra.model.feeds.files import placeable
from virt_dra.model.launchers import pod_title, vm_of_pod
from virt_dra.model.usage import DeviceHolder, holders_in_use
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.simulator.experiment.added_vms import shape_of
from virt_dra.simulator.experiment.dump import cluster_of
from virt_dra.simulator.experiment.what_if import NO_CHANGE, ClusterChange, Prospect
from virt_dra.simulator.explaining.answer import JudgeProgress
from virt_dra.simulator.explaining.difference import FitState, differences
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import SubjectFinder
from virt_dra.simulator.planning.objects import ChangedCluster

VmEffect = Literal["starts", "waits", "ends", "loses-device", "starts-fitting", "stops-fitting", "needs-restart"]
LOSSES: Final = frozenset({"waits", "loses-device", "stops-fitting"})
"""Effects that nobody wants."""
_POLICY: Final = "first-fit"
"""Which node is taken is kube-scheduler's affair; whether there is one hardly depends on it."""


@dataclass(frozen=True)
class VmChange:
    """An effect on one VM or pod. ``title``: ``VM default/vm``; ``why``: it waits, or which device it loses."""

    effect: VmEffect
    title: str
    node: str = ""
    why: str = ""

    @property
    def is_loss(self) -> bool:
        return self.effect in LOSSES


@dataclass(frozen=True)
class _Start:
    """A VM that is started. ``node``: "" where none takes it."""

    node: str
    why: str = ""


def vm_changes(
    changed: ChangedCluster, interrupt: Callable[[], bool], restart: Callable[[], None], progress: JudgeProgress
) -> Iterator[VmChange]:
    """The effects, those on single VMs in their order. ``interrupt`` ends the search for one VM, whose time ``restart``
    starts. Raises FatalError, BadExperiment."""
    yield from _ended(changed)
    yield from _losing(changed)
    yield from _changed_while_running(changed)
    earlier, later = _starts(changed.before), _starts(changed.after)
    for title, start in sorted(later.items()):
        start_before = earlier.get(title)
        if start_before is None or bool(start_before.node) != bool(start.node):
            yield VmChange("starts" if start.node else "waits", title, start.node, start.why)
    before = FitState(ClusterState.from_model(changed.before, interrupt), restart)
    after = FitState(ClusterState.from_model(changed.after, interrupt), restart)
    for change in differences(before, after, progress):
        title = f"VM {change.title.removeprefix('VMI ')}" if change.title.startswith("VMI ") else change.title
        # What is new or waits is said above; these run, and would be asked when they are started again.
        if change.before is not None and change.after is not None and title not in later:
            yield VmChange("starts-fitting" if change.after == "fits" else "stops-fitting", title, why=change.why)


def _ended(changed: ChangedCluster) -> Iterator[VmChange]:
    left = {vmi.key for vmi in changed.after.of(VirtualMachineInstance)}
    for vmi in changed.before.of(VirtualMachineInstance):
        if vmi.key not in left and not vmi.finished:
            yield VmChange("ends", f"VM {vmi.key}")


def _losing(changed: ChangedCluster) -> Iterator[VmChange]:
    before, after = devices_by_id(changed.before), devices_by_id(changed.after)
    claims = changed.after.claims
    for device, holders in sorted(holders_in_use(changed.before).items(), key=lambda item: str(item[0])):
        for holder in holders:
            kept = claims.get(holder.claim.key)
            if kept is None or kept.status.allocation is None or device not in before:
                continue
            name = f"{device.device} of {device.driver}/{device.pool}"
            if device not in after:
                yield VmChange("loses-device", holder.user, why=f"{name} isn't published any more")
                continue
            taint = _evicting(after[device].taints, device, holder)
            if taint and not _evicting(before[device].taints, device, holder):
                yield VmChange("loses-device", holder.user, why=f"{name}: {taint} evicts its pod")


def _evicting(taints: tuple[DeviceTaint, ...], device: DeviceId, holder: DeviceHolder) -> str:
    """The first taint that evicts the device's user (C-11.2), "" for none."""
    tolerations = next(
        (
            result.tolerations
            for result in holder.claim.results
            if DeviceId(result.driver, result.pool, result.device) == device
        ),
        (),
    )
    for taint in taints:
        # One of a manifest has no time yet.
        timed = taint if taint.time_added is not None else taint.with_(time_added=EPOCH)
        if taint.effect == NO_EXECUTE and tolerated_until(timed, tolerations) is not None:
            return taint_text(taint)
    return ""


def _changed_while_running(changed: ChangedCluster) -> Iterator[VmChange]:
    running = {vmi.key for vmi in changed.after.of(VirtualMachineInstance) if not vmi.finished}
    before = changed.before.by_key(VirtualMachine)
    for vm in changed.after.of(VirtualMachine):
        earlier = before.get(vm.key)
        if earlier is not None and vm.key in running and earlier.spec.template.to_wire() != vm.spec.template.to_wire():
            yield VmChange("needs-restart", f"VM {vm.key}")


def _starts(model: ClusterModel) -> dict[str, _Start]:
    """What becomes of all that waits or is to be started, together: waiting pods first, then VMs by name."""
    completed = placeable(model)
    finder = SubjectFinder(completed)
    prospect = Prospect(cluster_of(completed.objects), _POLICY, features=DEFAULT)
    nodes = dict(prospect.apply(NO_CHANGE).started)
    waiting = {key: _Start(node) for key, node in nodes.items()}
    waiting |= {key: _Start("", prospect.why(key)) for key in prospect.waiting}
    starts = {
        pod_title(pod): start
        for key, start in waiting.items()
        if vm_of_pod(pod := completed.pods[key]) or pod.spec.resource_claims
    }
    for vm in _to_start(completed):
        title, wish = f"VM {vm.key}", finder.start_of(vm)
        if title in starts:
            continue  # its pod waits
        if isinstance(wish, Reason):
            starts[title] = _Start("", wish.text)
            continue
        outcome = prospect.apply(ClusterChange(vm.key, "add", (vm.key,)), shape_of(wish, vm.key, completed))
        refused = next(iter(outcome.refused), "")
        starts[title] = _Start("", prospect.why(refused)) if refused else _Start(outcome.started[0][1])
    return starts


def _to_start(model: ClusterModel) -> Iterator[VirtualMachine | VirtualMachineInstance]:
    """Instances without a pod, then VMs without an instance that are to run, the oldest first."""
    instances = model.by_key(VirtualMachineInstance)
    launched = {f"{pod.namespace}/{vm_of_pod(pod)}" for pod in model.of(Pod) if not pod.finished}
    waiting = (vmi for vmi in instances.values() if not (vmi.finished or vmi.status.node_name or vmi.key in launched))
    yield from sorted(waiting, key=_age)
    yield from sorted(
        (vm for vm in model.of(VirtualMachine) if vm.key not in instances and wants_instance(vm)), key=_age
    )


def _age(vm: VirtualMachine | VirtualMachineInstance) -> tuple[str, str]:
    """A key that sorts the oldest first; an instance that isn't created yet is the youngest."""
    return (vm.metadata.creation_timestamp or "9", vm.key)
