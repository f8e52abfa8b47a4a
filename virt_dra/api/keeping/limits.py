"""What the KeepPolicies of a namespace allow its stopped VMs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from virt_dra.api.go_text import visible
from virt_dra.api.keeping.claims import STOPPED_ANNOTATION, marked_time, other_consumers, vm_name_of
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.terms import KeepTerms, duration_of, duration_text
from virt_dra.api.resource_v1 import EXACT_COUNT, ResourceClaim, ResourceClaimSpec

DevicesByClass = Mapping[str, int]
"""DeviceClass → how many devices."""


@dataclass(frozen=True)
class StoppedVm:
    """A stopped VM that keeps devices, since when."""

    name: str
    since: datetime
    devices: DevicesByClass


class TimeLimit(NamedTuple):
    """The longest time for which a policy allows keeping."""

    time: timedelta
    policy: str


@dataclass(frozen=True)
class KeepLimits:
    """The policies of one namespace, all of which hold."""

    policies: tuple[KeepPolicy, ...] = ()

    def time_limit(self) -> TimeLimit | None:
        """The longest time for which all policies allow keeping; None if none limits it."""
        return min(
            (
                TimeLimit(time, policy.name)
                for policy in self.policies
                for time in [duration_of(policy.spec.stopped_for or "")]
                if time is not None
            ),
            default=None,
        )

    def shortfall(self, devices: DevicesByClass, terms: KeepTerms) -> str:
        """A sentence about what a VM with so many devices asks for and won't get when it stops, however few others
        keep; "" if it gets all."""
        over = self.exceeded(devices)
        if over:
            return f"the VM's devices aren't kept when it stops: {over}"
        limit = self.time_limit()
        if limit is None or (terms.stopped_for is not None and terms.stopped_for <= limit.time):
            return ""
        allowed = duration_text(limit.time)
        return f"KeepPolicy {visible(limit.policy)} of the namespace allows devices to be kept for {allowed} only"

    def exceeded(self, devices: DevicesByClass) -> str:
        """The limit that so many devices of stopped VMs are over: policy, what it allows, what they are; "" if none."""
        total = sum(devices.values())
        for policy in self.policies:
            spec = policy.spec
            if spec.devices is not None and total > spec.devices:
                return _over(policy, spec.devices, "", total)
            for limit in spec.classes:
                number = devices.get(limit.device_class_name, 0)
                if limit.devices is not None and number > limit.devices:
                    return _over(policy, limit.devices, f" of {visible(limit.device_class_name)}", number)
        return ""

    def refused(self, stopped: Iterable[StoppedVm]) -> dict[str, str]:
        """The VMs whose devices aren't kept, each with the limit that it is over. The VM that stopped first keeps; a VM
        keeps all of its devices or none, and one that has too many doesn't stand in the way of a later one."""
        kept: Counter[str] = Counter()
        refused = {}
        for vm in sorted(stopped, key=lambda vm: (vm.since, vm.name)):
            why = self.exceeded(kept + Counter(vm.devices))
            if why:
                refused[vm.name] = why
            else:
                kept.update(vm.devices)
        return refused


def _over(policy: KeepPolicy, allowed: int, of_class: str, number: int) -> str:
    allows = f"{allowed} device{'s' if allowed != 1 else ''}" if allowed else "no devices"
    name = visible(policy.name)
    return f"KeepPolicy {name} lets stopped VMs keep {allows}{of_class}; with these they would keep {number}"


def stopped_since(claim: ResourceClaim, now: datetime | None = None) -> datetime | None:
    """The time since which a stopped VM keeps a claim's devices; None if it doesn't, or if the claim isn't marked yet.
    ``now``: see :func:`marked_time`."""
    if claim.status.allocation is None or other_consumers(claim):
        return None
    return marked_time(claim, STOPPED_ANNOTATION, now)


def stopped_vms(claims: Iterable[ResourceClaim], now: datetime | None = None) -> list[StoppedVm]:
    """The stopped VMs that keep some of these claims of one namespace. ``now``: see :func:`marked_time`."""
    devices: dict[str, Counter[str]] = {}
    since: dict[str, datetime] = {}
    for claim in claims:
        moment = stopped_since(claim, now)
        if moment is not None:
            vm = vm_name_of(claim)
            devices.setdefault(vm, Counter()).update(devices_of(claim))
            since[vm] = min(moment, since.get(vm, moment))
    return [StoppedVm(vm, since[vm], devices[vm]) for vm in devices]


def devices_of(claim: ResourceClaim) -> DevicesByClass:
    """The devices that a claim is allocated, by the class that they were asked for by."""
    if claim.status.allocation is None:
        return {}
    classes = _classes(claim.spec)
    return Counter(classes.get(result.request, "") for result in claim.status.allocation.devices.results)


def least_devices(spec: ResourceClaimSpec) -> DevicesByClass:
    """The devices that a claim is certain to get, by class; of alternatives it isn't known which."""
    devices: Counter[str] = Counter()
    for request in spec.devices.requests:
        exactly = request.exactly
        if exactly is not None and (exactly.allocation_mode or EXACT_COUNT) == EXACT_COUNT:
            devices[exactly.device_class_name] += max(exactly.count, 1)
    return devices


def _classes(spec: ResourceClaimSpec) -> dict[str, str]:
    """The class of each request, and of each ``request/alternative``."""
    classes = {}
    for request in spec.devices.requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for alternative in request.first_available:
            classes[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    return classes
