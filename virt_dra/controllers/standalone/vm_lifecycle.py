"""The reconcile of a VirtualMachine without KubeVirt: its VMI by run strategy, restarts with back-off, its status
(0012). The number of failures in a row is kept in the VM's status, as KubeVirt does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from virt_dra.api.core_v1 import FINISHED
from virt_dra.api.keeping.instances import kept_instance
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import format_time
from virt_dra.api.profiles.asking import RefusedLineError
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.wire import Json
from virt_dra.cluster.port import Cluster
from virt_dra.controllers.conditions import condition_of, put
from virt_dra.controllers.devices.options import CountFrom, as_stated, moment_of
from virt_dra.controllers.events import Event, normal, shortened, warning
from virt_dra.controllers.fresh_reads import is_there
from virt_dra.controllers.loops.virtual_machines import (
    STRATEGIES,
    Strategy,
    deletes_instance,
    instance_of,
    strategy_of,
)
from virt_dra.controllers.profiles.problems import LINE_REFUSED
from virt_dra.controllers.reconciled import Reconciled
from virt_dra.controllers.sources import InstanceSources
from virt_dra.controllers.standalone.instance_phase import READY, ever_ran
from virt_dra.controllers.writes import Create, Delete, PatchStatus, Write, write

UNKNOWN_STRATEGY: Final = "UnknownRunStrategy"
"""Condition Failure: neither ``running`` nor a known ``runStrategy``; nothing is started or stopped."""
NAME_TAKEN: Final = "InstanceNameTaken"
"""Condition Failure: another owner's VMI has the VM's name."""
FAILURE: Final = "Failure"

_FIRST_DELAY: Final = timedelta(seconds=10)
_LONGEST_DELAY: Final = timedelta(seconds=300)
_MOST_COUNTED: Final = 100


@dataclass(frozen=True)
class LifecycleInputs:
    """``vmi``: the VMI of the VM's name, of any owner. ``leftovers``: names of pods that still run for an earlier VMI
    of that name. ``profiles``, by name, and ``namespace_labels``: for the VM's line of profiles."""

    vm: VirtualMachine
    vmi: VirtualMachineInstance | None
    leftovers: tuple[str, ...]
    now: datetime
    count_from: CountFrom = as_stated
    profiles: Mapping[str, DeviceProfile] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    of_earlier_vm: bool = False


@dataclass(frozen=True)
class LifecyclePlan:
    """The writes for a VM, in order: its status records a failed VMI before that is deleted. ``requeue_at``: after a
    back-off."""

    actions: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_at: datetime | None = None


def gather(
    vm: VirtualMachine, sources: InstanceSources, now: datetime, count_from: CountFrom = as_stated
) -> LifecycleInputs:
    """The inputs of a VM."""
    vmi = sources.vmi(vm.key)
    leftovers = sources.leftovers(vm.key, vmi.metadata.uid if vmi is not None else "")
    labels = sources.namespace_labels(vm.namespace)
    return LifecycleInputs(vm, vmi, leftovers, now, count_from, sources.profiles(), labels)


async def reconcile(
    vm: VirtualMachine, sources: InstanceSources, cluster: Cluster, now: datetime, count_from: CountFrom = as_stated
) -> Reconciled:
    """Gather, plan and apply for a VM. Raises :class:`ApiError` for a write to retry."""
    inputs = gather(vm, sources, now, count_from)
    planned = plan(replace(inputs, of_earlier_vm=await _is_of_earlier_vm(inputs, cluster)))
    outcome = await write(cluster, planned.actions, vm)
    events = (*(planned.events if outcome.done else ()), *outcome.refused)
    return Reconciled(events, (), outcome.stale, planned.requeue_at, len(planned.actions) if outcome.done else 0)


async def _is_of_earlier_vm(inputs: LifecycleInputs, cluster: Cluster) -> bool:
    """True if the VMI's owner had this VM's name and is gone."""
    vm, vmi = inputs.vm, inputs.vmi
    owner = vmi.metadata.controller_owner if vmi is not None else None
    namesake = owner is not None and (owner.kind, owner.name) == (vm.KIND, vm.name) and owner.uid != vm.metadata.uid
    return namesake and await is_there(cluster, vm)


def delay_after(failures: int) -> timedelta:
    """The back-off after so many failures in a row: 10 s, 40 s, 90 s, …, at most 300 s."""
    return min(_FIRST_DELAY * min(failures, _MOST_COUNTED) ** 2, _LONGEST_DELAY)


def plan(inputs: LifecycleInputs) -> LifecyclePlan:
    """The plan for a VM. The VMI of a VM that is being deleted is garbage-collected, or deleted for the next VM of that
    name, if the garbage collector has forgotten it (P-15)."""
    vm, vmi, now = inputs.vm, inputs.vmi, inputs.now
    if vm.metadata.deletion_timestamp is not None:
        return LifecyclePlan()
    strategy = strategy_of(vm)
    own = vmi if vmi is not None and vmi.is_controlled_by(vm) else None
    earlier = vmi if inputs.of_earlier_vm else None
    taken = vmi is not None and own is None and earlier is None
    upcoming = _next_vmi(inputs) if vmi is None else None
    refused_line = upcoming if isinstance(upcoming, RefusedLineError) else None
    failures = _failures(vm, own, now)
    retry_at = _retry_at(failures or {}, inputs.count_from)
    actions: list[Write] = []
    events: list[Event] = []
    requeue_at = None
    trouble = _trouble(vm, strategy, taken, refused_line)
    status = _status(vm, strategy, own, taken, trouble, failures, inputs.leftovers, now)
    patch = PatchStatus.between(vm, vm.with_(status=status))
    if patch.changes:
        actions.append(patch)
    if own is not None and own.metadata.deletion_timestamp is None and deletes_instance(strategy, own.status.phase):
        actions.append(Delete.object(own))
        ended = "has ended and " if own.finished else ""
        events.append(normal(vm, "InstanceDeleted", f"its VMI {ended}was deleted (runStrategy {strategy})"))
    elif vmi is None and strategy in ("Always", "RerunOnFailure", "Once") and not inputs.leftovers:
        if retry_at is not None and retry_at > now:
            requeue_at = retry_at
        elif isinstance(upcoming, VirtualMachineInstance):
            actions.append(Create(upcoming))
            events.append(normal(vm, "InstanceCreated", f"started (runStrategy {strategy})"))
    elif earlier is not None and earlier.metadata.deletion_timestamp is None:
        actions.append(Delete.object(earlier))
        events.append(normal(vm, "InstanceDeleted", "the VMI of an earlier VM of this name was deleted"))
    reason, message = trouble
    if reason in (NAME_TAKEN, LINE_REFUSED) and not _failed_before(vm, reason):
        events.append(warning(vm, reason, shortened(message)))
    return LifecyclePlan(tuple(actions), tuple(events), requeue_at)


def _retry_at(failures: Json, count_from: CountFrom) -> datetime | None:
    """The end of the back-off; never later than its length from now, even if a clock was set back."""
    written, count = moment_of(failures.get("retryAfterTimestamp")), failures.get("consecutiveFailCount")
    if written is None:
        return None
    delay = delay_after(count) if isinstance(count, int) and count > 0 else _LONGEST_DELAY
    try:
        return count_from(written - delay) + delay
    except OverflowError:
        return None


def _failures(vm: VirtualMachine, own: VirtualMachineInstance | None, now: datetime) -> Json | None:
    """``status.startFailure``: counts VMIs in a row that failed before their guest ran; reset when a guest runs."""
    failures = vm.status.get("startFailure")
    failures = failures if isinstance(failures, dict) else None
    if strategy_of(vm) not in ("Always", "RerunOnFailure", "Once"):
        return None
    if own is None:
        return failures
    if ever_ran(own):
        return None
    if own.status.phase != "Failed" or (failures is not None and failures.get("lastFailedVMIUID") == own.metadata.uid):
        return failures
    before = failures.get("consecutiveFailCount") if failures is not None else 0
    count = min(before if isinstance(before, int) and before > 0 else 0, _MOST_COUNTED) + 1
    return {
        "consecutiveFailCount": count,
        "lastFailedVMIUID": own.metadata.uid,
        "retryAfterTimestamp": format_time(now + delay_after(count)),
    }


def _status(
    vm: VirtualMachine,
    strategy: Strategy | None,
    own: VirtualMachineInstance | None,
    taken: bool,
    trouble: tuple[str, str],
    failures: Json | None,
    leftovers: Sequence[str],
    now: datetime,
) -> Json:
    """The VM's new status; fields of other writers are kept."""
    ready = condition_of(own.status.conditions, READY) if own is not None else None
    is_ready = own is not None and own.status.phase == "Running" and (ready or {}).get("status") == "True"
    status: Json = {key: value for key, value in vm.status.items() if key != "startFailure"}
    status |= {"created": own is not None, "ready": is_ready}
    status["printableStatus"] = _printable(strategy, own, taken, failures, leftovers)
    if strategy is not None:
        status["runStrategy"] = strategy
    if vm.metadata.generation is not None:
        status["observedGeneration"] = vm.metadata.generation
    if failures is not None:
        status["startFailure"] = failures
    conditions = _conditions(vm)
    if is_ready:
        conditions = put(conditions, READY, "True", "GuestRunning", "", now)
    elif own is not None and ready is not None:
        reason, message = str(ready.get("reason") or "GuestNotRunning"), str(ready.get("message") or "")
        conditions = put(conditions, READY, "False", reason, message, now)
    elif failures is None or condition_of(conditions, READY) is None:  # else why the last one failed stays
        conditions = put(conditions, READY, "False", "VMINotExists", "the VM has no VMI", now)
    reason, message = trouble
    if reason:
        conditions = put(conditions, FAILURE, "True", reason, message, now)
    else:
        conditions = tuple(
            condition
            for condition in conditions
            if condition.get("type") != FAILURE
            or condition.get("reason") not in (NAME_TAKEN, UNKNOWN_STRATEGY, LINE_REFUSED)
        )
    status["conditions"] = list(conditions)
    return status


def _next_vmi(inputs: LifecycleInputs) -> VirtualMachineInstance | RefusedLineError:
    """The VMI that the VM makes, with the devices of its line of profiles and its kept claims; or the line's
    problem."""
    try:
        return kept_instance(
            instance_of(inputs.vm), inputs.profiles, inputs.namespace_labels, inputs.vm.metadata.annotations
        )
    except RefusedLineError as error:
        return error


def _trouble(
    vm: VirtualMachine, strategy: Strategy | None, taken: bool, refused_line: RefusedLineError | None
) -> tuple[str, str]:
    if strategy is None:
        detail = "neither is set" if vm.spec.run_strategy is None else f"{vm.spec.run_strategy[:40]!r} is none of them"
        return (
            UNKNOWN_STRATEGY,
            f"spec.runStrategy must be one of {', '.join(STRATEGIES)}, or spec.running be set; {detail}",
        )
    if taken:
        return NAME_TAKEN, f"VMI {vm.key} exists and isn't this VM's; delete it, or rename the VM"
    if refused_line is not None:
        return LINE_REFUSED, str(refused_line)
    return "", ""


def _failed_before(vm: VirtualMachine, reason: str) -> bool:
    return any(condition.get("type") == FAILURE and condition.get("reason") == reason for condition in _conditions(vm))


def _conditions(vm: VirtualMachine) -> tuple[Json, ...]:
    conditions = vm.status.get("conditions")
    listed = conditions if isinstance(conditions, list | tuple) else ()
    return tuple(condition for condition in listed if isinstance(condition, dict))


def _printable(
    strategy: Strategy | None,
    own: VirtualMachineInstance | None,
    taken: bool,
    failures: Json | None,
    leftovers: Sequence[str],
) -> str:
    """The status in one word for ``kubectl get``, from KubeVirt's vocabulary."""
    if own is not None and own.metadata.deletion_timestamp is not None:
        return "Terminating"
    if own is None:
        if leftovers:
            return "Stopping"
        if strategy in ("Halted", "Manual", "WaitAsReceiver", None) or taken:
            return "Stopped"
        return "CrashLoopBackOff" if failures is not None else "Starting"
    phase = own.status.phase
    if strategy == "Halted":
        return "Stopping"
    if phase == "Running":
        return "Running"
    if phase in FINISHED:
        return "CrashLoopBackOff" if failures is not None else "Stopped"
    unschedulable = phase == "Scheduling" and condition_of(own.status.conditions, "PodScheduled") is not None
    return "ErrorUnschedulable" if unschedulable else "Starting"
