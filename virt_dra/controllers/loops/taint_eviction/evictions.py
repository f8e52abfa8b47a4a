"""The time at which a claim's taints evict the pods that use it, and a pod for all its claims (C-11.2, C-11.3).
Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import parse_time
from virt_dra.api.resource_v1 import (
    AllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceClaim,
)
from virt_dra.api.tolerations import tolerates
from virt_dra.scheduling.claim_references import (
    Resolved,
    UnsupportedClaimSource,
    claim_name,
    is_for_pod,
    is_reserved_for,
)

NO_EXECUTE = "NoExecute"

TaintedDevice = tuple[str, str, str]
"""Driver, pool, device."""

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, order=True)
class TaintCause:
    """The taint that evicts. Sorted: rules by name, then taints of slices by driver, pool, device and index
    (C-11.2)."""

    published: bool
    rule: str = ""
    device: TaintedDevice = ("", "", "")
    index: int = 0
    rule_uid: str = field(default="", compare=False)


@dataclass(frozen=True)
class Eviction:
    """The time from which pods are to be deleted, and why."""

    at: datetime
    causes: tuple[TaintCause, ...]

    @property
    def rules(self) -> tuple[TaintCause, ...]:
        return tuple(cause for cause in self.causes if not cause.published)


CausedTaint = tuple[TaintCause, DeviceTaint]


def rule_cause(rule: DeviceTaintRule) -> TaintCause:
    """The cause for a rule's taint."""
    return TaintCause(published=False, rule=rule.name, rule_uid=rule.metadata.uid)


def rule_selects(rule: DeviceTaintRule, device: TaintedDevice) -> bool:
    """Whether a rule taints a device, published or not. An absent selector selects nothing, an empty one everything
    (C-3.8)."""
    selector = rule.spec.device_selector
    return selector is not None and all(
        wanted in (None, given)
        for wanted, given in zip((selector.driver, selector.pool, selector.device), device, strict=True)
    )


def device_of(result: DeviceRequestAllocationResult) -> TaintedDevice:
    return result.driver, result.pool, result.device


def claim_eviction(
    allocation: AllocationResult | None, taints_of: Callable[[TaintedDevice], Iterable[CausedTaint]]
) -> Eviction | None:
    """The eviction of a claim's consumers, None if no taint counts (C-11.2).

    ``taints_of``: the NoExecute taints of a device, by its slice and by rules. Results with admin access count as any
    other.
    """
    times: list[datetime] = []
    causes: set[TaintCause] = set()
    for result in allocation.devices.results if allocation is not None else ():
        for cause, taint in taints_of(device_of(result)):
            due = tolerated_until(taint, result.tolerations)
            if due is not None:
                times.append(due)
                causes.add(cause)
    return Eviction(min(times), tuple(sorted(causes))) if times else None


def tolerated_until(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> datetime | None:
    """The time at which a NoExecute taint evicts; None: never.

    Only tolerations whose effect is NoExecute count, an empty one doesn't (C-11.2). A taint without the time that the
    API server gives it never evicts. Times beyond the calendar are its ends (upstream they overflow).
    """
    if taint.time_added is None:
        return None
    matching = [
        toleration.toleration_seconds
        for toleration in tolerations
        if toleration.effect == NO_EXECUTE and tolerates(toleration, taint)
    ]
    if None in matching:
        return None
    seconds = min(
        (max(toleration_seconds, 0) for toleration_seconds in matching if toleration_seconds is not None), default=0
    )
    try:
        return _time(taint.time_added) + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST


def _time(text: str) -> datetime:
    """What a driver published as the time of a taint; one that Python has no datetime for (the year 0) was long ago."""
    try:
        return parse_time(text)
    except ValueError:
        return _FIRST


ClaimOfPod = Callable[[str], tuple[ResourceClaim, Eviction | None] | None]
"""The allocated claim of a name in the pod's namespace, with its eviction."""


def pod_eviction(pod: Pod, allocated: ClaimOfPod, *, workload_claims: bool = False) -> Eviction | None:
    """The eviction of a pod: the earliest of its claims', with the causes of all (C-11.3).

    None for a pod without a node. Claims that aren't allocated, not the pod's or not reserved for it don't count, nor
    does the claim of its extended resources. A pod that has finished is evicted as any other.
    """
    if not pod.spec.node_name:
        return None
    earliest: Eviction | None = None
    for entry in pod.spec.resource_claims:
        try:
            reference = claim_name(pod, entry)
        except UnsupportedClaimSource:
            continue
        evicted = allocated(reference.name) if isinstance(reference, Resolved) else None
        if evicted is None or not isinstance(reference, Resolved):
            continue
        claim, eviction = evicted
        foreign = reference.must_check_owner and not is_for_pod(claim, pod, workload_claims=workload_claims)
        if eviction is None or foreign or not is_reserved_for(claim, pod, workload_claims=workload_claims):
            continue
        earliest = eviction if earliest is None else _merged(earliest, eviction)
    return earliest


def _merged(left: Eviction, right: Eviction) -> Eviction:
    return Eviction(min(left.at, right.at), tuple(sorted({*left.causes, *right.causes})))
