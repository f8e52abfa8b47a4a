"""Timestamps that lie an hour ahead of us, as other clocks write them or as a clock that was set back leaves them: what
is to wait for minutes waits for minutes, neither for an hour nor for ever."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.cluster.test_cluster_clock import NOON, Machine
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import format_time
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.cluster_clock import ClusterClock
from virt_dra.controllers.beside_kubevirt import retries
from virt_dra.controllers.beside_kubevirt.pod_creation import error_at
from virt_dra.controllers.devices.options import CLAIM_LAG, ResolutionOptions, missed_at, overdue_at
from virt_dra.controllers.operator import pending
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.writes import Create

AHEAD = format_time(NOON + timedelta(hours=1))
REFUSED = 'admission webhook "launcher-pods.virt-dra.io" denied the request: no template'
FAILED = {
    "type": "Synchronized",
    "status": "False",
    "reason": "FailedCreate",
    "message": REFUSED,
    "lastTransitionTime": AHEAD,
}
VMI = VirtualMachineInstance.from_wire({
    "metadata": {"name": "vm", "namespace": "lab", "uid": "u", "creationTimestamp": AHEAD},
    "status": {"phase": "Pending", "conditions": [FAILED]},
})  # fmt: skip
POD = Pod.from_wire({
    "metadata": {"name": "p", "namespace": "lab", "uid": "p", "creationTimestamp": AHEAD},
    "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": AHEAD}]},
})  # fmt: skip
CLAIM = ResourceClaim.from_wire({"status": {"allocation": {"devices": {"results": []}, "allocationTimestamp": AHEAD}}})
GRACE = timedelta(minutes=2)


def overdue(clock: ClusterClock) -> datetime | None:
    return overdue_at(CLAIM, ResolutionOptions(now=clock(), grace=GRACE, count_from=clock.count_from))


def missed(clock: ClusterClock) -> datetime | None:
    return missed_at(POD, ResolutionOptions(now=clock(), count_from=clock.count_from))


def failed(clock: ClusterClock) -> datetime | None:
    return error_at(VMI, clock.count_from)


def explained(clock: ClusterClock) -> datetime | None:
    return pending.due(POD, None, None, clock(), count_from=clock.count_from)


@pytest.mark.parametrize(
    ("moment", "after"),
    [(overdue, GRACE), (missed, CLAIM_LAG), (failed, timedelta(seconds=2)), (explained, pending.LIMITS.after)],
)  # fmt: skip
def test_what_waits_for_some_time_waits_for_no_more(
    moment: Callable[[ClusterClock], datetime | None], after: timedelta
) -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        assert moment(clock) == NOON + after
        machine.passes(60)


def test_kubevirt_is_made_to_try_again() -> None:
    machine = Machine()
    clock = machine.clock()
    tried = []
    for second in range(300):
        if retries.plan(VMI, 1, clock(), clock.count_from).action is not None:
            tried.append(second)
        machine.passes(1)
    assert tried[0] <= 1
    # What was written is not in this VMI, so it is due again each time that a tenth of its waiting has passed.
    assert len(tried) > 100


@pytest.mark.parametrize("failures", [1, 2, 50])
def test_a_vm_that_failed_is_started_again_after_its_back_off(failures: int) -> None:
    """Its clock was set back by an hour since the time was written."""
    machine = Machine()
    clock = machine.clock()
    delay = vm_lifecycle.delay_after(failures)
    told = {
        "consecutiveFailCount": failures,
        "lastFailedVMIUID": "u",
        "retryAfterTimestamp": format_time(NOON + timedelta(hours=1) + delay),
    }
    spec = {"runStrategy": "Always", "template": {"spec": {}}}
    vm = VirtualMachine.from_wire(
        {"metadata": {"name": "vm", "namespace": "lab", "uid": "v"}, "spec": spec, "status": {"startFailure": told}}
    )

    def planned() -> vm_lifecycle.LifecyclePlan:
        return vm_lifecycle.plan(vm_lifecycle.LifecycleInputs(vm, None, (), clock(), clock.count_from))

    assert planned().requeue_at == NOON + delay
    machine.passes(delay.total_seconds() - 1)
    assert not [action for action in planned().actions if isinstance(action, Create)]
    machine.passes(1)
    assert [action for action in planned().actions if isinstance(action, Create)]
