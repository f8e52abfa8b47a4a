"""When the operator makes KubeVirt try again: which VMIs, how often, and what stays of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import format_time
from virt_dra.controllers.beside_kubevirt.retries import NOTHING, plan
from virt_dra.controllers.kubevirt_failures import awaits_retry

BEGAN = datetime(2026, 11, 22, 12, tzinfo=UTC)
KEY = "virt-dra.io/pod-retry"
REFUSED = (
    "failed to create virtual machine pod: admission webhook "
    '"launcher-pods.virt-dra.io" denied the request: no template'
)
DOWN = (
    "failed to create virtual machine pod: Internal error occurred: failed calling "
    'webhook "launcher-pods.virt-dra.io": failed to call '
    "webhook: connection refused"
)
NO_FILE = (
    'server error. command SyncVMI failed: "failed to create DRA GPU host-devices: '
    "GPU g has no mdevUUID or pciBusID in metadata for claim "
    'c request r (mdev: no metadata objects found in stream)"'
)
FAILED = "Synchronizing with the Domain failed."


def vmi(
    message: str = REFUSED,
    reason: str = "FailedCreate",
    phase: str = "Pending",
    written: str | None = None,
    status: str = "False",
) -> VirtualMachineInstance:
    condition = {
        "type": "Synchronized",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(BEGAN),
    }
    annotations = {KEY: written} if written is not None else {}
    return VirtualMachineInstance.from_wire({
        "metadata": {"name": "vm", "namespace": "lab", "uid": "u", "annotations": annotations},
        "status": {"phase": phase, "conditions": [condition]},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (vmi(), True),
        (vmi(DOWN), True),
        (vmi(phase=""), True),
        (vmi(NO_FILE, FAILED, "Scheduled"), True),
        (vmi("failed to render launch manifest: HostDevice  is not permitted"), False),
        (vmi("failed to create virtual machine pod: exceeded quota"), False),
        (vmi("server error. command SyncVMI failed: LibvirtError", FAILED, "Scheduled"), False),
        (vmi(NO_FILE, FAILED, "Running"), False),
        (vmi(phase="Scheduling"), False),
        (vmi(status="True"), False),
        (VirtualMachineInstance(), False),
    ],
)
def test_only_what_failed_for_a_reason_of_ours_is_tried_again(given: VirtualMachineInstance, wanted: bool) -> None:
    assert awaits_retry(given) is wanted


def test_a_vmi_that_goes_is_left_alone() -> None:
    given = vmi()
    going = given.with_(metadata=given.metadata.with_(deletion_timestamp=format_time(BEGAN)))
    assert (awaits_retry(going), plan(going, 0, BEGAN)) == (False, NOTHING)


def attempts(until: timedelta, waiting: int = 1) -> list[float]:
    """Seconds after the failure at which one VMI is written, by a loop that comes when it is told to."""
    now, end, written, retries = BEGAN, BEGAN + until, None, list[float]()
    while now < end:
        retry = plan(vmi(written=written), waiting, now)
        if retry.action is not None:
            written = retry.action.annotations[KEY]
            assert retry.action.resource_version == ""
            retries.append((now - BEGAN).total_seconds())
        assert retry.requeue_at is not None
        assert retry.requeue_at > now
        now = retry.requeue_at
    return retries


def test_a_vmi_waits_a_tenth_longer_than_it_has_to_and_at_most_a_minute() -> None:
    moments = attempts(timedelta(hours=1))
    assert moments[:3] == [1.0, 2.0, 3.0]
    gaps = [(earlier, later - earlier) for earlier, later in pairwise(moments)]
    assert all(gap <= max(1.0, 0.12 * at) + 0.01 and gap <= 60.01 for at, gap in gaps)
    assert moments[-1] - moments[-2] == pytest.approx(60, abs=0.01)
    assert len(moments) < 130


def test_many_vmis_of_a_namespace_cause_no_more_than_five_writes_a_second() -> None:
    assert len(attempts(timedelta(hours=1), waiting=3000)) == 5


@pytest.mark.parametrize(
    "written", ["2099-01-01T00:00:00Z", "nonsense", "", "2026-11-22T11:00:00Z", "0001-01-01T00:00:00+23:00"]
)
def test_what_a_tenant_writes_there_delays_nothing(written: str) -> None:
    retry = plan(vmi(written=written), 1, BEGAN + timedelta(seconds=30))
    assert retry.action is not None
    assert retry.action.annotations == {KEY: "2026-11-22T12:00:30.000+00:00"}


def test_a_clock_that_is_behind_kubevirts_is_no_reason_to_hurry() -> None:
    assert plan(vmi(), 1, BEGAN - timedelta(seconds=5)).action is None


def test_a_condition_without_a_time_counts_from_the_vmis_creation() -> None:
    given = vmi()
    timeless = [{key: value for key, value in given.status.conditions[0].items() if key != "lastTransitionTime"}]
    given = given.with_(status=given.status.with_(conditions=tuple(timeless)))
    assert plan(given, 1, BEGAN).action is not None
    made = given.with_(metadata=given.metadata.with_(creation_timestamp=format_time(BEGAN)))
    assert plan(made, 1, BEGAN).requeue_at == BEGAN + timedelta(seconds=1)


def test_the_annotation_goes_when_it_is_over() -> None:
    retry = plan(vmi(phase="Scheduling", written="2026-11-22T12:00:30Z"), 0, BEGAN)
    assert retry.action is not None
    assert (retry.action.annotations, retry.requeue_at) == ({KEY: None}, None)
    assert plan(vmi(phase="Scheduling"), 0, BEGAN) == NOTHING


def test_what_the_index_reads_may_be_anything() -> None:
    broken: list[Any] = [{"type": "Synchronized", "status": "False", "reason": 1}, {"type": ["x"]}, {}]
    assert not awaits_retry(VirtualMachineInstance.from_wire({"status": {"conditions": broken}}))
